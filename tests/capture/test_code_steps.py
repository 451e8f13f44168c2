"""Steps of code from end to end: `capture --chip`, and `validate` with a table of steps and a file of cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import dovetail as dv
from dovetail.errors import InvalidInput
from dovetail.importers.torch_cases import case_of, configs_in
from dovetail.report.table import lines

CASES = '''"""Some cases."""
import does_not_exist
CONFIGS = {
    "tiny": dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=128, intermediate_size=256,
                 num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=1024),
    "image": {"architectures": ["ViTForImageClassification"], "model_type": "vit", "hidden_size": 64,
              "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 4, "image_size": 64},
    "gone": dict(architectures=["NoSuchModel"], model_type="llama"),
}
CASES = [("tiny", 2, 64, "eager", 0, 0)]
'''
TABLE = """model,batch,seq,mode,recompute,amp,params,attn,iter_ms,iter_ms_min,fwd_ms,peak_gib,reserved_gib
tiny,2,64,eager,0,0,1,sdpa,6.0,6.0,2.0,0.07,0.1
tiny,2,64,eager,1,1,1,sdpa,9.0,9.0,3.0,0.07,0.1
image,2,64,eager,0,0,1,sdpa,4.0,4.0,2.0,0.07,0.1
gone,2,64,eager,0,0,1,sdpa,4.0,4.0,2.0,0.07,0.1
other,2,64,eager,0,0,1,sdpa,4.0,4.0,2.0,0.07,0.1
tiny,2,64,backwards,0,0,1,sdpa,4.0,4.0,2.0,0.07,0.1
"""
REFUSED = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 64)

    def forward(self, x):
        y = self.first(x)
        return y[y.sum(-1) > 0].sum()

def net():
    return Net(), (torch.zeros(32, 64),)
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "my_cases.py").write_text(CASES)
    file = tmp_path / "steps.csv"
    file.write_text(TABLE)
    return file


def test_a_table_of_steps_is_compared_row_by_row_and_one_that_fails_costs_no_other(table: Path) -> None:
    found = dv.validate(str(table))
    time, memory = found.record["sets"]
    assert (time["scores"][0]["num_rows"], memory["scores"][0]["num_rows"]) == (3, 3)
    assert memory["unit"] == "GiB"
    why = " ".join(one["what"] for one in time["skipped"])
    assert "NoSuchModel" in why
    assert "no configuration is named 'other'" in why
    assert "'backwards' are not predicted" in why
    again = dv.validate(str(table), cases=str(table.parent / "my_cases.py"))
    assert again.record["sets"][0]["scores"] == time["scores"]


def test_a_table_without_a_file_of_cases_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "steps.csv"
    file.write_text("".join(TABLE.splitlines(keepends=True)[:2]))
    with pytest.raises(InvalidInput, match=r"no file \*cases\*.py beside 'steps.csv' has the configuration of 'tiny'"):
        dv.validate(str(file))


def test_cases_are_read_and_never_run(tmp_path: Path) -> None:
    file = tmp_path / "cases.py"
    file.write_text(CASES)
    configs = configs_in(file)
    assert configs["tiny"]["hidden_size"] == 128
    assert configs["image"]["model_type"] == "vit"
    file.write_text('CONFIGS = {"a": dict(hidden_size=int("7"))}')
    with pytest.raises(InvalidInput, match="cases are read and not run"):
        configs_in(file)
    file.write_text("CASES = []")
    with pytest.raises(InvalidInput, match="there is no CONFIGS"):
        configs_in(file)
    file.write_text("CONFIGS = {")
    with pytest.raises(InvalidInput, match="is no Python file"):
        configs_in(file)


def test_a_case_is_one_configuration_or_one_of_torchvision() -> None:
    sizes: dict[str, Any] = {"batch": 2, "seq": 8, "is_checkpointed": False, "is_autocast": False}
    assert case_of("tvl:resnet50", {}, **sizes).config == ()
    with pytest.raises(InvalidInput, match="did you mean tiny"):
        case_of("tinny", {"tiny": {}}, **sizes)
    one, other = (case_of("tiny", {"tiny": {"a": 1}}, **(sizes | {"batch": batch})) for batch in (2, 3))
    assert one.content != other.content


def test_capture_says_the_step_as_written_beside_the_step_with_kernels_of_frameworks(tmp_path: Path) -> None:
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024, "intermediate_size": 4096,
        "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 8192,
    }  # fmt: skip
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    found = dv.capture(str(file), batch=8, seq=1024, chip="h200")
    [step] = found.record["steps"]
    assert found.num_parameters == found.steps[0].outcome.step.num_parameters
    assert step["step_s"] > step["fused_step_s"] > 0
    assert step["step_s"] == pytest.approx(step["forward_s"] + step["backward_s"] + step["optimizer_s"])
    assert step["reserved_bytes"] >= step["peak_bytes"] > step["state_bytes"]
    assert sum(one["time_frac"] for one in step["operators"]) == pytest.approx(1.0)
    assert any(one["name"] == "model.layers.*.mlp.up_proj" for one in step["modules"])
    assert "as written" in found.headline
    assert [card.label for card in found.page.cards][:2] == ["Step time", "Peak memory"]
    sets = {one["kernels"]: one["step_s"] for one in step["kernel_sets"]}
    assert sets["fused"] == sets["megatron-lm"] == step["fused_step_s"]
    assert sets["torchtitan"] < sets["megatron-lm"] < sets["deepspeed"] < step["step_s"]
    assert "with Megatron-LM's kernels" in found.headline
    assert "with Megatron-DeepSpeed's kernels" in found.headline  # DeepSpeed trains the code that it is given
    assert "with TorchTitan's kernels (compiled layers)" in found.headline
    saved = dv.capture(str(file), batch=8, seq=1024, chip="h200", checkpoint=True).record["steps"][0]
    assert saved["peak_bytes"] < step["peak_bytes"]
    assert saved["step_s"] > step["step_s"]
    slow = dv.capture(str(file), batch=8, seq=1024, chip="h200", host_slowdown=50).record["steps"][0]
    assert slow["host_bound_frac"] > 0.5 > step["host_bound_frac"]
    assert all(one["step_s"] > sets[one["kernels"]] for one in slow["kernel_sets"])
    assert step["kernel_sets_as"] == "bf16, adamw"
    mixed = dv.capture(str(file), batch=8, seq=1024, chip="h200", autocast="bf16").record["steps"][0]
    assert mixed["kernel_sets_as"] == "bf16 with fp32 master weights, adamw"
    assert all(one["step_s"] > sets[one["kernels"]] for one in mixed["kernel_sets"])  # a wider update
    assert mixed["state_bytes"] == pytest.approx(2 * step["state_bytes"], rel=0.01)


def test_advice_names_the_line_of_code_and_prices_an_optimizer_that_is_not_fused(tmp_path: Path) -> None:
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 8192,
    }  # fmt: skip
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    found = dv.capture(str(file), batch=8, seq=1024, chip="h200", optimizer="adamw:foreach")
    advice = {one["change"]: one for one in found.record["steps"][0]["advice"]}
    [norm] = [one for words, one in advice.items() if "rms_norm" in words]
    assert norm["module"].startswith("model.layers.*.")
    assert "modeling_llama.py:" in norm["line"]
    assert any("fused rotary" in words for words in advice)
    assert any("fused cross-entropy" in words for words in advice)
    [update] = [one for words, one in advice.items() if "fused=True" in words]
    assert update["line"] == ""  # the update is ours to call
    [table] = [table for table in found.tables if table.title == "What a change would gain"]
    assert all(len(line.text) <= 80 for line in lines(table))
    assert any(line.text.strip().startswith("modeling_llama.py:") for line in lines(table))
    assert {"Step time", "Peak memory"} <= {card.label for card in found.page.cards}
    with pytest.raises(InvalidInput, match="did you mean foreach"):
        dv.capture(str(file), batch=8, seq=64, chip="h200", optimizer="adamw:foreech")
    with pytest.raises(InvalidInput, match="has no fused implementation"):
        dv.capture(str(file), batch=8, seq=64, chip="h200", optimizer="adafactor:fused")


FP32 = """
import torch
from torch import nn

