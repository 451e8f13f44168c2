"""ASTRA-sim's scheduler for one representative rank: chunks through per-dimension queues with a few servers each.

A chunk visits its phases in order; every queue of a dimension serves `num_servers` chunks at once, by priority, first
come first served among equals (a re-entrant flow shop). LIFO and FIFO rank whole collectives, never chunks of one.
Where chunks cannot meet on a link a phase takes its closed form; where they can (congestion-aware, several servers)
`astra_links` moves every message instead, and where ranks do not run in step it does so for every rank.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Protocol

from dovetail.comm.astra.forms import Phase, chunk_sizes_bytes, phase_ticks, phases
from dovetail.comm.astra.links import LinkRunner, needs_all_ranks
from dovetail.comm.astra.system import AstraSystem


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """One collective handed to ASTRA-sim: what, how large per rank, when, and on which dimensions (all if empty)."""

    collective: str
    size_bytes: int
    release_ticks: int = 0
    involved: tuple[bool, ...] = ()


@dataclass(eq=False, slots=True)
class Chunk:
    """One chunk on its way through its phases on one rank; mutable because the event loop moves it."""

    key: int
    rank: int
    priority: int
    phases: tuple[Phase, ...]
    queues: tuple[tuple[int, int], ...]
    at: int = 0
    finish_ticks: int = 0


class Runner(Protocol):
    """Whatever carries out a phase; it calls `done(chunk)` when the phase ends."""

    def start(self, chunk: Chunk, phase: Phase) -> None:
        """Begins `phase` of `chunk` now."""


@dataclass(slots=True)
class Clock:
    """The event list, ordered by (tick, sequence number)."""

    now: int = 0
    _events: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = field(default_factory=list)
    num_events: int = 0

    def at(self, tick: int, act: Callable[..., None], *args: Any) -> None:
        heappush(self._events, (tick, self.num_events, act, args))
        self.num_events += 1

    def run(self) -> None:
        events = self._events
        while events:
            self.now, _, act, args = heappop(events)
            act(*args)


class FlowShop:
    """The queues of one rank."""

    def __init__(self, clock: Clock, num_servers: int, runner: Callable[[Chunk, Phase], None]) -> None:
        self._clock, self._num_servers, self._start = clock, num_servers, runner
        self._waiting: dict[tuple[int, int], list[tuple[int, int, Chunk]]] = {}
        self._num_running: dict[tuple[int, int], int] = {}
        self._num_joined = 0

    def join(self, chunk: Chunk) -> None:
        """Puts the chunk in the queue of its present phase and serves that queue."""
        self._insert(chunk)
        self._serve(chunk.queues[chunk.at])

    def done(self, chunk: Chunk) -> None:
        """Ends the present phase: the queue left is served before the queue entered, as ASTRA-sim does."""
        left = chunk.queues[chunk.at]
        chunk.at += 1
        is_last = chunk.at == len(chunk.phases)
        if not is_last:
            self._insert(chunk)
        self._num_running[left] -= 1
        self._serve(left)
        if is_last:
            chunk.finish_ticks = self._clock.now
        else:
            self._serve(chunk.queues[chunk.at])

    def _insert(self, chunk: Chunk) -> None:
        insort(self._waiting.setdefault(chunk.queues[chunk.at], []), (-chunk.priority, self._num_joined, chunk))
        self._num_joined += 1

    def _serve(self, queue: tuple[int, int]) -> None:
        waiting = self._waiting.setdefault(queue, [])
        while waiting and self._num_running.get(queue, 0) < self._num_servers:
            chunk = waiting.pop(0)[2]
            self._num_running[queue] = self._num_running.get(queue, 0) + 1
            self._start(chunk, chunk.phases[chunk.at])


@dataclass(slots=True)
class ClosedRunner:
    """Every phase takes its closed form."""

    system: AstraSystem
    clock: Clock
    done: Callable[[Chunk], None]
    _ticks: dict[Phase, int] = field(default_factory=dict)

    def start(self, chunk: Chunk, phase: Phase) -> None:
        if phase not in self._ticks:
            self._ticks[phase] = phase_ticks(self.system, phase)
        self.clock.at(self.clock.now + self._ticks[phase], self.done, chunk)


def simulate(system: AstraSystem, issues: Sequence[Issue], engine: str = "auto") -> tuple[int, ...]:
    """The tick at which the last rank finishes each issued collective, all running through the same queues.

    `engine`: "closed" (one rank, closed forms), "links" (one rank, every message), "ranks" (all ranks, every message)
    or "auto", the cheapest that is exact.
    """
    clock, plan = Clock(), _plan(system, issues)
    engine = _cheapest_exact(system, plan) if engine == "auto" else engine
    ranks = range(system.num_ranks if engine == "ranks" else 1)
    shops: list[FlowShop] = []

    def done(chunk: Chunk) -> None:
        shops[chunk.rank].done(chunk)

    runner: Runner = (
        ClosedRunner(system, clock, done) if engine == "closed" else LinkRunner(system, clock, done, engine == "ranks")
    )
    shops += [FlowShop(clock, system.num_servers, runner.start) for _ in ranks]
    chunks: list[list[Chunk]] = [[] for _ in issues]
    for rank in ranks:
        for chunk, issue in _chunks(system, plan, rank):
            chunks[issue].append(chunk)
            clock.at(issues[issue].release_ticks, shops[rank].join, chunk)
    clock.run()
    return tuple(
        max((c.finish_ticks for c in made), default=issue.release_ticks)
        for made, issue in zip(chunks, issues, strict=True)
    )


def _cheapest_exact(system: AstraSystem, plan: list[tuple[int, int, tuple[Phase, ...]]]) -> str:
    """Closed forms while no two chunks can meet on a link and no rank can run ahead of another."""
    can_meet = system.is_congestion_aware and (system.num_servers > 1 or system.num_queues > 1)
    used = {phase for _, _, made in plan for phase in made}
    if len(plan) == 1 or not (can_meet or any(p.algorithm == "doubleBinaryTree" for p in used)):
        return "closed"
    return "ranks" if needs_all_ranks(system, used) else "links"


def _plan(system: AstraSystem, issues: Sequence[Issue]) -> list[tuple[int, int, tuple[Phase, ...]]]:
    """(issue, priority, phases) of every chunk; a later collective ranks higher under LIFO, lower under FIFO."""
    sign = 1 if system.policy == "LIFO" else -1
    return [
        (i, sign * i, made)
        for i, issue in enumerate(issues)
        for size in chunk_sizes_bytes(system, issue.size_bytes)
        if (made := phases(system, issue.collective, size, issue.involved))
    ]


def _chunks(system: AstraSystem, plan: list[tuple[int, int, tuple[Phase, ...]]], rank: int) -> list[tuple[Chunk, int]]:
    """The chunks of one rank; the queues of a dimension are dealt out in turn, phase by phase."""
    turn, made = [0] * len(system.dims), []
    for key, (issue, priority, chain) in enumerate(plan):
        queues = []
        for phase in chain:
            queues.append((phase.dim, turn[phase.dim]))
            turn[phase.dim] = (turn[phase.dim] + 1) % system.num_queues
        made.append((Chunk(key, rank, priority, chain, tuple(queues)), issue))
    return made


def collective_ticks(system: AstraSystem, collective: str, size_bytes: int, involved: tuple[bool, ...] = ()) -> int:
    """Ticks ASTRA-sim reports for one collective alone; its size is per rank, for an all-gather the shard."""
    return simulate(system, [Issue(collective=collective, size_bytes=size_bytes, involved=involved)])[0]
