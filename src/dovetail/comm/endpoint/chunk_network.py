"""Chunks of collectives through one device, event by event: servers, workers, buffer partitions, and who goes first.

One device stands for all, as every device of a symmetric collective does the same. Events are ordered by time, then by
sequence number. A chunk that has started is not overtaken; of those that wait, the most urgent class goes first and
within a class the collective issued last.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field

from dovetail.errors import InvalidInput

UNLIMITED = 2**31  # workers or slots that nothing runs out of


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """One stage of a route: holds servers (server, seconds), then waits `delay_s` for latency.

    One server after another, or, where its bytes `does_stream` through them, all at once.
    """

    holds: tuple[tuple[int, float], ...]
    delay_s: float
    crew: int  # whose worker serves it
    partition: int  # where its bytes lie meanwhile
    does_stream: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """`num_chunks` equal chunks along one route; lower `urgency` goes first."""

    name: str
    num_chunks: int
    route: tuple[Stop, ...]
    sent_bytes: float
    urgency: int = 1

    def __post_init__(self) -> None:
        if self.num_chunks < 1 or not self.route:
            raise InvalidInput(f"a collective needs chunks and stages; {self.name} has {self.num_chunks} chunks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Station:
    """What chunks share: workers of each crew, slots of each partition, servers, chunks in flight at most."""

    num_servers: int
    crews: tuple[int, ...]
    slots: tuple[int, ...]
    max_chunks: int = UNLIMITED


@dataclass(slots=True)
class _Chunk:
    collective: Collective
    route: tuple[Stop, ...]  # the collective's, at hand
    stop: int = 0


@dataclass(slots=True)
class ChunkNetwork:
    """The running simulation; `now_s` only moves forward."""

    station: Station
    now_s: float = 0.0
    busy_s: list[float] = field(default_factory=list)
    active_s: float = 0.0
    sent_bytes: float = 0.0
    left: dict[str, int] = field(default_factory=dict)
    num_events: int = 0
    does_record: bool = False  # from when it is set, every hold of a server goes into `spans`
    spans: list[tuple[int, float, float]] = field(default_factory=list)  # (server, from, to) in seconds
    _free_s: list[float] = field(default_factory=list)
    _crews: list[int] = field(default_factory=list)
    _slots: list[int] = field(default_factory=list)
    _for_crew: list[deque[_Chunk]] = field(default_factory=list)
    _for_slot: list[deque[_Chunk]] = field(default_factory=list)
    _events: list[tuple[float, int, _Chunk]] = field(default_factory=list)
    _pending: list[tuple[int, int, list[object]]] = field(default_factory=list)
    _sequence: int = 0
    _in_flight: int = 0

    def __post_init__(self) -> None:
        self.busy_s = [0.0] * self.station.num_servers
        self._free_s = [0.0] * self.station.num_servers
        self._crews = list(self.station.crews)
        self._slots = list(self.station.slots)
        self._for_crew = [deque() for _ in self._crews]
        self._for_slot = [deque() for _ in self._slots]

    @property
    def is_active(self) -> bool:
        return bool(self._in_flight or self._pending)

    def issue(self, collective: Collective) -> None:
        """Queues a collective now."""
        self._sequence += 1
        self.left[collective.name] = self.left.get(collective.name, 0) + collective.num_chunks
        heapq.heappush(self._pending, (collective.urgency, -self._sequence, [collective, collective.num_chunks]))
        self._admit()

    def advance(self, until_s: float) -> None:
        """Runs every event up to `until_s` and leaves the clock there."""
        self._run(until_s)
        if self.is_active:
            self.active_s += until_s - self.now_s
        self.now_s = until_s

    def wait(self, name: str) -> None:
        """Runs until collective `name` has ended."""
        if self.left.get(name, 0):
            self._run(math.inf, name)
            assert not self.left[name], f"{name} waits for ever: {self.left[name]} chunks left at {self.now_s} s"

    def drain(self) -> None:
        """Runs until nothing is left."""
        self._run(math.inf)
        assert not self.is_active, "chunks are stuck"

    def _run(self, until_s: float, name: str | None = None) -> None:
        """Every event up to `until_s`, or until collective `name` has ended: each a chunk at the end of a stage.

        There are millions of them, so what most chunks do is written out here, and only what few do is called.
        """
        events, crews, slots, left = self._events, self._crews, self._slots, self.left
        for_crew, for_slot, pending, serve = self._for_crew, self._for_slot, self._pending, self._serve
        pop = heapq.heappop
        while events and events[0][0] <= until_s:
            at_s, _, chunk = pop(events)
            self.num_events += 1
            self.active_s += at_s - self.now_s  # the chunk is in flight
            self.now_s = at_s
            route, at = chunk.route, chunk.stop
            done = route[at]
            held, waiting = done.partition, for_crew[done.crew]
            if waiting:
                other = waiting.popleft()
                serve(other, other.route[other.stop])
            else:
                crews[done.crew] += 1
            chunk.stop = at = at + 1
            if at == len(route):
                self._leave(chunk, held)
                if chunk.collective.name == name and not left[name]:
                    return
                continue
            stop = route[at]
            wanted = stop.partition
            if wanted != held:
                if not slots[wanted]:
                    for_slot[wanted].append(chunk)
                    continue
                slots[wanted] -= 1
                if pending or for_slot[held]:
                    self._release(held)
                else:
                    slots[held] += 1
            if crews[stop.crew]:
                crews[stop.crew] -= 1
                serve(chunk, stop)
            else:
                for_crew[stop.crew].append(chunk)

    def _leave(self, chunk: _Chunk, held: int) -> None:
        self._in_flight -= 1
        self.left[chunk.collective.name] -= 1
        self._release(held)
        self._admit()

    def _release(self, partition: int) -> None:
        """A slot is free: the chunk longest waiting for it moves in, and frees the one it held."""
        self._slots[partition] += 1
        waiting = self._for_slot[partition]
        if waiting:
            chunk = waiting.popleft()
            self._slots[partition] -= 1
            held = chunk.route[chunk.stop - 1].partition
            self._ask(chunk)
            self._release(held)
        elif self._pending:
            self._admit()

    def _admit(self) -> None:
        """Starts chunks of the most urgent collective while there is room for them."""
        while self._pending and self._in_flight < self.station.max_chunks:
            entry = self._pending[0][2]
            collective = entry[0]
            assert isinstance(collective, Collective)
            door = collective.route[0].partition
            if not self._slots[door]:
                return
            entry[1] -= 1  # type: ignore[operator]
            if not entry[1]:
                heapq.heappop(self._pending)
            self._slots[door] -= 1
            self._in_flight += 1
            self.sent_bytes += collective.sent_bytes / collective.num_chunks
            self._ask(_Chunk(collective, collective.route))

    def _ask(self, chunk: _Chunk) -> None:
        stop = chunk.route[chunk.stop]
        if self._crews[stop.crew]:
            self._crews[stop.crew] -= 1
            self._serve(chunk, stop)
        else:
            self._for_crew[stop.crew].append(chunk)

    def _serve(self, chunk: _Chunk, stop: Stop) -> None:
        """By a worker that was taken from its crew for it."""
        start_s = end_s = self.now_s
        free_s, busy_s, does_stream = self._free_s, self.busy_s, stop.does_stream
        for server, hold_s in stop.holds:
            before_s = free_s[server]
            free_s[server] = until_s = (start_s if start_s > before_s else before_s) + hold_s
            if until_s > end_s:
                end_s = until_s
            if not does_stream:
                start_s = end_s
            busy_s[server] += hold_s
            if self.does_record:
                self.spans.append((server, until_s - hold_s, until_s))
        self._sequence = sequence = self._sequence + 1
        heapq.heappush(self._events, (end_s + stop.delay_s, sequence, chunk))
