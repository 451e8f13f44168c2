"""Plans kept to a framework: what is found is launched as printed and fits as likely as is wanted."""

from __future__ import annotations

from typing import Any

import pytest

import dovetail
from dovetail.errors import InvalidInput, NotModelled
from dovetail.report.launchers.frameworks import launchers

JOB: dict[str, Any] = {
    "model": "llama3-8b",
    "cluster": "h100x16",
    "global_batch": 64,
    "top": 3,
    "fix": ("cp=1", "interleave=1"),
}


@pytest.fixture(scope="module")
def planned():
    return dovetail.plan(**JOB)


@pytest.mark.parametrize("framework", ["megatron-lm", "torchtitan", "fsdp2"])
def test_a_plan_kept_to_a_framework_is_launched_as_printed(framework):
    found = dovetail.plan(**JOB, framework=framework)
    question = found.outcome.question
    launch = launchers[framework](question.workload, question.cluster, found.plan)
    assert not [one.what for one in launch.missing if one.instead]
    assert found.plan.framework == framework
    assert found.record["best"]["memory"]["fit_probability"] >= 0.95
    assert found.record["framework"].split()[0] == framework


def test_every_framework_has_its_best_plan_beside_the_best_of_all(planned):
    rows = {one["framework"]: one for one in planned.record["frameworks"]}
    assert set(rows) == {name for name, entry in launchers.items() if not entry.is_for_tpus}
    for one in rows.values():
        assert one["feasible"], one["refusal"]
        assert one["step_s"] >= planned.step_s * (1 - planned.gap_frac) * 0.9
        assert one["fit_probability"] >= 0.95
    assert rows["megatron-bridge"]["step_s"] == rows["megatron-lm"]["step_s"]
    alone = dovetail.plan(**JOB, framework="megatron-lm")
    assert alone.step_s == pytest.approx(rows["megatron-lm"]["step_s"], rel=1e-9)


def test_plans_fit_as_likely_as_is_wanted(planned):
    assert planned.record["best"]["memory"]["fit_probability"] >= 0.95
    bold = dovetail.plan(**JOB, headroom=0.0)
    sure = dovetail.plan(**JOB, fit_probability=0.99)
    assert sure.record["best"]["memory"]["fit_probability"] >= 0.99
    assert bold.step_s <= planned.step_s <= sure.step_s


def test_what_does_not_go_together_is_one_line():
    with pytest.raises(InvalidInput, match="both set what plans leave free"):
        dovetail.plan(**JOB, headroom=0.05, fit_probability=0.9)
    with pytest.raises(InvalidInput, match="framework_version goes with framework"):
        dovetail.plan(**JOB, framework_version="0.2.2")
    with pytest.raises(InvalidInput, match=r"framework_version must be one of 0\.3\.0, 0\.2\.2"):
        dovetail.plan(**JOB, framework="torchtitan", framework_version="0.1")
    with pytest.raises(NotModelled, match="clusters of equal devices"):
        dovetail.plan("examples/llama3-70b-mixed.yaml", framework="torchtitan")


@pytest.mark.parametrize("framework", ["torchtitan", "deepspeed"])
def test_a_launch_text_is_simulated_to_the_time_that_was_planned(framework, tmp_path):
    found = dovetail.plan(**JOB, framework=framework)
    plan_file, text = tmp_path / "plan.yaml", tmp_path / "start.sh"
    found.to_yaml(plan_file)
    said = {name: JOB[name] for name in ("model", "cluster", "global_batch")}
    started = dovetail.launch(**said, plan=str(plan_file), framework=framework)
    assert (started.costs, "another plan" in started.text, "otherwise" in started.text) == ((), False, False)
    assert not [one.what for one in started.outcome.missing if one.instead]
    assert started.record["plan_as_run"] == found.record["best"]["plan"]
    started.to_file(text)
    again = dovetail.simulate(**said, launch_text=str(text))
    assert again.step_s == pytest.approx(found.step_s, rel=1e-9)
    with pytest.raises(InvalidInput, match="both give the plan"):
        dovetail.simulate(**said, launch_text=str(text), plan="zero1")
