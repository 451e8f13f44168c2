"""Profiles on the command line: compared, put in the place of predictions, and refused in one line."""

from __future__ import annotations

import json

PROFILE = "examples/llama-2-layers-h200.json.gz"
STEP = ("--model", "llama3-8b", "--devices", "8", "--global-batch", "8", "--seq", "2048", "--plan", "zero3")


def test_a_profile_is_compared_and_ends_well_however_far_off_we_are(dovetail, tmp_path):
    page = tmp_path / "page.html"
    ran = dovetail("validate", "--profile", PROFILE, "--html", str(page))
    assert ran.returncode == 0
    assert "72.1 % of its time compared" in " ".join(ran.stdout.split())
    assert "aten::_fused_adamw_" in page.read_text(encoding="utf-8")


def test_a_step_says_what_of_it_was_measured_and_its_timeline_has_the_same_times(dovetail, tmp_path):
    timeline = tmp_path / "step.pftrace"
    arguments = ("simulate", *STEP, "--cluster", "dgx-h200")
    with_profile = ("--profile", PROFILE, "--perfetto", str(timeline))
    said = json.loads(dovetail(*arguments, *with_profile, "--json").stdout)
    assert said["profile"]["measured_frac"] > 0.5
    assert said["step_s"] != json.loads(dovetail(*arguments, "--json").stdout)["step_s"]
    assert timeline.stat().st_size > 0


def test_what_cannot_be_is_one_line_and_exit_code_2(dovetail, tmp_path):
    cut = tmp_path / "cut.json"
    cut.write_text('{"traceEvents": [{"ph": "X", "cat": "cpu_op",')
    for arguments in (
        ("validate", "--profile", str(cut)),
        ("validate", "--profile", PROFILE, "--dtype", "bf16"),
        ("simulate", *STEP, "--cluster", "dgx-h100", "--profile", PROFILE),
        ("plan", *STEP[:-2], "--cluster", "dgx-h100", "--profile", PROFILE),
    ):
        ran = dovetail(*arguments)
        assert ran.returncode == 2, arguments
        assert ran.stderr.count("\n") == 1
        assert "Traceback" not in ran.stderr
