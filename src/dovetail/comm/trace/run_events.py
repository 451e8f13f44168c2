"""Traces on a network by the event engine: links and ports are shared, and nothing is faster than they allow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dovetail.comm.events.pairing import Node, program_of
from dovetail.comm.events.program import Collective, Compute, Devices, Program, Queueing, Task, waits
from dovetail.comm.events.recording import Watch
from dovetail.comm.events.simulate import simulate
from dovetail.comm.events.unit_graphs import UnitGraph
from dovetail.comm.one_collective import Network
from dovetail.comm.trace.critical import critical_path
from dovetail.comm.trace.nodes import TraceNode, Traces, at, check_count, is_involved, members
from dovetail.comm.trace.outcome import RankEnd, TraceOutcome
from dovetail.comm.trace.waits import CPU, KERNELS, with_waits
from dovetail.errors import InvalidInput, NotModelled, did_you_mean
from dovetail.hardware.topology import Dimension

MIN_SPEED_FRAC, MAX_SPEED_FRAC = 1e-3, 1e3  # style: bounds; what is slower is broken
MODELLED = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "reduce")
Part = Dimension | UnitGraph


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Settings:
    """How collectives are cut, queued and carried out; `algorithms` names one per dimension for a collective."""

    queueing: Queueing = field(default_factory=Queueing)
    devices: Devices = field(default_factory=Devices)
    num_chunks: int = 1
    algorithms: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)

    def with_speeds(self, speeds_frac: Mapping[int, float], num_ranks: int) -> Settings:
        """The same with ranks that compute at a share of the speed of the others."""
        slowdown = np.ones(num_ranks)
        for rank, share in speeds_frac.items():
            if not (0 <= rank < num_ranks and MIN_SPEED_FRAC <= share <= MAX_SPEED_FRAC):
                rule = f"ranks are below {num_ranks:,}, and speeds from {MIN_SPEED_FRAC:g} to {MAX_SPEED_FRAC:g}"
                raise InvalidInput(f"{rule}; got {rank}={share:g}", "--slow-ranks")
            slowdown[rank] = 1 / share
        return replace(self, devices=replace(self.devices, slowdown=slowdown)) if speeds_frac else self


def run_events(
    traces: Traces, network: Network, settings: Settings | None = None, watch: Watch | None = None
) -> TraceOutcome:
    """When every rank ends, which is when the last of its tasks has ended at every rank that shares it.

    `watch` asks for a record of what links and streams did.
    """
    check_count(traces, [part.num_devices for part in network.parts])
    used = settings or Settings()
    is_folded = traces.are_identical and isinstance(used.devices.slowdown, float)
    tasks, names = (_folded if is_folded else _joined)(traces, network.parts)
    program = Program(tasks=tuple(_cut(task, used) for task in tasks), queueing=used.queueing, devices=used.devices)
    timeline = simulate(network.graph, program, watch=watch)
    waited = {task.name: waits(task) for task in program.tasks}
    slowdown = np.broadcast_to(used.devices.slowdown, len(traces.ranks)).tolist()
    ends = []
    for rank, nodes in enumerate(traces.ranks):
        task_names = names[rank % len(names)]
        end_s = max(timeline.spans_s[name][1] for name in task_names)
        compute_s = slowdown[rank] * sum(n.duration_s for n in nodes if not n.is_cpu)
        ends.append(RankEnd(rank=rank, end_s=end_s, compute_s=compute_s))
    return TraceOutcome(
        engine="events",
        ranks=tuple(ends),
        num_nodes=sum(len(nodes) for nodes in traces.ranks),
        critical=critical_path(program, timeline),
        network=(network,),
        timeline=(timeline,),
        record=tuple(with_waits(record, lambda _, task: waited[task]) for record in timeline.record),
    )


def _cut(task: Task, settings: Settings) -> Task:
    if not isinstance(task, Collective):
        return task
    algorithms = settings.algorithms.get(task.collective, ())
    num_chunks = min(settings.num_chunks, max(1, int(task.payload_bytes)))  # none holds less than a byte
    return replace(task, num_chunks=num_chunks, algorithms=algorithms)


def _folded(traces: Traces, parts: Sequence[Part]) -> tuple[list[Task], tuple[tuple[str, ...], ...]]:
    """One task for each node that every rank has."""
    names = {node.id: node.task for node in traces.ranks[0]}
    tasks = []
    for number, node in enumerate(traces.ranks[0]):
        after = tuple(names[before] for before in node.after)
        tasks.append(_task(node, after, number, parts))
    return tasks, (tuple(names.values()),)


def _task(node: TraceNode, after: tuple[str, ...], number: int, parts: Sequence[Part]) -> Task:
    involved = is_involved(node, len(parts))
    along = tuple(part for part, is_in in zip(parts, involved, strict=True) if is_in and part.num_devices > 1)
    if node.kind != "collective" or not along:
        stream = CPU if node.is_cpu else KERNELS
        duration_s = _duration_s(node, 0)
        return Compute(name=node.task, duration_s=duration_s, stream=stream, after=after, sequence=number)
    return Collective(
        name=node.task,
        collective=_modelled(node, 0),
        payload_bytes=_payload_bytes(node, math.prod(part.num_devices for part in along)),
        dimensions=tuple(part.name for part in along),
        after=after,
        sequence=number,
    )


def _joined(traces: Traces, parts: Sequence[Part]) -> tuple[list[Task], tuple[tuple[str, ...], ...]]:
    """Each rank's nodes for themselves; sends find their receives, and members of a group each other."""
    num_per_dim = [part.num_devices for part in parts]
    nodes: list[Node] = []
    cpu_names: set[str] = set()
    for rank, rank_nodes in enumerate(traces.ranks):
        names = {node.id: node.task for node in rank_nodes}
        for node in rank_nodes:
            nodes.append(_node(node, rank, tuple(names[before] for before in node.after), traces, num_per_dim))
            if node.is_cpu:
                cpu_names.add(f"{rank}:{names[node.id]}")
    program = program_of(nodes, Queueing(), Devices())
    tasks: list[Task] = [
        replace(task, stream=CPU) if isinstance(task, Compute) and task.name in cpu_names else task
        for task in program.tasks
    ]
    return tasks, _names_by_rank(nodes, {task.name for task in tasks})


