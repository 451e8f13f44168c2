"""What collectives and hosts cost a step beside compute."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dovetail.comm.alphabeta import all_to_all_s
from dovetail.comm.collectives import collectives
from dovetail.comm.dispatch import deduplicated_dispatch_s
from dovetail.cost.op_cost import LIMITS
from dovetail.hardware.catalog import chips
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Topology
from dovetail.parallel.placement import placement, placements_of
from dovetail.parallel.plan import Overlap, Plan, columns_of
from dovetail.step.stage_columns import ParameterElements, gradient_sync
from dovetail.step.step import Step, assembly_of, training_step
from dovetail.step.work import COMM_AXES, HELD_FRAC
from dovetail.units import MEGA, MICRO, MILLI, PETA
from dovetail.workload.graph import Graph
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload
from tests.links_alone import links_alone

CLUSTER = links_alone(clusters["dgx-h100"].build(16))
TENSOR = Plan(tensor_parallel=8, data_parallel=2)
EXPERTS = Plan(data_parallel=16, expert_parallel=8)


@cache
def graph(name: str, kernels: str = "fused", num_layers: int = 4) -> Graph:
    model = models[name]()
    short = replace(model, architecture=replace(model.architecture, num_layers=num_layers))  # type: ignore[type-var]
    return Workload(model=short, global_batch=32, seq=1024, kernels=kernels).training_graph()


def step(plan: Plan, name: str = "llama3-8b", cluster: Cluster = CLUSTER, kernels: str = "fused") -> Step:
    return training_step(graph(name, kernels), plan, cluster, Precision())


def calibrated(**changes: float) -> Cluster:
    calibration = replace(CLUSTER.chip.calibration, **changes)  # type: ignore[arg-type]
    return replace(CLUSTER, chip=replace(CLUSTER.chip, calibration=calibration))


def exposed_s(found: Step, axis: str) -> float:
    return float(found.comm[COMM_AXES.index(axis)].exposed_s)


def hidden_s(found: Step, axis: str) -> float:
    return float(found.comm[COMM_AXES.index(axis)].hidden_s)


def test_every_collective_of_a_microbatch_pays_its_start():
    free, started = (step(TENSOR, cluster=calibrated(exchange_s=s), kernels="compiled") for s in (0.0, MILLI))
    # two all-reduces a layer each way and those of embedding and loss, 16 microbatches
    num_calls = (exposed_s(started, "tp") - exposed_s(free, "tp")) / MILLI
    assert num_calls == pytest.approx(round(num_calls))
    assert num_calls >= 16 * 4 * 4


def test_calling_a_collective_takes_the_host_its_time():
    quick, slow = (step(TENSOR, cluster=calibrated(host_exchange_s=s), kernels="eager") for s in (0.0, MILLI))
    assert slow.host_s > quick.host_s
    alone = Plan(data_parallel=16)
    assert step(alone, cluster=calibrated(host_exchange_s=MILLI)).host_s == step(alone).host_s


def test_launches_that_are_waited_for_put_the_host_between_the_kernels_of_the_device():
    beside, turns = step(TENSOR), step(replace(TENSOR, overlap=Overlap(host=False)))
    assert turns.step_s > beside.step_s
    launch = LIMITS.index("launch")
    assert turns.limits_s[launch] > beside.limits_s[launch]
    assert sum(turns.limits_s) == pytest.approx(turns.compute_s)


def test_blocked_hosts_that_meet_at_collectives_wait_for_the_last_of_them():
    def waited_s(plan: Plan) -> float:
        blocked = step(replace(plan, overlap=Overlap(host=False)), kernels="eager")
        launch = LIMITS.index("launch")
        return float(blocked.limits_s[launch] - step(plan, kernels="eager").limits_s[launch])

    # the same operators in half the microbatches, and eight hosts whose last one takes 1 + 1/2 + ... + 1/8 of the mean
    harmonic = sum(1 / rank for rank in range(1, 9))
    lone = Plan(tensor_parallel=1, data_parallel=16)
    assert waited_s(TENSOR) / 16 > harmonic * 0.95 * waited_s(lone) / 2


def test_a_host_that_must_see_how_rows_were_routed_is_waited_for_in_blocks_of_experts_alone():
    unseen = Overlap(routing=False)
    assert step(replace(EXPERTS, overlap=unseen), "mixtral-8x7b").step_s > step(EXPERTS, "mixtral-8x7b").step_s
    assert step(replace(TENSOR, overlap=unseen)).step_s == step(TENSOR).step_s
    together = replace(EXPERTS, expert_parallel=1)  # nothing is sent, so nothing is waited for
    assert step(replace(together, overlap=unseen), "mixtral-8x7b").step_s == step(together, "mixtral-8x7b").step_s


def test_rows_that_are_sent_once_take_less_of_the_network():
    """Of two experts a device: a token's two experts are on one device at times, and it is sent there once."""
    shared = replace(EXPERTS, expert_parallel=4)
    plain, once = (step(replace(shared, dispatcher=name), "mixtral-8x7b") for name in ("all-to-all", "deepep"))
    assert exposed_s(once, "ep") < exposed_s(plain, "ep")
    assert once.compute_s == pytest.approx(plain.compute_s, rel=0.01)


