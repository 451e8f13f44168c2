"""Streams of several ranks played out event by event: kernels, collectives, and who waits for whom.

The host of a rank launches its operators one behind another. A stream runs its own in that order; one starts when it is
launched, the one before it on its stream has ended and those that it waits for have ended. A collective starts when all
of its ranks have come to it. Between events everything runs at a constant rate: kernels of one device that run at once
share it equally and lose the share that a collective beside them takes of the chip; transfers of one device in the same
direction of the same network dimension share that equally. Events are ordered by time, then by sequence number.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dovetail.errors import InvalidInput

OUT, IN = 1, 2  # directions of a device's links
BOTH_WAYS = OUT | IN
_START, _KERNEL_END, _MARK_END, _TRANSFER_END = range(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A collective as one rank calls it: its seconds with the links to itself, and what it takes of the chip.

    `match` is equal for the ranks that take part, and `num_recorded` says how many programs those are. `dimension` is
    the outermost of the network that it reaches into. `words` name it for people.
    """

    match: tuple[object, ...]
    num_recorded: int
    kind: str
    time_s: float
    slowdown_frac: float = 0.0
    dimension: str = ""
    directions: int = BOTH_WAYS
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RankProgram:
    """What one rank launches, by operator: seconds of its host and of its kernels, stream, waits and collectives.

    `launches` is 0 for what launches nothing; the host waits for the device where `is_awaited`. Neighbours among
    `batched` on one stream are one batch: they start together, and the stream goes on when all have ended.
    """

    rank: int
    host_s: Sequence[float]
    kernel_s: Sequence[float]
    launches: Sequence[int]
    streams: Sequence[str]
    waits: Sequence[tuple[int, ...]]
    is_awaited: Sequence[bool]
    calls: dict[int, Call] = field(default_factory=dict)
    batched: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RankTimeline:
    """When each operator of a rank started and ended (both None where nothing ran), and where its time went.

    Of the time to `end_s`, kernels run in `compute_s`. In the rest the device waits: for collectives under way
    (`exposed_s`, by operator), for its host (`host_s`), or for other ranks (`idle_s`).
    """

    starts_s: tuple[float | None, ...]
    ends_s: tuple[float | None, ...]
    arrivals_s: dict[int, float]  # of collectives: when this rank had come to it
    end_s: float
    compute_s: float
    host_s: float
    idle_s: float
    exposed_s: dict[int, float]


@dataclass(slots=True, eq=False)
class _Transfer:
    """A collective or message under way."""

    dimension: str
    members: list[tuple[_Rank, int, Call]]
    left_s: float
    rate_frac: float = 0.0
    since_s: float = 0.0
    version: int = 0