def _names_by_rank(nodes: Sequence[Node], known: set[str]) -> tuple[tuple[str, ...], ...]:
    """Names of the tasks each rank has a part in; a collective is named after the first of its members."""
    found: dict[int, list[str]] = {}
    turns: dict[tuple[tuple[int, ...], int], int] = {}
    joined: dict[tuple[tuple[int, ...], int], str] = {}
    for node in nodes:  # rank by rank, so the first member of a group comes first
        name = f"{node.rank}:{node.name}"
        if node.kind == "collective":
            turn = turns.get((node.group, node.rank), 0)
            turns[node.group, node.rank] = turn + 1
            name = joined.setdefault((node.group, turn), name)
        assert name in known, name
        found.setdefault(node.rank, []).append(name)
    return tuple(tuple(found[rank]) for rank in sorted(found))


def _node(node: TraceNode, rank: int, after: tuple[str, ...], traces: Traces, num_per_dim: Sequence[int]) -> Node:
    name = node.task
    if node.kind in ("send", "receive"):
        peer = node.target if node.kind == "send" else node.source
        kind = node.kind
        return Node(
            rank=rank, name=name, kind=kind, after=after, payload_bytes=float(node.size_bytes), peer=peer, tag=node.tag
        )
    group = members(node, rank, traces, num_per_dim) if node.kind == "collective" else ()
    if len(group) < 2:
        return Node(rank=rank, name=name, kind="compute", after=after, duration_s=_duration_s(node, rank))
    return Node(
        rank=rank,
        name=name,
        kind="collective",
        after=after,
        collective=_modelled(node, rank),
        payload_bytes=_payload_bytes(node, len(group)),
        group=group,
    )


def _duration_s(node: TraceNode, rank: int) -> float:
    if node.kind in ("load", "store") and not node.duration_s:
        raise NotModelled("a load or store must state its duration; remote memories are not modelled", at(rank, node))
    return node.duration_s if node.kind != "collective" else 0.0


def _modelled(node: TraceNode, rank: int) -> str:
    if node.collective not in MODELLED:
        hint = did_you_mean(node.collective, MODELLED)
        raise NotModelled(f"collective {node.collective} is not modelled{hint}", at(rank, node))
    return node.collective


def _payload_bytes(node: TraceNode, num_ranks: int) -> float:
    """The whole tensor: a trace gives an all-gather by its shard."""
    return float(node.size_bytes * num_ranks if node.collective == "all-gather" else node.size_bytes)