def test_of_copies_for_one_place_one_is_sent():
    """Two copies for two nodes of eight: 2 (1 - 1/4) = 1.5 of 2 copies cross between nodes."""
    group = placement(replace(EXPERTS, expert_parallel=16), CLUSTER.topology).expert
    outer = group[-1]
    whole_s = deduplicated_dispatch_s(64 * MEGA, (outer,), 0.8, None, 1)
    assert whole_s == pytest.approx(collectives["all-to-all"](64 * MEGA, (outer,), 0.8))
    latency_s = deduplicated_dispatch_s(0.0, (outer,), 0.8, None, 1)
    twice_s = deduplicated_dispatch_s(64 * MEGA, (outer,), 0.8, None, 2)
    assert (twice_s - latency_s) / (whole_s - latency_s) == pytest.approx(1.5 / 2)


def test_copies_for_several_devices_of_a_node_cross_to_it_once_and_are_handed_out_there():
    """Two copies, of which 1.5 cross to two nodes and 16 (1 - (15/16)^2) = 1.9375 reach sixteen devices."""
    inner, outer = placement(replace(EXPERTS, expert_parallel=16), CLUSTER.topology).expert
    found_s = deduplicated_dispatch_s(64 * MEGA, (inner, outer), 0.8, None, 2)
    crossing_s = all_to_all_s(64 * MEGA * 1.5 / 2, outer, 0.8)
    assert found_s == pytest.approx(crossing_s + all_to_all_s(0.0, inner, 0.8))  # while the slower network brings more
    fast = replace(outer, dimension=replace(outer.dimension, link=Link(bandwidth_bytes_per_s=PETA, latency_s=0.0)))
    handed_s = all_to_all_s(64 * MEGA * 1.9375 / 2, inner, 0.8)
    assert deduplicated_dispatch_s(64 * MEGA, (inner, fast), 0.8, None, 2) == pytest.approx(handed_s)


def test_expert_exchange_that_runs_beside_compute_hides_behind_all_of_it():
    """Another microbatch computes meanwhile, so more than the experts' own compute covers it."""
    waiting, beside = (step(replace(EXPERTS, overlap=Overlap(expert=flag)), "mixtral-8x7b") for flag in (False, True))
    assert exposed_s(beside, "ep") < 0.2 * exposed_s(waiting, "ep")
    slow = replace(CLUSTER, topology=CLUSTER.topology.with_link_scaled("nvlink", 0.02))
    cut = replace(EXPERTS, overlap=Overlap(expert=True))
    held = step(cut, "mixtral-8x7b", cluster=slow)
    hidden_s = held.comm[COMM_AXES.index("ep")].hidden_s
    assert 0.5 * held.compute_s < hidden_s <= held.compute_s  # all compute is used up before any is waited for


def test_tensor_ranks_that_hold_the_same_hand_a_part_each_to_the_next_stage():
    plan = Plan(tensor_parallel=8, pipeline_parallel=2, overlap=Overlap(pipeline=False))
    slow = replace(CLUSTER, topology=CLUSTER.topology.with_link_scaled("infiniband", 0.01))
    same, parts = (step(replace(plan, sequence_parallel=flag), cluster=slow) for flag in (False, True))
    # under sequence parallelism each holds a part anyway: the slow network carries as much either way
    assert exposed_s(same, "pp") == pytest.approx(exposed_s(parts, "pp"), rel=0.05)
    near = replace(CLUSTER, topology=_same_everywhere(slow.topology))
    gathered, held = (step(replace(plan, sequence_parallel=flag), cluster=near) for flag in (False, True))
    assert exposed_s(gathered, "pp") > 1.5 * exposed_s(held, "pp")  # and here gathering the parts shows


def _same_everywhere(topology: Topology) -> Topology:
    """All links as slow as the outermost."""
    outer = topology.dimensions[-1].link
    return replace(topology, dimensions=tuple(replace(d, link=outer) for d in topology.dimensions))


@pytest.mark.parametrize("interleave", [1, 2])
def test_a_stage_that_waits_for_transfers_waits_for_those_of_each_chunk(interleave):
    plan = Plan(pipeline_parallel=2, data_parallel=8, interleave=interleave, overlap=Overlap(pipeline=False))
    found = step(plan)
    parts_s = found.compute_s + found.host_s + found.exposed_s + found.bubble_s + found.update_s
    assert parts_s == pytest.approx(found.step_s)
    assert found.bubble_s > 0


def test_all_but_one_block_of_the_last_microbatch_hide_what_is_exchanged_once_a_step():
    found = step(Plan(data_parallel=16, zero_stage=1), cluster=_slow())
    num_blocks = sum(block.repeat for block in graph("llama3-8b").blocks)
    microbatch_s = (found.compute_s + found.host_s) / 2  # gradients behind backward, weights behind forward
    room_s = microbatch_s * (num_blocks - 1) / num_blocks
    assert hidden_s(found, "dp") == pytest.approx((1 - HELD_FRAC) * room_s)


