"""`--headroom`: the memory that plans leave free is one value, in every command, in Python and in the explorer."""

from __future__ import annotations

import json
from typing import Any

import pytest

import dovetail as dv
from dovetail.api.joint import loaded
from dovetail.api.requests.searches import CodesignRequest
from dovetail.cli import main
from dovetail.explorer.answers import job_of_state, result_of_state
from dovetail.explorer.state import states_of
from dovetail.files.mining import MineOverrides, load_mining
from dovetail.files.plan_text import plan_text

JOB: dict[str, Any] = {"model": "gpt2-345m", "cluster": "h100x8", "global_batch": 64}
PLAN = {"zero_stage": 1}


def limit_bytes(**given: Any) -> float:
    return dv.simulate(**JOB, plan=PLAN, **given).memory.limit_bytes


def test_a_share_of_what_the_framework_sees_is_left_free():
    whole = limit_bytes(headroom=0)
    assert limit_bytes(headroom="5%") == limit_bytes(headroom=0.05) == pytest.approx(0.95 * whole)
    assert limit_bytes() < whole  # the chip's own reserve


def test_what_fits_without_it_need_not_fit_with_it_and_the_planner_knows():
    large: dict[str, Any] = {"model": "gpt2-1.5b", "cluster": "h100x8", "global_batch": 64}
    assert dv.simulate(**large, plan={"zero_stage": 0}, headroom=0).fits
    assert not dv.simulate(**large, plan={"zero_stage": 0}, headroom="80%").fits
    found = dv.plan(**large, fix=["tp=1,2", "pp=1"], headroom="80%")
    assert found.best.memory.need_bytes <= found.best.memory.limit_bytes < 20 * 2**30


def test_the_command_says_the_same_as_python_and_the_launch_is_of_the_same_job(capsys):
    words = [
        "--model",
        "gpt2-345m",
        "--cluster",
        "h100x8",
        "--global-batch",
        "64",
        "--plan",
        "zero3",
        "--headroom",
        "10%",
    ]
    assert main(["simulate", *words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["memory"]["limit_bytes"] == dv.simulate(**JOB, plan="zero3", headroom=0.1).memory.limit_bytes
    job = dv.launch(**JOB, plan="zero3", framework="torchtitan", headroom=0.1).job
    assert isinstance(job.cluster, dv.Cluster)
    assert job.cluster.usable_bytes == told["memory"]["limit_bytes"]


def test_an_option_goes_before_what_the_spec_says():
    spec = {"workload": {"model": "gpt2-345m"}, "cluster": {"base": "h100x8", "headroom": "20 %"}, "plan": PLAN}
    assert dv.simulate(spec).memory.limit_bytes == pytest.approx(0.8 * limit_bytes(headroom=0))
    assert dv.simulate(spec, headroom=0.1).memory.limit_bytes == pytest.approx(0.9 * limit_bytes(headroom=0))


def test_searches_for_chips_build_on_a_base_with_it():
    own, tight = (loaded(CodesignRequest(spec="gpt2-345m", headroom=share)).base for share in (0, 0.2))
    assert tight.usable_bytes == pytest.approx(0.8 * own.usable_bytes)
    mined = load_mining("gpt2-345m", MineOverrides(headroom=0.2)).base
    assert mined.usable_bytes == pytest.approx(0.8 * mined.visible_bytes)


def test_the_explorer_plans_for_it_and_shows_it():
    query = [("model", "gpt2-345m"), ("cluster", "h100x8"), ("batch", "64"), ("headroom", "5%")]
    state = states_of(query)[0]
    cluster = job_of_state(state).cluster
    assert isinstance(cluster, dv.Cluster)
    assert cluster.usable_bytes == pytest.approx(limit_bytes(headroom=0.05))
    plan = dv.plan(**JOB, fix=["zero_stage=1"], headroom=0.05).plan
    assert result_of_state(state.with_plan(plan_text(plan))).memory.limit_bytes == limit_bytes(headroom=0.05)


@pytest.mark.parametrize("share", [1.5, -0.1, "5", "lots", [0.05], "99.9%"])
def test_what_is_no_share_is_refused_by_its_name(share):
    with pytest.raises(dv.InvalidInput, match="headroom"):
        dv.simulate(**JOB, plan=PLAN, headroom=share)
