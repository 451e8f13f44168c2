"""`dovetail capture` and `dv.capture`: what they take, what they answer, and what they refuse in one line."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dovetail as dv
from dovetail.cli import main
from dovetail.errors import InvalidInput
from dovetail.files.captured import captured_text
from tests.e2e.recorded import check_recorded

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 80
NET = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.up = nn.Linear(64, 256)
        self.down = nn.Linear(256, 64)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 64)
        self.blocks = nn.ModuleList(Block() for _ in range(6))
        self.head = nn.Linear(64, 10)

    def forward(self, x, labels):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return torch.nn.functional.cross_entropy(self.head(x), labels)

def net():
    return Net()

def with_inputs():
    return Net(), {"x": torch.zeros(4, 8), "labels": torch.zeros(4, dtype=torch.int64)}

def on_a_gpu():
    labels = torch.zeros(4, dtype=torch.int64, device="cuda:0")
    return Net().cuda().to("cuda"), {"x": torch.zeros(4, 8).cuda(), "labels": labels}

def numbers():
    scales = [x.item() for x in torch.linspace(0, 1, 3)]
    assert scales == [0.0, 0.5, 1.0]
    return with_inputs()

def number():
    return 3

def talking():
    print("hello")
    return with_inputs()

def fetching():
    import transformers
    return transformers.AutoModel.from_pretrained("gpt2")

def leaving():
    raise SystemExit(3)

def broken():
    raise ValueError("no such size")

ready = Net()
"""
SHAPES = "x:fp32[4,8], labels:int64[4]"
GPT2 = {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 512, "n_positions": 128}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a model of the user's in it."""
    (tmp_path / "nets.py").write_text(NET)
    (tmp_path / "config.json").write_text(json.dumps(GPT2))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in [name for name in sys.modules if name in ("nets", "dovetail_captured_nets")]:
        del sys.modules[name]


def answered(capsys, *arguments: str) -> Any:
    code = main(["capture", *arguments, "--json"])
    shown = capsys.readouterr()
    assert code == 0, shown.err
    return json.loads(shown.out)


def refused(capsys, *arguments: str) -> str:
    assert main(["capture", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    return str(shown.err).removeprefix("dovetail: ").rstrip("\n")


# --- what is taken ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("nets:with_inputs",),
        ("nets.py:with_inputs",),
        ("./nets.py:with_inputs",),
        ("nets:net", "--inputs", SHAPES),
        ("nets:ready", "--inputs", SHAPES),
        ("nets:numbers",),
        ("nets:on_a_gpu",),
    ],
    ids=" ".join,
)
def test_a_factory_is_captured_wherever_it_is(folder, capsys, arguments):
    found = answered(capsys, *arguments, "--out", "m.json")
    own = 2 * 64 + 64 * 256 + 256 + 256 * 64 + 64
    assert found["num_parameters"] == 8 * 64 + 64 + 6 * own + 64 * 10 + 10
    assert max(block["repeat"] for block in found["blocks"]) == 6
    assert found["model_file"] == "m.json"
    assert dv.show("m.json").records[0]["num_parameters"] == found["num_parameters"]


def test_a_configuration_is_captured_by_itself(folder, capsys):
    found = answered(capsys, "config.json", "--seq", "64", "--name", "small")
    assert found["name"] == "small"
    assert found["seq"] == 64
    assert found["num_parameters"] == 512 * 64 + 128 * 64 + 2 * (12 * 64 * 64 + 13 * 64) + 2 * 64
    assert found["model_file"] == "small.captured.json"
    from_cache = answered(capsys, "config.json", "--seq", "64", "--name", "small", "--out", "again.json")
    assert from_cache["is_from_cache"]
    assert Path("again.json").read_text() == Path("small.captured.json").read_text()


