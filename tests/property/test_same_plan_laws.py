"""One plan on clusters that differ in little: sharing what they have in common changes no bit of any answer."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.cost.costs import chip_costs, op_costs
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.hardware.heterogeneous import HeterogeneousCluster
from dovetail.hardware.link import Link
from dovetail.hardware.perturbed import perturbed_clusters
from dovetail.parallel.memory import moments, stage_memories
from dovetail.parallel.plan import Plan
from dovetail.parallel.pools import on_pools
from dovetail.parallel.sharding import shard
from dovetail.step.pipelines import PipelineShape, StageTimes, pipelines
from dovetail.step.step import PlanSteps, training_step
from dovetail.units import GIGA, MICRO
from dovetail.workload.graph import Graph
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph

PRECISION = Precision()
PLANS = {
    "gpt2-345m": (
        Plan(data_parallel=16, zero_stage=3),
        Plan(pipeline_parallel=4, interleave=2, data_parallel=4, recompute=("selective",)),
        Plan(tensor_parallel=2, context_parallel=4, context_comm_type="ring", data_parallel=2, zero_stage=2),
    ),
    "mixtral-8x7b": (
        Plan(tensor_parallel=4, sequence_parallel=True, data_parallel=4, expert_parallel=4, zero_stage=1),
        Plan(tensor_parallel=2, pipeline_parallel=4, data_parallel=2, schedule="zb-h1"),
    ),
}
CASES = [(model, plan) for model, plans in PLANS.items() for plan in plans]


@cache
def graph_of(name: str) -> Graph:
    model = models[name]()
    short = replace(model, architecture=replace(model.architecture, num_layers=8))  # type: ignore[type-var]
    return training_graph(short.forward(Sample(batch=32, seq=1024, dtype="bf16")), PRECISION)


@cache
def cluster(name: str = "dgx-h100", num_devices: int = 16) -> Cluster:
    return clusters[name].build(num_devices)


@pytest.mark.parametrize(("model", "plan"), CASES)
@given(more_frac=st.floats(0.01, 2.0))
@settings(max_examples=3, deadline=None)
def test_steps_on_many_clusters_are_those_of_each_alone(model, plan, more_frac):
    graph, some = graph_of(model), [cluster(), *perturbed_clusters(cluster(), more_frac).values()]
    alone = [training_step(graph, plan, each, PRECISION) for each in some]
    steps = PlanSteps(shard(graph, plan), PRECISION)
    assert steps.steps_s(some) == [step.step_s for step in alone]
    assert [steps.step(each) for each in some] == alone, "broken down after others were timed"


def test_steps_on_clusters_of_several_parts_are_those_of_each_alone():
    between = Link(bandwidth_bytes_per_s=20 * GIGA, latency_s=8 * MICRO)
    parts = (cluster("dgx-h100", 8), cluster("dgx-a100", 8))
    whole = HeterogeneousCluster(name="mixed", pools=parts, between=between)
    faster = [replace(whole, pools=(first, parts[1])) for first in perturbed_clusters(parts[0], 0.1).values()] + [
        replace(whole, between=replace(between, latency_s=4 * MICRO))
    ]
    graph, plan = graph_of("gpt2-345m"), Plan(tensor_parallel=4, pipeline_parallel=4, data_parallel=1)
    steps = PlanSteps(shard(graph, on_pools(plan, whole)), PRECISION)
    assert steps.steps_s([whole, *faster]) == [
        training_step(graph, plan, each, PRECISION).step_s for each in (whole, *faster)
    ]


def test_chips_that_are_costed_together_cost_what_each_costs_alone():
    ops = graph_of("mixtral-8x7b").blocks[1].ops
    some = [cluster(name).chip for name in ("dgx-h100", "dgx-a100", "tpu-v4-pod")]
    some += [each.chip for each in perturbed_clusters(cluster(), 0.1).values()]
    for chip, costs in zip(some, chip_costs(ops, some), strict=True):
        alone = op_costs(ops, chip)
        assert all(np.array_equal(getattr(costs, name), getattr(alone, name)) for name in ("compute_s", "energy_j"))


@pytest.mark.parametrize(("model", "plan"), CASES)
def test_stages_looked_at_together_hold_what_each_holds(model, plan):
    sharded = shard(graph_of(model), plan)
    held = [1.0 + stage for stage in range(sharded.num_stages)]
    alone = [moments(sharded, stage, PRECISION, held[stage]) for stage in range(sharded.num_stages)]
    peaks = tuple(max(each, key=lambda memory: memory.reserved_bytes) for each in alone)
    assert stage_memories(sharded, PRECISION, held) == peaks


@pytest.mark.parametrize("name", pipelines.names())
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_a_pipeline_alone_takes_what_it_takes_beside_another(name, data):
    seconds = st.floats(0.1, 1.0)
    forward_s, backward_s = (np.array(data.draw(st.lists(seconds, min_size=4, max_size=4))) for _ in range(2))
    transfer_s = data.draw(st.sampled_from((0.0, 0.05)))
    chunks = {"interleaved": 2, "zb-v": 2, "dualpipe": 2}.get(name, 1)

    def step_s(num_plans: int) -> np.ndarray:
        times = StageTimes(
            forward_s=np.tile(forward_s, (num_plans, 1)),
            backward_s=np.tile(backward_s, (num_plans, 1)),
            weight_s=np.tile(backward_s / 2, (num_plans, 1)),
            transfer_s=np.full(num_plans, transfer_s),
        )
        shape = PipelineShape(num_stages=4, num_microbatches=np.full(num_plans, 16), interleave=chunks)
        return pipelines[name].pipeline_s(times, shape)

    assert step_s(1)[0] == pytest.approx(step_s(3)[1], rel=1e-12)
