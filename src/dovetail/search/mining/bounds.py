"""What a job takes at least on each of many designs: no schedule, only work, bandwidth and the longest path.

What an operator takes depends on the size of a core and on how many it runs on, not on what else the chip has; so it is
costed once for every size and number of cores, and a space of tens of thousands of designs is bounded by looking up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.hardware.chip import Chip
from dovetail.hardware.template import Design, template_chip
from dovetail.schedule.cores.problem import HBM, WHOLE
from dovetail.schedule.cores.slices import slice_costs, splits
from dovetail.schedule.cores.work import Work
from dovetail.search.designs import KNOBS, Silicon, design_at, silicon_of
from dovetail.search.mining.load import TrainingJob
from dovetail.search.mining.score import Question, StageTimes, figures_of
from dovetail.search.space import Point
from dovetail.workload.graph import FloatArray, IntArray
from dovetail.workload.operators import Unit

MANY_LANES = 2**16  # of one vector core: beside it, no product waits for vector work


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sized:
    """Operators of one unit of a graph on cores of every size: seconds by operators, sizes and numbers of cores.

    `core_s` is the least that all of them hold cores, in seconds times cores, by size.
    """

    rows: IntArray
    time_s: FloatArray  # on so many cores or fewer
    core_s: FloatArray
    hbm_s: float  # that the bandwidth alone takes, at the least


def tensor_sized(work: Work, base: Chip, sides: Sequence[tuple[int, int]], num_most: int) -> Sized:
    """Products on up to `num_most` arrays of each of `sides`; `num_most` must be a power of two."""
    designs = [
        Design(num_tensor=num_most, num_rows=rows, num_cols=cols, num_vector=1, num_lanes=MANY_LANES)
        for rows, cols in sides
    ]
    return _sized(work, base, designs, Unit.TENSOR, num_most)


def vector_sized(work: Work, base: Chip, lanes: Sequence[int], num_most: int) -> Sized:
    """All other operators on up to `num_most` vector cores of each size."""
    designs = [Design(num_tensor=1, num_rows=1, num_cols=1, num_vector=num_most, num_lanes=width) for width in lanes]
    return _sized(work, base, designs, Unit.VECTOR, num_most)


def _sized(work: Work, base: Chip, designs: Sequence[Design], unit: Unit, num_most: int) -> Sized:
    rows = np.flatnonzero(work.ops.unit == unit)
    numbers = np.array(splits(num_most))
    shape = (len(rows), len(designs), len(numbers))
    if not len(rows):
        return Sized(rows=rows, time_s=np.zeros(shape), core_s=np.zeros(len(designs)), hbm_s=0.0)
    # a buffer of all the SRAM, as of a single vector core: wide rows are read once more where they do not fit a buffer
    whole = base.sram.capacity_bytes
    chips = [replace(template_chip(base, design), core_buffer_bytes=whole) for design in designs]
    costs = slice_costs(work.ops.taken(rows), chips, np.zeros(len(rows)))
    mine = np.flatnonzero(costs.slices.is_tensor == (unit == Unit.TENSOR))
    time_s = costs.compute_s[:, mine].reshape(shape)
    # needs are rounded up to parts of the whole
    hbm_s = (np.maximum(costs.need[:, mine, HBM] - 1, 0) / WHOLE * costs.compute_s[:, mine]).min(axis=1)
    return Sized(
        rows=rows,
        time_s=np.minimum.accumulate(time_s, axis=2),
        core_s=(time_s * numbers).min(axis=2).sum(axis=0),
        hbm_s=float(hbm_s.sum()),
    )


def least_s(work: Work, tensor: Sized, vector: Sized, at: Places) -> FloatArray:
    """Seconds that any schedule of `work` takes on each design: cores busy, HBM busy, and the longest path."""
    path_s = _longest_path_s(work, tensor, vector, at)
    busy_s = np.maximum(tensor.core_s[at.sides] / at.num_tensor, vector.core_s[at.lanes] / at.num_vector)
    return np.maximum(np.maximum(path_s, busy_s), tensor.hbm_s + vector.hbm_s)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Places:
    """Designs by where they are found in tables of sizes and numbers."""

    sides: IntArray
    tensor_place: IntArray
    num_tensor: IntArray
    lanes: IntArray
    vector_place: IntArray
    num_vector: IntArray


def _longest_path_s(work: Work, tensor: Sized, vector: Sized, at: Places) -> FloatArray:
    num_ops = len(work.ops)
    kind = np.zeros(num_ops, dtype=np.int64)
    place = np.zeros(num_ops, dtype=np.int64)
    for code, sized in ((1, tensor), (2, vector)):
        kind[sized.rows], place[sized.rows] = code, np.arange(len(sized.rows))
    tables = {
        1: tensor.time_s[:, at.sides, at.tensor_place],
        2: vector.time_s[:, at.lanes, at.vector_place],
    }
    behind = np.zeros((num_ops, len(at.sides)))
    starts, targets = work.dag.edge_start, work.dag.edge_to
    for i in work.dag.order[::-1].tolist():
        after = targets[starts[i] : starts[i + 1]]
        longest = behind[after].max(axis=0) if len(after) else 0.0
        own = tables[int(kind[i])][place[i]] if kind[i] else work.exchange_s[i] * (work.ops.unit[i] == Unit.NETWORK)
        behind[i] = longest + own
    return np.asarray(behind.max(axis=0))


class JobBounds:
    """Bounds on the losses of a question; its tables are made once, for all designs of its space."""

    def __init__(self, question: Question) -> None:
        self._question = question
        values = {knob.name: knob.values for knob in question.space.knobs}
        self._sides = [(rows, cols) for rows in values["num_rows"] for cols in values["num_cols"]]
        self._lanes = values["num_lanes"]
        self._numbers = {name: splits(max(values[name])) for name in ("num_tensor", "num_vector")}
        self._known: dict[int, tuple[Sized, Sized]] = {}

    def __call__(self, points: list[Point]) -> FloatArray:
        """What the loss of each point is at least; infinite where it breaks a limit."""
        question = self._question
        found = np.full(len(points), np.inf)
        designs = [design_at(question.space, point) for point in points]
        silicon = silicon_of(question.base, designs)
        inside = np.flatnonzero(silicon.excess_frac(question.limits) == 0)
        if len(inside):
            found[inside] = self._losses([designs[row] for row in inside], silicon.at(inside))
        return found

    def _losses(self, designs: list[Design], silicon: Silicon) -> FloatArray:
        at = self._places(designs)
        by_job = []
        for job in self._question.jobs:
            figures = figures_of(job, self._stage_times(job, at), silicon)
            by_job.append(np.asarray(self._question.metric.loss(figures)))
        ratios = np.stack(by_job, axis=1) / self._question.reference_losses
        return np.asarray(np.exp(np.log(ratios).mean(axis=1)))

    def _places(self, designs: list[Design]) -> Places:
        column = {name: np.array([getattr(design, name) for design in designs]) for name in KNOBS}
        side_of = {side: place for place, side in enumerate(self._sides)}
        sides = np.array([side_of[d.num_rows, d.num_cols] for d in designs])
        return Places(
            sides=sides,
            tensor_place=np.searchsorted(self._numbers["num_tensor"], column["num_tensor"]),
            num_tensor=column["num_tensor"],
            lanes=np.searchsorted(self._lanes, column["num_lanes"]),
            vector_place=np.searchsorted(self._numbers["num_vector"], column["num_vector"]),
            num_vector=column["num_vector"],
        )

    def _stage_times(self, job: TrainingJob, at: Places) -> StageTimes:
        """As of a job's stages, with energy that only static power draws."""
        shape = (len(at.sides), job.num_stages)
        pass_s, once_s, nothing = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        least: dict[int, FloatArray] = {}
        for place, stage in enumerate(job.stages):
            for total_s, repeats in ((pass_s, stage.passes), (once_s, stage.updates)):
                for repeated in repeats:
                    work = repeated.work
                    if id(work) not in least:
                        least[id(work)] = least_s(work, *self._sized(work), at)
                    total_s[:, place] += repeated.count * least[id(work)]
            once_s[:, place] += stage.once_s
        return StageTimes(pass_s=pass_s, once_s=once_s, pass_j=nothing, once_j=nothing, lost_s=np.zeros((2, shape[0])))

    def _sized(self, work: Work) -> tuple[Sized, Sized]:
        if id(work) not in self._known:
            base = self._question.base
            self._known[id(work)] = (
                tensor_sized(work, base, self._sides, self._numbers["num_tensor"][-1]),
                vector_sized(work, base, self._lanes, self._numbers["num_vector"][-1]),
            )
        return self._known[id(work)]
