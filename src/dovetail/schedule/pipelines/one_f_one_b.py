"""1F1B with a flush at the end of the step (PipeDream-flush)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dovetail.schedule.hops import hops_before
from dovetail.schedule.pass_order import PassOrder, Row, backward, forward, pass_order
from dovetail.schedule.pipelines import (
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

_TIMES_AT_ONCE = 32_000  # stages times plans: what keeps them in a core's cache


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


def step_s(times: StageTimes, shape: PipelineShape) -> FloatArray:
    """The longest of the paths that stay on one stage between its first backward and its last forward pass.

    A stage begins its first backward pass after a microbatch has been through all later ones, or after its own
    first forward passes at the pace of the slowest before it; from its last forward pass to the end it is the same
    backwards. Transfers make neighbours wait for each other: L stages in a row take their own time and 2(L - 1)
    transfers for L microbatches.

    For equal stages (m + p - 1)(f + b) + 2 c (m + p - 2 - ceil((m - 1) / p)), exact. Without transfers no pipeline was
    found for which it is not exact; with them never above the played-out schedule.
    Short of it at most and in the mean, each of 250 random pipelines of 2 to 16 stages with transfers to 5 % of a pass:
    0.08 % and 0.0004 % with stages within 30 % of the mean, 0.22 % and 0.0009 % with one up to twice
    as slow, nothing with times anywhere from 1 to 10. Other draws reached 0.27 %.
    Source: Narayanan et al., SC 2021, section 2.2, for the order of passes.
    """
    given = plan_columns(times, shape)
    longest_s = np.empty(len(given.num_microbatches))
    for num_microbatches in np.unique(given.num_microbatches).tolist():
        alike = np.flatnonzero(given.num_microbatches == num_microbatches)
        for start in range(0, len(alike), size := max(1, _TIMES_AT_ONCE // shape.num_stages)):
            rows = alike[start : start + size]
            longest_s[rows] = _longest_s(given, rows, num_microbatches)
    return longest_s.reshape(given.shape)


def _longest_s(given: PlanColumns, rows: IntArray, num_microbatches: int) -> FloatArray:
    """Of plans of as many microbatches; inside, times are stages by plans."""
    forward_s, backward_s, transfer_s = given.forward_s[:, rows], given.backward_s[:, rows], given.transfer_s[:, rows]
    run = np.array(given.stage_run)
    num_stages = len(run)
    stages = np.arange(num_stages)
    before = _num_before(run, len(forward_s))
    ahead = np.minimum(num_stages - 1 - stages, num_microbatches - 1)
    hops = hops_before(num_stages, given.stage_part)
    handed_s = hops @ transfer_s
    fill_s = before[:-1] @ forward_s + handed_s
    drain_s = before[:-1] @ backward_s + handed_s
    slowest_s = [np.maximum.accumulate(way, axis=0)[run] for way in (forward_s, backward_s)]
    both_s = fill_s + drain_s + (forward_s + backward_s)[run]
    first_s = _latest(both_s + ahead[:, None] * slowest_s[0]) - drain_s  # first backward pass done
    last_s = _latest(both_s + ahead[:, None] * slowest_s[1]) - fill_s  # from the start of the last forward pass
    rounds = num_microbatches - 2 - ahead
    is_all_ahead, rest = rounds < 0, num_microbatches - 1
    path_s = first_s + last_s + _rounds_s(np.maximum(rounds, 0), forward_s + backward_s, transfer_s, (before, hops))
    path_s[is_all_ahead] = np.maximum(first_s + rest * slowest_s[1] + drain_s, last_s + rest * slowest_s[0] + fill_s)[
        is_all_ahead
    ]
    slowest: FloatArray = path_s.max(axis=0)
    return slowest


def _num_before(run: IntArray, num_runs: int) -> FloatArray:
    """Stages of each run before each stage, and in all: one row more than stages."""
    return np.concatenate([np.zeros((1, num_runs)), np.cumsum(np.eye(num_runs)[run], axis=0)])


def _latest(values_s: FloatArray) -> FloatArray:
    """At each stage the greatest of its own and all later ones."""
    greatest_s: FloatArray = np.maximum.accumulate(values_s[::-1], axis=0)[::-1]
    return greatest_s


def _rounds_s(
    rounds: IntArray, pace_s: FloatArray, transfer_s: FloatArray, before: tuple[FloatArray, FloatArray]
) -> FloatArray:
    """The longest that `rounds` of one forward and one backward pass can take a stage, alone or with those after it.

    Tries runs of 1, 2, 4, ... and all stages, and then one run for the rounds that are left. `pace_s` is by run of
    equal stages, of which there are `before` up to each stage; and so many hops.
    """
    num_stages = len(rounds)
    own = before[0][1:] - before[0][:-1]
    longest_s: FloatArray = (rounds[:, None] * own) @ pace_s
    if not transfer_s.any():
        return longest_s
    parts_s = np.concatenate([pace_s, 2 * transfer_s])
    for length in sorted({2**power for power in range(1, num_stages.bit_length())} | {num_stages}):
        if 1 < length <= num_stages:
            num_runs, left = np.divmod(rounds, length)
            times = num_runs[:, None] * _in_a_row(before, np.full(num_stages, length)) + _in_a_row(before, left)
            np.maximum(longest_s, times @ parts_s, out=longest_s)
    return longest_s


def _in_a_row(before: tuple[FloatArray, FloatArray], lengths: IntArray) -> FloatArray:
    """How many of each run are among `lengths` stages from each stage on, and how many hops between them, by kind.

    Where there are not as many stages, that is no path: nothing.
    """
    stages, (num_before, hops) = np.arange(len(lengths)), before
    ends = stages + lengths
    is_path = (ends < len(num_before)) & (lengths > 0)
    counts = num_before[np.minimum(ends, len(lengths))] - num_before[:-1]
    between = hops[np.clip(ends - 1, 0, len(lengths) - 1)] - hops
    return np.where(is_path[:, None], np.concatenate([counts, between], axis=1), 0.0)


def in_flight(stage: int, shape: PipelineShape) -> FloatArray:
    """A stage starts as many forward passes as there are stages from it to the last before its first backward."""
    return np.minimum(shape.num_microbatches, shape.num_stages - stage).astype(float)


pipelines.register("1f1b")(
    Pipeline(
        order=order,
        step_s=step_s,
        in_flight=in_flight,
        waiting=none_waiting,
        problem=one_chunk,
        worst_short_frac=0.005,
        summary="one forward, one backward, flush",
    )
)
