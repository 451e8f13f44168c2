"""`dovetail plan`: the best plan in seconds, what a person does with it, and what is said of a bad question."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time

import pytest

from tests.e2e.conftest import ROOT, TIMEOUT_S, environment
from tests.e2e.test_bad_input import check_refused
from tests.messages import holds

SMALL = ("--model", "llama3-8b", "--cluster", "dgx-h100", "--devices", "8", "--global-batch", "32", "--seq", "4096")
QUICK = (*SMALL, "--fix", "recompute=none,full", "--fix", "zero_stage=1,2", "--forbid", "context,interleave")
SPEC = """\
workload: {model: llama3-8b, global_batch: 32, seq: 4096}
cluster: {name: dgx-h100, devices: 8}
plan: {tp: 2, sequence_parallel: true, zero_stage: 1, recompute: full}
space: {recompute: [none, full], zero_stage: [1, 2], context_parallel: 1, interleave: 1}
"""


@pytest.fixture(scope="module")
def found(dovetail):
    ran = dovetail("plan", *QUICK, "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    return json.loads(ran.stdout)


def test_the_answer_is_the_best_plan_with_proof_ranking_and_commands(dovetail, found):
    ran = dovetail("plan", *QUICK)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.replace("\n", " ").startswith(found["answer"])
    assert holds(ran.stdout, f"{found['num_plans']:,} plans", f"{found['num_fitting']:,} fit")
    assert found["num_fitting"] <= found["num_evaluated"] <= found["num_plans"]
    counts = found["proof"]
    assert counts["num_bases"] == counts["num_pruned"] + counts["num_closed"] + counts["num_open"]
    assert "(gap 0)" in ran.stdout
    assert "can run the best plan" in ran.stdout
    assert max(len(line) for line in ran.stdout.splitlines()) <= 80
    assert len(found["ranking"]) <= 10
    behind = [one["over_best_frac"] for one in found["ranking"]]
    assert behind[0] == 0
    assert behind == sorted(behind)
    assert all(one["plan"]["context_parallel"] == one["plan"]["interleave"] == 1 for one in found["ranking"])


def test_the_plan_file_is_taken_back_by_the_commands_that_are_shown(dovetail, tmp_path, found):
    file = tmp_path / "best.yaml"
    said = json.loads(dovetail("plan", *QUICK, "--plan-file", file, "--json").stdout)
    assert said["written"] == [str(file)]
    simulate, launch = (shlex.split(command) for command in said["commands"])
    again = json.loads(dovetail(*simulate[1:], "--json").stdout)
    assert again["plan"] == found["best"]["plan"]
    assert again["step_s"] == pytest.approx(found["best"]["step_s"], rel=1e-12)
    assert dovetail(*launch[1:]).returncode == 0
    check_refused(dovetail("plan", *QUICK, "--plan-file", file), "exists; pass --force")
    check_refused(dovetail("plan", *QUICK, "--force"), "--force needs --plan-file; pass")


def test_a_spec_brings_its_own_plan_and_space(dovetail, tmp_path, found):
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC, encoding="utf-8")
    said = json.loads(dovetail("plan", spec, "--top", "2", "--json").stdout)
    assert said["num_plans"] == found["num_plans"]
    assert said["best"]["plan"] == found["best"]["plan"]
    [own] = [one for one in said["ranking"] if one["is_given"]]
    assert own["step_s"] == pytest.approx(said["given_plan"][0]["step_s"])
    assert own["breakdown"][0]["component"] == "recompute"
    assert len(said["ranking"]) == 3
    text = " ".join(dovetail("plan", spec, "--top", "2").stdout.split())
    assert "your own plan is" in text
    fixed = json.loads(dovetail("plan", spec, "--fix", "zero_stage=2", "--json").stdout)
    assert {one["plan"]["zero_stage"] for one in fixed["ranking"] if not one["is_given"]} <= {0, 2}


def test_options_that_rule_out_a_specs_own_plan_leave_it_out_with_a_note(dovetail, tmp_path):
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC.replace("tp: 2", "tp: 2, dp: 4"), encoding="utf-8")
    said = json.loads(dovetail("plan", spec, "--devices", "16", "--top", "1", "--json").stdout)
    assert said["given_plan"] == []
    assert any("the spec's own plan is left out" in note for note in said["notes"])


def test_nothing_that_fits_is_an_answer_with_exit_code_1(dovetail):
    arguments = ("plan", "--model", "llama3-70b", "--cluster", "dgx-h100", "--devices", "8", "--global-batch", "8")
    ran = dovetail(*arguments, "--forbid", "context")
    assert (ran.returncode, ran.stderr) == (1, "")
    assert "None of" in ran.stdout
    said = json.loads(dovetail(*arguments, "--forbid", "context", "--json").stdout)
    assert said["feasible"] is False
    assert said["need_bytes"] > said["limit_bytes"]
    assert said["least"]["plan"]["context_parallel"] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--fix", "tp=3"), "tensor_parallel=3 must divide the cluster's 8 devices; try 2 or 4 (--fix tp=3)"),
        (("--fix", "tpp=2"), "did you mean tp"),
        (("--fix", "tp"), "a choice is fixed by KEY=VALUE"),
        (("--fix", "schedule=1f2b"), "did you mean 1f1b"),
        (("--fix", "pp=8", "--fix", "tp=8"), "leave out pipeline_parallel=8 or tensor_parallel=8"),
        (("--forbid", "tensors"), "no feature is named 'tensors'; did you mean tensor"),
        (("--fix", "tp=2", "--forbid", "tensor"), "nothing is left of tensor_parallel"),
        (("--objective", "speed"), "no objective is named 'speed'"),
        (("--top", "0"), "--top must be at least 1"),
        (("--plan-file", ""), "the value of --plan-file is empty; give it one, or leave it out"),
        (("--plan-file=",), "the value of --plan-file is empty"),
        (("dgx-h100",), "is a cluster, not a spec"),
        (("spec.yaml", "dgx-h100"), "there is no place for dgx-h100; models and clusters are named by --model"),
        (("--plan-file", "plan.txt"), "a plan file ends in .yaml or .yml"),
        (("--plan-file", "nowhere/plan.yaml"), "there is no folder"),
        (("--compute", "fp7"), "--compute"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bad_question_is_answered_in_one_line(dovetail, arguments, words):
    check_refused(dovetail("plan", *SMALL, *arguments), words)


def test_what_is_missing_is_asked_for(dovetail):
    check_refused(dovetail("plan"), "--model is missing")
    check_refused(dovetail("plan", "--model", "llama3-8b"), "--cluster is missing")
    check_refused(dovetail("plan", "llama3-8b"), "pass --model llama3-8b, with --cluster")


def test_a_bad_space_is_refused_with_its_line(dovetail, tmp_path):
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC.replace("recompute: [none", "recompute: [nne"), encoding="utf-8")
    check_refused(dovetail("plan", spec), f"{spec}:4: space.recompute", "did you mean none?")


def on_a_terminal(*arguments: str, interrupt: bool) -> tuple[int, str]:
    """Exit code and what standard error, a terminal, was shown; interrupted as soon as a bar is seen, if wanted."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "dovetail", *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment() | {"TERM": "xterm"}, stdout=subprocess.DEVNULL, stderr=theirs
    ) as ran:
        os.close(theirs)
        shown, end_s = b"", time.monotonic() + TIMEOUT_S
        while time.monotonic() < end_s:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    piece = os.read(ours, 4096)
                except OSError:  # the other end is closed
                    break
                shown += piece
                if interrupt and b"searching" in shown:
                    ran.send_signal(signal.SIGINT)
                    interrupt = False
            elif ran.poll() is not None:
                break
        code = ran.wait(timeout=TIMEOUT_S)
    os.close(ours)
    return code, shown.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are of Unix")