def test_reductions_hide_behind_the_backward_pass_alone():
    whole, halves = (step(Plan(data_parallel=16, zero_stage=stage), cluster=_slow()) for stage in (1, 0))
    assert hidden_s(halves, "dp") > 0.6 * hidden_s(whole, "dp")  # backward takes two thirds of a microbatch


@pytest.mark.parametrize(("zero_stage", "does_gather"), [(0, True), (1, True), (2, False), (3, False)])
def test_ranks_gather_the_rows_of_tables_that_others_looked_up(zero_stage: int, does_gather: bool):
    """From ZeRO-2 on gradients go with every microbatch; ZeRO-1 and 2 gather all weights besides."""
    places = placements_of(columns_of([Plan(data_parallel=16)]), CLUSTER.topology)
    rows = np.array([[1.0 * MEGA]])
    table = ParameterElements(parameters=1000 * rows, gradients=rows, sparse=rows)
    no_experts = ParameterElements(parameters=0 * rows, gradients=0 * rows, sparse=0 * rows)
    found = gradient_sync((table, no_experts), np.array([zero_stage]), places, Precision(), 0.8)
    all_bytes = does_gather * 16 * MEGA * Precision().reduce_bytes
    weight_bytes = (zero_stage in (1, 2)) * 1000 * MEGA * Precision().gather_bytes
    group = places.groups[places.group_of["data"][0]]
    gathered_s = [
        float(collectives["all-gather"](size, group, 0.8)) if size else 0.0 for size in (all_bytes, weight_bytes)
    ]
    assert (float(found.reduce_s[0, 0]), float(found.gather_s[0, 0])) == pytest.approx(gathered_s)
    assert found.sent_bytes == pytest.approx((all_bytes + weight_bytes) * 15 / 16)


@pytest.mark.parametrize(("zero_stage", "collective"), [(0, "all-reduce"), (1, "reduce-scatter"), (2, ""), (3, "")])
def test_gradients_are_reduced_once_a_step_unless_every_microbatch_does(zero_stage: int, collective: str):
    """Of two plans at once, the second all-reduces; experts, over their own ranks, are on the first stage alone."""
    plans = columns_of([Plan(data_parallel=16, expert_parallel=8), Plan(data_parallel=16, expert_parallel=8)])
    places = placements_of(plans, CLUSTER.topology)
    rows = np.full((2, 2), 3.0 * MEGA)
    plain, experts = (
        ParameterElements(parameters=count * rows, gradients=count * rows, sparse=0 * rows)
        for count in (np.array([1.0, 1.0]), np.array([2.0, 0.0]))
    )
    found = gradient_sync((plain, experts), np.array([zero_stage, 0]), places, Precision(), 0.8)
    size = 3 * MEGA * Precision().reduce_bytes
    groups = [places.groups[places.group_of[name][0]] for name in ("data", "expert_data")]

    def by_stage_s(name: str) -> list[float]:
        if not name:
            return [0.0, 0.0]
        plain_s, experts_s = (
            float(collectives[name](n * size, group, 0.8)) for n, group in zip((1, 2), groups, strict=True)
        )
        return [plain_s + experts_s, plain_s]

    assert found.reduce_s.ravel().tolist() == pytest.approx([*by_stage_s(collective), *by_stage_s("all-reduce")])


def test_chunks_whose_gradients_are_whole_exchange_them_while_the_others_run():
    """Of four stages in two chunks, one exchanges while each of four microbatches goes through the other.

    Those come at the pace of the slowest stage, which has the head: what others wait for it hides theirs too.
    """
    plan = Plan(pipeline_parallel=4, data_parallel=4)
    model = graph("llama3-8b", num_layers=8)
    one, two = (assembly_of(model, replace(plan, interleave=interleave), _slow(), Precision()) for interleave in (1, 2))
    columns = one.columns
    both_s = columns.forward_s + columns.backward_s
    waits_s = both_s.max() - both_s
    shorter = 1 - HELD_FRAC
    assert two.hidden_s - one.hidden_s * 4 / 2 == pytest.approx(
        shorter * 4 / 2 * one.num_hiding_passes * waits_s, rel=0.01
    )
    assert two.hidden_s[0, -1] == pytest.approx(4 / 2 * one.hidden_s[0, -1], rel=0.01)


def _slow() -> Cluster:
    """Whatever is exchanged on it outlasts all compute."""
    return replace(
        CLUSTER, topology=CLUSTER.topology.with_link_scaled("nvlink", 1e-4).with_link_scaled("infiniband", 1e-4)
    )


def test_hosts_of_a100_systems_are_slower_than_those_of_later_ones():
    older, newer = (chips[name]().calibration for name in ("a100-80gb-sxm", "h200-sxm"))
    assert older.host_op_s == pytest.approx(1.35 * newer.host_op_s)
    assert older.exchange_s == newer.exchange_s == 40 * MICRO
