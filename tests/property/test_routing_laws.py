"""Laws of routing: a fuller device is never faster and never needs less, and a capacity is never exceeded."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.evaluate import memory_use
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import RECOMPUTE_POLICIES, Overlap, Plan, columns_of
from dovetail.parallel.sharding import shard
from dovetail.step.step import step_times, training_step
from dovetail.workload.graph import Graph
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.routing import Routing
from dovetail.workload.workload import Workload

CLUSTER = clusters["dgx-h100"].build(32)
PRECISION = Precision()
EQUAL = 1e-12  # of two sums of the same numbers in another order


@cache
def even(name: str) -> Graph:
    model = models[name]()
    dense = {"num_dense_layers": 1} if name == "deepseek-v3" else {}
    short = replace(model, architecture=replace(model.architecture, num_layers=4, **dense))  # type: ignore[type-var]
    return Workload(model=short, global_batch=64, seq=2048).training_graph()


def routed(name: str, **changes: float | bool) -> Graph:
    return replace(even(name), routing=Routing(**changes))  # type: ignore[arg-type]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    tensor, pipeline = draw(st.sampled_from((1, 2, 4))), draw(st.sampled_from((1, 2)))
    return Plan(
        tensor_parallel=tensor,
        sequence_parallel=True,
        pipeline_parallel=pipeline,
        data_parallel=32 // (tensor * pipeline),
        expert_parallel=draw(st.sampled_from((1, 2, 4))),
        expert_tensor_parallel=draw(st.sampled_from((1, tensor))),
        dispatcher=draw(st.sampled_from(("all-to-all", "deepep", "hybridep", "all-gather"))),
        zero_stage=draw(st.integers(0, 3)),
        recompute=(draw(st.sampled_from(RECOMPUTE_POLICIES)),),
        overlap=Overlap(expert=draw(st.booleans()), routing=draw(st.booleans())),
    )


def step_s(graph: Graph, plan: Plan) -> float:
    return float(training_step(graph, plan, CLUSTER, PRECISION).step_s)


NAMES = st.sampled_from(("mixtral-8x7b", "deepseek-v3"))
IMBALANCES = st.floats(1.0, 10.0)
CAPACITIES = st.sampled_from((0.0, 1.0, 1.25, 2.0))


@settings(max_examples=20, deadline=None)
@given(name=NAMES, plan=plans(), less=IMBALANCES, more=IMBALANCES, capacity=CAPACITIES)
def test_a_fuller_device_is_never_faster_and_never_needs_less(
    name: str, plan: Plan, less: float, more: float, capacity: float
) -> None:
    graphs = [routed(name, expert_imbalance=i, capacity_factor=capacity) for i in sorted((less, more))]
    first_s, second_s = (step_s(graph, plan) for graph in graphs)
    assert second_s >= first_s * (1 - EQUAL)
    first, second = (memory_use(shard(graph, plan), PRECISION, 1.0).need_bytes for graph in graphs)
    assert second >= first


@settings(max_examples=20, deadline=None)
@given(name=NAMES, plan=plans(), imbalance=IMBALANCES, capacity=st.floats(1.0, 3.0))
def test_no_imbalance_costs_more_than_the_capacity_and_padding_costs_all_of_it(
    name: str, plan: Plan, imbalance: float, capacity: float
) -> None:
    capped = step_s(routed(name, expert_imbalance=imbalance, capacity_factor=capacity), plan)
    padded = step_s(routed(name, expert_imbalance=imbalance, capacity_factor=capacity, pads_to_capacity=True), plan)
    assert capped <= padded * (1 + EQUAL)
    if capacity <= min(imbalance, plan.expert_parallel):
        assert capped == pytest.approx(padded, rel=EQUAL)
    assert capped <= step_s(routed(name, expert_imbalance=imbalance), plan) * (1 + EQUAL)


@settings(max_examples=20, deadline=None)
@given(name=NAMES, plan=plans(), capacity=st.one_of(st.just(0.0), st.floats(1.0, 3.0)))
def test_an_even_routing_is_as_none(name: str, plan: Plan, capacity: float) -> None:
    assert step_s(routed(name, capacity_factor=capacity), plan) == step_s(even(name), plan)


@settings(max_examples=15, deadline=None)
@given(name=NAMES, some=st.lists(plans(), min_size=2, max_size=6), imbalance=IMBALANCES)
def test_a_plan_among_many_takes_what_it_takes_alone(name: str, some: list[Plan], imbalance: float) -> None:
    graph = routed(name, expert_imbalance=imbalance)
    together = step_times(graph, columns_of(some), CLUSTER, PRECISION).step_s
    assert together == pytest.approx([step_s(graph, plan) for plan in some], rel=1e-9)
