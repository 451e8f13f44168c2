"""The time of one collective on one network: by events, by the closed form, or by both."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from dovetail.comm.collectives import checked_times_s, collectives
from dovetail.comm.events.bisection import bisection_bound_s
from dovetail.comm.events.bounds import bus_share, port_bound_s
from dovetail.comm.events.engine import Timeline
from dovetail.comm.events.fed import Endpoint, fed_s
from dovetail.comm.events.limits import MOST_CHUNKS
from dovetail.comm.events.network_graph import LinkGraph
from dovetail.comm.events.phases import suited, themis_orders
from dovetail.comm.events.program import Collective, Program, Queueing, Receive, Send
from dovetail.comm.events.recording import Watch
from dovetail.comm.events.schedules import algorithms
from dovetail.comm.events.simulate import simulate
from dovetail.comm.events.unit_graphs import Ints, UnitGraph
from dovetail.comm.jitter import last_arrival_s
from dovetail.comm.library.on_group import (
    SUMMARIES,
    LibraryChoice,
    algorithm_name,
    is_timed_by_library,
    library_algorithms,
    library_choice,
    library_of,
    why_outside,
)
from dovetail.comm.messages import BY_SWITCHES, IN_SWITCH
from dovetail.errors import InvalidInput, did_you_mean
from dovetail.hardware.endpoints import endpoint_named
from dovetail.hardware.topology import Dimension, Group, Span, num_ranks
from dovetail.units import format_bytes

COLLECTIVES = ("all-gather", "all-reduce", "all-to-all", "broadcast", "point-to-point", "reduce", "reduce-scatter")
EngineName = Literal["events", "closed", "library"]
_TASK = "it"
_NOT_ADDED = ("all-to-all", "point-to-point")  # where there is nothing for switches to add
_FEW_STEPS = ("halving-doubling", "double-binary-tree", *BY_SWITCHES)  # as many as the number of ranks has digits
_MOST_MESSAGES = 500_000_000  # a count: half a minute
_MOST_LISTED = 2048  # devices: a chain is a table of its square
_MOST_ROUTED = 500_000  # messages between all pairs of a graph, each with a way of its own: half a minute


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Network:
    """A network to ask about: its parts, innermost first, and the links they come to."""

    name: str
    parts: tuple[Dimension | UnitGraph, ...]
    graph: LinkGraph


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CollectiveJob:
    """A collective of `payload_bytes` on `network`, by one engine; all devices in one group by default."""

    collective: str
    payload_bytes: float
    network: Network
    engine: EngineName = "events"
    groups: tuple[tuple[int, ...], ...] = ()
    dimensions: tuple[str, ...] = ()
    algorithms: tuple[tuple[str, str], ...] = ()
    num_chunks: int = 1
    queueing: Queueing = field(default_factory=Queueing)
    is_themis: bool = False
    endpoint: Endpoint = field(default_factory=Endpoint)

    def __post_init__(self) -> None:
        check_collective(self.collective)
        if self.num_chunks > max(1, self.payload_bytes):
            shown = f"{self.num_chunks:,} chunks of {format_bytes(self.payload_bytes)}"
            raise InvalidInput(f"a chunk holds at least a byte; got {shown}", "--chunks")
        if self.groups and self.dimensions:
            raise InvalidInput("give groups or dimensions, not both")
        for name in self.dimensions:
            self.network.graph.block(name)


def check_collective(name: str) -> None:
    if name not in COLLECTIVES and name not in collectives:
        raise InvalidInput(f"no collective is named {name!r}{did_you_mean(name, {*COLLECTIVES, *collectives.names()})}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How busy the links of one dimension were: their mean and the busiest of them, as shares of the time."""

    dimension: str
    kind: str
    num_devices: int
    mean_frac: float
    most_frac: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NetworkAnswer:
    """Time of a collective, and how it was found.

    `jitter_s` of it is what ranks wait for the last to come, before anything is sent.

    `closed_form_s` holds the closed form's time where there is one. `timeline` is there when events were simulated.
    `endpoint_s` is the least time the chip needs for what it reads, adds and writes; `time_s` is no less. Where a
    library gives the time, `algorithm`, `protocol` and `num_channels` are what it selects; 0 channels are not known.
    """

    job: CollectiveJob
    num_ranks: int
    num_groups: int
    time_s: float
    bound_s: float
    engine: str
    closed_form_s: tuple[float, ...]
    endpoint_s: float = 0.0
    timeline: tuple[Timeline, ...] = ()
    loads: tuple[Load, ...] = ()
    algorithm: str = ""
    protocol: str = ""
    num_channels: int = 0
    jitter_s: float = 0.0

    @property
    def is_bounded(self) -> bool:
        """Whether anything is known of what must move: not of a plugin's collective, whose payload counts once."""
        return self.job.collective in COLLECTIVES

    @property
    def algorithm_bytes_per_s(self) -> float:
        return self.job.payload_bytes / self.time_s if self.time_s else 0.0

    @property
    def bus_bytes_per_s(self) -> float:
        """The rate past every rank that moves the least bytes the collective can: what links are compared with."""
        if not self.is_bounded:
            return self.algorithm_bytes_per_s
        return self.algorithm_bytes_per_s * bus_share(self.job.collective, self.num_ranks)

    @property
    def outside_evidence(self) -> str:
        """Why a library's time lies outside what was measured; nothing where it does not, and of other engines."""
        return why_outside(_group_of(self.job)) if self.engine == "library" else ""

    @property
    def bound_frac(self) -> float:
        return self.bound_s / self.time_s if self.time_s else 1.0


