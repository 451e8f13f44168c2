"""How lines below steps are made: from a pipeline's mean stage, its fullest, its first and its last one.

A pipeline takes no less than each of several weighted sums of what all stages take together and one stage takes;
what is exchanged once a step hides behind the stage that exchanges it, and a stage takes no more than its share of the
pipeline. docs/model/codesign.md has the proofs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.search.codesign.affine_lower_bounds import COLUMNS, PLACES, AffineLowerBounds, places_of_blocks
from dovetail.search.codesign.grad_sync_levels import grad_sync_levels, run_grad_syncs_s
from dovetail.search.planners.bounds.block_lower_bounds import BlockLowerBounds, block_lower_bounds
from dovetail.search.planners.bounds.pipeline_lower_bounds import pace_slope, pipeline_lower_bound_s
from dovetail.search.planners.bounds.step_lower_bounds import (
    ROUNDING_TOLERANCE,
    GroupLowerBounds,
    group_lower_bounds,
    layer_blocks,
)
from dovetail.step.assembly import STRAIGHT, StageShapeGroup, by_pipeline, num_hiding_microbatches
from dovetail.step.plan_table import PlanContext
from dovetail.step.work import held_s, stage_work
from dovetail.workload.graph import BoolArray, FloatArray

NUM_WAYS = 11  # lines of a row at most
NUM_MOST = 4  # numbers of layers on the fullest stage with rows of their own: the even share, and some above it
NUM_LAST = 12  # and of the last stage, if it has its own


def affine_lower_bounds_of(context: PlanContext, policies: tuple[int, ...], *, is_fine: bool) -> AffineLowerBounds:
    """Every plan's of a frame whose recompute is open; fine ones have many more rows, and are higher."""
    block_bounds, waits_s = block_lower_bounds(context.graph, context.table), _waits_s(context, policies)
    parts = []
    for group in by_pipeline(context.graph, context.plans):
        bounds = _Group(context, group, block_bounds, policies)
        rows = bounds.cases(is_fine=is_fine) if bounds.is_by_layers else [bounds.even()]
        parts += [_lines(context, group, waits_s, case) for case in rows]
    whole = AffineLowerBounds(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS})
    return whole.at(np.argsort(whole.base, kind="stable"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Line:
    """One line of plans: how often everything counts, one stage of which some layers are known, and seconds beside."""

    whole: FloatArray
    stage: FloatArray
    num_layers: float = 0.0  # of that stage
    place: str = ""  # what else it holds
    overlappable_s: FloatArray
    lag_s: FloatArray  # of the pipeline

    def times(self, share: FloatArray) -> _Line:
        """With so much of its pipeline."""
        return replace(self, whole=share * self.whole, stage=share * self.stage, lag_s=share * self.lag_s)

    def with_s(self, more_s: FloatArray) -> _Line:
        return replace(self, overlappable_s=self.overlappable_s + more_s)


def _either(is_first: BoolArray, first: _Line, second: _Line) -> _Line:
    """By plan one of two lines of the same stage."""
    names = ("whole", "stage", "overlappable_s", "lag_s")
    chosen = {name: np.where(is_first, getattr(first, name), getattr(second, name)) for name in names}
    return replace(first, **chosen)


def _lines(context: PlanContext, group: StageShapeGroup, waits_s: FloatArray, lines: list[_Line]) -> AffineLowerBounds:
    """Plans of a pipeline as rows: what is paid for entering a stage is in both `fixed_s` and `bare_s`."""
    num, num_layers = len(group.rows), sum(context.graph.blocks[kind].repeat for kind in layer_blocks(context.graph))
    slope = np.zeros((num, NUM_WAYS, len(PLACES)))
    bare_s, entries = np.full((num, NUM_WAYS), -np.inf), np.zeros((num, NUM_WAYS))
    for way, line in enumerate(lines):
        slope[:, way] = np.reshape(line.whole, (-1, 1))
        slope[:, way, 0] += line.stage * line.num_layers / num_layers
        if line.place:
            slope[:, way, PLACES.index(line.place)] += line.stage
        entries[:, way] = line.whole * group.num_stages / group.num_copies + line.stage
        bare_s[:, way] = entries[:, way] * _paid_s(context, group) + line.overlappable_s + line.lag_s
    slope[:, len(lines) :], bare_s[:, len(lines) :] = slope[:, :1], bare_s[:, :1]
    entries[:, len(lines) :] = entries[:, :1]
    slope = slope * (1 - ROUNDING_TOLERANCE)
    own_s = waits_s[:, context.table.comm_variant_of[group.rows]]
    return AffineLowerBounds(
        base=group.rows,
        cut=context.table.cuts.of_plan[group.rows],
        slope=slope,
        fixed_s=(bare_s + np.einsum("rwp,pr->rw", slope, own_s)) * (1 - ROUNDING_TOLERANCE),
        bare_s=bare_s,
        entries=entries,
    )


def _paid_s(context: PlanContext, group: StageShapeGroup) -> FloatArray:
    """What a stage takes for handing over a microbatch, where that is not beside its compute."""
    transfer_s, is_beside = (
        context.transfer_s[context.transfer_of[group.rows]],
        context.plans.overlaps("pipeline")[group.rows],
    )
    return np.where(is_beside, 0.0, 2 * group.num_copies * group.interleave * transfer_s)


class _Group:
    """Plans of one pipeline, and the lines of their steps."""

    def __init__(
        self, context: PlanContext, group: StageShapeGroup, block_bounds: BlockLowerBounds, policies: tuple[int, ...]
    ) -> None:
        self._context, self._group = context, group
        self._bounds: GroupLowerBounds = group_lower_bounds(context, group, block_bounds, policies)
        self._m = self._bounds.num_microbatches.astype(np.float64)
        self._hidden = self._bounds.hidden_frac
        self._hides = bool(self._hidden.any())
        self._hiding = self._hidden * num_hiding_microbatches(group, self._bounds.num_microbatches)
        # a stage takes no more than its share of the pipeline, and hides no more than so much of that
        self._share = np.minimum(1.0, self._hiding * group.num_copies / self._m)
        lag_s = np.where(self._bounds.is_beside, self._bounds.transfer_s, 0.0)
        self._lag_s = 2 * (group.num_stages - 1) * lag_s if group.name in STRAIGHT else 0.0 * lag_s

    @property
    def is_by_layers(self) -> bool:
        """Whether stages have bounds by number of layers: those of a straight pipeline over layers of one kind."""
        group = self._group
        is_one_kind = len(layer_blocks(self._context.graph)) == 1
        return group.num_stages > 1 and group.name in STRAIGHT and group.num_copies == 1 and is_one_kind

    def even(self) -> list[_Line]:
        """Whatever the stages: from what all take together."""
        if self._group.num_stages > 1:
            return self._mean(self._bounds.grad_sync_s)
        return self._mean(run_grad_syncs_s(self._context, self._group)[:, 0])

    def cases(self, *, is_fine: bool) -> list[list[_Line]]:
        """By the layers of the fullest stage, and if `is_fine` by those of the last one too.

        The last case stands for all whose fullest stage holds more.
        """
        graph, group = self._context.graph, self._group
        num_layers, num_stages = graph.num_layers, group.num_stages
        fewest, share = min(1, num_layers // num_stages), -(-num_layers // num_stages)
        most = num_layers - (num_stages - 1) * fewest
        levels = grad_sync_levels(self._context, group, fewest, most)
        cases = []
        tops = range(share, min(share + NUM_MOST - 1, most) + 1)
        for top in tops:
            limit = most if top == tops[-1] else top
            width = -(-(limit - fewest + 1) // (NUM_LAST if is_fine else 1))
            for last in range(fewest, limit + 1, width):
                held = range(last, min(last + width, limit + 1))
                grad_sync_s = levels.least_s(limit, held)
                if not np.isfinite(grad_sync_s).all():  # no cut is like this
                    continue
                left = max(held[0], num_layers - (num_stages - 1) * limit)
                first = max(fewest, num_layers - (num_stages - 2) * limit - held[-1])
                ends = (first, levels.first_s[:, first]), (left, levels.last_s[:, left])
                cases.append([*self._mean(grad_sync_s), *self._paced(grad_sync_s, top, *ends)])
        return cases

    def _mean(self, grad_sync_s: FloatArray) -> list[_Line]:
        """From what all stages take together."""
        group, shape = self._group, self._bounds.shape
        nothing = np.zeros(len(group.rows))
        steep = pipeline_lower_bound_s(group.name, nothing + group.num_copies, nothing, nothing, shape)
        line = _Line(whole=steep, stage=nothing, overlappable_s=self._bounds.tied_s, lag_s=self._lag_s)
        if not self._hides:
            return [line.with_s(grad_sync_s)]
        is_steep = (pace_slope(group.name, shape) >= self._hiding) & (group.interleave == 1)  # see `bounds._bound_s`
        is_longer = is_steep | (group.num_stages == 1)
        flat = replace(line, whole=steep - self._hiding * group.num_copies / group.num_stages)
        behind = _either(is_longer, flat, line.times(1 - self._share))
        return [line.with_s((1 - self._hidden) * grad_sync_s), behind.with_s(grad_sync_s)]

    def _paced(
        self, grad_sync_s: FloatArray, top: int, at_first: tuple[int, FloatArray], at_last: tuple[int, FloatArray]
    ) -> list[_Line]:
        """From the fullest stage, which may be any, and from the first and the last.

        Of these two: layers that they hold at least, and what they then exchange.
        """
        m, p, one = self._m, self._group.num_stages, np.ones(len(self._m))
        if self._group.name == "gpipe":
            anywhere = one, m - 1
        else:
            anywhere = np.where(m > p, 2.0, 0.0), np.where(m > p, m - p - 1, m)
        lag_s = np.where(anywhere[0] > 0, self._lag_s, 0.0)
        line = _Line(
            whole=anywhere[0], stage=anywhere[1], num_layers=top, overlappable_s=self._bounds.tied_s, lag_s=lag_s
        )
        first = replace(line, num_layers=at_first[0], place="first")
        last = replace(line, num_layers=at_last[0], place="last", whole=one, stage=m - 1, lag_s=self._lag_s)
        if not self._hides:
            return [each.with_s(grad_sync_s) for each in (line, last, first)]
        return [
            *self._hiding_lines(line, grad_sync_s, grad_sync_s),
            *self._hiding_lines(last, grad_sync_s, at_last[1]),
            *self._hiding_lines(first, grad_sync_s, at_first[1]),
        ]

    def _hiding_lines(self, line: _Line, grad_sync_s: FloatArray, own_s: FloatArray) -> list[_Line]:
        """All hides that may; or what the stage that exchanges most hides at most; or what the line's own does."""
        lines = [
            line.with_s((1 - self._hidden) * grad_sync_s),
            line.times(1 - self._share).with_s(grad_sync_s),
        ]
        is_longer = line.stage >= self._hiding
        flat = replace(line, stage=line.stage - self._hiding)
        return [*lines, _either(is_longer, flat.with_s(own_s), lines[0])]


def _waits_s(context: PlanContext, policies: tuple[int, ...]) -> FloatArray:
    """What one microbatch waits for others at least, places by senders, however it hides behind compute."""
    graph, places = context.graph, places_of_blocks(context.graph)
    total_s = np.zeros((len(PLACES), int(context.table.comm_variant_of.max()) + 1))
    for block, columns, place in zip(graph.blocks, context.table.works, places, strict=True):
        work = stage_work(columns, context.cluster.chip.endpoint_kind)
        for way in (work.forward, work.backward):
            paid_s = np.asarray(sum(way.blocking_s) + held_s(way.compute_slowdown_frac, way.overlappable_s))
            total_s[place] += block.repeat * paid_s[:, list(policies)].min(axis=1)
    return total_s
