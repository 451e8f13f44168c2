"""A recorded training step of many ranks on a cluster: kernels, collectives and waits as its code orders them.

Kernels take what they take in `step.eager`, collectives what the library of the cluster's network takes on the group's
ranks, by the same function as plans and `dovetail network`. `step.stream_events` puts them together. Compute beside a
collective loses the share that plans count for it: what the chip's endpoint takes (`hardware.endpoints`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.comm.library.on_group import why_outside
from dovetail.cost.cost import Cost
from dovetail.cost.eager.times import EagerTimes, eager_times
from dovetail.cost.power import Load, sustained_clock_frac
from dovetail.errors import InvalidInput
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.topology import Group, Topology, num_ranks
from dovetail.parallel.memory import COMMUNICATOR_BYTES, CONTEXT_BYTES, FIRST_COMMUNICATOR_BYTES
from dovetail.parallel.ranks import group_of_ranks, num_nodes
from dovetail.step.communication import collective_overheads, timed
from dovetail.step.eager import HostPace, is_host_read, operator_host_s, step_memory
from dovetail.step.stream_events import BOTH_WAYS, IN, OUT, Call, RankProgram, RankTimeline, played_out, step_end_s
from dovetail.workload.dispatched import PHASES, CollectiveCall, DispatchedStep, DistributedStep, RankStep
from dovetail.workload.graph import FloatArray, IntArray

SEND, RECV, BARRIER, ALL_TO_ALL = "send", "recv", "barrier", "all-to-all"
POINT_TO_POINT = "point-to-point"
# How collectives without measured times are priced. Round a ring a broadcast and a reduce send all bytes over every
# link where an all-gather and a reduce-scatter send (n - 1) / n of them; a barrier is an all-reduce of one element
# (PyTorch, ProcessGroupNCCL.cpp). The root's port carries of a gather or scatter what every port does of an all-to-all.
PRICED_AS = {"broadcast": "all-gather", "reduce": "reduce-scatter", "gather": ALL_TO_ALL, "scatter": ALL_TO_ALL,
             BARRIER: "all-reduce", SEND: POINT_TO_POINT, RECV: POINT_TO_POINT}  # fmt: skip
WHOLE_ROUND_RING = ("broadcast", "reduce")
UNRECORDED = "messages go to ranks that were not recorded, and are taken to find them there"
MOVING = (ALL_TO_ALL, "gather", "scatter", SEND, RECV)  # collectives that add nothing: see `Endpoint.moving`


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveTotal:
    """Calls of one collective with one payload in one group, by one rank.

    `time_s` is theirs under way, in `exposed_s` of which no kernel ran; before that they waited `peer_wait_s` for other
    ranks to come. `alone_s` is their time with the links to themselves.
    """

    kind: str
    group: str
    num_ranks: int
    num_nodes: int
    num_bytes: int
    num_calls: int
    time_s: float
    alone_s: float
    peer_wait_s: float
    exposed_s: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RankOutcome:
    """The step on one recorded rank, which stands for `num_ranks`.

    `compute_s`, `exposed_s`, `host_s` and `idle_s` add up to the step: kernels run; a collective is under way and none
    does; the host has launched nothing; other ranks are waited for, at the end of the step too. `kernel_s` is the time
    of every kernel by itself, `full_clock_s` that at full clock, `flop` what it executes. `outside_bytes` is what the
    process holds outside the allocator.
    """

    rank: int
    num_ranks: int
    step: DispatchedStep
    timeline: RankTimeline
    kernel_s: FloatArray
    full_clock_s: FloatArray
    launches: FloatArray
    flop: FloatArray
    compute_s: float
    exposed_s: float
    host_s: float
    idle_s: float
    clock_frac: float
    collectives: tuple[CollectiveTotal, ...]
    peak_bytes: float
    reserved_bytes: float
    outside_bytes: float

    @property
    def contention_s(self) -> float:
        """What kernels lost to collectives and to one another."""
        return max(self.compute_s - float(self.kernel_s.sum()), 0.0)

    @property
    def phase_s(self) -> tuple[tuple[str, float], ...]:
        """Seconds of kernels by phase."""
        sums = dict.fromkeys(PHASES, 0.0)
        for op, kernel_s in zip(self.step.ops, self.kernel_s.tolist(), strict=True):
            sums[op.phase] += kernel_s
        return tuple(sums.items())

    @property
    def comm_s(self) -> float:
        """Seconds of all collectives, one behind another."""
        return sum(one.time_s for one in self.collectives)

    @property
    def overlap_frac(self) -> float:
        """Share of communication with kernels beside it."""
        return 1.0 - self.exposed_s / self.comm_s if self.comm_s else 0.0

    @property
    def needed_bytes(self) -> float:
        return self.reserved_bytes + self.outside_bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DistributedOutcome:
    """A step of a job of `step.world_size` ranks; `memory_bytes` is what a framework sees of a device's HBM."""

    step: DistributedStep
    cluster: str
    chip: str
    step_s: float
    ranks: tuple[RankOutcome, ...]
    memory_bytes: float
    notes: tuple[str, ...] = ()

    @property
    def slowest(self) -> RankOutcome:
        """The rank that waits the least for others: the one that sets the pace."""
        return min(self.ranks, key=lambda one: (one.idle_s, one.rank))

    @property
    def fullest(self) -> RankOutcome:
        return max(self.ranks, key=lambda one: one.needed_bytes)

    @property
    def fits(self) -> bool:
        return self.fullest.needed_bytes <= self.memory_bytes