class _Rank:
    """The running state of one rank."""

    def __init__(self, program: RankProgram) -> None:
        self.program = program
        count = len(program.host_s)
        self.starts_s: list[float | None] = [None] * count
        self.ends_s: list[float | None] = [None] * count
        self.arrivals_s: dict[int, float] = {}
        self.host_at = 0.0
        self.next_op = 0
        self.kernels: dict[int, list[float]] = {}  # by operator: seconds left, rate, since when, version
        self.transfers: dict[int, _Transfer] = {}
        self.arrived: set[int] = set()  # calls that wait for other ranks
        self.loads: dict[tuple[str, int], int] = {}
        self.marked_s = 0.0
        self.compute_s = self.host_s = self.idle_s = 0.0
        self.gaps: list[tuple[float, float, tuple[int, ...], bool]] = []  # since a kernel ran: from, to, transfers
        self.exposed_s: dict[int, float] = {}
        self.end_s = 0.0
        self.num_left = 0
        self._lay_out()

    def _lay_out(self) -> None:
        """Slots of the streams: an operator each, or a batch; views take part only where something waits for them."""
        program = self.program
        waited = {place for waits in program.waits for place in waits}
        self.slot_of: dict[int, int] = {}
        self.slots: list[list[int]] = []
        self.dependents: dict[int, list[int]] = {}  # slots that wait for an operator
        self.lacking: list[int] = []  # of a slot: ends and launches that it still needs
        self.after: list[int] = []  # the slot behind it on its stream
        self.before_s: list[float] = []  # when what a slot needs of the device had ended
        self.running: list[int] = []
        last: dict[str, int] = {}
        last_op = -1
        for place, (stream, waits) in enumerate(zip(program.streams, program.waits, strict=True)):
            is_run = program.launches[place] or place in program.calls or program.is_awaited[place]
            if not (is_run or waits or place in waited):
                continue
            for earlier in waits:
                if not 0 <= earlier < place:
                    raise InvalidInput(f"operator {place} of rank {program.rank} waits for operator {earlier}")
            is_batched = place in program.batched and last_op in program.batched and program.streams[last_op] == stream
            if is_batched and not any(self.slot_of[earlier] == self.slot_of[last_op] for earlier in waits):
                slot = self.slot_of[last_op]
                self.slots[slot].append(place)
            else:
                slot = len(self.slots)
                self.slots.append([place])
                self.lacking.append(stream in last)
                self.after.append(-1)
                self.before_s.append(0.0)
                self.running.append(0)
                if stream in last:
                    self.after[last[stream]] = slot
                last[stream] = slot
            self.lacking[slot] += 1 + len(waits)
            for earlier in waits:
                self.dependents.setdefault(earlier, []).append(slot)
            self.slot_of[place] = slot
            last_op = place
        self.num_left = len(self.slots)

    def mark(self, now_s: float) -> None:
        """Accounts for the time since the last change."""
        span_s = now_s - self.marked_s
        if span_s > 0:
            if self.kernels:
                self.compute_s += span_s
            else:
                self.gaps.append((self.marked_s, now_s, tuple(self.transfers), bool(self.arrived)))
        self.marked_s = now_s

    def settle_gaps(self, ready_s: float) -> None:
        """Sorts the time without a kernel: from `ready_s` on only the host was missing.

        Until then it is due to the collective that ended at `ready_s`, or to those under way before that one began.
        """
        for begin_s, end_s, under_way, is_arrived in self.gaps:
            lacked_s = min(end_s, ready_s) - begin_s
            if lacked_s > 0:
                if under_way:
                    awaited = [place for place in under_way if self.ends_s[place] == ready_s] or under_way
                    share_s = lacked_s / len(awaited)
                    for place in awaited:
                        self.exposed_s[place] = self.exposed_s.get(place, 0.0) + share_s
                elif is_arrived:
                    self.idle_s += lacked_s
                else:
                    self.host_s += lacked_s
            self.host_s += end_s - max(begin_s, min(end_s, ready_s))
        self.gaps.clear()


def played_out(programs: Sequence[RankProgram]) -> tuple[RankTimeline, ...]:
    """The timeline of each rank; raises in one line where they wait for one another for ever."""
    run = _Playing(programs)
    run.play()
    return tuple(_timeline(rank) for rank in run.ranks)


