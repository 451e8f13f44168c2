"""Who reads what in a training graph: its edges, without those that only order, and past rows that pass things on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from dovetail.workload.graph import BoolArray, FloatArray, IntArray, Need, Ops, Phase
from dovetail.workload.operators import KEEPS_INPUT, KEEPS_OUTPUT, NUM_WRITES, Unit


class Pairs(NamedTuple):
    """Pairs of rows, left and right."""

    sources: IntArray
    targets: IntArray

    @classmethod
    def joined(cls, parts: Sequence[Pairs]) -> Self:
        sources, targets = (np.concatenate(columns).astype(np.int64) for columns in zip(*parts, strict=True))
        return cls(sources, targets)

    def where(self, mask: BoolArray) -> Pairs:
        return Pairs(self.sources[mask], self.targets[mask])

    def moved(self, by: int) -> Pairs:
        return Pairs(self.sources + by, self.targets)

    def sorted(self) -> Pairs:
        """Each pair once, by its left side."""
        pairs = np.unique(np.stack(self, axis=1), axis=0)
        return Pairs(pairs[:, 0], pairs[:, 1])

    def then(self, other: Pairs) -> Pairs:
        """a -> c for every a -> b of these and b -> c of the others, which are sorted by their left side."""
        low = np.searchsorted(other.sources, self.targets, side="left")
        counts = np.searchsorted(other.sources, self.targets, side="right") - low
        at = np.repeat(low, counts) + np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        return Pairs(np.repeat(self.sources, counts), other.targets[at])


class Reads(NamedTuple):
    """Who reads what, past rows that pass things on.

    `own`: rows, first and again, and their backward rows. `fed`: all other edges by which something is read, and
    `forward` those between forward rows. `later`: forward rows and the backward rows that need their output. `need`:
    who these are, as in the graph, also where something is passed on to them. `again`: where a forward row runs again,
    or -1.
    """

    own: Pairs
    fed: Pairs
    forward: Pairs
    later: Pairs
    need: IntArray
    again: IntArray
    is_passing: BoolArray


def reads_of(ops: Ops, collective_s: FloatArray) -> Reads:
    """Collectives that take no time have a group of one rank, or no payload: what goes in comes out, and is no copy.

    So do gradients of operators that write none. Updates wait for all gradients, and read those of weights.
    """
    is_network = ops.unit == Unit.NETWORK
    is_handed_on = (ops.phase == Phase.INPUT_GRAD) & (ops.unit == Unit.VECTOR) & (NUM_WRITES[1, ops.kind] == 0)
    is_passing = (is_network & (collective_s == 0.0)) | is_handed_on
    edges = Pairs(np.repeat(np.arange(len(ops)), np.diff(ops.edge_start)), ops.edge_to).sorted()
    is_made = np.isin(ops.phase, (Phase.FORWARD, Phase.RECOMPUTE))
    is_own = is_made[edges.sources] & ops.is_backward[edges.targets]
    is_of_weight = (ops.phase == Phase.WEIGHT_GRAD) & ~is_network
    is_order = (ops.phase[edges.targets] == Phase.UPDATE) & ~is_of_weight[edges.sources]
    own = edges.where(is_own & ~is_passing[edges.sources])
    edges = edges.where(~is_own & ~is_order)
    fed = _past(edges, is_passing)
    forward = fed.where((ops.phase[fed.sources] == Phase.FORWARD) & (ops.phase[fed.targets] == Phase.FORWARD))
    need = _passed_needs(ops, edges, is_passing)
    return Reads(own, fed, forward, _later(ops, own, forward, need), need, _again(ops, own), is_passing)


def _later(ops: Ops, all_own: Pairs, forward: Pairs, need: IntArray) -> Pairs:
    """Forward rows and the backward rows that read their output.

    Those are its maker's where it keeps its output, and those of what it feeds and that keeps its input, or exchanges
    it once more; of an output that none of these keeps and that is needed all the same, all.
    """
    own = all_own.where((ops.phase[all_own.sources] == Phase.FORWARD) & (need[all_own.sources] != Need.NONE))
    forward = forward.where(need[forward.sources] != Need.NONE)
    reads_inputs = KEEPS_INPUT[ops.kind] | (ops.unit == Unit.NETWORK)
    by_maker, by_fed = own.where(KEEPS_OUTPUT[ops.kind[own.sources]]), forward.where(reads_inputs[forward.targets])
    is_read = np.isin(np.arange(len(ops)), np.concatenate((by_maker.sources, by_fed.sources)))
    others = (own.where(~is_read[own.sources]), forward.where(~is_read[forward.sources]))
    return Pairs.joined((by_maker, by_fed.then(all_own), others[0], others[1].then(all_own))).sorted()


def _again(ops: Ops, own: Pairs) -> IntArray:
    """Where each forward row runs again, -1 where it does not: the same backward rows wait for both."""
    is_first = ops.phase[own.sources] == Phase.FORWARD
    first_by_target = np.full(len(ops), -1, np.int64)
    first_by_target[own.targets[is_first]] = own.sources[is_first]
    copies = own.where(~is_first & (first_by_target[own.targets] >= 0))
    again = np.full(len(ops), -1, np.int64)
    again[first_by_target[copies.targets]] = copies.sources
    return again


def _past(fed: Pairs, is_passing: BoolArray) -> Pairs:
    """`fed` with a -> c in place of a -> b and b -> c wherever b passes things on."""
    found = fed.where(~is_passing[fed.sources])
    while bool(is_passing[found.targets].any()):
        is_through = is_passing[found.targets]
        found = Pairs.joined((found.where(~is_through), found.where(is_through).then(fed))).sorted()
    return found


def _passed_needs(ops: Ops, fed: Pairs, is_passing: BoolArray) -> IntArray:
    """What is needed of a row that passes things on is needed of the one before; rows stand in the order they run."""
    need = ops.need.astype(np.int64)
    into = fed.where(is_passing[fed.targets] & (ops.phase[fed.targets] == Phase.FORWARD))
    for at in np.argsort(-into.targets, kind="stable"):
        need[into.sources[at]] |= need[into.targets[at]]
    return need
