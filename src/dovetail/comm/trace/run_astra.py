"""Traces as ASTRA-sim would time them: in whole nanoseconds, with its algorithms, queues and blind spots."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dovetail.comm.astra.engine import collective_ticks
from dovetail.comm.astra.ranks import AstraRanks, Timing
from dovetail.comm.astra.system import TICK_S, AstraSystem
from dovetail.comm.events.recording import (
    COMMUNICATION,
    NO_LINKS,
    Record,
    StreamSlice,
    Watch,
    check_devices,
    check_slices,
)
from dovetail.comm.trace.nodes import TraceNode, Traces, at, check_count, coordinates, is_involved, members
from dovetail.comm.trace.outcome import RankEnd, TraceOutcome
from dovetail.comm.trace.run_events import MODELLED
from dovetail.comm.trace.waits import CPU, KERNELS, with_waits
from dovetail.errors import DovetailError, NotModelled

COLLECTIVE_OF = {
    "all-reduce": "all_reduce", "reduce-scatter": "reduce_scatter", "all-gather": "all_gather",
    "all-to-all": "all_to_all",
}  # fmt: skip
NOTES = (
    "as ASTRA-sim times it: one collective at a time on a rank, more active chunks add bandwidth where congestion is"
    " not modelled, and a message over several dimensions pays for the first",
)


def run_astra(traces: Traces, system: AstraSystem, watch: Watch | None = None) -> TraceOutcome:
    """When every rank ends, to the nanosecond. Where all ranks do the same, one is followed.

    `watch` asks for a record of what streams did; links are not followed one by one in this mode.
    """
    num_per_dim = [dim.num_ranks for dim in system.dims]
    check_count(traces, num_per_dim)
    timing = _timing(traces, system, num_per_dim)
    followed = traces.ranks[:1] if traces.are_identical else traces.ranks
    run = AstraRanks(followed, timing, is_recorded=watch is not None)
    ticks = run.run()
    ticks = ticks * len(traces.ranks) if traces.are_identical else ticks
    ends = tuple(
        RankEnd(rank=rank, end_s=end * TICK_S, compute_s=spent * TICK_S) for rank, (end, spent) in enumerate(ticks)
    )
    return TraceOutcome(
        engine="astra-sim",
        ranks=ends,
        num_nodes=sum(len(nodes) for nodes in traces.ranks),
        notes=NOTES,
        record=() if watch is None else (_record(run, traces, watch),),
    )


def _record(run: AstraRanks, traces: Traces, watch: Watch) -> Record:
    check_devices(watch, len(traces.ranks))
    num_identical = len(traces.ranks) if traces.are_identical else 1
    devices = (0,) if traces.are_identical else tuple(sorted(set(watch.devices))) or tuple(range(len(traces.ranks)))
    wanted = set(devices)
    places = [place for place in run.begun_ticks if place[0] in wanted]
    check_slices(len(places), watch)
    streams = []
    for rank, index in places:
        begin_s, end_s = run.begun_ticks[rank, index] * TICK_S, run.ended_ticks[rank, index] * TICK_S
        node = traces.ranks[rank][index]
        streams.append(
            StreamSlice(
                device=rank, stream=_stream(node), task=node.task, ready_s=begin_s, begin_s=begin_s, end_s=end_s
            )
        )
    streams.sort(key=lambda one: (one.device, one.begin_s, one.end_s))
    record = Record(
        devices=devices, num_identical=num_identical, tasks=(), phases={}, links=NO_LINKS, streams=tuple(streams)
    )
    known = {(rank, node.task): node for rank in devices for node in traces.ranks[rank]}
    names = {(rank, node.id): node.task for (rank, _), node in known.items()}
    return with_waits(record, lambda rank, task: [names[rank, before] for before in known[rank, task].after])


def _stream(node: TraceNode) -> str:
    if node.is_cpu:
        return CPU
    return COMMUNICATION if node.kind in ("collective", "send", "receive") else KERNELS


def _timing(traces: Traces, system: AstraSystem, num_per_dim: Sequence[int]) -> Timing:
    known: dict[tuple[str, int, tuple[bool, ...]], int] = {}
    is_folded = traces.are_identical

    def collective(node: TraceNode, rank: int, group: tuple[int, ...]) -> int:
        involved = _involved(node, rank, group, system, num_per_dim, is_folded=is_folded)
        key = (node.collective, node.size_bytes, involved)
        if key not in known:
            known[key] = _collective(node, rank, system, involved)
        return known[key]

    def group_of(node: TraceNode, rank: int) -> tuple[int, ...]:
        return (0,) if is_folded else members(node, rank, traces, num_per_dim)

    def message(source: int, target: int, size_bytes: int) -> int:
        return _message(source, target, size_bytes, system, num_per_dim)

    return Timing(run_ticks=_run, collective_ticks=collective, message_ticks=message, members=group_of)


def _run(node: TraceNode, rank: int) -> int:
    if node.kind in ("load", "store") and not node.duration_s:
        raise NotModelled("a load or store must state its duration; remote memories are not modelled", at(rank, node))
    return round(node.duration_s / TICK_S)


def _involved(
    node: TraceNode,
    rank: int,
    group: tuple[int, ...],
    system: AstraSystem,
    num_per_dim: Sequence[int],
    *,
    is_folded: bool,
) -> tuple[bool, ...]:
    if is_folded or not node.group:
        return is_involved(node, len(system.dims))
    places = [coordinates(member, num_per_dim) for member in group]
    involved = tuple(len({place[dim] for place in places}) > 1 for dim in range(len(num_per_dim)))
    if math.prod(count for count, is_in in zip(num_per_dim, involved, strict=True) if is_in) != len(group):
        rule = "a process group fills whole dimensions of the network in this mode"
        raise NotModelled(f"{rule}; --engine events takes any", at(rank, node))
    return involved


def _collective(node: TraceNode, rank: int, system: AstraSystem, involved: tuple[bool, ...]) -> int:
    if node.collective not in COLLECTIVE_OF:
        other = "; --engine events does" if node.collective in MODELLED else ", nor do events"
        raise NotModelled(f"ASTRA-sim times no {node.collective}{other}", at(rank, node))
    if not node.size_bytes:
        return 0
    try:
        return collective_ticks(system, COLLECTIVE_OF[node.collective], node.size_bytes, involved)
    except DovetailError as error:
        raise type(error)(error.message, at(rank, node)) from None


def _message(source: int, target: int, size_bytes: int, system: AstraSystem, num_per_dim: Sequence[int]) -> int:
    """The first dimension in which the two differ is charged, and no other."""
    source_at, target_at = coordinates(source, num_per_dim), coordinates(target, num_per_dim)
    dim = next(number for number in range(len(num_per_dim)) if source_at[number] != target_at[number])
    where = system.dims[dim]
    distance = (target_at[dim] - source_at[dim]) % where.num_ranks
    return where.path_ticks(distance, size_bytes, system.is_congestion_aware)