def test_a_limit_is_kept_to_and_the_gap_is_that_of_what_stays_open(dovetail):
    ran = dovetail("plan", "--model", "llama3-8b", "--cluster", "dgx-h100", "--devices", "8", "--global-batch", "16",
                   "--fix", "pp=2,4", "--limit", "1", "--json")  # fmt: skip
    found = json.loads(ran.stdout)
    proof, best_s = found["proof"], found["best"]["step_s"]
    assert proof["num_refined"] <= 1
    assert found["gap_frac"] == pytest.approx(max(0.0, 1 - proof["bound_s"] / best_s))
    assert (found["gap_frac"] > 0) == (proof["num_open"] > 0)


def test_a_terminal_sees_a_bar_that_goes_away():
    code, shown = on_a_terminal("plan", *QUICK, interrupt=False)
    assert code == 0
    assert "searching" in shown
    assert re.search(r"best [\d.]+ m?s ", shown)  # its last words, whatever a quick search had no time to show
    assert shown.rstrip().endswith("\x1b[2K")  # the line is erased


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are of Unix")
def test_a_terminal_sees_what_takes_long_and_then_no_more_of_it():
    code, shown = on_a_terminal("validate", "dies", interrupt=False)
    assert code == 0
    assert "comparing predictions with measurements" in shown
    assert shown.rstrip().endswith("\x1b[2K")


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are of Unix")
def test_an_interrupt_clears_the_bar_and_ends_with_its_code():
    long = ("--model", "deepseek-v3", "--cluster", "dgx-h100", "--devices", "512", "--global-batch", "1024")
    code, shown = on_a_terminal("plan", *long, interrupt=True)
    assert code == 130
    assert shown.endswith("\r\x1b[2K\x1b[?25hdovetail: interrupted\r\n")
