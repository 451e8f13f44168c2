"""What one rank does in a direct or a double-binary-tree phase, event by event.

Both are kept by place (rank, chunk, phase) because a message may come before its receiver has begun.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dovetail.comm.astra.forms import Phase, require_tree
from dovetail.errors import NotModelled

if TYPE_CHECKING:
    from dovetail.comm.astra.engine import Chunk
    from dovetail.comm.astra.links import LinkRunner

Place = tuple[int, int, int]


@dataclass(slots=True)
class Burst:
    """A direct phase: all messages at once, and for an all-reduce all of them back."""

    runner: LinkRunner
    place: Place
    phase: Phase
    _chunk: Chunk | None = None
    _num_early: int = 0
    _num_received: int = 0
    _num_ready: int = 0
    _num_sent: int = 0

    @property
    def _num_peers(self) -> int:
        return self.runner.system.dims[self.phase.dim].num_ranks - 1

    @property
    def _part_bytes(self) -> int:
        is_gather = self.phase.collective == "all_gather"
        return self.phase.size_bytes if is_gather else self.phase.size_bytes // (self._num_peers + 1)

    def start(self, chunk: Chunk) -> None:
        self._chunk = chunk
        for _ in range(self._num_peers):
            self._send()
        for _ in range(self._num_early):
            self.receive()

    def _send(self) -> None:
        distance = self._num_sent % self._num_peers + 1
        self._num_sent += 1
        peer_place = (self.runner.peer(self.place[0], self.phase.dim, distance), *self.place[1:])
        peer = self.runner.bursts.setdefault(peer_place, Burst(self.runner, peer_place, self.phase))
        self.runner.send(self.phase.dim, self.place[0], distance, self._part_bytes, peer.receive)

    def receive(self) -> None:
        if self._chunk is None:
            self._num_early += 1
            return
        self._num_received += 1
        system, clock = self.runner.system, self.runner.clock
        is_reduced = self.phase.collective in ("all_reduce", "reduce_scatter") and self._num_received <= self._num_peers
        think = system.endpoint_ticks + (system.reduction_ticks(self._part_bytes) if is_reduced else 0)
        clock.at(clock.now + think, self._ready)

    def _ready(self) -> None:
        """One message is done with; an all-reduce answers only when nothing of the first round is missing."""
        self._num_ready += 1
        goal = self._num_peers * (2 if self.phase.collective == "all_reduce" else 1)
        if self._num_ready == goal:
            assert self._chunk is not None, self.place
            self.runner.done(self._chunk)
        elif goal > self._num_peers and self._num_received >= self._num_peers:
            while self._num_sent < min(goal, self._num_peers + self._num_ready):
                self._send()


@dataclass(slots=True)
class Tree:
    """A double-binary-tree all-reduce: even chunks on the tree rooted at the last rank, odd at the first.

    Below the root hangs a perfect tree numbered in order, so the lowest set bit of a node's number is its level.
    """

    runner: LinkRunner
    place: Place
    phase: Phase
    _chunk: Chunk | None = None
    _num_early: int = 0
    _num_folded: int = 0
    _num_got: int = 0

    @property
    def _number(self) -> int:
        """1 .. n-1 inside the perfect tree, n (or 0) for the root."""
        place = self.runner.place(self.place[0], self.phase.dim)
        return place if self.place[1] % 2 else place + 1

    @property
    def _level(self) -> int:
        """0 at the root, else twice the distance to the children; 1 at a leaf."""
        num_ranks = self.runner.system.dims[self.phase.dim].num_ranks
        return self._number % num_ranks & -(self._number % num_ranks)

    @property
    def _parent_distance(self) -> int:
        """Towards the parent; the top of the perfect tree looks to the root, up or down by half the ranks."""
        level, num_ranks = self._level, self.runner.system.dims[self.phase.dim].num_ranks
        if 2 * level == num_ranks:
            return -level if self.place[1] % 2 else level
        return level if self._number & (2 * level) == 0 else -level

    def start(self, chunk: Chunk) -> None:
        require_tree(self.runner.system, self.phase)
        if not self.runner.is_full:
            raise NotModelled("a double binary tree is simulated for all ranks, not for one")
        self._chunk = chunk
        if self._level == 1:
            self._later(0, self._send, self._parent_distance)
        for _ in range(self._num_early):
            self.receive()

    def _later(self, num_reductions: int, act: Callable[..., None], *args: int) -> None:
        system, clock = self.runner.system, self.runner.clock
        delay = system.endpoint_ticks + num_reductions * system.reduction_ticks(self.phase.size_bytes)
        clock.at(clock.now + delay, act, *args)

    def _send(self, distance: int) -> None:
        peer_place = (self.runner.peer(self.place[0], self.phase.dim, distance), *self.place[1:])
        peer = self.runner.trees.setdefault(peer_place, Tree(self.runner, peer_place, self.phase))
        self.runner.send(self.phase.dim, self.place[0], distance, self.phase.size_bytes, peer.receive)

    def receive(self) -> None:
        """From a child: fold it in. From the parent: pass it on."""
        if self._chunk is None:
            self._num_early += 1
            return
        self._num_got += 1
        if self._level == 1:
            self._later(0, self._finish)
        elif self._level == 0 or self._num_got == 3:
            self._later(1, self._answer)
        else:
            self._later(1, self._fold)

    def _fold(self) -> None:
        self._num_folded += 1
        if self._num_folded == 2:
            self._send(self._parent_distance)

    def _answer(self) -> None:
        num_ranks = self.runner.system.dims[self.phase.dim].num_ranks
        if self._level == 0:
            self._send(num_ranks // 2 if self.place[1] % 2 else -(num_ranks // 2))
        else:
            self._send(-self._level // 2)
            self._send(self._level // 2)
        self._finish()

    def _finish(self) -> None:
        assert self._chunk is not None, self.place
        self.runner.done(self._chunk)
