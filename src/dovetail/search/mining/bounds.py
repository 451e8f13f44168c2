"""What a job takes at least on each of many designs: no schedule, only work, bandwidth and the longest path.

What an operator takes depends on the size of a core and on how many it runs on, not on what else the chip has; so it is
costed once for every size and number of cores. A bound needs nothing of a design but which tensor cores it has and
which vector cores: a table of both, and a space of tens of thousands of designs is bounded by looking up.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from dovetail.hardware.chip import Chip
from dovetail.hardware.template import Design, own_buffer_bytes, template_chip
from dovetail.opsched.problem import HBM, WHOLE
from dovetail.opsched.slices import slice_costs, splits
from dovetail.opsched.work import Work
from dovetail.parallel.sharding import joined_ops
from dovetail.search.designs import Silicon, design_columns, silicon_at
from dovetail.search.mining.load import TrainingJob
from dovetail.search.mining.paths import longest_path_s
from dovetail.search.mining.score import Question, StageTimes, figures_of, works_of
from dovetail.search.space import Point
from dovetail.workload.graph import FloatArray, IntArray, Ops
from dovetail.workload.operators import Unit

MANY_LANES = 2**16  # at least so many beside a product, in one vector core, where no design of a space has more
IN_CACHE = 2**16  # designs times stages bounded at once: tables of so many numbers stay near the processor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sized:
    """Operators of one unit on so many cores of each size: both together are a column."""

    time_s: FloatArray  # operators by columns, on as many cores or fewer
    busy_s: FloatArray  # operators by columns: the least that one holds cores, in seconds times cores, over all cores
    hbm_s: FloatArray  # of operators: that the bandwidth alone takes, at the least


def tensor_sized(
    ops: Ops,
    base: Chip,
    sides: Sequence[tuple[int, int]],
    counts: Sequence[int],
    most_lanes: int,
    most_vector: int = 1,
) -> Sized:
    """Products on arrays of each of `sides`, so many of them; the largest of `counts` must be a power of two.

    Attention waits for its lanes, so `most_lanes` are beside it: no fewer than any design has in all. Vector memory is
    that of `most_vector` vector cores, as many as any design has.
    """
    chips = []
    for rows, cols in sides:
        one = Design(num_tensor=counts[-1], num_rows=rows, num_cols=cols, num_vector=1, num_lanes=most_lanes)
        chip = template_chip(base, one)
        if chip.vector_memory is not None:
            whole_bytes = chip.vector_memory.capacity_bytes * most_vector
            chip = replace(chip, vector_memory=replace(chip.vector_memory, capacity_bytes=whole_bytes))
        chips.append(chip)
    return _sized(ops, chips, Unit.TENSOR, counts)


def vector_sized(ops: Ops, base: Chip, lanes: Sequence[int], counts: Sequence[int], most_macs: int = 1) -> Sized:
    """All other operators on vector cores of each size; no array has more than `most_macs` multipliers."""
    designs = [Design(num_tensor=1, num_rows=1, num_cols=1, num_vector=counts[-1], num_lanes=width) for width in lanes]
    chips = [template_chip(base, design) for design in designs]
    if base.die.buffered_units != "vector":
        # a buffer of all the SRAM, as of a single vector core, or of the largest array: wide rows are read once more
        # where they do not fit a buffer
        whole = max(base.sram.capacity_bytes, float(own_buffer_bytes(base, most_macs)))
        chips = [replace(chip, core_buffer_bytes=whole) for chip in chips]
    return _sized(ops, chips, Unit.VECTOR, counts)


def _sized(ops: Ops, chips: Sequence[Chip], unit: Unit, counts: Sequence[int]) -> Sized:
    num_columns = len(chips) * len(counts)
    if not len(ops):
        nothing = np.zeros((0, num_columns))
        return Sized(time_s=nothing, busy_s=nothing, hbm_s=np.zeros(0))
    costs = slice_costs(ops, chips, np.zeros(len(ops)))
    mine = np.flatnonzero(costs.slices.is_tensor == (unit == Unit.TENSOR))
    numbers = np.array(splits(counts[-1]))
    time_s = costs.compute_s[:, mine].reshape(len(ops), len(chips), len(numbers))
    held_s = (time_s * numbers).min(axis=2)
    # needs are rounded up to parts of the whole
    hbm_s = (np.maximum(costs.need[:, mine, HBM] - 1, 0) / WHOLE * costs.compute_s[:, mine]).min(axis=1)
    fewer_s = np.minimum.accumulate(time_s, axis=2)[:, :, np.searchsorted(numbers, counts)]
    return Sized(
        time_s=fewer_s.reshape(len(ops), num_columns),
        busy_s=(held_s[:, :, None] / np.array(counts)).reshape(len(ops), num_columns),
        hbm_s=hbm_s,
    )


def least_s(work: Work, tensor: Sized, vector: Sized) -> FloatArray:
    """Seconds that any schedule of `work` takes: cores busy, HBM busy, and the longest path.

    A table of columns of tensor cores by columns of vector cores, whose operators are in the order of those of `work`.
    """
    num_tensor, num_vector = tensor.time_s.shape[1], vector.time_s.shape[1]
    tensor_s, vector_s = np.zeros((len(work.ops), num_tensor)), np.zeros((len(work.ops), num_vector))
    unit = work.ops.unit
    tensor_s[unit == Unit.TENSOR] = tensor.time_s
    vector_s[unit == Unit.VECTOR] = vector.time_s
    tensor_s[unit == Unit.NETWORK] = work.exchange_s[unit == Unit.NETWORK, None]
    path_s = longest_path_s(work.dag, tensor_s, vector_s)
    hbm_s = float(tensor.hbm_s.sum() + vector.hbm_s.sum())
    tensor_busy_s = np.maximum(tensor.busy_s.sum(axis=0), hbm_s)
    return np.asarray(np.maximum(path_s, np.maximum(tensor_busy_s[:, None], vector.busy_s.sum(axis=0))))


class JobBounds:
    """Bounds on the losses of a question; its tables are made once, for all designs of its space."""

    def __init__(self, question: Question) -> None:
        self._question = question
        values = {knob.name: tuple(map(int, knob.values)) for knob in question.space.knobs}
        self._sides = [(rows, cols) for rows in values["num_rows"] for cols in values["num_cols"]]
        self._values = values
        works = list({id(work): work for job in question.jobs for work in works_of(job)}.values())
        sized = [self._sized(works, unit) for unit in (Unit.TENSOR, Unit.VECTOR)]
        self._least_s = {id(work): least_s(work, *pair) for work, *pair in zip(works, *sized, strict=True)}

    def for_question(self, question: Question) -> JobBounds:
        """The bounds of a question that differs in its metric or its limits alone: the tables are the same."""
        own = self._question
        assert question.space == own.space, "tables are of one space"
        assert question.base == own.base, "tables are of one base"
        assert question.jobs == own.jobs, "tables are of the same jobs"
        same = copy(self)
        same._question = question
        return same

    def __call__(self, points: list[Point]) -> FloatArray:
        """What the loss of each point is at least; infinite where it breaks a limit."""
        question = self._question
        found = np.full(len(points), np.inf)
        designs = design_columns(question.space, points)
        silicon = silicon_at(question.base, designs)
        inside = np.flatnonzero(silicon.excess_frac(question.limits) == 0)
        if len(inside):
            at = self._columns({name: column[inside] for name, column in designs.items()})
            found[inside] = self._losses(at, silicon.at(inside))
        return found

    def _losses(self, at: tuple[IntArray, IntArray], silicon: Silicon) -> FloatArray:
        by_job = []
        for job in self._question.jobs:
            num_parts = -(-job.num_stages * len(at[0]) // IN_CACHE)
            parts = np.array_split(np.arange(len(at[0])), num_parts)
            by_job.append(np.concatenate([self._job_losses(job, at, silicon, rows) for rows in parts]))
        ratios = np.stack(by_job, axis=1) / self._question.reference_losses
        return np.asarray(np.exp(np.log(ratios).mean(axis=1)))

    def _job_losses(
        self, job: TrainingJob, at: tuple[IntArray, IntArray], silicon: Silicon, rows: IntArray
    ) -> FloatArray:
        times = self._stage_times(job, (at[0][rows], at[1][rows]))
        return np.asarray(self._question.metric.loss(figures_of(job, times, silicon.at(rows))))

    def _columns(self, designs: dict[str, IntArray]) -> tuple[IntArray, IntArray]:
        """Where designs lie in tables: their column of tensor cores, and of vector cores."""
        place = {name: np.searchsorted(values, designs[name]) for name, values in self._values.items()}
        side = place["num_rows"] * len(self._values["num_cols"]) + place["num_cols"]
        return (
            side * len(self._values["num_tensor"]) + place["num_tensor"],
            place["num_lanes"] * len(self._values["num_vector"]) + place["num_vector"],
        )

    def _stage_times(self, job: TrainingJob, at: tuple[IntArray, IntArray]) -> StageTimes:
        """As of a job's stages, with energy that only static power draws."""
        shape = (len(at[0]), job.num_stages)
        pass_s, per_step_s, nothing = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        least_s = {id(work): self._least_s[id(work)][at] for work in works_of(job)}
        for place, stage in enumerate(job.stages):
            for total_s, repeats in ((pass_s, stage.passes), (per_step_s, stage.updates)):
                for repeated in repeats:
                    total_s[:, place] += repeated.count * least_s[id(repeated.work)]
            per_step_s[:, place] += stage.per_step_s
        return StageTimes(
            pass_s=pass_s, per_step_s=per_step_s, pass_j=nothing, per_step_j=nothing, lost_s=np.zeros((2, shape[0]))
        )

    def _sized(self, works: list[Work], unit: Unit) -> list[Sized]:
        """Operators of `unit` of each of `works`, costed all at once."""
        base, values = self._question.base, self._values
        rows = [np.flatnonzero(work.ops.unit == unit) for work in works]
        joined = joined_ops([work.ops for work in works])
        ops = joined.taken(np.flatnonzero(joined.unit == unit))
        if unit == Unit.TENSOR:
            most_lanes = max(MANY_LANES, max(values["num_vector"]) * max(values["num_lanes"]))
            most_vector = max(values["num_vector"])
            sized = tensor_sized(ops, base, self._sides, values["num_tensor"], most_lanes, most_vector)
        else:
            most_macs = max(values["num_rows"]) * max(values["num_cols"])
            sized = vector_sized(ops, base, values["num_lanes"], values["num_vector"], most_macs)
        ends = np.cumsum([len(work_rows) for work_rows in rows])[:-1]
        cut = (np.split(column, ends) for column in (sized.time_s, sized.busy_s, sized.hbm_s))
        return [Sized(time_s=time_s, busy_s=busy_s, hbm_s=hbm_s) for time_s, busy_s, hbm_s in zip(*cut, strict=True)]