def network_answer(job: CollectiveJob, watch: Watch | None = None) -> NetworkAnswer:
    """The time of `job`, with a record of its events where `watch` wants one; raises where no engine models it."""
    job = _with_reducing_switches(job)
    groups = group_rows(job)
    if job.collective == "point-to-point":
        groups = groups[:, :2]
    if job.engine == "library":
        return _by_library(job, groups)
    bound_s = 0.0  # of a plugin's collective
    if job.collective in COLLECTIVES:
        bound_s = port_bound_s(
            job.collective, job.payload_bytes, groups, job.network.graph, job.dimensions, _reducing(job)
        )
    if job.collective == "all-to-all":
        bound_s = max(bound_s, bisection_bound_s(job.payload_bytes, groups, job.network.graph, job.dimensions))
    jitter_s = _jitter_s(job)
    found = NetworkAnswer(
        job=job, num_ranks=groups.shape[1], num_groups=groups.shape[0], time_s=0.0, bound_s=bound_s,
        engine="closed form", closed_form_s=_closed_form_s(job), endpoint_s=_endpoint_s(job), jitter_s=jitter_s,
    )  # fmt: skip
    if job.engine == "closed":
        if watch is not None:
            raise InvalidInput("a closed form has no timeline; use the events engine for one", "--perfetto")
        _check_closed(job, found.closed_form_s)
        return replace(found, time_s=max(found.closed_form_s[0], found.endpoint_s + jitter_s))
    _check_size(job, groups, has_closed=bool(found.closed_form_s))
    timeline = simulate(job.network.graph, _program(job, groups), watch=watch)
    time_s = max(timeline.end_s, found.endpoint_s) + jitter_s
    loads = tuple(_loads(job.network.graph, timeline, time_s))
    return replace(found, time_s=time_s, engine=timeline.engine, timeline=(timeline,), loads=loads)


