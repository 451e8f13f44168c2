"""One microbatch through one stage, operator by operator: what a device computes, waits for and sends, and when.

The step is told from sums over a stage. Drawn here is one order that has exactly these sums: operators and what they
wait for stand where the model's graph has them; what a stage waits for in all (communication that is not hidden, the
host) is spread over its blocks by what they compute; communication beside compute begins with its block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dovetail.cost.costs import op_costs
from dovetail.cost.limits import op_limits
from dovetail.cost.op_cost import LIMITS
from dovetail.hardware.topology import Group
from dovetail.parallel.layout import LayerSpan, StageGroup, ordered_parts
from dovetail.parallel.plan import Plan
from dovetail.step.assembly import Assembly
from dovetail.step.called import Note, block_call
from dovetail.step.communication import (
    PHASES_OF_PASS,
    CollectiveCalls,
    add_ring_parts,
    collective_overheads,
    joined_collectives,
    overlaps,
)
from dovetail.step.plan_table import PlanContext
from dovetail.step.sharding_copies import COPIES as SHARDING_COPIES
from dovetail.step.sharding_copies import block_copies, priced_copies
from dovetail.step.work import COMM_AXES, COSTS, Work
from dovetail.step.work_table import PlacedPlans, placed_plans
from dovetail.workload.graph import Axis, FloatArray, IntArray, Phase
from dovetail.workload.operators import OPERATORS, Unit

UNITS = {Unit.TENSOR: "tensor units", Unit.VECTOR: "vector units"}
WAITS = "waits"
BESIDE = "beside compute"
HOST, COPIES, HANDED = "the host", "copies to the host", "handing on"
FLOAT_FRAC = 1e-12  # style: a tolerance; below it a wait is what rounding left


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """Something that lasts within a pass, from so many seconds after its start; `track` is who does it."""

    name: str
    track: str
    begin_s: float
    end_s: float
    block: str
    limit: str = ""  # of an operator: what it waits for
    notes: tuple[Note, ...] = ()  # of a collective: how the library runs it


@dataclass(frozen=True, slots=True, kw_only=True)
class _PassItem:
    """An operator or an awaited collective, in order."""

    name: str
    track: str
    time_s: float
    limit: str = ""
    axis: str = ""  # of a collective
    notes: tuple[Note, ...] = ()
    is_weight: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Repeat:
    """One repeat of a block in one direction: pieces in order, and what runs beside them."""

    block: str
    pieces: tuple[_PassItem, ...]
    beside: tuple[_PassItem, ...]

    @property
    def compute_s(self) -> float:
        return sum(piece.time_s for piece in self.pieces if not piece.axis)


class StageDetail:
    """The stages of one plan, operator by operator; `assembly` is the plan's step, put together."""

    def __init__(self, assembly: Assembly, plan: Plan) -> None:
        self._assembly = assembly
        self._plan = plan
        self._pools = [_PoolCosts(pool) for pool in assembly.context.pools]

    def passes(self, run: int, *, is_split: bool) -> dict[str, tuple[Spell, ...]]:
        """What the passes of a microbatch on a stage of `run` hold, by kind: forward and backward.

        Where `is_split`, the backward pass is two: input and weight.
        """
        assembly, stage = self._assembly, self._assembly.group.runs[run]
        times = assembly.stage_times(is_transfer_free=False)
        whole_s = [float(np.asarray(direction)[0, run]) for direction in times.by_run]
        stage = replace(stage, spans=ordered_parts(self._pools[stage.pool].graph, stage, self._plan))
        works = [self._work(run, direction) for direction in range(len(PHASES_OF_PASS))]
        repeats = [
            list(self._pools[stage.pool].repeats(stage, direction, float(works[direction].clock_frac)))
            for direction in range(2)
        ]
        handed_s = [0.0 if assembly.is_beside[0] else self._handed_s(run, direction) for direction in range(2)]
        found = {"forward": _laid(repeats[0], whole_s[0], _waits(works[0], repeats[0], whole_s[0], handed_s[0]))}
        if is_split:
            full = list(self._pools[stage.pool].repeats(stage, 1, 1.0))
            weight_s = float(works[1].cost.compute_s * works[1].weight_frac)
            parts_s = float(works[1].cost.compute_s) - weight_s, weight_s
            return found | _split(_stretched(full, *parts_s), whole_s[1], whole_s[2])
        waits = _waits(works[1], repeats[1], whole_s[1], handed_s[1])
        return found | {"backward": _laid(repeats[1], whole_s[1], waits)}

    def _work(self, run: int, direction: int) -> Work:
        columns = self._assembly.columns
        stage = columns.works.at(int(columns.work_of[0]), run)
        return (stage.forward, stage.backward)[direction]

    def _handed_s(self, run: int, direction: int) -> float:
        """What handing on takes of the direction of a microbatch, all its chunks together."""
        hops_s = np.broadcast_to(self._assembly.hops_s[direction], (1, len(self._assembly.group.runs)))
        return float(self._assembly.group.num_copies * self._assembly.group.interleave * hops_s[0, run])


