"""ASTRA-sim phases carried out message by message, for when chunks meet on links or ranks do not run in step.

A link of the congestion-aware back end is a first-come-first-served server: a message holds it for its bytes and
reaches the far end a latency later. All ranks behave the same when an algorithm looks the same from every rank, so one
rank is simulated and its links stand for all; where it does not (`needs_all_ranks`) every rank is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dovetail.comm.astra.forms import Phase, steps
from dovetail.comm.astra.machines import Burst, Tree
from dovetail.comm.astra.system import FULLY_CONNECTED, RING, AstraSystem

if TYPE_CHECKING:
    from dovetail.comm.astra.engine import Chunk, Clock

Route = tuple[Hashable, ...]
Act = Callable[..., None]
Token = tuple[int, int, int, int]  # rank, chunk, phase, step: what a message is for


def needs_all_ranks(system: AstraSystem, used: Iterable[Phase]) -> bool:
    """Whether a phase looks different from different ranks: tree places, or halving-doubling's left and right."""
    return any(
        p.algorithm == "doubleBinaryTree"
        or (system.is_congestion_aware and p.algorithm == "halvingDoubling" and system.dims[p.dim].kind == RING)
        for p in used
    )


@dataclass(slots=True)
class LinkRunner:
    """Carries out phases message by message. `is_full`: every rank, else one rank that sends to itself."""

    system: AstraSystem
    clock: Clock
    done: Callable[[Chunk], None]
    is_full: bool
    bursts: dict[tuple[int, int, int], Burst] = field(default_factory=dict)
    trees: dict[tuple[int, int, int], Tree] = field(default_factory=dict)
    _free_ticks: dict[Hashable, int] = field(default_factory=dict)
    _programs: dict[Phase, list[tuple[int, int, int]]] = field(default_factory=dict)
    _arrived: set[Token] = field(default_factory=set)
    _awaited: dict[Token, Chunk] = field(default_factory=dict)
    _link_ticks: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    _routes: dict[tuple[int, int, int], Route] = field(default_factory=dict)

    def start(self, chunk: Chunk, phase: Phase) -> None:
        begin, place = self.clock.now + self.system.endpoint_ticks, (chunk.rank, chunk.key, chunk.at)
        if phase.algorithm == "doubleBinaryTree":
            self.trees.setdefault(place, Tree(self, place, phase)).start(chunk)
        elif phase.algorithm == "direct":
            self.clock.at(begin, self.bursts.setdefault(place, Burst(self, place, phase)).start, chunk)
        else:
            if phase not in self._programs:
                self._programs[phase] = [
                    (s.message_bytes, s.distance, s.think_ticks)
                    for s in steps(self.system, phase)
                    for _ in range(s.count)
                ]
            self.clock.at(begin, self._step, chunk, phase, 0)

    def _step(self, chunk: Chunk, phase: Phase, index: int) -> None:
        """Sends message `index`, then waits for the one received in the same step; past the end the phase is over."""
        program = self._programs[phase]
        if index == len(program):
            self.done(chunk)
            return
        message_bytes, distance, _ = program[index]
        signed = self._signed(chunk.rank, phase, distance)
        mine = (chunk.rank, chunk.key, chunk.at, index)
        theirs = (self.peer(chunk.rank, phase.dim, signed), chunk.key, chunk.at, index)
        self.send(phase.dim, chunk.rank, signed, message_bytes, self._deliver, theirs)
        if mine in self._arrived:
            self._received(chunk, mine)
        else:
            self._awaited[mine] = chunk

    def _deliver(self, token: Token) -> None:
        chunk = self._awaited.pop(token, None)
        if chunk is None:
            self._arrived.add(token)
        else:
            self._received(chunk, token)

    def _received(self, chunk: Chunk, token: Token) -> None:
        self._arrived.discard(token)
        phase, index = chunk.phases[chunk.at], token[3]
        self.clock.at(self.clock.now + self._programs[phase][index][2], self._step, chunk, phase, index + 1)

    def send(self, dim: int, rank: int, distance: int, message_bytes: int, act: Act, *args: Any) -> None:
        """Moves a message to the rank `distance` on (back when negative) and then calls `act(*args)`."""
        where = self.system.dims[dim]
        if not self.system.is_congestion_aware:
            travel_ticks = where.path_ticks(distance % where.num_ranks, message_bytes, is_congestion_aware=False)
            self.clock.at(self.clock.now + travel_ticks, act, *args)
            return
        if (dim, rank, distance) not in self._routes:
            self._routes[dim, rank, distance] = self._route(dim, rank, distance)
        ticks = self._link_ticks.get((dim, message_bytes))
        if ticks is None:
            ticks = (where.link_busy_ticks(message_bytes), where.link_ticks(message_bytes))
            self._link_ticks[dim, message_bytes] = ticks
        self._hop(self._routes[dim, rank, distance], 0, ticks, act, args)

    def _hop(self, route: Route, at: int, ticks: tuple[int, int], act: Act, args: tuple[Any, ...]) -> None:
        start = max(self._free_ticks.get(route[at], 0), self.clock.now)
        self._free_ticks[route[at]] = start + ticks[0]
        if at + 1 < len(route):
            self.clock.at(start + ticks[1], self._hop, route, at + 1, ticks, act, args)
        else:
            self.clock.at(start + ticks[1], act, *args)

    def place(self, rank: int, dim: int) -> int:
        """Where the rank stands in its group of a dimension."""
        return rank // self._stride(dim) % self.system.dims[dim].num_ranks

    def peer(self, rank: int, dim: int, distance: int) -> int:
        """The rank `distance` further round the dimension."""
        if not self.is_full:
            return rank
        here = self.place(rank, dim)
        return rank + ((here + distance) % self.system.dims[dim].num_ranks - here) * self._stride(dim)

    def _stride(self, dim: int) -> int:
        stride = 1
        for before in self.system.dims[:dim]:
            stride *= before.num_ranks
        return stride

    def _signed(self, rank: int, phase: Phase, distance: int) -> int:
        """Halving-doubling pairs blocks: odd blocks look back."""
        is_back = self.is_full and phase.algorithm == "halvingDoubling" and self.place(rank, phase.dim) // distance % 2
        return -distance if is_back else distance

    def _route(self, dim: int, rank: int, distance: int) -> Route:
        """The links on the way, each a name; seen from one rank, links that look the same have one name."""
        where = self.system.dims[dim]
        if where.kind == FULLY_CONNECTED:
            return ((dim, rank, distance % where.num_ranks),)
        if where.kind != RING:
            return ((dim, "up", rank), (dim, "down", self.peer(rank, dim, distance)))
        clockwise = distance % where.num_ranks
        step = -1 if where.num_ranks - clockwise < clockwise else 1
        return tuple((dim, self.peer(rank, dim, step * hop), step) for hop in range(where.num_hops(clockwise)))
