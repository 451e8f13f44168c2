"""A collective asked of a network in Dovetail's words -> the ASTRA-sim system and the traces that ask the same."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.comm.astra.dimensions import ALGORITHMS, astra_dims_of
from dovetail.comm.astra.system import COLLECTIVES, AstraSystem
from dovetail.comm.events.phases import suited
from dovetail.comm.one_collective import CollectiveJob, group_rows
from dovetail.comm.trace.nodes import Rank, TraceNode, Traces
from dovetail.errors import InvalidInput, NotModelled

FREE_BYTES_PER_TICK = 1e12  # style: no limit is asked for, and a file must say one: a sum of 1 GiB costs 3 ps
POLICIES = {"fifo": "FIFO", "lifo": "LIFO"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AstraJob:
    """The same question as ASTRA-sim's files put it."""

    system: AstraSystem
    traces: Traces


def astra_job(asked: CollectiveJob) -> AstraJob:
    """Raises where ASTRA-sim's files have no words for something that is asked."""
    _check_sayable(asked)
    system = AstraSystem(
        dims=astra_dims_of(asked.network.parts),
        algorithms=_algorithms(asked),
        num_chunks=asked.num_chunks,
        num_active_chunks=asked.queueing.num_active_chunks,
        policy=POLICIES[asked.queueing.policy],
        optimization="localBWAware",
        endpoint_ticks=0,
        memory_bytes_per_tick=FREE_BYTES_PER_TICK,
    )
    return AstraJob(system=system, traces=_traces(asked))


def _check_sayable(asked: CollectiveJob) -> None:
    problem = ""
    if asked.queueing.policy not in POLICIES:
        problem = f"ASTRA-sim queues by {' or '.join(POLICIES)}, not by {asked.queueing.policy}"
    elif asked.is_themis:
        problem = "ASTRA-sim's files do not ask for Themis' order"
    elif asked.endpoint.name:
        problem = f"ASTRA-sim's files have no endpoint {asked.endpoint.name}"
    elif not asked.network.graph.is_uniform:
        problem = "the links of a dimension are alike in ASTRA-sim; leave slow and broken ones away"
    elif asked.groups and asked.algorithms:
        problem = "a system file names algorithms by dimension, not for groups; leave --algorithm away"
    elif asked.algorithms and asked.collective.replace("-", "_") not in COLLECTIVES:
        problem = f"a system file names no algorithm for {asked.collective}; leave --algorithm away"
    elif asked.collective != "point-to-point" and any(tuple(sorted(group)) != group for group in asked.groups):
        problem = "a process group has no order of its own; name the devices of a group from the lowest up"
    if problem:
        raise NotModelled(problem, "--astra-sim")


def _algorithms(asked: CollectiveJob) -> dict[str, tuple[str, ...]]:
    """For each collective a system file knows, what the event engine would take in each dimension."""
    theirs = {ours: name for name, ours in ALGORITHMS.items()}
    found = {}
    for key in COLLECTIVES:
        collective = key.replace("_", "-")
        named = dict(asked.algorithms) if collective == asked.collective else {}
        chosen = [
            named.get(block.name, named.get("*", "")) or suited(block, collective)
            for block in asked.network.graph.blocks
        ]
        for name in chosen:
            if name not in theirs:
                raise NotModelled(f"ASTRA-sim has no algorithm {name}; it has {', '.join(theirs)}", "--astra-sim")
        found[key] = tuple(theirs[name] for name in chosen)
    return found


def _traces(asked: CollectiveJob) -> Traces:
    num_devices = asked.network.graph.num_devices
    if asked.collective == "point-to-point":
        pairs = [(int(row[0]), int(row[1])) for row in group_rows(asked)]
        return Traces(ranks=_messages(pairs, _whole(asked.payload_bytes), num_devices))
    if not asked.groups:
        named = asked.dimensions
        involved = tuple(part.name in named for part in asked.network.parts) if named else ()
        nodes = (_collective(asked, involved=involved),)
        return Traces(ranks=(nodes,) * num_devices)
    ranks: list[Rank] = [(_nothing(),)] * num_devices
    groups = {str(number): group for number, group in enumerate(asked.groups)}
    for name, group in groups.items():
        nodes = (_collective(asked, group=name),)
        for device in group:
            ranks[device] = nodes
    return Traces(ranks=tuple(ranks), groups=groups)


def _collective(asked: CollectiveJob, group: str = "", involved: tuple[bool, ...] = ()) -> TraceNode:
    num_ranks = group_rows(asked).shape[1]
    shard_bytes = asked.payload_bytes / (num_ranks if asked.collective == "all-gather" else 1)
    name = asked.collective
    size_bytes = _whole(shard_bytes)
    return TraceNode(
        id=0, name=name, kind="collective", collective=name, size_bytes=size_bytes, group=group, involved=involved
    )


def _messages(pairs: list[tuple[int, int]], size_bytes: int, num_devices: int) -> tuple[Rank, ...]:
    ranks: list[Rank] = [(_nothing(),)] * num_devices
    for source, target in pairs:
        more = {"id": 0, "source": source, "target": target, "size_bytes": size_bytes}
        ranks[source] = (TraceNode(name="send", kind="send", **more),)  # type: ignore[arg-type]
        ranks[target] = (TraceNode(name="receive", kind="receive", **more),)  # type: ignore[arg-type]
    return tuple(ranks)


def _nothing() -> TraceNode:
    return TraceNode(id=0, name="nothing")


def _whole(size_bytes: float) -> int:
    if not float(size_bytes).is_integer():
        raise InvalidInput(f"a trace holds whole bytes; got {size_bytes:g} for each rank", "--astra-sim")
    return int(size_bytes)