def test_inputs_of_a_configuration_may_be_said_where_it_does_not_say_them(folder, capsys):
    Path("resnet.json").write_text(
        json.dumps({"model_type": "resnet", "architectures": ["ResNetForImageClassification"]})
    )
    assert "gives no image_size; give its inputs: --inputs" in refused(capsys, "resnet.json")
    found = answered(capsys, "resnet.json", "--inputs", "pixel_values:bf16[2,3,224,224], labels:int64[2]")
    assert found["forward_flop"] > 3.7e9 * 2  # the multiplications of ResNet-50 and as many additions


def test_its_length_is_what_the_configuration_allows_if_nothing_is_said(folder, capsys):
    assert answered(capsys, "config.json")["seq"] == 128


def test_nothing_is_fetched_and_what_was_said_of_that_stays(folder, monkeypatch):
    import huggingface_hub.constants as hub

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", False)
    seen = []

    def factory() -> Any:
        seen.append((os.environ["HF_HUB_OFFLINE"], hub.HF_HUB_OFFLINE))
        return nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), torch.zeros(2, 8)

    dv.capture(factory)
    assert seen == [("1", True)]
    assert "HF_HUB_OFFLINE" not in os.environ
    assert hub.HF_HUB_OFFLINE is False


@pytest.mark.parametrize("how", ["module", "factory", "config value", "model of transformers"])
def test_python_takes_what_it_has_in_hand(how):
    import transformers

    config = transformers.GPT2Config(**{key: value for key, value in GPT2.items() if key != "model_type"})
    inputs = {name: torch.zeros(2, 128, dtype=torch.int64) for name in ("input_ids", "labels")}
    with torch.device("meta"):
        module = transformers.GPT2LMHeadModel(config)
    given = {
        "module": (module, inputs),
        "factory": (lambda: (transformers.GPT2LMHeadModel(config), inputs),),
        "config value": (config,),
        "model of transformers": (module,),
    }[how]
    found = dv.capture(*given)
    assert found.num_parameters == sum(parameter.numel() for parameter in module.parameters())
    assert found.record["num_layers"] >= 2


def test_a_capture_is_a_model_for_every_other_call(folder):
    found = dv.capture("nets:with_inputs")
    step = dv.simulate(model=found, cluster="h100x8", plan={"dp": 8}, global_batch=64)
    assert step.record["num_parameters"] == found.num_parameters
    assert dv.simulate(model=found.model, cluster="h100x8", plan={"dp": 8}, global_batch=64).step_s == step.step_s
    found.save("net.json")
    assert dv.simulate(model="net.json", cluster="h100x8", plan={"dp": 8}, global_batch=64).step_s == step.step_s
    assert dv.schedule(found, chip="tpuv2-like").makespan_s > 0
    assert dv.mine(found, budget=3, algorithm="grid", batch=2).fits


def test_the_example_is_what_a_capture_gives_today(bless):
    folder = ROOT / "examples" / "capture"
    found = dv.capture(f"{folder / 'my_model.py'}:decoder", name="my-decoder")
    check_recorded(folder / "decoder.json", captured_text(found.captured), bless)


# --- what is answered ---------------------------------------------------------------------------------------------


def test_tables_fit_the_screen_and_say_where_the_model_went(folder, capsys):
    assert main(["capture", "nets:with_inputs"]) == 0
    shown = capsys.readouterr().out
    assert [line for line in shown.splitlines() if len(line) > WIDTH] == []
    assert "model file: Net.captured.json" in shown
    assert "dovetail plan --model Net.captured.json --cluster" in shown
    for title in ("Blocks", "Supported parallelism", "Operators by kind"):
        assert title in shown


