"""Many plans evaluated at once: each gets what it gets alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.columns import distinct
from dovetail.errors import InvalidInput
from dovetail.hardware.catalog import chips
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension, Topology
from dovetail.parallel.check import check_plan
from dovetail.parallel.placement import placement
from dovetail.parallel.plan import AXES, CONTEXT_COMM_TYPES, RECOMPUTE_POLICIES, Overlap, Plan, columns_of
from dovetail.step.pipelines import PipelineShape, StageTimes, check_schedule, pipelines
from dovetail.step.step import Step, step_times, training_step, training_steps
from dovetail.units import GIGA, MICRO
from dovetail.workload.graph import Graph
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph

BATCH, NUM_DEVICES = 64, 64
MODELS = ("gpt2-345m", "llama3-8b", "mixtral-8x7b", "deepseek-v3", "resnet-50", "dlrm")
SCHEDULES = tuple(name for name in pipelines.names() if name != "interleaved")
PRECISION = Precision()
CLOSE = 1e-9


@lru_cache
def graph_of(name: str) -> Graph:
    """A catalogue model; transformers with 12 layers, so that stages are even and uneven, and examples quick."""
    model = models[name]()
    if hasattr(model.architecture, "num_layers"):
        dense = {"num_dense_layers": 2} if name == "deepseek-v3" else {}
        model = replace(model, architecture=replace(model.architecture, num_layers=12, **dense))  # type: ignore[type-var]
    sample = Sample(batch=BATCH, seq=min(model.seq, 1024), dtype="bf16", kernels="fused")
    return training_graph(model.forward(sample), PRECISION)


@lru_cache
def cluster_of(kinds: tuple[str, str]) -> Cluster:
    link = Link(bandwidth_bytes_per_s=100 * GIGA, latency_s=2 * MICRO)
    inner, outer = (Dimension(name=f"{i} {kind}", kind=kind, num_devices=8, link=link) for i, kind in enumerate(kinds))
    return Cluster(name="test", chip=chips["h100-sxm"](), topology=Topology(dimensions=(inner, outer)), sources=())


CLUSTERS = (("switch", "fat-tree"), ("bidirectional-ring", "bidirectional-ring"))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    tensor, stages = draw(st.sampled_from((1, 2, 4, 8))), draw(st.sampled_from((1, 2, 4, 8)))
    context = draw(st.sampled_from((1, 1, 2)))
    schedule = draw(st.sampled_from(SCHEDULES))
    chunks = {"1f1b": (1, 2, 3), "zb-v": (2,)}.get(schedule, (1,)) if stages > 1 else (1,)
    experts = draw(st.sampled_from((1, 1, 2, 4)))
    return Plan(
        tensor_parallel=tensor,
        sequence_parallel=draw(st.booleans()),
        context_parallel=context,
        context_comm_type=draw(st.sampled_from(CONTEXT_COMM_TYPES)),
        pipeline_parallel=stages,
        interleave=draw(st.sampled_from(chunks)),
        data_parallel=max(1, NUM_DEVICES // (tensor * context * stages)),
        expert_parallel=experts,
        expert_tensor_parallel=draw(st.sampled_from((1, tensor))),
        dispatcher=draw(st.sampled_from(("all-to-all", "deepep", "hybridep", "all-gather"))),
        zero_stage=draw(st.integers(0, 3)),
        microbatch=draw(st.sampled_from((1, 1, 2))),
        recompute=(draw(st.sampled_from(RECOMPUTE_POLICIES)),),
        schedule=schedule,
        axis_order=tuple(draw(st.permutations(AXES))),
        overlap=Overlap(**{field.name: draw(st.booleans()) for field in fields(Overlap)}),
    )


def runnable(drawn: list[Plan], graph: Graph, cluster: Cluster) -> Iterator[Plan]:
    for plan in drawn:
        try:
            check_plan(plan, graph, NUM_DEVICES)
            check_schedule(plan, plan.num_microbatches(graph.batch))
            placement(plan, cluster.topology)
        except InvalidInput:
            continue
        yield plan


def amounts(step: Step) -> list[object]:
    """Everything in a step, in some order."""
    comm = [amount for each in (*step.comm, step.offload) for amount in (each.exposed_s, each.hidden_s)]
    names = [field.name for field in fields(Step) if field.name not in ("comm", "offload", "limits_s")]
    return [*(getattr(step, name) for name in names), *comm, *step.limits_s]


@pytest.mark.parametrize("kinds", CLUSTERS)
@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=4, deadline=None)  # each of many plans
@given(drawn=st.lists(plans(), min_size=12, max_size=24))
def test_a_plan_among_many_takes_what_it_takes_alone(name: str, kinds: tuple[str, str], drawn: list[Plan]) -> None:
    graph, cluster = graph_of(name), cluster_of(kinds)
    some = list(runnable(drawn, graph, cluster))
    if not some:
        return
    alone = [training_step(graph, plan, cluster, PRECISION) for plan in some]
    columns = columns_of(some)
    times = step_times(graph, columns, cluster, PRECISION)
    assert times.step_s == pytest.approx([step.step_s for step in alone], rel=CLOSE)
    assert times.energy_j == pytest.approx([step.energy_j for step in alone], rel=CLOSE)
    together = training_steps(graph, columns, cluster, PRECISION)
    for many, each in zip(amounts(together), zip(*map(amounts, alone), strict=True), strict=True):
        within = CLOSE * np.maximum(times.step_s, np.abs(np.array(each, dtype=float)))
        assert np.all(np.abs(many - np.array(each, dtype=float)) <= within)


@pytest.mark.parametrize("name", pipelines.names())
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_stages_in_runs_take_what_they_take_one_by_one(name: str, data: st.DataObject) -> None:
    """Also where plans of different lengths of a step stand side by side."""
    sizes = data.draw(
        st.lists(st.integers(1, 4), min_size=1, max_size=4).filter(lambda found: sum(found) in (2, 4, 6, 8))
    )
    run_of = tuple(index for index, size in enumerate(sizes) for _ in range(size))
    interleave = 3 if name == "interleaved" else 2 if name == "zb-v" else 1
    counts = np.array(data.draw(st.lists(st.integers(2, 5), min_size=3, max_size=3))) * len(run_of)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    forward_s, backward_s = rng.uniform(0.7, 1.3, (2, 3, len(sizes)))
    transfer_s = rng.uniform(0.0, 0.1, 3) * data.draw(st.booleans())
    shape = PipelineShape(num_stages=len(run_of), num_microbatches=counts, interleave=interleave)
    by_run = {"forward_s": forward_s, "backward_s": backward_s, "weight_s": backward_s / 3}
    by_stage = {name: times_s[:, list(run_of)] for name, times_s in by_run.items()}
    found = pipelines[name].pipeline_s(StageTimes(**by_run, transfer_s=transfer_s, stage_run=run_of), shape)
    assert found == pytest.approx(pipelines[name].pipeline_s(StageTimes(**by_stage, transfer_s=transfer_s), shape))


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_distinct_rows_are_those_that_differ(data: st.DataObject) -> None:
    num_rows = data.draw(st.integers(1, 40))
    spread = st.sampled_from((1, 2, 7, 1000, 10**9))
    columns = [
        np.array(data.draw(st.lists(st.integers(-top, top), min_size=num_rows, max_size=num_rows)))
        for top in data.draw(st.lists(spread, min_size=1, max_size=8))
    ]
    first, of_row = distinct(*columns)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    assert [rows[first[index]] for index in of_row] == rows
    assert len(first) == len(set(rows))
    assert first.tolist() == [rows.index(rows[row]) for row in first]
