"""A collective on a network as ASTRA-sim has it: a system, and a trace per rank."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.comm.astra.dimensions import ALGORITHMS, astra_dims_of
from dovetail.comm.astra.system import COLLECTIVES, AstraSystem
from dovetail.comm.events.phases import suited
from dovetail.comm.one_collective import CollectiveJob, group_rows
from dovetail.comm.trace.nodes import Rank, TraceNode, Traces
from dovetail.errors import InvalidInput, NotModelled

FREE_BYTES_PER_TICK = 1e12  # style: no limit is wanted, and a file must have one: a sum of 1 GiB costs 3 ps
POLICIES = {"fifo": "FIFO", "lifo": "LIFO"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AstraJob:
    """The same question as ASTRA-sim's files put it."""

    system: AstraSystem
    traces: Traces


def astra_job(job: CollectiveJob) -> AstraJob:
    """Raises where ASTRA-sim's files cannot express something of `job`."""
    _check_sayable(job)
    system = AstraSystem(
        dims=astra_dims_of(job.network.parts),
        algorithms=_algorithms(job),
        num_chunks=job.num_chunks,
        num_active_chunks=job.queueing.num_active_chunks,
        policy=POLICIES[job.queueing.policy],
        optimization="localBWAware",
        endpoint_ticks=0,
        memory_bytes_per_tick=FREE_BYTES_PER_TICK,
    )
    return AstraJob(system=system, traces=_traces(job))


def _check_sayable(job: CollectiveJob) -> None:
    problem = ""
    if job.queueing.policy not in POLICIES:
        problem = f"ASTRA-sim queues by {' or '.join(POLICIES)}, not by {job.queueing.policy}"
    elif job.is_themis:
        problem = "ASTRA-sim's files do not ask for Themis' order"
    elif job.endpoint.name:
        problem = f"ASTRA-sim's files have no endpoint {job.endpoint.name}"
    elif not job.network.graph.is_uniform:
        problem = "the links of a dimension are identical in ASTRA-sim; leave out slow and broken ones"
    elif job.groups and job.algorithms:
        problem = "a system file names algorithms by dimension, not for groups; leave --algorithm away"
    elif job.algorithms and job.collective.replace("-", "_") not in COLLECTIVES:
        problem = f"a system file names no algorithm for {job.collective}; leave --algorithm away"
    elif job.collective != "point-to-point" and any(tuple(sorted(group)) != group for group in job.groups):
        problem = "a process group has no order of its own; name the devices of a group from the lowest up"
    if problem:
        raise NotModelled(problem, "--astra-sim")


def _algorithms(job: CollectiveJob) -> dict[str, tuple[str, ...]]:
    """For each collective a system file knows, what the event engine would take in each dimension."""
    theirs = {ours: name for name, ours in ALGORITHMS.items()}
    found = {}
    for key in COLLECTIVES:
        collective = key.replace("_", "-")
        named = dict(job.algorithms) if collective == job.collective else {}
        chosen = [
            named.get(block.name, named.get("*", "")) or suited(block, collective) for block in job.network.graph.blocks
        ]
        for name in chosen:
            if name not in theirs:
                raise NotModelled(f"ASTRA-sim has no algorithm {name}; it has {', '.join(theirs)}", "--astra-sim")
        found[key] = tuple(theirs[name] for name in chosen)
    return found


def _traces(job: CollectiveJob) -> Traces:
    num_devices = job.network.graph.num_devices
    if job.collective == "point-to-point":
        pairs = [(int(row[0]), int(row[1])) for row in group_rows(job)]
        return Traces(ranks=_messages(pairs, _whole(job.payload_bytes), num_devices))
    if not job.groups:
        named = job.dimensions
        involved = tuple(part.name in named for part in job.network.parts) if named else ()
        nodes = (_collective(job, involved=involved),)
        return Traces(ranks=(nodes,) * num_devices)
    ranks: list[Rank] = [(_nothing(),)] * num_devices
    groups = {str(number): group for number, group in enumerate(job.groups)}
    for name, group in groups.items():
        nodes = (_collective(job, group=name),)
        for device in group:
            ranks[device] = nodes
    return Traces(ranks=tuple(ranks), groups=groups)


def _collective(job: CollectiveJob, group: str = "", involved: tuple[bool, ...] = ()) -> TraceNode:
    num_ranks = group_rows(job).shape[1]
    shard_bytes = job.payload_bytes / (num_ranks if job.collective == "all-gather" else 1)
    name = job.collective
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