def _by_library(job: CollectiveJob, groups: Ints) -> NetworkAnswer:
    """What the library that the network names takes, by the algorithm and protocol that it selects.

    As in a step, another endpoint moves the library's messages, or has its switches add; one that is fed too little
    sets the time.
    """
    if why := why_no_library(job):
        raise InvalidInput(why, "--engine")
    group = _group_of(job)
    found = library_choice(job.collective, job.payload_bytes, group, _library_algorithm(job, group))
    adding = [span.dimension.name for span in group if not span.dimension.is_network]  # NVLS: the NVSwitches of a node
    reducing = adding if found.algorithm.startswith("NVLS") else ()
    bound_s = port_bound_s(job.collective, job.payload_bytes, groups, job.network.graph, job.dimensions, reducing)
    jitter_s, endpoint_s = _jitter_s(job), _endpoint_s(job)
    return NetworkAnswer(
        job=job, num_ranks=groups.shape[1], num_groups=groups.shape[0],
        time_s=max(found.time_s, endpoint_s) + jitter_s, bound_s=bound_s, engine="library",
        closed_form_s=_closed_form_s(job), endpoint_s=endpoint_s, algorithm=found.algorithm,
        protocol=found.protocol, num_channels=found.num_channels, jitter_s=jitter_s,
    )  # fmt: skip


def library_selection(job: CollectiveJob) -> tuple[LibraryChoice, ...]:
    """What the library that the network names selects for `job`; nothing where none is known to run it."""
    if why_no_library(job):
        return ()
    group, names = _group_of(job), dict(job.algorithms)
    algorithm = algorithm_name(names.get("*", ""))
    if names and algorithm not in library_algorithms(job.collective, group):
        return ()
    return (library_choice(job.collective, job.payload_bytes, group, algorithm),)


def _library_algorithm(job: CollectiveJob, group: Group) -> str:
    """The library's algorithm that `job` names, as NCCL_ALGO does; nothing where the library selects it."""
    if not job.algorithms:
        return ""
    names = [name if dimension == "*" else f"{dimension}={name}" for dimension, name in job.algorithms]
    shown, known = ", ".join(names)[:80], library_algorithms(job.collective, group)
    if algorithm_name(shown) in known:
        return algorithm_name(shown)
    of = f"{SUMMARIES[library_of(group)]}: {job.collective} over {num_ranks(group):,} ranks is known by"
    is_simulated = all(name in algorithms for _, name in job.algorithms)
    hint = f"; --engine events simulates {shown}" if is_simulated else ""
    raise InvalidInput(f"{of} {', '.join(known)}; got {shown}{hint}", "--algorithm")


def why_no_library(job: CollectiveJob) -> str:
    """Why no library's time is known of `job`; nothing where one is."""
    if job.groups or job.num_chunks > 1 or job.is_themis:
        return "a library chooses ranks and chunks itself; use the events engine, or leave them out"
    if not job.network.graph.is_uniform:
        return "a library's times are of links as they should be; use the events engine for slow ones"
    group = _group_of(_with_reducing_switches(job))
    if not group or not library_of(group):
        return "the network names no collective library, as clusters of the catalogue do; use the events engine"
    if not is_timed_by_library(job.collective, group):
        return f"no measured time of this {job.collective} is known; use the events engine"
    return ""


def _group_of(job: CollectiveJob) -> Group:
    """The ranks that take part: of a message, a device and its neighbour along the innermost dimension."""
    group = whole_group(job)
    return group[:1] if job.collective == "point-to-point" else group


def whole_group(job: CollectiveJob) -> Group:
    """All devices that differ along the dimensions of a job; none where one of them is no plain dimension."""
    named = [part for part in job.network.parts if not job.dimensions or part.name in job.dimensions]
    whole = [part for part in named if isinstance(part, Dimension)]
    if len(whole) < len(named):
        return ()
    return tuple(Span(dimension=part, num_ranks=part.num_devices) for part in whole if part.num_devices > 1)


