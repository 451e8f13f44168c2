"""What would make a plan fit is offered in the form in which the job was given, and does what it says."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

import dovetail
from dovetail.api.requests.jobs import SimulateRequest
from dovetail.evaluate import trial
from dovetail.parallel.levers import Lever

JOB: dict[str, Any] = {"model": "llama3-8b", "cluster": "h100x16", "global_batch": 64}
GIVEN = (
    {"tp": 1},
    {"plan": "tp=2,dp=8"},
    {"plan": "tp=2,pp=2,dp=4,recompute=none", "seq": 131_072, "global_batch": 16},
    {"tp": 2, "dp": 8},
    {"plan": "zero1", "microbatch": 16, "global_batch": 256},
)


@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_options_that_are_offered_give_the_plan_and_the_time_that_they_stand_for(given):
    found = dovetail.simulate(**JOB | given)
    assert not found.fits
    for lever in found.levers[:4]:
        again = _run(found.advice.command(lever))
        assert again.plan == lever.plan
        assert again.fits == lever.fits
        if again.fits:
            assert again.step_s == lever.step_s
    words = found.advice.words(found.levers[0])
    assert words.startswith("--")
    assert "in the spec" not in str(found)
    assert words in " ".join(str(found).split())


def test_a_plan_of_a_spec_is_changed_in_the_spec():
    spec = {
        "workload": {"model": "llama3-8b", "global_batch": 64},
        "cluster": {"name": "dgx-h100", "devices": 16},
        "plan": {"data_parallel": 16},
    }
    found = dovetail.simulate(spec)
    assert found.levers[0].change in " ".join(str(found).split())
    assert "put a change under plan: in the spec" in " ".join(str(found).split())
    assert found.advice.command(found.levers[0]) == ""


def test_the_time_of_a_plan_that_does_not_fit_is_told_as_that_of_none_that_runs():
    found = dovetail.simulate(**JOB, tp=1)
    outcome = found.outcome
    expected = trial(outcome.workload.training_graph(), outcome.cluster, outcome.plan, outcome.workload.precision)
    assert found.hypothetical_step_s == expected.step_s == found.record["hypothetical_step_s"]
    assert "not runnable" in str(found)
    with pytest.raises(dovetail.InvalidInput, match=r"ask \.step_s"):
        _run(found.advice.command(found.levers[0])).hypothetical_step_s  # noqa: B018


def test_the_best_repair_may_change_two_keys_and_keeps_tensor_parallelism_within_a_node():
    found = dovetail.simulate(model="llama3-70b", cluster="h100x256", tp=4, pp=2)
    fitting = [lever for lever in found.levers if lever.fits]
    assert fitting[0].step_s == min(lever.step_s for lever in fitting)
    assert _num_keys(fitting[0]) == 2
    assert all(lever.plan.tensor_parallel <= 8 for lever in found.levers)


def _num_keys(lever: Lever) -> int:
    return len(lever.change.split(" and "))


def _run(command: str) -> dovetail.Simulation:
    """The command's answer, from its words."""
    _, _, *words = shlex.split(command)
    typed: dict[str, Any] = {}
    flags = {one.flag: one for one in SimulateRequest.parameters}
    while words:
        word = words.pop(0)
        if word.startswith("--no-"):
            typed[flags[word.replace("--no-", "--")].name] = False
        elif flags[word].option.kind.is_flag:
            typed[flags[word].name] = True
        else:
            typed[flags[word].name] = words.pop(0)
    request = SimulateRequest.parsed(typed)
    return dovetail.simulate(**request.given)
