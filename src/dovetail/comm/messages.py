"""A collective's message schedule on one group, compiled once into counts and fractions: what closed forms are made of.

Events run the rounds of a schedule (`events/schedules`); closed forms add up the same rounds as arrays of how many
follow one another and which fraction of the payload each moves. So the two cannot differ in what is sent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dovetail.comm.events.schedules import Ask, Lane, Level, Repeated, Schedule, Shape, algorithms
from dovetail.hardware.topology import Span
from dovetail.registry import at_withdrawal
from dovetail.workload.graph import IntArray

_PIECES = 4  # of a rank's part: lanes of both directions have half, and opposite ranks on a ring half of that
_RINGS = ("ring", "bidirectional-ring", "mesh")
IN_SWITCH = "in-switch"
BY_SWITCHES = (IN_SWITCH, "nvls")  # algorithms in which switches add


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Messages:
    """Rounds of a schedule, one after another: `counts` of rounds that each move `pieces` of a payload.

    A payload has `num_pieces` pieces; a round is what the busiest rank sends at once.
    """

    counts: IntArray
    pieces: IntArray
    num_pieces: int

    @property
    def num_steps(self) -> int:
        """Rounds that wait for one another."""
        return int(self.counts.sum())

    @property
    def moved(self) -> tuple[int, int]:  # style: numerator and denominator, in lowest terms
        """Share of the payload that the busiest rank sends in all rounds."""
        total = int(self.counts @ self.pieces)
        shared = math.gcd(total, self.num_pieces)
        return total // shared, self.num_pieces // shared


def suited_algorithm(kind: str, what: str, shape: Shape | None = None) -> str:
    """The algorithm that reaches the bound of a dimension of this kind, for ranks that fill it or lie in `shape`."""
    if what == "all-to-all":  # handing on from neighbour to neighbour starves the middle of a line
        goes_round = shape != "line" and kind in ("ring", "bidirectional-ring")
        return "ring" if goes_round else "direct"
    if kind in _RINGS:
        return "ring"
    return "direct" if kind == "fully-connected" else "halving-doubling"


def shape_of(kind: str, *, goes_round: bool) -> Shape:
    """How the ranks of a group lie in a dimension of this kind."""
    if kind == "ring":
        return "one-way"
    if kind == "bidirectional-ring" and goes_round:
        return "two-way"
    return "line" if kind in ("bidirectional-ring", "mesh") else "any"


def messages_of(collective: str, span: Span) -> Messages:
    """What the busiest rank sends of `collective` along one dimension, by the algorithm that suits it.

    Where switches add it is that of the switches. On a ring both directions are counted together, as
    `alphabeta.send_bytes_per_s` counts their ports; along a line the ends have one port, and so one direction counts.
    """
    kind, shape = span.dimension.kind, shape_of(span.dimension.kind, goes_round=span.goes_round)
    is_added = span.dimension.is_reducing and collective != "all-to-all"
    algorithm = IN_SWITCH if is_added else suited_algorithm(kind, collective, shape)
    return compiled(algorithm, collective, span.num_ranks, shape)


@lru_cache(maxsize=4096)
def compiled(algorithm: str, collective: str, num_ranks: int, shape: Shape) -> Messages:
    """The messages of one algorithm, as arrays; a payload is counted in pieces of each rank's part."""
    num_pieces = _PIECES * num_ranks
    ask = Ask(collective=collective, num_ranks=num_ranks, payload_bytes=float(num_pieces), shape=shape)
    lanes = _lanes(algorithms[algorithm](ask), num_ranks)
    if shape == "line" or len(lanes) == 1:
        longest = max(lanes, key=lambda lane: int(lane[0] @ lane[1]))
        return Messages(counts=longest[0], pieces=longest[1], num_pieces=num_pieces)
    assert all(np.array_equal(lane[0], lanes[0][0]) for lane in lanes), f"lanes of {algorithm} differ in their rounds"
    return Messages(counts=lanes[0][0], pieces=np.sum([lane[1] for lane in lanes], axis=0), num_pieces=num_pieces)


at_withdrawal(compiled.cache_clear)


def _lanes(schedule: Schedule, num_ranks: int) -> list[tuple[IntArray, IntArray]]:
    return [_lane(lane, num_ranks) for lane in schedule]


def _lane(lane: Lane, num_ranks: int) -> tuple[IntArray, IntArray]:
    """Counts and pieces of the levels of a lane; a way up to a switch and down again is one round."""
    counts: list[int] = []
    pieces: list[int] = []
    sent_on = 0.0
    for level in lane:
        place = level.rounds[0].place
        sent = _busiest(level, num_ranks)
        if place == "down":  # while the switch still receives, it sends on
            pieces[-1] += round(sent - sent_on)
            continue
        sent_on = level.rounds[0].sent_on_bytes
        counts.append(level.repeat)
        pieces.append(round(sent))
    return np.array(counts, dtype=np.int64), np.array(pieces, dtype=np.int64)


def _busiest(level: Level, num_ranks: int) -> float:
    """What the busiest rank sends in a level, whose rounds all start at once."""
    if isinstance(level.rounds, Repeated):
        return len(level.rounds) * level.rounds.num_bytes
    sent = np.zeros(num_ranks)
    for one in level.rounds:
        sent += np.where(one.peers(num_ranks) >= 0, one.num_bytes, 0.0)
    return float(sent.max())
