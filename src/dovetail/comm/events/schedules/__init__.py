"""Who sends how much to whom, in which order: one file per algorithm.

Each is `Ask -> Schedule`. Lanes are independent of each other; the levels of a lane follow one another at every rank
by itself: a rank sends what a level asks as soon as it has received all that earlier levels of the lane send to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, overload

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import NotModelled
from dovetail.registry import Registry, functions

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Shape = Literal["one-way", "two-way", "line", "any"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A collective over `num_ranks` ranks; `payload_bytes` is the larger of a rank's two buffers.

    `shape` says how they lie: round a ring of one-way or two-way links, along a line, or each one hop from any other.
    """

    collective: str
    num_ranks: int
    payload_bytes: float
    shape: Shape = "any"
    root: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Round:
    """At most one message a rank: rank r sends to r + offset, to r xor offset, or to `listed[r]` (-1: to none).

    `place` is "up" or "down" for messages to and from the switch of the dimension, which sends on while it still
    receives: of what goes up, `sent_on_bytes` follow to each rank when the last byte has come, or went before it.
    """

    num_bytes: float | Floats
    kind: Literal["shift", "xor", "listed"] = "shift"
    offset: int = 0
    listed: Ints | None = None
    place: Literal["ranks", "up", "down"] = "ranks"
    is_reduced: bool = False
    sent_on_bytes: float = 0.0

    def peers(self, num_ranks: int) -> Ints:
        ranks = np.arange(num_ranks)
        if self.kind == "shift":
            return (ranks + self.offset) % num_ranks
        if self.kind == "xor":
            return ranks ^ self.offset
        assert self.listed is not None, self
        return self.listed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Level:
    """Rounds that all start from what the rank held when the level began; done `repeat` times over."""

    rounds: Sequence[Round]
    repeat: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated(Sequence[Round]):
    """A message of `num_bytes` from every rank to each of the `num_rounds` next ones, made when it is looked at."""

    num_bytes: float
    num_rounds: int

    def __len__(self) -> int:
        return self.num_rounds

    @overload
    def __getitem__(self, place: int) -> Round: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Round, ...]: ...
    def __getitem__(self, place: int | slice) -> Round | tuple[Round, ...]:
        if isinstance(place, slice):
            return tuple(self[one] for one in range(*place.indices(self.num_rounds)))
        if not -self.num_rounds <= place < self.num_rounds:
            raise IndexError(place)
        return Round(num_bytes=self.num_bytes, offset=1 + place % self.num_rounds)


Lane = tuple[Level, ...]
Schedule = tuple[Lane, ...]
Algorithm = Callable[[Ask], Schedule]
algorithms: Registry[Algorithm] = Registry("collective algorithm", __name__, check=functions("collective algorithm"))


def single(round_: Round, repeat: int = 1) -> Level:
    return Level(rounds=(round_,), repeat=repeat)


def listed(num_ranks: int, pairs: Sequence[tuple[int, int]], num_bytes: float) -> Round:
    """A round of the given (sender, receiver) pairs."""
    peers = np.full(num_ranks, -1)
    for sender, receiver in pairs:
        peers[sender] = receiver
    return Round(num_bytes=num_bytes, kind="listed", listed=peers)


def _mirrored_round(round_: Round) -> Round:
    if round_.kind == "shift":
        return replace(round_, offset=-round_.offset, is_reduced=True)
    if round_.kind == "xor":
        return replace(round_, is_reduced=True)
    peers = round_.peers(0)
    senders = np.flatnonzero(peers >= 0)
    back = np.full(len(peers), -1)
    back[peers[senders]] = senders
    sizes = np.broadcast_to(np.asarray(round_.num_bytes, float), peers.shape)
    turned = np.zeros(len(peers))
    turned[peers[senders]] = sizes[senders]
    return replace(round_, listed=back, num_bytes=turned, is_reduced=True)


def mirrored(lane: Lane) -> Lane:
    """The lane run backwards, with sums: an all-gather becomes a reduce-scatter, a broadcast a reduce."""
    return tuple(
        replace(level, rounds=tuple(_mirrored_round(round_) for round_ in level.rounds)) for level in reversed(lane)
    )


def from_gather(ask: Ask, gathers: Sequence[Lane]) -> Schedule:
    """All-gather, reduce-scatter or all-reduce out of the lanes of an all-gather."""
    if ask.collective == "all-gather":
        return tuple(gathers)
    if ask.collective == "reduce-scatter":
        return tuple(mirrored(lane) for lane in gathers)
    assert ask.collective == "all-reduce", ask
    return tuple(mirrored(lane) + lane for lane in gathers)


def from_broadcast(ask: Ask, lanes: Sequence[Lane]) -> Schedule:
    return tuple(lanes) if ask.collective == "broadcast" else tuple(mirrored(lane) for lane in lanes)


GATHERS = ("all-gather", "reduce-scatter", "all-reduce")
ROOTED = ("broadcast", "reduce")


def not_modelled(ask: Ask, algorithm: str) -> NotModelled:
    return NotModelled(f"{ask.collective} by {algorithm} is not modelled; try ring, direct or halving-doubling")