class _Playing:
    def __init__(self, programs: Sequence[RankProgram]) -> None:
        self.ranks = [_Rank(program) for program in programs]
        self.events: list[tuple[float, int, int, object, int, int]] = []
        self.sequence = 0
        self.meeting: dict[tuple[object, ...], list[tuple[_Rank, int, Call]]] = {}

    def play(self) -> None:
        events, pop = self.events, heapq.heappop
        for rank in self.ranks:
            self._launch(rank, 0.0)
        while events:
            now_s, _, kind, whose, place, version = pop(events)
            if kind == _KERNEL_END:
                assert isinstance(whose, _Rank)
                kernel = whose.kernels.get(place)
                if kernel is not None and kernel[3] == version:
                    self._end_kernel(whose, place, now_s)
            elif kind == _START:
                assert isinstance(whose, _Rank)
                self._start(whose, place, now_s)
            elif kind == _MARK_END:
                assert isinstance(whose, _Rank)
                self._ended(whose, place, now_s)
            else:
                assert isinstance(whose, _Transfer)
                if whose.version == version:
                    self._end_transfer(whose, now_s)
        if any(rank.num_left for rank in self.ranks):
            raise InvalidInput(self._deadlock())

    def _push(self, at_s: float, kind: int, whose: object, place: int, version: int = 0) -> None:
        self.sequence += 1
        heapq.heappush(self.events, (at_s, self.sequence, kind, whose, place, version))

    def _launch(self, rank: _Rank, now_s: float) -> None:
        """The host goes on until it waits for the device."""
        program, slot_of = rank.program, rank.slot_of
        host_s, is_awaited = program.host_s, program.is_awaited
        at_s = rank.host_at
        for place in range(rank.next_op, len(host_s)):
            at_s += host_s[place]
            slot = slot_of.get(place)
            if slot is None:
                continue
            rank.starts_s[place] = at_s  # not before
            self._supply(rank, slot, now_s)
            if is_awaited[place]:
                rank.host_at, rank.next_op = at_s, place + 1
                return
        rank.host_at, rank.next_op = at_s, len(host_s)

    def _supply(self, rank: _Rank, slot: int, now_s: float) -> None:
        """One thing less that `slot` lacks."""
        rank.lacking[slot] -= 1
        if rank.lacking[slot]:
            return
        launched_s = rank.starts_s[rank.slots[slot][-1]]
        assert launched_s is not None, slot
        if launched_s <= now_s:
            self._start(rank, slot, now_s)
        else:
            self._push(launched_s, _START, rank, slot)

    def _start(self, rank: _Rank, slot: int, now_s: float) -> None:
        places = rank.slots[slot]
        rank.running[slot] = len(places)
        for place in places:
            call = rank.program.calls.get(place)
            if call is not None:
                self._arrive(rank, place, call, now_s)
                continue
            rank.starts_s[place] = now_s
            if not rank.program.launches[place]:
                self._push(now_s, _MARK_END, rank, place)
                continue
            rank.mark(now_s)
            if rank.gaps:
                rank.settle_gaps(rank.before_s[slot])
            rank.kernels[place] = [rank.program.kernel_s[place], 0.0, now_s, 0]
            self._pace_kernels(rank, now_s)

    def _end_kernel(self, rank: _Rank, place: int, now_s: float) -> None:
        rank.mark(now_s)
        del rank.kernels[place]
        if rank.kernels:
            self._pace_kernels(rank, now_s)
        self._ended(rank, place, now_s)

    def _pace_kernels(self, rank: _Rank, now_s: float) -> None:
        """Kernels share the device, less what the collective beside them takes."""
        held_frac = 0.0
        for place in rank.transfers:
            held_frac = max(held_frac, rank.program.calls[place].slowdown_frac)
        rate = (1.0 - held_frac) / len(rank.kernels)
        for place, kernel in rank.kernels.items():
            left_s, before, since_s, version = kernel
            if before == rate:
                continue
            left_s = max(left_s - (now_s - since_s) * before, 0.0)
            kernel[:] = left_s, rate, now_s, version + 1
            self._push(now_s + left_s / rate, _KERNEL_END, rank, place, int(version) + 1)

    def _arrive(self, rank: _Rank, place: int, call: Call, now_s: float) -> None:
        rank.mark(now_s)
        rank.arrivals_s[place] = now_s
        waiting = self.meeting.setdefault(call.match, [])
        for other, at, known in waiting:
            if known.kind != call.kind and {known.kind, call.kind} != {"send", "recv"}:
                here = f"rank {rank.program.rank} calls {call.words} (operator {place})"
                there = f"rank {other.program.rank} calls {known.words} (operator {at})"
                raise InvalidInput(f"{here} where {there}")
        waiting.append((rank, place, call))
        if len(waiting) < call.num_recorded:
            rank.arrived.add(place)
            return
        del self.meeting[call.match]
        transfer = _Transfer(
            dimension=call.dimension,
            members=waiting,
            left_s=max(one.time_s for *_, one in waiting),
            since_s=now_s,
        )
        for member, at, one in waiting:
            member.mark(now_s)
            member.arrived.discard(at)
            member.starts_s[at] = now_s
            member.transfers[at] = transfer
            self._load(member, one, 1)
        self._pace_after(transfer, now_s)

    def _load(self, rank: _Rank, call: Call, more: int) -> None:
        for direction in (OUT, IN):
            if call.directions & direction:
                key = call.dimension, direction
                rank.loads[key] = rank.loads.get(key, 0) + more

    def _pace_after(self, changed: _Transfer, now_s: float) -> None:
        """New rates of what shares a device with a transfer that began or ended."""
        met: dict[int, _Transfer] = {}
        for rank, _, _ in changed.members:
            for transfer in rank.transfers.values():
                if transfer.dimension == changed.dimension:
                    met[id(transfer)] = transfer
            if rank.kernels:
                self._pace_kernels(rank, now_s)
        for transfer in met.values():
            busiest = max(
                rank.loads[transfer.dimension, direction]
                for rank, _, call in transfer.members
                for direction in (OUT, IN)
                if call.directions & direction
            )
            rate = 1.0 / busiest
            if rate == transfer.rate_frac:
                continue
            transfer.left_s = max(transfer.left_s - (now_s - transfer.since_s) * transfer.rate_frac, 0.0)
            transfer.rate_frac, transfer.since_s = rate, now_s
            transfer.version += 1
            self._push(now_s + transfer.left_s / rate, _TRANSFER_END, transfer, 0, transfer.version)

    def _end_transfer(self, transfer: _Transfer, now_s: float) -> None:
        transfer.version += 1
        for rank, place, call in transfer.members:
            rank.mark(now_s)
            del rank.transfers[place]
            self._load(rank, call, -1)
        self._pace_after(transfer, now_s)
        for rank, place, _ in transfer.members:
            self._ended(rank, place, now_s)

    def _ended(self, rank: _Rank, place: int, now_s: float) -> None:
        rank.ends_s[place] = now_s
        if now_s > rank.end_s and (rank.program.launches[place] or place in rank.program.calls):
            rank.end_s = now_s
        slot = rank.slot_of[place]
        rank.running[slot] -= 1
        following = list(rank.dependents.get(place, ()))
        if not rank.running[slot]:
            rank.num_left -= 1
            if rank.after[slot] >= 0:
                following.append(rank.after[slot])
        for other in following:
            rank.before_s[other] = now_s
            self._supply(rank, other, now_s)
        if rank.program.is_awaited[place]:
            rank.host_at = max(rank.host_at, now_s)
            self._launch(rank, now_s)

    def _deadlock(self) -> str:
        """What every rank that has not ended waits in front of."""
        stuck = []
        for rank in self.ranks:
            if not rank.num_left:
                continue
            calls = rank.program.calls
            places = sorted(rank.arrived) or [place for place in rank.slot_of if rank.ends_s[place] is None]
            words = calls[places[0]].words if places[0] in calls else "an operator"
            stuck.append(f"rank {rank.program.rank} in {words} (operator {places[0]})")
        return f"the recorded ranks wait for one another for ever: {'; '.join(stuck)}"


def _timeline(rank: _Rank) -> RankTimeline:
    rank.settle_gaps(float("inf"))
    return RankTimeline(
        starts_s=tuple(rank.starts_s),
        ends_s=tuple(rank.ends_s),
        arrivals_s=rank.arrivals_s,
        end_s=rank.end_s,
        compute_s=rank.compute_s,
        host_s=rank.host_s,
        idle_s=rank.idle_s,
        exposed_s=rank.exposed_s,
    )


def step_end_s(timelines: Iterable[RankTimeline]) -> float:
    """When the last rank ends."""
    return max((one.end_s for one in timelines), default=0.0)