def _with_reducing_switches(job: CollectiveJob) -> CollectiveJob:
    """An in-switch endpoint has switches add, but for an all-to-all, of which there is nothing to add."""
    is_in_switch = bool(job.endpoint.name) and endpoint_named(job.endpoint.name).is_in_switch
    if not is_in_switch or job.collective in _NOT_ADDED:
        return job
    others = sorted({name for _, name in job.algorithms} - {IN_SWITCH})
    if others and job.engine != "library":  # whose algorithms are then those that add in switches
        rule = f"an in-switch endpoint sends by in-switch; got {', '.join(others)}"
        raise InvalidInput(f"{rule}; leave the algorithm out, or take another endpoint", "--algorithm")
    parts = tuple(
        replace(part, is_reducing=part.can_reduce) if isinstance(part, Dimension) else part
        for part in job.network.parts
    )
    return replace(job, network=replace(job.network, parts=parts))


def _algorithms(job: CollectiveJob) -> tuple[tuple[str, str], ...]:
    """By dimension, as events run them: those that were named, and in-switch where switches add."""
    if job.collective in _NOT_ADDED:
        return job.algorithms
    named = dict(job.algorithms)
    added = [part.name for part in job.network.parts if isinstance(part, Dimension) and part.is_reducing]
    return (*job.algorithms, *((name, IN_SWITCH) for name in added if name not in named and "*" not in named))


def _reducing(job: CollectiveJob) -> tuple[str, ...]:
    """Dimensions whose switches add, as events run the job; groups of their own may lie across any."""
    named, names = dict(_algorithms(job)), [block.name for block in job.network.graph.blocks]
    if job.groups and set(named.values()) & set(BY_SWITCHES):
        return tuple(names)
    return tuple(name for name in names if named.get(name, named.get("*")) in BY_SWITCHES)


def group_rows(job: CollectiveJob) -> Ints:
    """The groups as rows of devices: those given, or the devices that differ along the named dimensions only."""
    graph = job.network.graph
    if job.groups:
        short = min(job.groups, key=len)
        if len({len(row) for row in job.groups}) > 1:
            raise InvalidInput(f"groups hold equally many devices; that of device {short[0]} has {len(short)}")
        for device in (device for row in job.groups for device in row):
            if not 0 <= device < graph.num_devices:
                raise InvalidInput(f"a group names device {device}, but the network has {graph.num_devices} devices")
        if len({device for row in job.groups for device in row}) != sum(map(len, job.groups)):
            raise InvalidInput("a device is in two groups, or twice in one")
        return np.array(job.groups)
    shape = [block.num_devices for block in reversed(graph.blocks)]
    names = [block.name for block in reversed(graph.blocks)]
    grid = np.arange(graph.num_devices).reshape(shape)
    inside = [axis for axis, name in enumerate(names) if not job.dimensions or name in job.dimensions]
    outside = [axis for axis in range(len(names)) if axis not in inside]
    num_ranks = int(np.prod([shape[axis] for axis in inside]))
    return grid.transpose([*outside, *inside]).reshape(-1, num_ranks)


def _program(job: CollectiveJob, groups: Ints) -> Program:
    if job.collective == "point-to-point":
        if groups.shape[1] < 2:
            raise InvalidInput("point-to-point needs two devices")
        pairs = tuple((int(row[0]), int(row[1])) for row in groups)
        send = Send(name=_TASK, pairs=pairs, payload_bytes=job.payload_bytes)
        return Program(tasks=(send, Receive(name="come", send=_TASK)), queueing=job.queueing)
    task = Collective(
        name=_TASK, collective=job.collective, payload_bytes=job.payload_bytes, groups=job.groups,
        dimensions=job.dimensions, algorithms=_algorithms(job), num_chunks=job.num_chunks,
    )  # fmt: skip
    if job.is_themis:
        task = replace(task, orders=themis_orders(task, job.network.graph))
    return Program(tasks=(task,), queueing=job.queueing)


