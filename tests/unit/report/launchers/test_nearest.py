"""What a framework runs for a plan that it cannot be told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.evaluate import Outcome, evaluate
from dovetail.hardware.clusters import clusters
from dovetail.parallel.frameworks import framework_name
from dovetail.parallel.plan import Overlap, Plan
from dovetail.report.launchers.fallbacks import as_run
from dovetail.report.launchers.frameworks import launchers
from dovetail.report.launchers.launch import Missing
from dovetail.report.launchers.nearest import costs, nearest
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload

WORKLOAD = Workload(model=models["llama3-8b"](), global_batch=32, seq=8192)
CLUSTER = clusters["dgx-h100"].build(8)
PIPED = Plan(pipeline_parallel=4, data_parallel=2, zero_stage=1, overlap=Overlap(pipeline=False))


def test_what_is_missing_changes_plan_overlap_workload_and_precision():
    missing = (
        Missing("a", "b", (("recompute", ("full",)), ("overlap.data", False))),
        Missing("c", "d", (("workload.kernels", "eager"), ("precision.gradients", "bf16"))),
        Missing("e", "f"),
    )
    workload, plan = as_run(WORKLOAD, Plan(), missing)
    assert plan == Plan(recompute=("full",), overlap=Overlap(data=False))
    assert workload == replace(WORKLOAD, kernels="eager", precision=Precision(gradients="bf16"))


def test_a_plan_with_words_for_everything_is_launched_as_it_is_and_costs_nothing():
    plan = replace(PIPED, recompute=("full",))
    launch = nearest(launchers["megatron-lm"], WORKLOAD, CLUSTER, plan)
    assert launch == launchers["megatron-lm"](WORKLOAD, CLUSTER, plan)
    assert costs(launch, WORKLOAD, CLUSTER, plan) == ()


# MaxText keeps weights in fp32 and has policies of its own: none of those tried here fits; FSDP2 has no pipeline
@pytest.mark.parametrize("framework", [name for name in launchers.names() if name not in ("maxtext", "fsdp2")])
def test_a_recompute_without_words_becomes_the_fastest_that_fits(framework):
    plan = replace(
        PIPED, recompute=("norm-activation", "norm-activation", "none", "none"), recompute_layers=(4, 2, 0, 0)
    )
    launch = nearest(launchers[framework], WORKLOAD, CLUSTER, plan)
    _, run = as_run(WORKLOAD, plan, launch.missing)
    assert len(set(run.recompute)) == 1
    [cost] = costs(launch, WORKLOAD, CLUSTER, plan)
    assert cost.fits
    for other in ("none", "selective-op", "full"):
        rival = replace(plan, recompute=(other,), recompute_layers=())
        said = launchers[framework](WORKLOAD, CLUSTER, rival)
        workload, as_launched = as_run(WORKLOAD, rival, said.missing)
        as_launched = replace(as_launched, framework=framework_name(framework))
        outcome = evaluate(workload, CLUSTER, as_launched, has_changes=False)
        assert not isinstance(outcome, Outcome) or outcome.step.step_s >= cost.step_s


def test_the_cost_is_that_of_simulating_what_runs():
    plan, workload = replace(PIPED, interleave=2), replace(WORKLOAD, seq=4096)
    launch = launchers["deepspeed"](workload, CLUSTER, plan)
    [cost] = costs(launch, workload, CLUSTER, plan)
    _, run = as_run(workload, plan, launch.missing)
    run = replace(run, framework=framework_name("deepspeed"))
    assert (run.interleave, run.layers_per_stage) == (1, ())
    here, there = (
        evaluate(workload, CLUSTER, plan, has_changes=False),
        evaluate(workload, CLUSTER, run, has_changes=False),
    )
    assert isinstance(here, Outcome)
    assert isinstance(there, Outcome)
    assert (cost.requested_step_s, cost.step_s) == (here.step.step_s, there.step.step_s)
    assert cost.need_bytes == there.memory.need_bytes
    assert cost.slowdown_frac == pytest.approx(there.step.step_s / here.step.step_s - 1)


def test_what_does_not_fit_as_it_runs_is_said():
    [cost] = costs(
        launchers["deepspeed"](WORKLOAD, CLUSTER, replace(PIPED, interleave=2)),
        WORKLOAD,
        CLUSTER,
        replace(PIPED, interleave=2),
    )
    words = replace(cost, need_bytes=2 * cost.limit_bytes).words
    assert "but it does not fit: 152.0 GiB of 76.0 GiB usable" in words
