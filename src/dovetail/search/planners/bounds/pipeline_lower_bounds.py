"""The least that a pipeline can take, whatever its stages take each: from the sum over stages and the slowest one.

`sum_s` is one microbatch through all stages, both ways, and `pace_s` what the slowest takes at least; both are lower
bounds, and so are the answers, of the closed forms in `step/pipelines/` (docs/model/planning.md has the proofs).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dovetail.step.pipelines import PipelineShape, pipelines
from dovetail.workload.graph import FloatArray

Low = Callable[[FloatArray, FloatArray, FloatArray, PipelineShape], FloatArray]


def pipeline_lower_bound_s(
    name: str, sum_s: FloatArray, pace_s: FloatArray, transfer_s: FloatArray, shape: PipelineShape
) -> FloatArray:
    """No pipeline of this shape whose stages take `sum_s` together, and one of them `pace_s`, is faster."""
    pace_s = np.maximum(pace_s, sum_s / shape.num_stages)
    num_passes = np.asarray(shape.num_microbatches) / pipelines[name].num_copies
    lower_bound_s = LOWS.get(name, _only_work)(sum_s, pace_s, transfer_s, shape)
    return np.maximum(lower_bound_s, num_passes * pace_s)  # the slowest stage runs one pass after the other


def pace_slope(name: str, shape: PipelineShape) -> FloatArray:
    """By how much `pipeline_lower_bound_s` grows at least with a second more of pace, once that is above the mean."""
    if name == "1f1b":
        return np.maximum(0.0, np.asarray(shape.num_microbatches) - shape.num_stages - 1.0)
    if name == "gpipe":
        return np.asarray(shape.num_microbatches) - 1.0
    return np.asarray(shape.num_microbatches) / pipelines[name].num_copies


def _only_work(sum_s: FloatArray, pace_s: FloatArray, transfer_s: FloatArray, shape: PipelineShape) -> FloatArray:
    del sum_s, transfer_s, shape
    return np.zeros_like(pace_s)


def _gpipe(sum_s: FloatArray, pace_s: FloatArray, transfer_s: FloatArray, shape: PipelineShape) -> FloatArray:
    more = np.asarray(shape.num_microbatches) - 1
    return np.asarray(sum_s + more * pace_s + 2 * (shape.num_stages - 1) * transfer_s)


def _one_f_one_b(sum_s: FloatArray, pace_s: FloatArray, transfer_s: FloatArray, shape: PipelineShape) -> FloatArray:
    """A path stays on stage k between its first backward and its last forward pass; with t_k that stage's time,

        sum + sum of t_i after k + (m - p + k) t_k + 2 (p - 1) transfers      for m > p.

    Some weighted mean of these is (m + p - 1) / p times the sum; and with the slowest as k, stages before it taking no
    longer, the path is no less than 2 sum + (m - p - 1) pace. Up and down all stages again and again is one more.
    """
    m, p = np.asarray(shape.num_microbatches, dtype=np.float64), shape.num_stages
    ways_s = 2 * (p - 1) * transfer_s
    rounds = np.maximum(m - p - 1, 0)
    turns, left = np.divmod(rounds, p)
    up_and_down_s = (2 + turns) * (sum_s + ways_s) + 2 * np.maximum(left - 1, 0) * transfer_s
    many_s = np.maximum(np.maximum((m + p - 1) / p * sum_s, 2 * sum_s + rounds * pace_s) + ways_s, up_and_down_s)
    # few microbatches: the stages before p + 1 - m and those from it on each have a path, whichever takes more
    share = (m - 1) / (2 * np.maximum(p - m + 1, 1))
    few_s = sum_s * (1 + share / (1 + share)) + ways_s
    return np.asarray(np.where(m > p, many_s, few_s))


def _interleaved(sum_s: FloatArray, pace_s: FloatArray, transfer_s: FloatArray, shape: PipelineShape) -> FloatArray:
    """Device k waits for a chunk of each before it and ends as much before them: m t_k + sum of t_i before k / v.

    The greatest of these is least where all are equal: t_k falls from stage to stage by 1 - 1 / (m v).
    """
    del pace_s, transfer_s
    v, m = np.asarray(shape.interleave, dtype=np.float64), np.asarray(shape.num_microbatches)
    return np.asarray(sum_s / (v * -np.expm1(shape.num_stages * np.log1p(-1 / (m * v)))))


LOWS: dict[str, Low] = {"gpipe": _gpipe, "1f1b": _one_f_one_b, "interleaved": _interleaved}