def test_what_the_users_code_prints_is_no_part_of_the_answer(folder, capsys):
    assert main(["capture", "nets:talking", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["name"] == "Net"
    assert shown.err == "hello\n"


def test_the_record_adds_up(folder, capsys):
    found = answered(capsys, "nets:with_inputs")
    assert found["forward_flop"] + found["backward_flop"] == pytest.approx(found["training_flop"])
    assert found["forward_flop"] == 2 * 8 * 64 + 6 * 2 * 2 * 64 * 256 + 2 * 64 * 10
    for share in ("flop_frac", "parameters_frac"):
        assert sum(block[share] for block in found["blocks"]) == pytest.approx(1)
    for share in ("flop_frac", "bytes_frac"):
        assert sum(one[share] for one in found["operators"]) == pytest.approx(1)
    for block in found["blocks"]:
        assert block["activation_bytes"] >= 0
    assert found["activation_bytes"] == pytest.approx(
        sum(block["repeat"] * block["activation_bytes"] for block in found["blocks"])
    )


def test_what_cannot_divide_it_says_why(folder, capsys):
    ways = {one["axis"]: one for one in answered(capsys, "nets:with_inputs")["sharding"]}
    assert list(ways) == ["tensor", "sequence", "context", "expert", "pipeline", "data"]
    assert ways["expert"] == {
        "axis": "expert",
        "can_divide": False,
        "must_divide": [],
        "parameters_frac": 0.0,
        "why_not": "no experts were recognised",
    }
    assert all(one["can_divide"] == (not one["why_not"]) for one in ways.values())
    assert ways["pipeline"]["can_divide"]


JOB_SCRIPT = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("nccl")
net = DistributedDataParallel(torch.nn.Linear(64, 64).cuda())
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    net(torch.zeros(8, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_the_page_of_a_job_is_written_without_json_too(folder, capsys):
    Path("job.py").write_text(JOB_SCRIPT, encoding="utf-8")
    assert main(["capture", "job.py", "--world-size", "8", "--html", "job.html"]) == 0
    out = capsys.readouterr().out
    assert "report: job.html" in out
    assert "model file" not in out
    assert "time-by-rank" in Path("job.html").read_text(encoding="utf-8")


def test_the_answer_is_a_page_and_shows_itself_in_notebooks(folder, capsys):
    assert main(["capture", "nets:with_inputs", "--html", "net.html"]) == 0
    assert "report: net.html" in capsys.readouterr().out
    assert "block-shares" in Path("net.html").read_text(encoding="utf-8")
    found = dv.capture("nets:with_inputs")
    assert "<table>" in found._repr_html_()
    assert repr(found).startswith("<Capture: Net, ")
    assert {chart.name for chart in found.charts} == {"block-shares", "operator-shares"}
    found.to_json("net.json")
    assert json.loads(Path("net.json").read_text())["name"] == "Net"


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nets",), "'nets' is nothing to capture; name package.module:factory, file.py:factory, a Hugging Face"),
        (("nets.py",), "'nets.py' is nothing to capture; name its factory: nets.py:NAME"),
        (("nets:1",), "'nets:1' is nothing to capture"),
        (("nots:net",), "there is no module 'nots', neither here nor installed; run this in its folder"),
        (("nots.py:net",), "there is no file 'nots.py'"),
        (("nets:nett",), "nets has no 'nett'; did you mean net?"),
        (("nets:number",), "a factory returns a torch.nn.Module, or one and its example inputs; nets:number gave int"),
        (("nets:broken",), "nets:broken raises ValueError: no such size (nets.py:"),
        (
            ("nets:fetching",),
            "; nothing is fetched while a model is captured, so build it from its configuration alone",
        ),
        (("nets:leaving",), "nets:leaving raises SystemExit: 3 (nets.py:"),
        (("nets:net",), "the inputs of Net are not given; return (module, inputs) from its factory"),
        (("nets:net", "--inputs", "x"), "cannot read 'x'; write them as in 'input_ids:int64[2,512]"),
        (("nets:net", "--inputs", "x:fp31[2]"), "no dtype is named 'fp31'; did you mean fp32"),
        (("nets:with_inputs", "--seq", "8"), "example inputs set batch and length; leave --batch and --seq out"),
        (("nets:with_inputs", "--compile"), "--compile needs --chip, what the step runs on, such as --chip h200"),
        (("nets:with_inputs", "--seq-dim", "9"), "--seq-dim is a dim from 1 on, as dim 0 is the batch; got 9"),
        (
            ("config.json", "--inputs", "input_ids:int[2,9]", "--seq", "9"),
            "set batch and length; leave --batch and --seq out",
        ),
        (("none.json",), "there is no file 'none.json'"),
        (("none.onnx",), "there is no file 'none.onnx'"),
        (("nets:with_inputs", "--out", "m.pt"), "a model file ends in .json; got 'm.pt'"),
        (("nets:with_inputs", "--out", "no/m.json"), "there is no folder 'no' to write 'm.json' to"),
        (("config.json", "--out", "config.json", "--force"), "config.json is what is captured; name another file"),
        (("nets:with_inputs", "--html", "net.txt"), "a page is written to .html; got 'net.txt'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_input_is_one_line(folder, capsys, arguments, message):
    line = refused(capsys, *arguments)
    assert message in line.replace(f"{folder}{os.sep}", ""), line


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"hidden": 3}, "this is no configuration of Hugging Face: it has neither model_type nor architectures"),
        ({"architectures": ["GPT2LMHeadModel"]}, "a Hugging Face configuration has a model_type"),
        ({"model_type": "gpt-2-xl"}, "knows no model_type 'gpt-2-xl'"),
        (GPT2 | {"architectures": ["MyOwnModel"]}, "has no class 'MyOwnModel', and no other code is run"),
        (GPT2 | {"architectures": [["GPT2LMHeadModel"]]}, "architectures must be names of classes"),
        (GPT2 | {"architectures": ["pipeline"]}, "has no class 'pipeline', and no other code is run"),
        (GPT2 | {"n_layer": 10**9}, "at most 512 layers are captured, as each is built and run; n_layer is 1000000000"),
        (GPT2 | {"text_config": {"num_hidden_layers": 513}}, "num_hidden_layers is 513; take the configuration as"),
        (GPT2 | {"n_head": 5}, "building GPT2LMHeadModel raises ValueError"),
        ({"format": "x"}, "this is a captured model already; plan with it: dovetail plan --model odd.json"),
    ],
    ids=[
        "none",
        "no type",
        "unknown type",
        "own class",
        "no name",
        "no model",
        "deep",
        "deep text",
        "bad sizes",
        "a model file",
    ],
)
def test_a_configuration_that_builds_nothing_is_one_line(folder, capsys, config, message):
    Path("odd.json").write_text(json.dumps(config))
    assert message in refused(capsys, "odd.json")


def test_a_file_that_stands_is_written_over_only_when_told(folder, capsys):
    Path("m.json").write_text("mine")
    assert "file 'm.json' exists; pass --force" in refused(capsys, "nets:with_inputs", "--out", "m.json")
    assert Path("m.json").read_text() == "mine"
    answered(capsys, "nets:with_inputs", "--out", "m.json", "--force")
    assert json.loads(Path("m.json").read_text())["format"] == "dovetail-captured-model"


def test_a_module_that_does_not_import_says_which_line(folder, capsys):
    Path("bad.py").write_text("x = 1\nimport nothing_of_this_name\n")
    line = refused(capsys, "bad:net")
    assert "importing bad raises ModuleNotFoundError: No module named 'nothing_of_this_name'" in line
    assert line.endswith("bad.py:2)")
    Path("worse.py").write_text("def net(:\n")
    assert "worse.py:1" in refused(capsys, "worse.py:net")


def test_python_says_its_own_words():
    with pytest.raises(InvalidInput, match=r"batch must be at least 1; got 0"):
        dv.capture(nn.Linear(2, 2), torch.zeros(2, 2), batch=0)
    with pytest.raises(
        InvalidInput, match=r"a PyTorch module, a factory of one, a configuration or a file is captured"
    ):
        dv.capture(3)
    with pytest.raises(InvalidInput, match=r"example inputs set batch and length; leave batch and seq out"):
        dv.capture(nn.Linear(2, 2), torch.zeros(2, 2), seq=3)