class _PoolCosts:
    """The operators and collectives of one plan's blocks on one pool of the cluster, costed."""

    def __init__(self, context: PlanContext) -> None:
        self.graph, self._chip = context.graph, context.cluster.chip
        self._placed: PlacedPlans = placed_plans(context.sharded, context.places, context.precision)
        self._sharded = context.sharded
        costs = op_costs(self._sharded.local, self._chip)
        columns = np.stack([getattr(costs, name) for name in COSTS])
        add_ring_parts(columns, self._sharded.local, self._sharded.cuts.degrees[Axis.HOPS], self._costed)
        self._compute_s, self._clocked_s = (columns[COSTS.index(name)] for name in ("compute_s", "clocked_s"))
        self._limit = op_limits(self._sharded.local, self._chip)
        self._copies = priced_copies(self._sharded, context.precision, partial(op_costs, chip=self._chip))

    def _costed(self, ops: object) -> FloatArray:
        costs = op_costs(ops, self._chip)  # type: ignore[arg-type]
        return np.stack([getattr(costs, name) for name in COSTS])

    def repeats(self, stage: StageGroup, direction: int, clock_frac: float) -> Iterator[_Repeat]:
        """The blocks of a stage as they run forward, or backward: from the last to the first."""
        for span in stage.spans if direction == 0 else reversed(stage.spans):
            one = self._repeat(span, direction, clock_frac)
            yield from (one for _ in range(span.count))

    def _repeat(self, span: LayerSpan, direction: int, clock_frac: float) -> _Repeat:
        placed, policy = self._placed, span.policy
        rows = self._sharded.blocks[span.block]
        assert 0 <= policy < len(rows.runs), span
        parts = placed.sends(span.block, collective_overheads(self._chip.calibration))
        calls, names = joined_collectives(parts), _send_names(rows.ops.names, rows.ops.unit, parts)
        is_beside = overlaps(calls, placed.variants)[0]
        is_called = np.isin(calls.phase, PHASES_OF_PASS[direction]) & calls.runs[:, policy] & (calls.time_s[0] > 0)
        network = np.flatnonzero(rows.ops.unit == Unit.NETWORK)

        def item(index: int) -> _PassItem:
            return _collective_item(names[index], calls, index, placed.variants.groups)

        call_of_row = {int(row): index for index, row in enumerate(network)}  # of its network rows, which collective
        pieces: list[_PassItem] = []
        for row in self._order(span, direction):
            if row in call_of_row:
                index = call_of_row[row]
                if is_called[index] and not is_beside[index]:
                    pieces.append(item(index))
            elif rows.ops.unit[row] in UNITS:
                pieces.append(self._computed(rows.start + row, rows.ops.names[row], clock_frac, rows.ops.phase[row]))
        pieces += self._copied(span.block, direction, clock_frac)
        later = [i for i in np.flatnonzero(is_called & ~is_beside).tolist() if i >= len(network)]
        pieces += [item(index) for index in later]
        beside = [item(index) for index in np.flatnonzero(is_called & is_beside).tolist()]
        name = self.graph.blocks[span.block].name
        return _Repeat(block=name, pieces=tuple(pieces), beside=tuple(beside))

    def _copied(self, block: int, direction: int, clock_frac: float) -> Iterator[_PassItem]:
        """What a framework copies of the block's parameters and gradients in a pass."""
        if not self._copies.size:
            return
        for name, columns in zip(
            SHARDING_COPIES, block_copies(self._copies, block, self._placed.variants)[direction], strict=True
        ):
            compute_s, clocked_s = (float(columns[COSTS.index(row), 0]) for row in ("compute_s", "clocked_s"))
            if compute_s > 0:
                time_s = compute_s + clocked_s * (1 / clock_frac - 1)
                yield _PassItem(name=name, track=UNITS[Unit.VECTOR], time_s=time_s, limit="hbm")

    def _order(self, span: LayerSpan, direction: int) -> list[int]:
        """Rows of a block that a direction runs; what is computed again comes before gradients."""
        rows = self._sharded.blocks[span.block]
        phase = rows.ops.phase
        if direction == 0:
            return [int(row) for row in np.flatnonzero(phase == Phase.FORWARD)]
        again = np.flatnonzero((phase == Phase.RECOMPUTE) & rows.runs[span.policy])
        gradients = np.flatnonzero((phase == Phase.INPUT_GRAD) | (phase == Phase.WEIGHT_GRAD))
        return [int(row) for row in (*again, *gradients)]

    def _computed(self, row: int, name: str, clock_frac: float, phase: int) -> _PassItem:
        time_s = float(self._compute_s[row] + self._clocked_s[row] * (1 / clock_frac - 1))
        unit = UNITS[OPERATORS[self._sharded.local.kind[row]].unit]
        limit, is_weight = LIMITS[self._limit[row]], bool(phase == Phase.WEIGHT_GRAD)
        return _PassItem(name=name, track=unit, time_s=time_s, limit=limit, is_weight=is_weight)


