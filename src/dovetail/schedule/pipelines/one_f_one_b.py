"""1F1B with a flush at the end of the step (PipeDream-flush)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dovetail.schedule.pass_order import PassOrder, Row, backward, forward, pass_order
from dovetail.schedule.pipelines import (
    Pipeline,
    PipelineShape,
    StageTimes,
    none_waiting,
    one_chunk,
    pipelines,
)
from dovetail.workload.graph import FloatArray, IntArray


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
    forward_s, backward_s, transfer_s = times.forward, times.backward, times.transfer[..., None]
    num_microbatches = np.asarray(shape.num_microbatches)[..., None]
    stages = np.arange(shape.num_stages)
    ahead = np.minimum(shape.num_stages - 1 - stages, num_microbatches - 1)
    fill_s = _exclusive_sum(forward_s) + stages * transfer_s
    drain_s = _exclusive_sum(backward_s) + stages * transfer_s
    slowest_s = [np.maximum.accumulate(way, axis=-1) for way in (forward_s, backward_s)]
    both_s = fill_s + forward_s + drain_s + backward_s
    first_s = _latest(both_s + ahead * slowest_s[0]) - drain_s  # first backward pass done
    last_s = _latest(both_s + ahead * slowest_s[1]) - fill_s  # from the start of the last forward pass
    rounds = num_microbatches - 2 - ahead
    steady_s = first_s + _rounds_s(rounds, forward_s + backward_s, transfer_s) + last_s
    rest = num_microbatches - 1
    all_ahead_s = np.maximum(first_s + rest * slowest_s[1] + drain_s, last_s + rest * slowest_s[0] + fill_s)
    longest_s: FloatArray = np.where(rounds >= 0, steady_s, all_ahead_s).max(axis=-1)
    return longest_s


def _exclusive_sum(values_s: FloatArray) -> FloatArray:
    """At each stage the sum of those before it."""
    sums_s: FloatArray = np.cumsum(values_s, axis=-1) - values_s
    return sums_s


def _latest(values_s: FloatArray) -> FloatArray:
    """At each stage the greatest of its own and all later ones."""
    greatest_s: FloatArray = np.maximum.accumulate(values_s[..., ::-1], axis=-1)[..., ::-1]
    return greatest_s


def _rounds_s(rounds: IntArray, pace_s: FloatArray, transfer_s: FloatArray) -> FloatArray:
    """The longest that `rounds` of one forward and one backward pass can take a stage, alone or with those after it.

    Tries runs of 1, 2, 4, ... and all stages, and then one run for the rounds that are left.
    """
    num_stages = pace_s.shape[-1]
    sums_s = np.concatenate([np.zeros((*pace_s.shape[:-1], 1)), np.cumsum(pace_s, axis=-1)], axis=-1)
    longest_s = np.maximum(rounds, 0) * pace_s
    if not np.any(transfer_s):
        return longest_s
    stages = np.arange(num_stages)
    for length in sorted({2**power for power in range(1, num_stages.bit_length())} | {num_stages}):
        if length > num_stages:
            continue
        num_runs, left = np.divmod(np.maximum(rounds, 0), length)
        run_s = _run_s(sums_s, stages, np.full(num_stages, length), transfer_s)
        longest_s = np.maximum(longest_s, num_runs * run_s + _run_s(sums_s, stages, left, transfer_s))
    return longest_s


def _run_s(sums_s: FloatArray, stages: IntArray, lengths: IntArray, transfer_s: FloatArray) -> FloatArray:
    """`lengths` stages in a row from each stage on, once; where there are not as many, that is no path: nothing."""
    ends = stages + lengths
    shape = np.broadcast_shapes(sums_s[..., :-1].shape, ends.shape)
    reached = np.broadcast_to(np.minimum(ends, sums_s.shape[-1] - 1), shape)
    whole_s = np.take_along_axis(np.broadcast_to(sums_s, (*shape[:-1], sums_s.shape[-1])), reached, axis=-1)
    run_s = whole_s - sums_s[..., :-1] + 2 * np.maximum(lengths - 1, 0) * transfer_s
    return np.where(ends < sums_s.shape[-1], run_s, 0.0)


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
