"""The examples give the answers recorded beside them, and options change what a spec says."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import EXAMPLES, ROOT
from tests.e2e.recorded import check_recorded

SPEC = ROOT / "examples" / "llama3-70b-512xh100.yaml"
TINY_CONFIG = {
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
}


def test_there_are_examples():
    assert SPEC in EXAMPLES


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_gives_its_recorded_output(dovetail, example, bless):
    ran = dovetail("simulate", example.relative_to(ROOT))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert max(len(line) for line in ran.stdout.splitlines()) <= 80
    assert "\x1b" not in ran.stdout
    check_recorded(example.with_suffix(".out.txt"), ran.stdout, bless)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_in_json_parses_and_says_it_fits(dovetail, example):
    ran = dovetail("simulate", example, "--json")
    said = json.loads(ran.stdout)
    assert (ran.returncode, said["feasible"], said["name"]) == (0, True, example.stem)
    assert said["step_s"] > 0


def test_options_override_the_spec(dovetail):
    ran = dovetail("simulate", SPEC, "--global-batch", "512", "--seq", "4096", "--cluster", "dgx-h200", "--devices",
                   "512", "--model", "llama2-70b", "--json")  # fmt: skip
    said = json.loads(ran.stdout)
    assert said["workload"]["model"] == "llama2-70b"
    assert (said["workload"]["global_batch"], said["workload"]["seq"]) == (512, 4096)
    assert said["cluster"] == {"name": "dgx-h200", "num_devices": 512}
    assert said["plan"]["tensor_parallel"] == 8


def test_the_dtype_of_products_can_be_overridden_and_weights_follow_it(dovetail):
    said = json.loads(dovetail("simulate", SPEC, "--compute", "fp16", "--json").stdout)
    assert (said["workload"]["precision"]["compute"], said["workload"]["precision"]["weights"]) == ("fp16", "fp16")
    whole = json.loads(dovetail("simulate", SPEC, "--compute", "tf32", "--json").stdout)["workload"]["precision"]
    assert (whole["weights"], whole["has_master_weights"]) == ("fp32", False)


def test_without_a_spec_model_cluster_and_plan_are_enough(dovetail):
    ran = dovetail("simulate", "--model", "llama3-8b", "--cluster", "dgx-h100", "--devices", "16", "--plan", "zero3")
    assert ran.returncode == 0
    assert ran.stdout.startswith("llama3-8b on 16 x h100-sxm\n")


def test_a_hugging_face_configuration_is_a_model(dovetail, tmp_path):
    config = tmp_path / "tiny" / "config.json"
    config.parent.mkdir()
    config.write_text(json.dumps(TINY_CONFIG), encoding="utf-8")
    ran = dovetail("simulate", "--model", config, "--cluster", "dgx-h100", "--devices", "8", "--plan", "ddp", "--json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["workload"]["model"] == "tiny"


def test_a_plan_that_does_not_fit_ends_with_1_and_says_what_would(dovetail):
    ran = dovetail("simulate", SPEC, "--plan", "zero3")
    assert (ran.returncode, ran.stderr) == (1, "")
    assert ran.stdout.startswith("Does not fit: ")
    assert "What would make it fit" in ran.stdout
    assert "--recompute full" in ran.stdout
    assert "step time  not runnable: " in ran.stdout


def test_a_plan_that_does_not_fit_is_an_answer_in_json_too(dovetail):
    ran = dovetail("simulate", SPEC, "--plan", "zero3", "--json")
    said = json.loads(ran.stdout)
    assert (ran.returncode, said["feasible"]) == (1, False)
    assert any(lever["fits"] for lever in said["levers"])


def test_the_same_question_gets_the_same_bytes(dovetail):
    assert dovetail("simulate", SPEC, "--json").stdout == dovetail("simulate", SPEC, "--json").stdout


def test_bars_become_plain_characters_where_the_terminal_has_no_others(dovetail):
    ran = dovetail("simulate", SPEC, PYTHONIOENCODING="ascii")
    assert ran.returncode == 0
    assert ran.stdout.isascii()
    assert "####" in ran.stdout
