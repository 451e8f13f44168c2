"""Laws of time: more of a resource never hurts, parts add up, bounds are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.comm.collectives import collectives
from dovetail.comm.dispatch import deduplicated_dispatch_s
from dovetail.cost.cost import Cost
from dovetail.evaluate import Outcome, evaluate
from dovetail.hardware.catalog import chips
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.link import Link
from dovetail.hardware.topology import DIMENSION_KINDS, Dimension, Span, Topology
from dovetail.parallel.plan import CONTEXT_COMM_TYPES, RECOMPUTE_POLICIES, Overlap, Plan
from dovetail.parallel.sharding import shard
from dovetail.step.step import PlanSteps, training_step
from dovetail.units import GIGA, MICRO
from dovetail.workload.graph import Graph
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload

PRECISION = Precision()
GROUPED = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all")


def cluster_of(num_nodes: int, kind: str = "fat-tree") -> Cluster:
    inner = Dimension(
        name="inner", kind="switch", num_devices=8, link=Link(bandwidth_bytes_per_s=450 * GIGA, latency_s=2 * MICRO)
    )
    outer = Dimension(
        name="outer", kind=kind, num_devices=num_nodes, link=Link(bandwidth_bytes_per_s=50 * GIGA, latency_s=5 * MICRO)
    )
    return Cluster(name="test", chip=chips["h100-sxm"](), topology=Topology(dimensions=(inner, outer)), sources=())


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Plans of 64 devices for an 8-layer model."""
    tensor = draw(st.sampled_from((1, 2, 4, 8)))
    pipeline = draw(st.sampled_from((1, 2, 4)))
    context = draw(st.sampled_from((1, 2)))
    interleave = draw(st.sampled_from((1, 2))) if pipeline > 1 else 1
    flags = {field.name: draw(st.booleans()) for field in fields(Overlap)}
    experts = draw(st.sampled_from((1, 2, 4)))
    exchanges = [e for e in CONTEXT_COMM_TYPES if e != "all-to-all" or tensor * context <= 8]  # key-value heads
    return Plan(
        tensor_parallel=tensor,
        sequence_parallel=True,
        context_parallel=context,
        context_comm_type=draw(st.sampled_from(exchanges)),
        pipeline_parallel=pipeline,
        interleave=interleave,
        data_parallel=64 // (tensor * pipeline * context),
        expert_parallel=experts,
        expert_tensor_parallel=1,
        dispatcher=draw(st.sampled_from(("all-to-all", "deepep", "hybridep", "all-gather"))),
        zero_stage=draw(st.integers(0, 3)),
        recompute=(draw(st.sampled_from(RECOMPUTE_POLICIES)),),
        axis_order=tuple(draw(st.permutations(("tp", "cp", "dp", "pp")))),
        overlap=Overlap(**flags),
    )


@cache
def workload_of(name: str) -> Workload:
    model = models[name]()
    short = replace(model, architecture=replace(model.architecture, num_layers=8))  # type: ignore[type-var]
    return Workload(model=short, global_batch=512, seq=1024)


@cache
def graph_of(name: str) -> Graph:
    return workload_of(name).training_graph()


def step_s(graph: Graph, plan: Plan, cluster: Cluster) -> float:
    return float(training_step(graph, plan, cluster, PRECISION).step_s)


def steps_s(graph: Graph, plan: Plan, clusters: Sequence[Cluster]) -> list[float]:
    """The plan's step on each of them, sharded once."""
    return PlanSteps(shard(graph, plan), PRECISION).steps_s(clusters)


def better(cluster: Cluster, resource: str, factor: float) -> Cluster:
    chip = cluster.chip
    hbm = replace(chip.hbm, bandwidth_bytes_per_s=chip.hbm.bandwidth_bytes_per_s * factor)
    sram = replace(chip.sram, bandwidth_bytes_per_s=chip.sram.bandwidth_bytes_per_s * factor)
    vector = replace(chip.vector, peak_flop_per_s=chip.vector.peak_flop_per_s * factor)
    launch = replace(chip.calibration, launch_s=chip.calibration.launch_s / factor)
    return {
        "tensor": replace(cluster, chip=replace(chip, tensor=chip.tensor.scaled(factor))),
        "vector": replace(cluster, chip=replace(chip, vector=vector)),
        "hbm": replace(cluster, chip=replace(chip, hbm=hbm)),
        "launch": replace(cluster, chip=replace(chip, calibration=launch)),
        "sram": replace(cluster, chip=replace(chip, sram=sram)),
        "power": replace(cluster, chip=replace(chip, tdp_w=factor * chip.tdp_w)),
        "inner": replace(cluster, topology=cluster.topology.with_link_scaled("inner", factor)),
        "outer": replace(cluster, topology=cluster.topology.with_link_scaled("outer", factor)),
    }[resource]


