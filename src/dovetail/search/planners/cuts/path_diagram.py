"""The least longest path of a pipeline over all cuts of its layers, from below: a relaxed decision diagram over stages.

A pipeline's step is the longest of its paths, and a path is a weighted sum of what its stages take forward and
backward. So some of the paths bound every cut from below, and each of them adds up stage by stage. The diagram goes
over stages from the first one on and keeps, of every partial cut, its sum along each of the paths and the most that one
of its stages adds once a step. Dropped are partial cuts that cannot end below the target even if every path by itself
went on as short as it can, and those that another one with the same layers left beats in all sums. Where too many are
left, some that have the same layers left become one with the least of each sum (a relaxed decision diagram: Bergman et
al., INFORMS J. on Computing 2016), so that what is said still holds for all of them.

The paths come from cuts: at the stage times of one, and near it, the derivatives of the step are the weights of its
longest path. `paths_of` checks that they are. A path of one plan is a path of every plan whose pipeline has its shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.search.planners.cuts.plan_stages import PlanStages
from dovetail.step.pipelines import PipelineShape, StageTimes, pipelines, schedule_name
from dovetail.workload.graph import BoolArray, FloatArray, IntArray

CONVEX = ("1f1b", "interleaved", "gpipe")  # schedules whose step is the longest of paths, whatever its stages take
APART_FRAC = 1e-4  # of a stage's time: how far from it a path is looked for, as two are as long at many a cut
SLOW_FRAC = 0.5  # by which one stage is made slower than the others, so that the longest path stays on it
STEP_FRAC = 1e-7  # of the slowest stage's time: the step of the derivatives
SAME_FRAC = 1e-11  # style: a tolerance, of a step, to which the weights of a path must come to it
GOLDEN_FRAC = 0.6180339887498949  # whose multiples, without their whole parts, are spread evenly: no two are alike


WIDTH = 1_000  # partial cuts that are kept of a stage
BLOCK = 256  # partial cuts with the same layers left that are compared with each other


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Edges:
    """From one stage's states to the next one's, by an option's row; in the order of `start`."""

    start: IntArray
    end: IntArray
    row: IntArray

    def at(self, places: IntArray) -> Edges:
        return Edges(start=self.start[places], end=self.end[places], row=self.row[places])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Diagram:
    """What no cut's step is below, no more than what it was held against, and the cut that came closest, if any."""

    lower_bound_s: float
    cuts: IntArray  # options by stage, one or none


def paths_of(stages: PlanStages, rows: IntArray, *, has_slow: bool = False) -> FloatArray:
    """Weights of the longest path where stages are these options: of stages forward and backward, and of a transfer.

    With `has_slow` also where each stage in turn takes half as long again. Left out is where paths of unlike weights
    are equally long.
    """
    options, num_stages = stages.options, len(rows)
    times_s = np.concatenate([options.forward_s[rows], options.backward_s[rows]]) + stages.paid_s / 2
    times_s *= 1 + APART_FRAC * (GOLDEN_FRAC * np.arange(1, 2 * num_stages + 1) % 1.0)
    at_s = np.append(times_s, stages.lag_s)[None]
    if has_slow:
        slow = 1 + SLOW_FRAC * np.concatenate([np.zeros((1, num_stages)), np.eye(num_stages)])
        at_s = at_s * np.concatenate([slow, slow, np.ones((num_stages + 1, 1))], axis=1)
    step_s = STEP_FRAC * float(at_s.max())
    moved_s = np.concatenate([at_s[:, None], at_s[:, None] + step_s * np.eye(at_s.shape[1])], axis=1)
    found_s = _steps_s(stages, moved_s.reshape(-1, at_s.shape[1])).reshape(moved_s.shape[:2])
    parts = stages.plan.interleave  # a pass is of one chunk
    weights = np.round((found_s[:, 1:] - found_s[:, :1]) / step_s * parts) / parts
    if not stages.lag_s:
        weights[:, -1] = 0.0
    # At times above 0, one-sided derivatives that add up to the step are those of one path, and of no other.
    is_path = np.abs((weights * at_s).sum(axis=1) - found_s[:, 0]) <= SAME_FRAC * found_s[:, 0]
    return np.asarray(weights[is_path])


