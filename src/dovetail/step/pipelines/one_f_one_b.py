"""1F1B with a flush at the end of the step (PipeDream-flush)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dovetail.step.hops import hops_before
from dovetail.step.pass_order import PassOrder, Row, backward, forward, pass_order
from dovetail.step.pipelines import (
    Pipeline,
    PipelineShape,
    PlanColumns,
    StageTimes,
    none_waiting,
    one_chunk,
    pipelines,
    plan_columns,
)
from dovetail.workload.graph import FloatArray, IntArray

_TIMES_AT_ONCE = 64_000  # spans of stages times plans: what keeps them in a core's cache
_FEW_SPANS = 128  # stages times lengths of spans that are all tried: longer spans differ little from those of 2^n


def order(shape: PipelineShape) -> PassOrder:
    return pass_order((_passes(stage, shape) for stage in range(shape.num_stages)), shape.num_stages)


def _passes(stage: int, shape: PipelineShape) -> Iterator[Row]:
    """As many forward passes as there are stages after it, then one of each in turn, then the backward rest."""
    num_microbatches = int(shape.num_microbatches)
    ahead = shape.num_stages - 1 - stage
    for i in range(num_microbatches + ahead):
        if i < num_microbatches:
            yield forward(stage, i)
        if 0 <= i - ahead < num_microbatches:
            yield backward(stage, i - ahead)


def pipeline_s(times: StageTimes, shape: PipelineShape) -> FloatArray:
    """The longest of the paths that go up and down between two stages, or stay on one, in the middle of the step.

    A stage begins its first backward pass after a microbatch has been through all later ones, or after its own
    first forward passes at the pace of the slowest before it; from its last forward pass to the end it is the same
    backwards. In between transfers make neighbours wait for each other: L stages in a row take their own time and
    2(L - 1) transfers for L microbatches. That is the mean of a cycle of what waits for what, and all cycles are such.

    For equal stages (m + p - 1)(f + b) + 2 c (m + p - 2 - ceil((m - 1) / p)), exact. Without transfers no pipeline was
    found for which it is not exact; with them never above the played-out schedule.
    Short of it at most and in the mean, each of 1,900 random pipelines of 2 to 9 stages within 30 % of the mean:
    0.06 % and under 0.0005 % with transfers to 5 % of a pass, 0.29 % and 0.001 % to 20 %, 0.71 % and 0.008 % to 50 %;
    250 of two unlike parts with up to 8 passes of transfer between them: 0.92 % and 0.05 %.
    Source: Narayanan et al., SC 2021, section 2.2, for the order of passes.
    """
    columns = plan_columns(times, shape)
    return longest_path_s(columns, np.zeros_like(columns.weight_s))


def longest_path_s(columns: PlanColumns, deferrable_wgrad_s: FloatArray) -> FloatArray:
    """The longest path of 1F1B with `deferrable_wgrad_s`, by run and plan, from a backward to the next forward pass.

    On stage s that is from the s-th backward pass on, as in ZB-H1, and once after the last.
    """
    longest_s = np.empty(len(columns.num_microbatches))
    num_spans = len(_spans(len(columns.stage_run), is_one=not columns.transfer_s.any())[0])
    for num_microbatches in np.unique(columns.num_microbatches).tolist():
        group_rows = np.flatnonzero(columns.num_microbatches == num_microbatches)
        for start in range(0, len(group_rows), size := max(1, _TIMES_AT_ONCE // num_spans)):
            rows = group_rows[start : start + size]
            longest_s[rows] = _longest_s(columns, rows, num_microbatches, deferrable_wgrad_s[:, rows])
    return longest_s.reshape(columns.shape)


def _longest_s(
    columns: PlanColumns, rows: IntArray, num_microbatches: int, deferrable_wgrad_s: FloatArray
) -> FloatArray:
    """Of plans of as many microbatches; inside, times are stages by plans."""
    forward_s, backward_s, transfer_s = (
        columns.forward_s[:, rows],
        columns.backward_s[:, rows],
        columns.transfer_s[:, rows],
    )
    run = np.array(columns.stage_run)
    num_stages = len(run)
    stages = np.arange(num_stages)
    before = _num_before(run, len(forward_s))
    ahead = np.minimum(num_stages - 1 - stages, num_microbatches - 1)
    hops = hops_before(num_stages, columns.stage_pool)
    handed_s = hops @ transfer_s
    fill_s = before[:-1] @ forward_s + handed_s
    drain_s = before[:-1] @ backward_s + handed_s
    slowest_s = [np.maximum.accumulate(direction, axis=0)[run] for direction in (forward_s, backward_s)]
    both_s = fill_s + drain_s + (forward_s + backward_s)[run]
    first_s = _latest(both_s + ahead[:, None] * slowest_s[0]) - drain_s  # first backward pass done
    last_s = _latest(both_s + ahead[:, None] * slowest_s[1]) - fill_s  # from the start of the last forward pass
    rest = num_microbatches - 1
    few_s = np.maximum(first_s + rest * slowest_s[1] + drain_s, last_s + rest * slowest_s[0] + fill_s)
    is_all_ahead = ahead == rest  # no forward pass after the first backward one
    walks = _walks(num_microbatches, before, hops if transfer_s.any() else np.zeros_like(hops))
    path_s = walks.counts @ np.concatenate([forward_s + backward_s, 2 * transfer_s])
    path_s += (first_s - fill_s)[walks.start]
    path_s += (last_s - drain_s)[walks.end]
    if deferrable_wgrad_s.any():
        path_s += walks.num_put_off[:, None] * deferrable_wgrad_s[run[walks.low]]
    slowest: FloatArray = deferrable_wgrad_s[run[0]] + np.maximum(
        path_s.max(axis=0, initial=0.0), few_s.max(axis=0, initial=0.0, where=is_all_ahead[:, None])
    )
    return slowest


def _num_before(run: IntArray, num_runs: int) -> FloatArray:
    """Stages of each run before each stage, and in all: one row more than stages."""
    return np.concatenate([np.zeros((1, num_runs)), np.cumsum(np.eye(num_runs)[run], axis=0)])


def _latest(values_s: FloatArray) -> FloatArray:
    """At each stage the greatest of its own and all later ones."""
    greatest_s: FloatArray = np.maximum.accumulate(values_s[::-1], axis=0)[::-1]
    return greatest_s


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walks:
    """Paths from the first backward pass of stage `start` to the last forward pass of stage `end`; a row each.

    `counts` are microbatches of each run of equal stages and hops of each kind, from the first stage's first pass on.
    `low` is the stage at which it turns up again, `num_put_off` how often it does so after as many microbatches as
    there are stages before that one, at least.
    """

    start: IntArray
    end: IntArray
    counts: FloatArray
    low: IntArray
    num_put_off: IntArray


def _walks(num_microbatches: int, before: FloatArray, hops: FloatArray) -> _Walks:
    """Up and down between the same two stages again and again, and what is left of the microbatches at an end.

    Up from stage u to v and down again is the way of v - u + 1 microbatches. Where that does not come out even, one
    turn goes less far up; or the walk starts, or ends, at a later stage than u. `before` are stages of each run
    before each, and `hops`, by kind; where none takes time, staying on one stage is the longest walk.
    """
    low, top = _spans(len(hops), is_one=not hops.any())
    rounds = num_microbatches - 1 - len(hops) + low
    is_walk = rounds >= 0
    low, top, rounds = low[is_walk], top[is_walk], rounds[is_walk]
    length = top + 1 - low
    turns, left = np.divmod(rounds, length)
    upto = np.concatenate([before[:-1], hops], axis=1)  # all before a stage
    through = np.concatenate([before[1:], hops], axis=1)  # and that stage
    turn, lowest = through[top] - upto[low], upto[low]
    is_left = left > 0
    even = lowest + turns[:, None] * turn
    even[is_left] += (through[low + left - 1] - upto[low])[is_left]
    more = (lowest + (turns[:, None] + 1) * turn)[is_left]
    low_left, later = low[is_left], (top + 1 - left)[is_left]
    late = turns + 1 - -(-low // length), turns + 1 - -((left - low) // length)  # turns from 0 and from `left` on
    late_even = np.maximum(late[0] - 1, 0) + (is_left & (rounds - left >= low)) + (rounds >= low)
    return _Walks(
        start=np.concatenate([low, low_left, later]),
        end=np.concatenate([low, later, low_left]),
        counts=np.concatenate([even, more, more]),
        low=np.concatenate([low, low_left, low_left]),
        num_put_off=np.concatenate([late_even, *(np.clip(num, 0, turns + 1)[is_left] for num in late)]),
    )


@lru_cache(maxsize=256)
def _spans(num_stages: int, *, is_one: bool) -> tuple[IntArray, IntArray]:
    """First and last of stages in a row: few or 2^n of them, or all up to the last stage."""
    lengths = {*range(1, _FEW_SPANS // num_stages + 1), *(2**power for power in range(num_stages.bit_length()))}
    spans = {(low, low + length - 1) for length in lengths for low in range(num_stages - length + 1)}
    spans |= {(low, num_stages - 1) for low in range(num_stages)}
    low, top = np.array(sorted(span for span in spans if not is_one or span[0] == span[1]), dtype=np.int64).T
    return low, top


def in_flight(stage: int, shape: PipelineShape) -> FloatArray:
    """A stage starts as many forward passes as there are stages from it to the last before its first backward."""
    return np.minimum(shape.num_microbatches, shape.num_stages - stage).astype(float)


pipelines.register("1f1b")(
    Pipeline(
        order=order,
        pipeline_s=pipeline_s,
        in_flight=in_flight,
        waiting=none_waiting,
        problem=one_chunk,
        worst_short_frac=(0.003, 0.006, 0.015),
        summary="one forward, one backward, flush",
    )
)