def _check_size(job: CollectiveJob, groups: Ints, *, has_closed: bool) -> None:
    """Refuses what would take minutes or gigabytes: no answer is better than one that takes too long."""
    graph, named = job.network.graph, dict(_algorithms(job))
    way_out = "use the closed engine, or fewer devices" if has_closed else "use fewer devices"
    if job.num_chunks > MOST_CHUNKS:
        raise InvalidInput(f"at most {MOST_CHUNKS:,} chunks are simulated; got {job.num_chunks:,} chunks", "--chunks")
    is_rooted = job.collective in ("broadcast", "reduce")
    blocks = [block for block in graph.blocks if not job.dimensions or block.name in job.dimensions]
    is_uniform = graph.is_uniform and not job.groups and not is_rooted
    num_steps = groups.shape[1] if job.groups else 0
    for block in blocks if not job.groups else ():
        algorithm = named.get(block.name, named.get("*", "")) or suited(block, job.collective)
        num_steps += block.num_devices.bit_length() if algorithm in _FEW_STEPS else block.num_devices
        is_uniform = is_uniform and block.kind not in ("mesh", "graph")
        if block.num_devices > _MOST_LISTED and algorithm in ("ring", "direct") and (is_rooted or block.kind == "mesh"):
            message = f"chains of more than {_MOST_LISTED:,} devices are not simulated; got {block.num_devices:,}"
            other = ", or halving-doubling" if job.collective != "all-to-all" else ""
            raise InvalidInput(f"{message}; {way_out}{other}", block.name)
    count = num_steps * groups.size * job.num_chunks
    if count > _MOST_MESSAGES and not is_uniform:
        raise InvalidInput(f"this would simulate {count:,} messages; {way_out} or chunks")
    if count > _MOST_ROUTED and job.collective == "all-to-all" and any(block.kind == "graph" for block in blocks):
        message = f"at most {_MOST_ROUTED:,} messages find their way through a graph one by one; got {count:,}"
        raise InvalidInput(f"{message}; use fewer devices or chunks, or a switch or fat-tree without leaves of its own")


def _endpoint_s(job: CollectiveJob) -> float:
    parts = [part for part in job.network.parts if not job.dimensions or part.name in job.dimensions]
    return fed_s(job.endpoint, job.collective, job.payload_bytes, parts, bool(job.groups))


def _closed_form_s(job: CollectiveJob) -> tuple[float, ...]:
    """The closed form's time: one chunk, each dimension by the algorithm that suits it; none where there is no form."""
    is_plain = not job.groups and not job.algorithms and job.network.graph.is_uniform
    has_graphs = any(isinstance(part, UnitGraph) for part in job.network.parts)
    if job.collective not in collectives or not is_plain or has_graphs:
        return ()
    group = _group_of(job)
    time_s = collectives[job.collective](job.payload_bytes, group, 1.0)
    return (float(checked_times_s(job.collective, job.payload_bytes, time_s)) + _jitter_s(job),)


def _jitter_s(job: CollectiveJob) -> float:
    """How long ranks wait for the last to come to a collective; a message waits for no rank."""
    num_taking_part = len(job.groups[0]) if job.groups else 0
    return 0.0 if job.collective == "point-to-point" else last_arrival_s(_group_of(job), num_taking_part)


def _check_closed(job: CollectiveJob, closed_form_s: tuple[float, ...]) -> None:
    if job.num_chunks > 1 or job.is_themis:
        raise InvalidInput("the closed form is of one chunk; use the events engine for several")
    if not closed_form_s:
        raise InvalidInput(
            f"no closed form covers this {job.collective}: it takes whole dimensions of equal links by their own"
            " algorithms; use the events engine"
        )


def _loads(graph: LinkGraph, timeline: Timeline, time_s: float) -> list[Load]:
    loads = []
    for block in graph.blocks:
        last = block.first_link + block.num_links * (graph.num_devices // block.num_devices)
        is_alive = graph.is_alive[block.first_link : last]
        busy_s = timeline.link_busy_s[block.first_link : last][is_alive]
        share = busy_s / time_s if time_s else np.zeros(len(busy_s))
        mean_frac, most_frac = (float(share.mean()), float(share.max())) if len(share) else (0.0, 0.0)
        kind, count = block.kind, block.num_devices
        loads.append(Load(dimension=block.name, kind=kind, num_devices=count, mean_frac=mean_frac, most_frac=most_frac))
    return loads