def _steps_s(stages: PlanStages, at_s: FloatArray) -> FloatArray:
    num_stages = (at_s.shape[1] - 1) // 2
    times = StageTimes(
        forward_s=at_s[:, :num_stages], backward_s=at_s[:, num_stages:-1], weight_s=0.0, transfer_s=at_s[:, -1]
    )
    shape = PipelineShape(
        num_stages=num_stages, num_microbatches=stages.num_microbatches, interleave=stages.plan.interleave
    )
    return pipelines[schedule_name(stages.plan)].pipeline_s(times, shape)


def along_paths_s(stages: PlanStages, paths: FloatArray) -> FloatArray:
    """What each option adds to each path: options by paths; the first stage's have the transfers."""
    options, num_stages = stages.options, stages.plan.pipeline_parallel
    forward, backward = paths[:, :num_stages].T[options.stage], paths[:, num_stages:-1].T[options.stage]
    paid_s = stages.paid_s / 2
    own_s = forward * (options.forward_s[:, None] + paid_s) + backward * (options.backward_s[:, None] + paid_s)
    own_s[options.stage == 0] += paths[:, -1] * stages.lag_s
    return np.asarray(own_s)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Partial:
    """Partial cuts that end at a stage, one a row: what is left, sums by path, most once a step, and where from."""

    state: IntArray
    sums_s: FloatArray
    once_s: FloatArray
    bound_s: FloatArray
    parent: IntArray
    row: IntArray

    def at(self, places: IntArray) -> _Partial:
        return _Partial(
            state=self.state[places],
            sums_s=self.sums_s[places],
            once_s=self.once_s[places],
            bound_s=self.bound_s[places],
            parent=self.parent[places],
            row=self.row[places],
        )


def diagram(
    steps: Sequence[Edges],
    along_s: FloatArray,
    paths: FloatArray,
    once_s: FloatArray,
    below_s: float,
) -> Diagram:
    """Of the cuts that `steps` lead through, stage by stage; `along_s` and `once_s` are by option."""
    ends_s, ends_once_s = _ends(steps, along_s), _ends(steps, once_s[:, None], is_sum=False)
    none = np.zeros(1, dtype=np.int64)
    first = _Partial(
        state=none,
        sums_s=np.zeros((1, along_s.shape[1])),
        once_s=np.zeros(1),
        bound_s=np.zeros(1),
        parent=none,
        row=none,
    )
    kept = [first]
    for stage, edges in enumerate(steps):
        longer = _longer(kept[-1], edges, along_s, once_s, ends_s[stage + 1], ends_once_s[stage + 1][:, 0])
        longer = longer.at(np.flatnonzero(longer.bound_s < below_s))
        if not len(longer.state):
            return Diagram(lower_bound_s=below_s, cuts=np.empty((0, len(steps)), dtype=np.int64))
        kept.append(_narrowed(_joined_alike(longer, _alike_after(paths, stage)), WIDTH))
    best = int(kept[-1].bound_s.argmin())
    place, rows = best, []
    for partial in reversed(kept[1:]):
        rows.append(int(partial.row[place]))
        place = int(partial.parent[place])
    return Diagram(lower_bound_s=float(kept[-1].bound_s[best]), cuts=np.array([rows[::-1]]))


def _ends(steps: Sequence[Edges], own_s: FloatArray, *, is_sum: bool = True) -> list[FloatArray]:
    """By stage and state the least that the way to the end takes, column by column; infinite where there is none."""
    ends_s = [np.zeros((1, own_s.shape[1]))]
    for index in reversed(range(len(steps))):
        edges = steps[index]
        num_states = int(steps[index - 1].end.max()) + 1 if index else 1
        after_s = ends_s[0][edges.end]
        with_s = own_s[edges.row] + after_s if is_sum else np.maximum(own_s[edges.row], after_s)
        start, begin = np.unique(edges.start, return_index=True)
        least_s = np.full((num_states, own_s.shape[1]), np.inf)
        least_s[start] = np.minimum.reduceat(with_s, begin, axis=0)
        ends_s.insert(0, least_s)
    return ends_s