@pytest.mark.parametrize("resource", ["tensor", "vector", "hbm", "launch", "sram", "power", "inner", "outer"])
@given(
    plan=plans(),
    factor=st.floats(1.0, 100.0),
    name=st.sampled_from(("llama3-8b", "mixtral-8x7b")),
    kind=st.sampled_from(DIMENSION_KINDS),
)
def test_more_of_a_resource_never_takes_longer(resource: str, plan: Plan, factor: float, name: str, kind: str) -> None:
    cluster = cluster_of(8, kind)
    graph, chosen = graph_of(name), replace(plan, expert_parallel=1) if name == "llama3-8b" else plan
    own_s, better_s = steps_s(graph, chosen, (cluster, better(cluster, resource, factor)))
    assert better_s <= own_s * (1 + 1e-12)  # style: a tolerance


@pytest.mark.parametrize("resource", ["sram", "power", "vector"])
@settings(max_examples=15)
@given(data=st.data(), factor=st.floats(1.0, 4.0))
def test_more_of_a_resource_never_slows_any_schedule(resource: str, data: st.DataObject, factor: float) -> None:
    """Decision 98; of all resources, `python -m benchmarks.monotonicity`."""
    plan, cluster, graph = data.draw(pipelined()), cluster_of(4), graph_of("llama3-8b")
    own_s, better_s = steps_s(graph, plan, (cluster, better(cluster, resource, factor)))
    assert better_s <= own_s * (1 + 1e-9)  # style: a tolerance


@st.composite
def pipelined(draw: st.DrawFn) -> Plan:
    """Plans of 32 devices for an 8-layer model, whose stages recompute some of their layers, by any schedule."""
    schedule, interleave = draw(
        st.sampled_from((("1f1b", 1), ("1f1b", 2), ("gpipe", 1), ("zb-h1", 1), ("zb-v", 2), ("dualpipe", 1)))
    )
    pipeline = draw(st.sampled_from((2, 4)))
    held = 8 // pipeline * (2 if schedule == "dualpipe" else 1)
    return Plan(
        pipeline_parallel=pipeline,
        interleave=interleave,
        schedule=schedule,
        data_parallel=32 // pipeline,
        zero_stage=draw(st.sampled_from((0, 1))),
        recompute=(draw(st.sampled_from(RECOMPUTE_POLICIES[1:])),),
        recompute_layers=tuple(draw(st.lists(st.integers(0, held), min_size=pipeline, max_size=pipeline))),
    )


@settings(max_examples=30, deadline=None)
@given(plan=pipelined(), batch=st.sampled_from((128, 256)))
def test_recomputing_less_never_takes_longer(plan: Plan, batch: int) -> None:
    graph = replace(workload_of("llama3-8b"), global_batch=batch).training_graph()
    again = step_s(graph, plan, cluster_of(4))
    bare = replace(plan, recompute=("none",), recompute_layers=())
    # a stage that recomputes draws less in the mean, so its clock is higher, and a zero-bubble stage may have waited
    spare_frac = 1e-9 if plan.schedule in ("1f1b", "gpipe") and plan.interleave == 1 else 0.001
    assert step_s(graph, bare, cluster_of(4)) <= again * (1 + spare_frac)


@given(plan=plans())
def test_the_parts_of_a_step_add_up(plan: Plan) -> None:
    cluster = cluster_of(8)
    step = training_step(graph_of("mixtral-8x7b"), plan, cluster, PRECISION)
    parts_s = step.compute_s + step.host_s + step.exposed_s + step.bubble_s + step.update_s
    assert parts_s == pytest.approx(step.step_s)
    assert step.host_s >= 0
    assert 0 < step.clock_frac <= 1
    assert step.bubble_s >= -1e-12 * step.step_s  # style: a tolerance
    assert all(comm.exposed_s >= 0 and comm.hidden_s >= 0 for comm in step.comm)
    assert sum(step.limits_s) == pytest.approx(step.compute_s)