def distributed_step(step: DistributedStep, cluster: Cluster, host: HostPace | None = None) -> DistributedOutcome:
    """`step` on the first devices of `cluster`, each at the clock that its power limit leaves over the whole step."""
    _check(step, cluster)
    host = host or HostPace()
    calls = _Calls(step, cluster)
    works = [_work(one, cluster, host, calls) for one in step.ranks]
    full = played_out([one.program(1.0) for one in works])
    full_s = step_end_s(full)
    clocks = [one.clock_frac(timeline, full_s, cluster) for one, timeline in zip(works, full, strict=True)]
    found = full
    if any(clock < 1.0 for clock in clocks):
        found = played_out([one.program(clock) for one, clock in zip(works, clocks, strict=True)])
    step_s = step_end_s(found)
    ranks = tuple(
        one.outcome(timeline, clock, step_s) for one, timeline, clock in zip(works, found, clocks, strict=True)
    )
    return DistributedOutcome(
        step=step,
        cluster=cluster.name,
        chip=cluster.chip.name,
        step_s=step_s,
        ranks=ranks,
        memory_bytes=cluster.chip.visible_bytes,
        notes=(*step.notes, *dict.fromkeys(note for one in step.ranks for note in one.step.notes), *calls.notes),
    )


def _check(step: DistributedStep, cluster: Cluster) -> None:
    if not step.ranks:
        raise InvalidInput("a distributed step has at least one recorded rank")
    if step.world_size > cluster.num_devices:
        raise InvalidInput(
            f"the code runs {step.world_size:,} ranks and {cluster.name} has {cluster.num_devices:,} devices;"
            " take a larger cluster or a smaller world size",
            "--world-size",
        )
    numbers = [one.rank for one in step.ranks]
    if len(set(numbers)) < len(numbers):
        raise InvalidInput(f"a rank was recorded twice: {', '.join(map(str, numbers))}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Work:
    """All that one rank runs, at full clock."""

    recorded: RankStep
    times: EagerTimes
    places: IntArray  # of the operators that are no collectives
    launches: list[int]
    host_s: list[float]
    calls: dict[int, Call]
    groups: dict[int, Group]
    sent_bytes: float
    num_communicators: int

    def kernel_s(self, clock_frac: float) -> FloatArray:
        found = np.zeros(len(self.launches))
        found[self.places] = self.times.stream_s + self.times.clocked_s * (1 / clock_frac - 1)
        return found

    def _flop(self) -> FloatArray:
        found = np.zeros(len(self.launches))
        found[self.places] = self.times.flop
        return found

    def program(self, clock_frac: float) -> RankProgram:
        ops = self.recorded.step.ops
        sends = (place for place, op in enumerate(ops) if op.collective and op.collective.kind in (SEND, RECV))
        return RankProgram(
            rank=self.recorded.rank,
            host_s=self.host_s,
            kernel_s=self.kernel_s(clock_frac).tolist(),
            launches=self.launches,
            streams=[op.stream for op in ops],
            waits=[op.waits for op in ops],
            is_awaited=[
                is_host_read(op) or (op.collective is not None and op.collective.kind == BARRIER) for op in ops
            ],
            calls=self.calls,
            batched=frozenset(sends),
        )

    def clock_frac(self, full: RankTimeline, step_s: float, cluster: Cluster) -> float:
        """As in `step.eager`: the device's work over and over, in no less than the step where it ever waits."""
        cost: Cost = self.times.total()
        chip = cluster.chip
        does_wait = full.compute_s > cost.compute_s * (1 + ROUNDING_FRAC) or (
            full.host_s + full.idle_s + sum(full.exposed_s.values()) > 0 or full.end_s < step_s
        )
        sent_j = self.sent_bytes * chip.energy.link_j_per_byte
        load = Load(cost=replace(cost, energy_j=cost.energy_j + sent_j, host_s=step_s if does_wait else 0.0))
        return float(sustained_clock_frac(load, chip))

    def outcome(self, timeline: RankTimeline, clock_frac: float, step_s: float) -> RankOutcome:
        memory = step_memory(self.recorded.step)
        more = max(self.num_communicators - 1, 0) * COMMUNICATOR_BYTES
        own_bytes = FIRST_COMMUNICATOR_BYTES + more if self.num_communicators else 0.0
        return RankOutcome(
            rank=self.recorded.rank,
            num_ranks=self.recorded.num_ranks,
            step=self.recorded.step,
            timeline=timeline,
            kernel_s=self.kernel_s(clock_frac),
            full_clock_s=self.kernel_s(1.0),
            launches=np.array(self.launches, dtype=np.float64),
            flop=self._flop(),
            compute_s=timeline.compute_s,
            exposed_s=sum(timeline.exposed_s.values()),
            host_s=timeline.host_s,
            idle_s=timeline.idle_s + step_s - timeline.end_s,
            clock_frac=clock_frac,
            collectives=self._totals(timeline),
            peak_bytes=memory.peak_bytes,
            reserved_bytes=memory.reserved_bytes,
            outside_bytes=CONTEXT_BYTES + own_bytes,
        )

    def _totals(self, timeline: RankTimeline) -> tuple[CollectiveTotal, ...]:
        found: dict[tuple[object, ...], CollectiveTotal] = {}
        for place, call in self.calls.items():
            recorded = self.recorded.step.ops[place].collective
            start_s, end_s = timeline.starts_s[place], timeline.ends_s[place]
            assert recorded is not None, place
            assert start_s is not None, place
            assert end_s is not None, place
            one = CollectiveTotal(
                kind=recorded.kind,
                group=recorded.group,
                num_ranks=len(_taking_part(recorded, self.recorded.rank)),
                num_nodes=num_nodes(self.groups[place]),
                num_bytes=recorded.num_bytes,
                num_calls=1,
                time_s=end_s - start_s,
                alone_s=call.time_s,
                peer_wait_s=start_s - timeline.arrivals_s[place],
                exposed_s=timeline.exposed_s.get(place, 0.0),
            )
            key = one.kind, one.group, one.num_ranks, one.num_nodes, one.num_bytes
            found[key] = _added(found[key], one) if key in found else one
        return tuple(sorted(found.values(), key=lambda one: (-one.exposed_s, -one.time_s, one.kind, one.group)))


ROUNDING_FRAC = 1e-9  # style: a tolerance; sums of the same seconds in another order


def _added(one: CollectiveTotal, other: CollectiveTotal) -> CollectiveTotal:
    return replace(
        one,
        num_calls=one.num_calls + other.num_calls,
        time_s=one.time_s + other.time_s,
        alone_s=one.alone_s + other.alone_s,
        peer_wait_s=one.peer_wait_s + other.peer_wait_s,
        exposed_s=one.exposed_s + other.exposed_s,
    )


def _work(recorded: RankStep, cluster: Cluster, host: HostPace, calls: _Calls) -> _Work:
    step = recorded.step
    places = np.array([place for place, op in enumerate(step.ops) if op.collective is None], dtype=np.int64)
    times = eager_times([step.ops[place] for place in places.tolist()], cluster.chip, has_tf32=step.has_tf32)
    launches = np.ones(len(step.ops), dtype=np.int64)
    launches[places] = times.launches
    found, groups, sent = calls.of_rank(recorded)
    communicators = {
        (op.collective.ranks, op.collective.group) for op in step.ops if op.collective and len(op.collective.ranks) > 1
    }
    return _Work(
        recorded=recorded,
        times=times,
        places=places,
        launches=launches.tolist(),
        host_s=operator_host_s(step, host, launches),
        calls=found,
        groups=groups,
        sent_bytes=sent,
        num_communicators=len(communicators),
    )


class _Calls:
    """Prices collectives of all ranks, each distinct one once, and says which calls are one collective."""

    def __init__(self, step: DistributedStep, cluster: Cluster) -> None:
        self._recorded = frozenset(one.rank for one in step.ranks)
        self._cluster = cluster
        self._world_size = step.world_size
        self._groups: dict[tuple[int, ...], Group] = {}
        self._priced: dict[tuple[str, float, tuple[int, ...]], tuple[float, float]] = {}
        self.notes: list[str] = []

    def of_rank(self, recorded: RankStep) -> tuple[dict[int, Call], dict[int, Group], float]:
        """The calls of one rank and their groups, by operator, and the bytes that it sends in all of them."""
        counts: dict[tuple[object, ...], int] = {}
        calls, groups, sent = {}, {}, 0.0
        endpoint = self._cluster.chip.endpoint_kind
        for place, op in enumerate(recorded.step.ops):
            called = op.collective
            if called is None:
                continue
            ranks = _taking_part(called, recorded.rank)
            self._check(recorded.rank, called, ranks)
            group = groups[place] = self._group(ranks)
            time_s, sent_bytes = self._timed_alone(called, recorded.rank, ranks, group)
            sent += sent_bytes if called.kind != RECV else 0.0
            match: tuple[object, ...] = (called.ranks, called.group)
            directions = BOTH_WAYS
            if called.kind in (SEND, RECV):
                match = (ranks, called.group)
                directions = OUT if called.kind == SEND else IN
            count = counts[match] = counts.get(match, 0) + 1
            slowdown = endpoint.moving_held_frac if called.kind in MOVING else endpoint.adding_slowdown_frac
            calls[place] = Call(
                match=(*match, count),
                num_recorded=len(self._recorded.intersection(ranks)),
                kind=called.kind,
                time_s=time_s,
                slowdown_frac=slowdown if num_ranks(group) > 1 else 0.0,
                dimension=group[-1].dimension.name if group else "",
                directions=directions,
                words=_words(called),
            )
        return calls, groups, sent

    def _check(self, rank: int, called: CollectiveCall, ranks: tuple[int, ...]) -> None:
        if rank not in ranks or rank not in called.ranks:
            raise InvalidInput(f"rank {rank} calls {_words(called)} in a group that it is not in")
        if not all(0 <= one < self._world_size for one in ranks):
            raise InvalidInput(f"rank {rank} calls {_words(called)} with ranks beyond {self._world_size:,}")
        if called.kind in (SEND, RECV):
            if called.peer == rank:
                raise InvalidInput(f"rank {rank} calls {_words(called)}, which is itself")
            if called.peer not in self._recorded and UNRECORDED not in self.notes:
                self.notes.append(UNRECORDED)

    def _group(self, ranks: tuple[int, ...]) -> Group:
        if ranks not in self._groups:
            group = self._groups[ranks] = group_of_ranks(ranks, self._cluster.topology)
            outside = why_outside(group) if num_ranks(group) > 1 else ""
            if outside:
                note = f"collectives {outside}: outside of what was measured"
                if note not in self.notes:
                    self.notes.append(note)
        return self._groups[ranks]

    def _timed_alone(
        self, called: CollectiveCall, rank: int, ranks: tuple[int, ...], group: Group
    ) -> tuple[float, float]:
        """Seconds of a call with the links to itself, and the bytes that a rank sends in it."""
        count = len(ranks)
        if count < 2:
            return 0.0, 0.0
        payload_bytes = float(max(called.num_bytes, 1))
        if called.kind == ALL_TO_ALL and called.bytes_by_rank:
            payload_bytes = max(even_payload_bytes(called, rank, group, self._cluster.topology), 1.0)
        if called.kind in WHOLE_ROUND_RING:
            payload_bytes *= count / (count - 1)
        kind = PRICED_AS.get(called.kind, called.kind)
        key = kind, payload_bytes, ranks
        if key not in self._priced:
            overheads = collective_overheads(self._cluster.chip.calibration)
            time_s, sent = timed(kind, np.array([payload_bytes]), group, overheads.link_frac, overheads.start_s)
            self._priced[key] = float(time_s[0]), float(np.ravel(sent)[0])
        return self._priced[key]


def even_payload_bytes(called: CollectiveCall, rank: int, group: Group, topology: Topology) -> float:
    """The even all-to-all whose busiest dimension carries as many bytes of `rank` as this one of uneven splits."""
    count = len(called.ranks)
    if len(called.bytes_by_rank) != count:
        raise InvalidInput(f"an all-to-all of {count} ranks has {len(called.bytes_by_rank)} splits")
    most, num_below = 0.0, 1
    spanned = {span.dimension.name: span.num_ranks for span in group}
    block = 1  # devices of the dimensions further inside
    for dimension in topology.dimensions:
        if dimension.name in spanned:
            leaving = sum(
                sent
                for other, sent in zip(called.ranks, called.bytes_by_rank, strict=True)
                if other // block != rank // block
            )
            most = max(most, leaving * count / (count - num_below))
            num_below *= spanned[dimension.name]
        block *= dimension.num_devices
    return most


def _taking_part(called: CollectiveCall, rank: int) -> tuple[int, ...]:
    """The ranks of a collective; of a message its source and its destination."""
    if called.kind not in (SEND, RECV):
        return called.ranks
    if called.peer is None:
        raise InvalidInput(f"a {called.kind} of rank {rank} names no other rank")
    return (rank, called.peer) if called.kind == SEND else (called.peer, rank)


def _words(called: CollectiveCall) -> str:
    where = f" of {called.group}" if called.group else ""
    if called.kind in (SEND, RECV):
        return f"{called.kind} {'to' if called.kind == SEND else 'from'} rank {called.peer}{where}"
    return f"{called.kind}{where} ({len(called.ranks):,} ranks)"


def exposed_by(rank: RankOutcome) -> tuple[tuple[str, str, float], ...]:
    """Exposed seconds by group and kind, the most first."""
    sums: dict[tuple[str, str], float] = {}
    for one in rank.collectives:
        sums[one.group, one.kind] = sums.get((one.group, one.kind), 0.0) + one.exposed_s
    return tuple((group, kind, value) for (group, kind), value in sorted(sums.items(), key=lambda item: -item[1]))