def _longer(
    partial: _Partial,
    edges: Edges,
    along_s: FloatArray,
    once_s: FloatArray,
    ends_s: FloatArray,
    ends_once_s: FloatArray,
) -> _Partial:
    """Every partial cut with every option that may follow."""
    low = np.searchsorted(edges.start, partial.state, side="left")
    num = np.searchsorted(edges.start, partial.state, side="right") - low
    parent = np.repeat(np.arange(len(num)), num)
    place = np.arange(len(parent)) - np.repeat(np.cumsum(num) - num, num) + low[parent]
    row, state = edges.row[place], edges.end[place]
    sums_s = partial.sums_s[parent] + along_s[row]
    most_s = np.maximum(partial.once_s[parent], once_s[row])
    bound_s = (sums_s + ends_s[state]).max(axis=1) + np.maximum(most_s, ends_once_s[state])
    return _Partial(state=state, sums_s=sums_s, once_s=most_s, bound_s=bound_s, parent=parent, row=row)


def _alike_after(paths: FloatArray, stage: int) -> list[IntArray]:
    """Paths that go on alike after a stage."""
    num_stages = (paths.shape[1] - 1) // 2
    after = np.concatenate([paths[:, stage + 1 : num_stages], paths[:, num_stages + stage + 1 : -1]], axis=1)
    _, kind = np.unique(after, axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    return [np.flatnonzero(kind == one) for one in range(int(kind.max()) + 1)]


def _joined_alike(partial: _Partial, alike: list[IntArray]) -> _Partial:
    """Of paths that go on alike only the longest so far matters; of partial cuts that are then the same, one does."""
    sums_s = partial.sums_s.copy()
    for columns in alike:
        if len(columns) > 1:
            sums_s[:, columns] = sums_s[:, columns].max(axis=1, keepdims=True)
    joined = _Partial(
        state=partial.state,
        sums_s=sums_s,
        once_s=partial.once_s,
        bound_s=partial.bound_s,
        parent=partial.parent,
        row=partial.row,
    )
    order = np.lexsort((joined.once_s, sums_s.sum(axis=1), joined.bound_s, joined.state))
    joined = joined.at(order)
    return joined.at(np.flatnonzero(~_is_dominated(joined, [int(columns[0]) for columns in alike])))


def _is_dominated(partial: _Partial, columns: list[int]) -> BoolArray:
    """Whether another one before it, with the same layers left, is no longer along any path, nor more once a step."""
    values = np.concatenate([partial.sums_s[:, columns], partial.once_s[:, None]], axis=1)
    is_out = np.zeros(len(values), dtype=bool)
    begin = np.flatnonzero(np.concatenate([[True], partial.state[1:] != partial.state[:-1]]))
    for low, high in zip(begin.tolist(), [*begin[1:].tolist(), len(values)], strict=True):
        for start in range(low, high, BLOCK):
            block = values[start : min(start + BLOCK, high)]
            head = values[low : min(low + BLOCK, high)]
            for some, first in ((head, low), (block, start)):
                beats = (some[:, None, :] <= block[None, :, :]).all(axis=2)
                beats &= np.arange(first, first + len(some))[:, None] < np.arange(start, start + len(block))[None, :]
                is_out[start : start + len(block)] |= beats.any(axis=0)
    return is_out


def _narrowed(partial: _Partial, width: int) -> _Partial:
    """At most about `width` of them: of those with the same layers left some become one with the least of each."""
    if len(partial.state) <= width:
        return partial
    states, begin, num = np.unique(partial.state, return_index=True, return_counts=True)
    quota = max(2, width // len(states))
    place = np.arange(len(partial.state)) - np.repeat(begin, num)  # by bound, in its state
    quotas = np.minimum(num, quota)
    kept = quotas // 2
    # the first half stay themselves, the others are spread over the second half
    rest = np.maximum(num - kept, 1)
    group = np.where(
        place < np.repeat(kept, num),
        place,
        np.repeat(kept, num) + (place - np.repeat(kept, num)) * np.repeat(quotas - kept, num) // np.repeat(rest, num),
    )
    first = np.flatnonzero(
        np.concatenate([[True], (group[1:] != group[:-1]) | (partial.state[1:] != partial.state[:-1])])
    )
    return _Partial(
        state=partial.state[first],
        sums_s=np.minimum.reduceat(partial.sums_s, first, axis=0),
        once_s=np.minimum.reduceat(partial.once_s, first),
        bound_s=np.minimum.reduceat(partial.bound_s, first),
        parent=partial.parent[first],
        row=partial.row[first],
    )
