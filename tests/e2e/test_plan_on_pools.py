"""`dovetail plan` on a cluster of several pools: found, proven, written, and taken back."""

from __future__ import annotations

import json

import pytest

from tests.e2e.test_bad_input import check_refused
from tests.messages import holds

SPEC = """\
workload: {model: llama3-8b, global_batch: 32, seq: 4096}
cluster:
  pools: [{name: dgx-h100, devices: 8}, {name: dgx-a100, devices: 8}]
  between: {bandwidth: 25 GB/s, latency: 8 us}
space: {recompute: [none, full], zero_stage: 1, context_parallel: 1, interleave: 1, microbatch: [1, 2]}
"""


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    file = tmp_path_factory.mktemp("pools") / "mixed.yaml"
    file.write_text(SPEC, encoding="utf-8")
    return file


def test_the_best_plan_gives_the_faster_pool_more_layers_and_is_taken_back(dovetail, tmp_path, spec):
    file = tmp_path / "best.yaml"
    ran = dovetail("plan", spec, "--plan-file", file, "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    said = json.loads(ran.stdout)
    assert said["gap_frac"] == 0
    assert said["proof"]["num_open"] == 0
    fast, slow = said["best"]["pools"]
    assert min(fast["num_layers"]) > max(slow["num_layers"])
    assert sum(fast["num_layers"]) + sum(slow["num_layers"]) == 32
    again = json.loads(dovetail("simulate", spec, "--plan", file, "--json").stdout)
    assert again["plan"] == said["best"]["plan"]
    assert again["step_s"] == pytest.approx(said["best"]["step_s"], rel=1e-12)


def test_the_answer_says_what_is_proven_of_which_space(dovetail, spec):
    ran = dovetail("plan", spec)
    assert (ran.returncode, ran.stderr) == (0, "")
    message = " ".join(ran.stdout.split())
    assert holds(message, "optimal in the model", "(gap 0)")
    assert "- stages of the best plan: " in message
    assert max(len(line) for line in ran.stdout.splitlines()) <= 80


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--objective", "tokens/J"), "time"),
        (("--forbid", "uneven"), "uneven"),
        (("--fix", "schedule=dualpipe"), "dualpipe is not modelled"),
        (("--model", "deepseek-v3"), "layers"),
        (("--devices", "32"), "--devices"),
    ],
)
def test_what_cannot_be_searched_is_refused_in_one_line(dovetail, spec, options, told):
    check_refused(dovetail("plan", spec, *options), told)