def _send_names(names: tuple[str, ...], unit: IntArray, parts: tuple[CollectiveCalls, ...]) -> list[str]:
    """What the collectives of a block are called, in the order of `PlacedPlans.sends`."""
    in_graph = [names[row] for row in np.flatnonzero(unit == Unit.NETWORK)]
    _, *context, _plain, _experts = parts
    passed = ["keys and values" for part in context for _ in range(len(part.axis))]
    moved = ["reduce gradients", "gather weights", "gather weights"]
    return [*in_graph, *passed, *moved, *(f"{words} of experts" for words in moved)]


def _collective_item(name: str, calls: CollectiveCalls, index: int, groups: tuple[Group, ...]) -> _PassItem:
    axis, one = COMM_AXES[calls.axis[index]], block_call(calls, index, groups)
    notes = (*one.notes, ("num_calls", one.num_calls))
    return _PassItem(name=name, track=axis, axis=axis, time_s=float(calls.time_s[0, index]), notes=notes)


def _waits(work: Work, repeats: Sequence[_Repeat], whole_s: float, handed_s: float) -> dict[str, float]:
    """What a direction waits for in all, beside awaited collectives: their sum is what is left of `whole_s`."""
    pairs = zip(COMM_AXES, work.comm, work.blocking_s, strict=True)
    found = {f"{axis}, not hidden": float(comm.exposed_s - blocking_s) for axis, comm, blocking_s in pairs}
    found[HOST] = float(work.cost.compute_s + work.host_wait_s) - sum(one.compute_s for one in repeats)
    found[COPIES] = whole_s - handed_s - float(work.time_s)
    found[HANDED] = handed_s
    return {name: wait_s for name, wait_s in found.items() if wait_s > FLOAT_FRAC * whole_s}


