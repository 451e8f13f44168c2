"""Plans kept to a framework: every row of the ranking is the fastest of its degrees, by evaluating all there are."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from dovetail.errors import DovetailError
from dovetail.evaluate import Outcome, evaluate
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import AXES, Plan
from dovetail.report.launchers.frameworks import launchers
from dovetail.report.launchers.rules import decoder_shape
from dovetail.report.launchers.runnable_spaces import runnable_spaces
from dovetail.search.objectives import objectives
from dovetail.search.planners.candidates import degrees_of
from dovetail.search.planners.constraints import Constraint
from dovetail.search.planners.planner import joined_results
from dovetail.search.planners.runnable_plans import RunnableSpace, search_runnable_plans
from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

CLUSTER = clusters["dgx-h100"].build(8)
FIXED: dict[str, tuple[Any, ...]] = {
    "tensor_parallel": (2, 4),
    "context_parallel": (1,),
    "microbatch": (1,),
    "interleave": (1, 2),
    "sequence_parallel": (True,),
    "zero_stage": (1, 2, 3),
    "axis_order": (AXES,),
    "overlap.data": (True,),
    "overlap.tensor": (False,),
}
NUM_LAYERS = 8
TIGHT = 0.8  # share of memory left free: at some degrees recompute of some layers is the best that fits


def small_model() -> Model:
    model = models["llama3-8b"]()
    shape = decoder_shape(Workload(model=model, global_batch=8, seq=8192))
    assert shape is not None
    return replace(model, architecture=replace(shape, num_layers=NUM_LAYERS))


def space_of(framework: str, version: str, workload: Workload, cluster: Cluster) -> tuple[RunnableSpace, ...]:
    rules = tuple(Constraint(key=key, values=values, where="a test") for key, values in FIXED.items())
    return runnable_spaces(framework, version, workload, cluster, rules)


def every_plan(space: RunnableSpace, framework: str) -> Iterator[Plan]:
    """All plans of a space, and those with full recompute of some layers where the framework has that."""
    own = space.space
    for tp, pp in itertools.product(FIXED["tensor_parallel"], (1, 2, 4)):
        if tp * pp > 8:
            continue
        for zero, size, chunks, policy, order, overlap in itertools.product(
            own.zero_stage, own.microbatch, (1, 2) if pp > 1 else (1,), own.recompute, own.axis_order, own.overlap
        ):
            base = Plan(
                tensor_parallel=tp, sequence_parallel=True, pipeline_parallel=pp, data_parallel=8 // (tp * pp),
                zero_stage=zero, microbatch=size, interleave=chunks, recompute=(policy,), axis_order=order,
                overlap=overlap, framework=framework,
            )  # fmt: skip
            yield base
            if policy == "full" and space.has_partial_recompute:
                yield from (replace(base, recompute_layers=(count,)) for count in range(1, NUM_LAYERS // pp))


@pytest.mark.parametrize(("framework", "version"), [("megatron-lm", ""), ("torchtitan", "0.2.2")])
def test_every_row_is_the_fastest_plan_of_its_degrees(framework: str, version: str):
    cluster = CLUSTER.with_headroom(TIGHT, "a test")
    workload = Workload(model=small_model(), global_batch=8, seq=8192)
    spaces = space_of(framework, launchers[framework].version(version), workload, cluster)
    result = joined_results(
        [
            search_runnable_plans(
                space, cluster, objectives["time"], num_best=10, cluster_usd=1.0, progress=lambda *_: None
            )
            for space in spaces
        ],
        10,
    )
    expected: dict[tuple[int, ...], float] = {}
    for space in spaces:
        for plan in every_plan(space, framework):
            if space.as_run(plan) != (plan,):
                continue
            try:
                outcome = evaluate(space.workload, cluster, plan, has_changes=False)
            except DovetailError:
                continue
            if isinstance(outcome, Outcome):
                key = degrees_of(plan)
                expected[key] = min(expected.get(key, float("inf")), float(outcome.step.step_s))
    found = {degrees_of(one.plan): one.step_s for one in result.best}
    assert any(one.plan.recompute_layers for one in result.best)  # else it shows nothing of them
    assert found == pytest.approx(expected, rel=1e-9)
    assert result.gap_frac == pytest.approx(0.0, abs=1e-9)
