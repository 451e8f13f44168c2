"""A graph made ready for scheduling, once; and its problem on one chip, or on a batch of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.hardware.chip import Chip
from dovetail.opsched.compiled import compiled_loops
from dovetail.opsched.mode_loops import NO_MODE
from dovetail.opsched.problem import NUM_BEATS, RESOURCES, WHOLE, CoreProblem, Dag, Modes, Tensors, dag_of
from dovetail.opsched.slices import SliceCosts, slice_costs
from dovetail.opsched.tensors import tensors_of
from dovetail.workload.graph import FloatArray, IntArray, Ops
from dovetail.workload.optimizer import Precision


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Work:
    """A graph as scheduling sees it, for any chip."""

    ops: Ops
    dag: Dag
    tensors: Tensors
    exchange_s: FloatArray  # of the network's rows, on no cores


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChipBatch:
    """One graph on many chips: modes of all, operator i's on chip c at `modes.start[c, i]:modes.start[c, i+1]`."""

    work: Work
    chips: tuple[Chip, ...]
    modes: Modes
    stock: IntArray  # chips by RESOURCES
    beat_s: FloatArray

    def problem(self, index: int) -> CoreProblem:
        """The problem on one of the chips."""
        start = self.modes.start[index]
        own = slice(int(start[0]), int(start[-1]))
        chip = self.chips[index]
        modes = Modes(start - start[0], self.modes.beats[own], self.modes.need[own], self.modes.share_beats[own])
        return CoreProblem(
            names=self.work.ops.names,
            dag=self.work.dag,
            modes=modes,
            stock=self.stock[index],
            tensors=self.work.tensors,
            beat_s=float(self.beat_s[index]),
            sram_bytes=chip.sram.capacity_bytes,
            hbm_bytes=chip.usable_bytes,
        )


def work_of(ops: Ops, precision: Precision, exchange_s: FloatArray | None = None, *, is_layer: bool = True) -> Work:
    """`ops` of a block ready to be scheduled; rows of the network take `exchange_s` each, on one device alone nothing.

    `is_layer` tells hidden layers, whose matrices some optimizers keep in a way of their own, from embedding and head.
    """
    sources = np.repeat(np.arange(len(ops)), np.diff(ops.edge_start))
    taken_s = np.zeros(len(ops)) if exchange_s is None else exchange_s
    return Work(
        ops=ops,
        dag=dag_of(len(ops), sources, ops.edge_to),
        tensors=tensors_of(ops, precision, taken_s, is_layer=is_layer),
        exchange_s=taken_s,
    )


def core_problem(work: Work, chip: Chip) -> CoreProblem:
    return chip_batch(work, (chip,)).problem(0)


def chip_batch(work: Work, chips: Sequence[Chip], costs: SliceCosts | None = None) -> ChipBatch:
    """The problem of one graph on each of `chips`, costed in a few calls unless its `costs` are given."""
    if costs is None:
        costs = slice_costs(work.ops, chips, work.exchange_s)
    beat_s = _beat_s(costs)
    stock = np.array([[c.tensor.num_units, c.vector.num_units, WHOLE, WHOLE, WHOLE] for c in chips], dtype=np.int64)
    in_beats = np.ceil(costs.compute_s / beat_s[costs.slices.chip])
    slot_beats = np.where(costs.compute_s < 0, NO_MODE, in_beats).astype(np.int64)
    most = slot_beats.size
    start = np.empty((len(chips), len(work.ops) + 1), np.int64)
    beats, share_beats = np.empty(most, np.int64), np.empty(most, np.int64)
    need = np.empty((most, len(RESOURCES)), np.int64)
    first = costs.slices.start
    num = compiled_loops().packed_modes(slot_beats, costs.need, first, stock, start, beats, need, share_beats)
    modes = Modes(start, beats[:num].copy(), need[:num].copy(), share_beats[:num].copy())
    return ChipBatch(work=work, chips=tuple(chips), modes=modes, stock=stock, beat_s=beat_s)


def _beat_s(costs: SliceCosts) -> FloatArray:
    """A beat of each chip: all operators one after another, each in its fastest slice, are NUM_BEATS of them."""
    shortest = np.where(costs.compute_s < 0, np.inf, costs.compute_s)
    by_chip = np.minimum.reduceat(shortest, costs.slices.start[:-1], axis=1)
    return np.asarray(np.maximum(by_chip.sum(axis=0), np.finfo(np.float64).tiny) / NUM_BEATS)