@settings(max_examples=20)  # an evaluation asks a dozen steps what limits them
@given(plan=plans())
def test_no_step_beats_what_its_chips_sustain(plan: Plan) -> None:
    cluster = cluster_of(8)
    outcome = evaluate(workload_of("llama3-8b"), cluster, replace(plan, expert_parallel=1), has_changes=False)
    if isinstance(outcome, Outcome):
        assert 0 < outcome.mfu_frac < 1
        assert outcome.hfu_frac <= cluster.chip.calibration.tensor_frac


@given(plan=plans())
def test_overlapping_more_never_takes_longer(plan: Plan) -> None:
    cluster = cluster_of(8)
    everything = Overlap(**dict.fromkeys((field.name for field in fields(Overlap)), True))
    graph = graph_of("mixtral-8x7b")
    overlapped_s = step_s(graph, replace(plan, overlap=everything), cluster)
    assert overlapped_s <= step_s(graph, plan, cluster) * (1 + 1e-12)  # style: a tolerance


costs = st.builds(
    Cost,
    **{field.name: st.floats(0, 1) for field in fields(Cost)},
)


@given(a=costs, b=costs)
def test_costs_add_up_like_numbers(a: Cost, b: Cost) -> None:
    assert a + Cost() == a
    assert a + b == b + a
    assert 2 * a == a + a


@st.composite
def groups(draw: st.DrawFn) -> tuple[Span, ...]:
    spans = []
    for index in range(draw(st.integers(1, 3))):
        size = draw(st.sampled_from((2, 3, 4, 8, 16)))
        link = Link(bandwidth_bytes_per_s=draw(st.floats(1, 1000)) * GIGA, latency_s=draw(st.floats(0, 10)) * MICRO)
        kind = draw(st.sampled_from(DIMENSION_KINDS))
        dimension = Dimension(name=str(index), kind=kind, num_devices=size, link=link)
        part = draw(st.sampled_from([n for n in (2, 3, 4, 8, 16) if size % n == 0]))
        stride = draw(st.sampled_from([s for s in (1, 2, 4) if (size // part) % s == 0]))
        spans.append(Span(dimension=dimension, num_ranks=part, stride=stride))
    return tuple(spans)


@pytest.mark.parametrize("name", GROUPED)
@given(group=groups(), payload_bytes=st.floats(1, 1e12), factor=st.floats(1, 10))  # style: a range of sizes
def test_a_collective_never_beats_its_ports_and_never_falls_with_size(
    name: str, group: tuple[Span, ...], payload_bytes: float, factor: float
) -> None:
    collective = collectives[name]
    time_s = collective(payload_bytes, group, 1.0)
    assert collective(payload_bytes * factor, group, 1.0) >= time_s
    num_ranks = 1
    for span in group:
        num_ranks *= span.num_ranks
    ports_bytes_per_s = sum(span.dimension.link.bandwidth_bytes_per_s for span in group)
    share = 2 if name == "all-reduce" else 1
    bound_s = share * (num_ranks - 1) / num_ranks * payload_bytes / ports_bytes_per_s
    assert time_s >= bound_s * (1 - 1e-9)  # style: a tolerance


@given(group=groups(), payload_bytes=st.floats(1, 1e12), num_copies=st.integers(1, 8))  # style: a range of sizes
def test_rows_sent_once_never_take_longer_than_every_copy_of_them(
    group: tuple[Span, ...], payload_bytes: float, num_copies: int
) -> None:
    per_step_s = deduplicated_dispatch_s(payload_bytes, group, 0.8, None, num_copies)
    assert per_step_s <= collectives["all-to-all"](payload_bytes, group, 0.8) * (1 + 1e-12)  # style: a tolerance
    assert per_step_s >= deduplicated_dispatch_s(payload_bytes, group, 0.8, None, num_copies + 1) * (
        1 - 1e-12
    )  # style: same


@given(group=groups(), payload_bytes=st.floats(1, 1e12))  # style: a range of sizes
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(group: tuple[Span, ...], payload_bytes: float) -> None:
    parts_s = collectives["reduce-scatter"](payload_bytes, group, 0.8) + collectives["all-gather"](
        payload_bytes, group, 0.8
    )
    assert collectives["all-reduce"](payload_bytes, group, 0.8) == pytest.approx(parts_s)