def _laid(repeats: Sequence[_Repeat], whole_s: float, waits: dict[str, float]) -> tuple[Spell, ...]:
    """The pieces one after another, and waits; what is beside them not before its block, and within `whole_s`."""
    handed_s = waits.pop(HANDED, 0.0)
    compute_s = sum(one.compute_s for one in repeats)
    spells: list[Spell] = []
    beside: dict[str, list[tuple[float, _PassItem, str]]] = {}
    clock_s = 0.0
    for repeat in repeats:
        for piece in repeat.beside:
            beside.setdefault(piece.axis, []).append((clock_s, piece, repeat.block))
        share = repeat.compute_s / compute_s if compute_s else 1 / len(repeats)
        for piece in (*repeat.pieces, *_as_pieces(waits, share)):
            spells += _spells(piece, clock_s, repeat.block)
            clock_s += piece.time_s
    if handed_s:
        spells += _spells(_PassItem(name=HANDED, track=WAITS, time_s=handed_s), clock_s, "")
    for axis, items in beside.items():
        spells += _floating(f"{axis} {BESIDE}", items, whole_s)
    return tuple(spells)


def _spells(piece: _PassItem, begin_s: float, block: str) -> list[Spell]:
    """A piece from `begin_s` on; of a collective, that it is waited for as well."""
    end_s = begin_s + piece.time_s
    spell = Spell(
        name=piece.name,
        track=piece.track,
        begin_s=begin_s,
        end_s=end_s,
        block=block,
        limit=piece.limit,
        notes=piece.notes,
    )
    return [replace(spell, name=f"wait for {piece.name}", track=WAITS), spell] if piece.axis else [spell]


def _as_pieces(waits: dict[str, float], share: float) -> Iterator[_PassItem]:
    for name, wait_s in waits.items():
        yield _PassItem(name=name, track=WAITS, time_s=share * wait_s)


def _floating(track: str, items: list[tuple[float, _PassItem, str]], whole_s: float) -> Iterator[Spell]:
    """Collectives one after another, each from its block on, but all of them over by `whole_s` where that can be."""
    left_s = sum(piece.time_s for _, piece, _ in items)
    clock_s = 0.0
    for release_s, piece, block in items:
        begin_s = max(clock_s, min(release_s, whole_s - left_s))
        clock_s, left_s = begin_s + piece.time_s, left_s - piece.time_s
        yield Spell(name=piece.name, track=track, begin_s=begin_s, end_s=clock_s, block=block, notes=piece.notes)


def _split(repeats: Sequence[_Repeat], whole_s: float, weight_s: float) -> dict[str, tuple[Spell, ...]]:
    """A backward pass as two, each with its operators; of what is waited for both have their share, as the step has it.

    Collectives then begin with the blocks of the first, and may go on beside the second.
    """
    found = {}
    for kind, is_weight, time_s in (("input", False, whole_s - weight_s), ("weight", True, weight_s)):
        of_kind = [_of_kind(one, is_weight=is_weight) for one in repeats]
        rest_s = time_s - sum(one.compute_s for one in of_kind)
        waits = {"communication and the host": rest_s} if rest_s > FLOAT_FRAC * time_s else {}
        found[kind] = _laid(of_kind, time_s, waits)
    return found


def _stretched(full: Sequence[_Repeat], input_s: float, weight_s: float) -> list[_Repeat]:
    """Repeats at full clock as long as the two passes have them: by one factor gradients of weights, by one the rest.

    The step takes the seconds of weight gradients by their FLOP.
    """
    pieces = [piece for one in full for piece in one.pieces if not piece.axis]
    own_s = [sum(piece.time_s for piece in pieces if piece.is_weight == is_weight) for is_weight in (False, True)]
    longer = [time_s / own if own else 1.0 for time_s, own in zip((input_s, weight_s), own_s, strict=True)]
    return [
        replace(
            one,
            pieces=tuple(p if p.axis else replace(p, time_s=longer[p.is_weight] * p.time_s) for p in one.pieces),
        )
        for one in full
    ]


def _of_kind(one: _Repeat, *, is_weight: bool) -> _Repeat:
    pieces = tuple(piece for piece in one.pieces if not piece.axis and piece.is_weight == is_weight)
    sent = tuple(piece for piece in one.pieces if piece.axis) + one.beside
    return _Repeat(block=one.block, pieces=pieces, beside=() if is_weight else sent)
