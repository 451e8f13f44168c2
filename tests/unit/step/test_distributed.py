"""A recorded step of many ranks on a cluster: prices of its collectives, its memory, and where its time goes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.parallel.ranks import group_of_ranks
from dovetail.step.communication import collective_overheads, timed
from dovetail.step.distributed import distributed_step, even_payload_bytes, exposed_by
from dovetail.step.eager import HostPace, eager_step
from dovetail.workload.dispatched import (
    COLLECTIVES,
    CollectiveCall,
    DispatchedOp,
    DispatchedStep,
    DistributedStep,
    RankStep,
    TensorMeta,
)

MIB = 2**20
CLUSTER = clusters["dgx-h100"].build(64)
QUICK = HostPace(slowdown=1e-6)
NODE = tuple(range(8))


def product(side: int = 8192, stream: str = "", waits: tuple[int, ...] = (), phase: str = "forward") -> DispatchedOp:
    one = TensorMeta(shape=(side, side), strides=(side, 1), dtype="bf16")
    return DispatchedOp(
        name="aten.mm.default", inputs=(one, one), outputs=(one,), stream=stream, waits=waits, phase=phase
    )


def call(
    kind: str,
    ranks: tuple[int, ...],
    num_bytes: int,
    waits: tuple[int, ...] = (),
    stream: str = "nccl",
    **known: object,
) -> DispatchedOp:
    return DispatchedOp(
        name=f"c10d.{kind}", inputs=(), outputs=(), stream=stream, waits=waits,
        collective=CollectiveCall(kind=kind, ranks=ranks, num_bytes=num_bytes, **known),  # type: ignore[arg-type]
    )  # fmt: skip


def recorded(*ops: DispatchedOp) -> DispatchedStep:
    return DispatchedStep(
        ops=ops,
        module_calls=(0,) * len(ops),
        live_bytes=(MIB,) * len(ops),
        state_bytes=MIB,
        num_parameters=1,
    )


def job(*ranks: tuple[DispatchedOp, ...], world_size: int = 64) -> DistributedStep:
    each = world_size // len(ranks)
    return DistributedStep(
        world_size=world_size,
        ranks=tuple(
            RankStep(rank=each * number, step=recorded(*ops), num_ranks=each) for number, ops in enumerate(ranks)
        ),
    )


def alone_s(kind: str, num_bytes: float, ranks: tuple[int, ...], cluster: Cluster = CLUSTER) -> float:
    overheads = collective_overheads(cluster.chip.calibration)
    group = group_of_ranks(ranks, cluster.topology)
    return float(timed(kind, np.array([num_bytes]), group, overheads.link_frac, overheads.start_s)[0][0])


def test_one_rank_without_collectives_takes_what_the_eager_step_takes() -> None:
    ops = tuple(product(side) for side in (512, 8192, 256, 4096, 8192, 8192))
    for host in (HostPace(), QUICK, HostPace(slowdown=20.0)):
        one, many = eager_step(recorded(*ops), CLUSTER.chip, host), distributed_step(job(ops), CLUSTER, host)
        assert many.step_s == pytest.approx(one.step_s, rel=1e-12)
        assert many.ranks[0].host_s == pytest.approx(one.wait_s, rel=1e-9)
        assert many.ranks[0].clock_frac == pytest.approx(one.clock_frac, rel=1e-12)
        assert many.ranks[0].peak_bytes == one.peak_bytes


@pytest.mark.parametrize("ranks", [NODE, tuple(range(64)), (0, 8, 16, 24), (0, 1)])
@pytest.mark.parametrize("kind", ["all-reduce", "all-gather", "reduce-scatter", "all-to-all"])
def test_a_collective_that_is_waited_for_takes_what_the_network_says(kind: str, ranks: tuple[int, ...]) -> None:
    with_it = distributed_step(
        job((product(), call(kind, ranks, 256 * MIB, (0,)), product(waits=(1,)))), CLUSTER, QUICK
    )
    [total] = with_it.ranks[0].collectives
    assert total.exposed_s == pytest.approx(alone_s(kind, 256 * MIB, ranks), rel=1e-9)
    assert total.num_nodes == len({rank // 8 for rank in ranks})
    assert with_it.ranks[0].overlap_frac == pytest.approx(0.0, abs=1e-9)


def test_every_kind_of_collective_has_a_price() -> None:
    for kind in set(COLLECTIVES) - {"send", "recv"}:
        found = distributed_step(job((call(kind, NODE, MIB),)), CLUSTER, QUICK)
        assert found.ranks[0].collectives[0].alone_s > 0, kind


def test_a_broadcast_sends_all_round_a_ring_where_a_gather_sends_all_but_a_part() -> None:
    found = distributed_step(job((call("broadcast", NODE, 7 * MIB),)), CLUSTER, QUICK)
    assert found.ranks[0].collectives[0].alone_s == pytest.approx(alone_s("all-gather", 8 * MIB, NODE))


def test_a_hidden_gather_costs_compute_the_share_of_the_endpoint() -> None:
    ops = (call("all-gather", NODE, 64 * MIB), *(product() for _ in range(8)))
    plain, beside = distributed_step(job(ops[1:]), CLUSTER, QUICK), distributed_step(job(ops), CLUSTER, QUICK)
    lost_s = CLUSTER.chip.endpoint_kind.adding_slowdown_frac * alone_s("all-gather", 64 * MIB, NODE)
    assert beside.ranks[0].contention_s == pytest.approx(lost_s, rel=1e-6)
    assert beside.ranks[0].overlap_frac == pytest.approx(1.0, abs=1e-3)
    assert beside.step_s > plain.step_s


def test_two_stages_match_their_messages_and_the_second_waits_for_the_first() -> None:
    pair = (0, 32)
    first = (product(), call("send", pair, 64 * MIB, (0,), peer=32))
    second = (call("recv", pair, 64 * MIB, peer=0), product(waits=(0,)))
    found = distributed_step(job(first, second), CLUSTER, QUICK)
    sent_s, (one, two) = alone_s("point-to-point", 64 * MIB, pair), found.ranks
    assert found.step_s == pytest.approx(float(one.kernel_s.sum() + two.kernel_s.sum()) + sent_s, rel=1e-6)
    assert two.idle_s == pytest.approx(float(one.kernel_s.sum()), rel=1e-3)
    for rank in found.ranks:
        assert rank.compute_s + rank.exposed_s + rank.host_s + rank.idle_s == pytest.approx(found.step_s)


def test_messages_round_a_ring_of_equal_ranks_find_their_peers_there() -> None:
    ring = (call("send", NODE, MIB, peer=1, stream="out"), call("recv", NODE, MIB, peer=7, stream="in"))
    found = distributed_step(job((*ring, product(waits=(0, 1))), world_size=8), CLUSTER, QUICK)
    assert found.ranks[0].exposed_s == pytest.approx(alone_s("point-to-point", MIB, (0, 1)), rel=1e-4)
    assert any("not recorded" in note for note in found.notes)


@pytest.mark.parametrize(
    ("op", "words"),
    [
        (call("all-reduce", (1, 2), MIB), "in a group that it is not in"),
        (call("all-reduce", (0, 9), MIB), "with ranks beyond 8"),
        (call("send", NODE, MIB, peer=0), "which is itself"),
        (call("send", NODE, MIB), "names no other rank"),
    ],
)
def test_calls_that_cannot_be_are_refused_in_one_line(op: DispatchedOp, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        distributed_step(job((op,), world_size=8), CLUSTER)


def test_uneven_splits_count_by_the_dimension_that_carries_the_most() -> None:
    ranks, topology = tuple(range(16)), CLUSTER.topology
    group = group_of_ranks(ranks, topology)
    even = CollectiveCall(kind="all-to-all", ranks=ranks, num_bytes=16, bytes_by_rank=(1,) * 16)
    far = CollectiveCall(kind="all-to-all", ranks=ranks, num_bytes=16, bytes_by_rank=(0,) * 8 + (2,) * 8)
    near = CollectiveCall(kind="all-to-all", ranks=ranks, num_bytes=16, bytes_by_rank=(2,) * 8 + (0,) * 8)
    assert even_payload_bytes(even, 0, group, topology) == 16
    assert even_payload_bytes(far, 0, group, topology) == 32
    assert 14 <= even_payload_bytes(near, 0, group, topology) < 16
    with pytest.raises(InvalidInput, match="16 ranks has 2 splits"):
        even_payload_bytes(replace(even, bytes_by_rank=(1, 2)), 0, group, topology)


def test_groups_are_counted_by_node() -> None:
    def shape(*ranks: int) -> list[tuple[int, int]]:
        return [(span.num_ranks, span.stride) for span in group_of_ranks(ranks, CLUSTER.topology)]

    assert shape(*NODE) == [(8, 1)]
    assert shape(*range(0, 64, 8)) == [(8, 1)]
    assert shape(*range(0, 64, 4)) == [(2, 4), (8, 1)]
    assert shape(1, 9, 3, 11) == [(2, 2), (2, 1)]
    assert shape(0, 1, 5) == [(3, 1)]
    assert not shape(5)
    with pytest.raises(NotModelled, match="from 1 to 2 in one"):
        shape(0, 1, 8)
    with pytest.raises(InvalidInput, match="64 devices; rank 64"):
        shape(0, 64)
    with pytest.raises(InvalidInput, match="twice"):
        shape(1, 1)


def test_more_ranks_than_devices_are_refused_in_one_line() -> None:
    with pytest.raises(InvalidInput, match="runs 128 ranks and dgx-h100 has 64 devices"):
        distributed_step(job((product(),), world_size=128), CLUSTER)


def test_a_rank_fits_where_allocator_context_and_communicators_do() -> None:
    small = distributed_step(job((call("all-reduce", NODE, MIB), product())), CLUSTER)
    assert small.fits
    assert small.fullest.outside_bytes > 1024 * MIB
    [one] = job((product(),)).ranks
    full = replace(one, step=replace(one.step, state_bytes=int(79.5 * 1024 * MIB)))
    assert not distributed_step(DistributedStep(world_size=64, ranks=(full,)), CLUSTER).fits


def test_exposed_seconds_are_summed_by_group_and_kind() -> None:
    ops = (
        call("all-gather", NODE, MIB, group="dp"),
        product(waits=(0,)),
        call("all-gather", NODE, 2 * MIB, (1,), group="dp"),
    )
    found = distributed_step(job(ops), CLUSTER, QUICK)
    [(group, kind, exposed_s)] = exposed_by(found.ranks[0])
    assert (group, kind) == ("dp", "all-gather")
    assert exposed_s == pytest.approx(found.ranks[0].exposed_s)
    assert len(found.ranks[0].collectives) == 2