def net():
    torch.set_float32_matmul_precision("highest")
    return nn.Sequential(nn.Linear(4096, 4096), nn.Linear(4096, 4096)), {"input": torch.empty(8192, 4096)}
"""


def test_fp32_code_is_advised_to_run_in_tf32_or_under_autocast(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(FP32)
    found = dv.capture(f"{file}:net", chip="h200", optimizer="sgd")
    [step] = found.record["steps"]
    gains = {one["change"]: one["gain_s"] for one in step["advice"]}
    [autocast] = [gain_s for words, gain_s in gains.items() if "torch.autocast" in words]
    under = dv.capture(f"{file}:net", chip="h200", optimizer="sgd", autocast="bf16").record["steps"][0]
    assert autocast == pytest.approx(step["step_s"] - under["step_s"])
    assert any("set_float32_matmul_precision('high')" in words for words in gains)
    assert not any("torch.autocast" in one["change"] for one in under["advice"])
    assert step["kernel_sets_as"] == "fp32, sgd"


def test_a_model_that_is_not_recognised_still_has_a_step(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(REFUSED)
    with pytest.raises(InvalidInput):
        dv.capture(f"{file}:net")
    found = dv.capture(f"{file}:net", chip="h200")
    assert found.record["steps"][0]["step_s"] > 0
    assert found.record["why_not"]
    assert found.num_parameters == 64 * 64 + 64
    with pytest.raises(InvalidInput):
        found.save(tmp_path / "net.json")


def test_an_option_of_a_step_needs_a_chip(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(REFUSED)
    with pytest.raises(InvalidInput, match="autocast needs chip, what the step runs on"):
        dv.capture(f"{file}:net", autocast="bf16")
    with pytest.raises(InvalidInput, match="no code that runs"):
        dv.capture("model.onnx", chip="h200")
