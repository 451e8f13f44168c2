"""A cluster that says how it fails gets a goodput on the screen and in JSON, and a budget of tokens its days."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT
from tests.e2e.test_reference import keys

SPEC = """
workload: {model: llama3-8b, global_batch: 64}
cluster:
  name: dgx-h100
  devices: 64
  reliability:
    failures: meta-rsc-1
    restart: 10 min
    checkpoint: {storage: 20 GB/s, asynchronous: true}
    slow_devices: {speed: 0.9, onsets: {mtbf: 1000 d}, detect: 1 h}
plan: {tensor_parallel: 8, sequence_parallel: true, zero_stage: 1}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    file = tmp_path / "failing.yaml"
    file.write_text(SPEC, encoding="utf-8")
    return file


def test_goodput_and_days_are_told(dovetail, spec):
    ran = dovetail("simulate", spec, "--tokens", "300B")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "of the time is of use" in ran.stdout
    assert "300.0 B tokens" in ran.stdout
    assert max(len(line) for line in ran.stdout.splitlines()) <= 80


def test_every_key_of_goodput_is_documented_and_more_devices_fail_more_often(dovetail, spec):
    page = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    said = json.loads(dovetail("simulate", spec, "--tokens", "300B", "--json").stdout)
    told = {"goodput": said["goodput"], "budget": said["budget"]}
    assert {key for key in keys(told) if f"`{key}`" not in page} == set()
    larger = json.loads(dovetail("simulate", spec, "--devices", "128", "--global-batch", "128", "--json").stdout)
    assert larger["goodput"]["mtbf_s"] == pytest.approx(said["goodput"]["mtbf_s"] / 2)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--tokens", "many"), "cannot read 'many' as a count; write it as in '15T' or '300B' (--tokens)"),
        (
            ("--model", "resnet-50", "--plan", "ddp", "--tokens", "1B"),
            "--tokens is for models of tokens, and resnet-50 takes images; leave it out",
        ),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused_in_one_line(dovetail, spec, arguments, line):
    ran = dovetail("simulate", spec, *arguments)
    assert ran.returncode == 2
    assert ran.stderr.strip() == f"dovetail: {line}"
