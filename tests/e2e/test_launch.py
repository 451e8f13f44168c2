"""`dovetail launch`: what a person saves and starts, and what is said of a bad question."""

from __future__ import annotations

import json
import shlex
import subprocess
import tomllib

import pytest

from tests.e2e.conftest import EXAMPLES, ROOT
from tests.e2e.test_bad_input import check_refused

SPEC = "examples/llama3-70b-512xh100.yaml"
FRAMEWORKS = ("megatron-lm", "torchtitan", "deepspeed")


def test_a_script_names_the_run_it_starts(dovetail):
    ran = dovetail("launch", SPEC, "--framework", "megatron-lm")
    assert (ran.returncode, ran.stderr) == (0, "")
    words = shlex.split(ran.stdout, comments=True)
    assert words[:2] == ["export", "CUDA_DEVICE_MAX_CONNECTIONS=1"]
    assert words[words.index("--pipeline-model-parallel-size") + 1] == "4"


@pytest.mark.parametrize("framework", ["megatron-lm", "deepspeed"])
def test_a_shell_can_read_the_script(dovetail, tmp_path, framework):
    file = tmp_path / "start.sh"
    assert dovetail("launch", SPEC, "--framework", framework, "--out", file).returncode == 0
    assert subprocess.run(["sh", "-n", str(file)], check=False, capture_output=True).stderr == b""


def test_the_job_of_torchtitan_is_toml(dovetail, tmp_path):
    file = tmp_path / "job.toml"
    ran = dovetail("launch", SPEC, "--framework", "torchtitan", "--framework-version", "0.2.2", "--out", file)
    assert ran.returncode == 0
    assert "not expressed: zero_stage 1" in ran.stdout
    job = tomllib.loads(file.read_text(encoding="utf-8"))
    assert job["parallelism"]["tensor_parallel_degree"] == 8


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_json_says_the_same_as_the_text(dovetail, framework):
    said = json.loads(dovetail("launch", SPEC, "--framework", framework, "--json").stdout)
    text = dovetail("launch", SPEC, "--framework", framework).stdout
    assert said["config"].strip() in text
    assert all(f"not expressed: {one['what']}, because {one['why']}" in text for one in said["not_expressed"])
    assert said["flags_of"] in text


@pytest.mark.parametrize("spec", EXAMPLES, ids=lambda spec: spec.stem)
def test_the_plan_of_an_example_comes_back_from_its_file(dovetail, tmp_path, spec):
    file = tmp_path / "plan.yaml"
    ran = dovetail("launch", spec.relative_to(ROOT), "--framework", "deepspeed", "--plan-file", file)
    if ran.returncode == 2:  # a model or a plan that DeepSpeed cannot run
        check_refused(ran)
        assert not file.exists()
        return
    first, again = (
        json.loads(dovetail("simulate", spec.relative_to(ROOT), *more, "--json").stdout)
        for more in ((), ("--plan", file))
    )
    assert first["plan"] == again["plan"]
    assert first["step_s"] == again["step_s"]


def test_options_of_simulate_are_options_here(dovetail):
    ran = dovetail(
        "launch", "--model", "llama3-8b", "--cluster", "dgx-h100", "--devices", "16", "--plan", "zero3",
        "--global-batch", "64", "--seq", "4096", "--framework", "torchtitan", "--framework-version", "0.2.2",
    )  # fmt: skip
    assert tomllib.loads(ran.stdout)["training"]["seq_len"] == 4096


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((SPEC,), "--framework is missing; known: deepspeed, fsdp2, maxtext, megatron-bridge, megatron-lm, torchtitan"),
        ((SPEC, "--framework", "megatorn"), "did you mean megatron-lm"),
        ((SPEC, "--framework", "deepspeed", "--plan", "nope"), "no plan is named 'nope'"),
        (("nowhere.yaml", "--framework", "deepspeed"), "there is no file"),
        ((SPEC, "--framework", "deepspeed", "--out", "nowhere/x.sh"), "there is no folder"),
        ((SPEC, "--framework", "deepspeed", "--out", SPEC), "exists; pass --force"),
        ((SPEC, "--framework", "deepspeed", "--plan-file", "plan.txt"), "a plan file ends in .yaml or .yml"),
        ((SPEC, "--framework", "deepspeed", "--force"), "--force needs --out or --plan-file; pass"),
        (("examples/resnet-50-16xtorus.yaml", "--framework", "megatron-lm"), "resnet-50"),
        (("--framework", "deepspeed"), "--model is missing"),
        (("--model", "llama3-8b", "--cluster", "dgx-h100", "--plan", "zero3", "--framework", "torchtitan",
          "--compute", "fp16", "--global-batch", "1024"), "fp16"),
        (("--model", "llama3-70b", "--cluster", "tpu-v5p-pod", "--devices", "16", "--plan", "zero3", "--framework",
          "torchtitan", "--global-batch", "1024"), "chips of Google"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_bad_question_is_answered_in_one_line(dovetail, arguments, words):
    check_refused(dovetail("launch", *arguments), words)


def test_a_plan_that_does_not_fit_is_launched_with_a_line_that_says_so(dovetail):
    words = ("launch", "--model", "llama3-70b", "--cluster", "h100x64", "--plan", "tp=8,pp=1")
    ran = dovetail(*words, "--framework", "megatron-lm")
    assert ran.returncode == 0
    assert "# it does not fit: " in ran.stdout
