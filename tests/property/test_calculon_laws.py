"""What the bar over Calculon's space rests on: flags that only ever lower time, and those that only ever add to it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from benchmarks.bar_planner_calculon import RECORDED_PLANS, Shape, counted, space
from dovetail.errors import InvalidInput
from dovetail.hardware.clusters import clusters
from dovetail.parallel.check import check_plan
from dovetail.parallel.plan import Overlap, Plan
from dovetail.step.pipelines import check_schedule
from dovetail.step.step import Step, training_step
from dovetail.workload.graph import Graph
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

CLUSTER = clusters["dgx-a100"].build(16)
GPT3 = Shape(hidden=12288, num_heads=96, num_layers=96, batch=1536)  # Brown et al. 2020, table 2.1; its A100 example


@cache
def workload() -> Workload:
    model = models["gpt3-175b"]()
    short = replace(model, architecture=replace(model.architecture, num_layers=8))  # type: ignore[type-var]
    return Workload(model=short, global_batch=64, seq=2048)


@cache
def graph() -> Graph:
    return workload().training_graph()


def step(plan: Plan) -> Step:
    return training_step(graph(), plan, CLUSTER, workload().precision)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    tensor, stages = draw(st.sampled_from((1, 2, 4))), draw(st.sampled_from((1, 2, 4)))
    plan = Plan(
        tensor_parallel=tensor,
        sequence_parallel=tensor > 1 and draw(st.booleans()),
        pipeline_parallel=stages,
        interleave=draw(st.sampled_from((1, 2))) if stages > 1 else 1,
        data_parallel=16 // (tensor * stages),
        zero_stage=draw(st.sampled_from((0, 1))),
        microbatch=draw(st.sampled_from((1, 2))),
        recompute=(draw(st.sampled_from(("none", "selective", "full"))),),
        overlap=Overlap(data=draw(st.booleans()), tensor=draw(st.booleans())),
    )
    try:
        check_plan(plan, graph(), CLUSTER.num_devices)
        check_schedule(plan, plan.num_microbatches(graph().batch))
    except InvalidInput:
        reject()
    return plan


@settings(max_examples=15, deadline=None)
@given(plans(), st.sampled_from(("data", "tensor")))
def test_letting_communication_overlap_never_makes_a_step_longer(plan, name):
    off, on = (replace(plan, overlap=replace(plan.overlap, **{name: does})) for does in (False, True))
    assert step(on).step_s <= step(off).step_s * (1 + 1e-12)


@settings(max_examples=15, deadline=None)
@given(plans(), st.booleans(), st.sampled_from((0.5, 1.0)))
def test_keeping_things_on_the_host_never_makes_a_step_shorter(plan, is_optimizer, frac):
    away = replace(plan, offload_optimizer=is_optimizer, offload_activations_frac=0.0 if is_optimizer else frac)
    if away.recompute == ("full",) and not is_optimizer:
        reject()
    assert step(away).step_s >= step(plan).step_s * (1 - 1e-12)


def test_the_flags_multiply_to_the_recorded_number_of_plans():
    found = counted(GPT3, 512)
    assert found.num_all == pytest.approx(RECORDED_PLANS, rel=0.005)
    assert found.num_covered > found.num_all // 4
    assert found.num_refused + 2 * (found.num_covered + found.num_kept_whole) == found.num_all  # half with weights away


def test_every_axis_may_be_innermost_and_every_flag_is_looked_at():
    asked = space(GPT3)
    assert {order[0] for order in asked.axis_order} == {"tp", "dp", "pp"}
    assert len(asked.axis_order) == 6
    assert {(one.data, one.tensor) for one in asked.overlap} == {(a, b) for a in (True, False) for b in (True, False)}
    assert len(asked.by_offload) == 4
