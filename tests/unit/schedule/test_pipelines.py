"""Closed forms of pipelines against a schedule played out microbatch by microbatch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.schedule.pipelines import PipelineShape, StageTimes, pipelines


def play_1f1b(times: StageTimes, num_microbatches: int) -> tuple[float, list[int]]:
    """Runs 1F1B as its stages would: the step's length, and the most microbatches each stage held at once."""
    stages = len(times.forward_s)
    orders = []
    for stage in range(stages):
        warm_up = min(num_microbatches, stages - stage - 1)
        order = [("F", i) for i in range(warm_up)]
        for i in range(num_microbatches - warm_up):
            order += [("F", warm_up + i), ("B", i)]
        order += [("B", i) for i in range(num_microbatches - warm_up, num_microbatches)]
        orders.append(order)
    done: dict[tuple[str, int, int], float] = {}
    clock, position = [0.0] * stages, [0] * stages
    while any(position[s] < len(orders[s]) for s in range(stages)):
        for stage in range(stages):
            if position[stage] == len(orders[stage]):
                continue
            kind, i = orders[stage][position[stage]]
            before = ("F", i, stage - 1) if kind == "F" else ("B", i, stage + 1)
            is_end = before[2] in (-1, stages)
            if not is_end and before not in done:
                continue
            arrives = 0.0 if is_end else done[before] + times.transfer_s
            took = times.forward_s[stage] if kind == "F" else times.backward_s[stage]
            clock[stage] = max(clock[stage], arrives) + took
            done[(kind, i, stage)] = clock[stage]
            position[stage] += 1
    held = []
    for order in orders:
        now = most = 0
        for kind, _ in order:
            now += 1 if kind == "F" else -1
            most = max(most, now)
        held.append(most)
    return max(clock), held


stage_times = st.floats(0.1, 10.0)


@given(stages=st.integers(1, 8), microbatches=st.integers(1, 20), forward=stage_times, backward=stage_times)
def test_1f1b_of_equal_stages_is_exact(stages: int, microbatches: int, forward: float, backward: float) -> None:
    times = StageTimes(forward_s=(forward,) * stages, backward_s=(backward,) * stages, transfer_s=0.0)
    shape = PipelineShape(num_stages=stages, num_microbatches=microbatches, interleave=1)
    played_s, held = play_1f1b(times, microbatches)
    assert pipelines["1f1b"].step_s(times, shape) == pytest.approx(played_s)
    assert [pipelines["1f1b"].in_flight(stage, shape) for stage in range(stages)] == held


@given(data=st.data(), stages=st.integers(2, 6), microbatches=st.integers(1, 16))
def test_1f1b_of_unequal_stages_is_bounded_by_the_closed_form(
    data: st.DataObject, stages: int, microbatches: int
) -> None:
    forward = tuple(data.draw(stage_times) for _ in range(stages))
    times = StageTimes(forward_s=forward, backward_s=tuple(2 * f for f in forward), transfer_s=0.0)
    shape = PipelineShape(num_stages=stages, num_microbatches=microbatches, interleave=1)
    played_s, _ = play_1f1b(times, microbatches)
    closed_s = pipelines["1f1b"].step_s(times, shape)
    assert microbatches * times.pace_s <= played_s * 1.000001
    assert played_s <= closed_s * 1.000001


def test_interleaving_divides_the_bubble():
    times = StageTimes(forward_s=(1.0,) * 4, backward_s=(2.0,) * 4, transfer_s=0.0)
    plain = PipelineShape(num_stages=4, num_microbatches=8, interleave=1)
    cut = PipelineShape(num_stages=4, num_microbatches=8, interleave=3)
    assert pipelines["1f1b"].step_s(times, plain) == pytest.approx((8 + 3) * 3.0)
    assert pipelines["interleaved"].step_s(times, cut) == pytest.approx((8 + 3 / 3) * 3.0)


def test_interleaving_holds_more_microbatches_on_the_first_stage():
    shape = PipelineShape(num_stages=4, num_microbatches=100, interleave=3)
    assert pipelines["interleaved"].in_flight(0, shape) == pytest.approx(4 * (1 + 3 / (4 * 3)))
    assert pipelines["interleaved"].in_flight(3, shape) == pytest.approx((2 * 4 + 1) / 3)


def test_transfers_are_paid_while_the_pipeline_fills_and_drains():
    times = StageTimes(forward_s=(1.0,) * 4, backward_s=(1.0,) * 4, transfer_s=0.25)
    shape = PipelineShape(num_stages=4, num_microbatches=1, interleave=1)
    assert pipelines["1f1b"].step_s(times, shape) == pytest.approx(play_1f1b(times, 1)[0])
