"""Laws of pipeline schedules: closed forms against the order of passes played out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.step.pipeline_events import PeakActivations, held, played
from dovetail.step.pipelines import TRANSFER_FRACS, PipelineShape, StageTimes, pipelines

seconds = st.floats(0.1, 10.0)


@st.composite
def shapes(draw: st.DrawFn, name: str) -> PipelineShape:
    stages = 2 * draw(st.integers(1, 5)) if name == "dualpipe" else draw(st.integers(2, 9))
    microbatches = stages * draw(st.integers(1, 5))
    if name in ("zb-v", "dualpipe"):
        microbatches += stages
    if name in ("gpipe", "1f1b", "zb-h1"):
        microbatches = draw(st.integers(1, 40))
    ways = [
        PipelineShape(num_stages=stages, num_microbatches=microbatches, interleave=interleave)
        for interleave in (1, 2, 3, 4)
    ]
    return draw(st.sampled_from([shape for shape in ways if not pipelines[name].problem(shape)]))


def drawn_times(data: st.DataObject, spread: st.SearchStrategy[list[float]], transfer_frac: float) -> StageTimes:
    sizes = np.array(data.draw(spread))
    backward, weight = data.draw(st.floats(1.0, 3.0)), data.draw(st.floats(0.3, 0.5))
    return StageTimes(
        forward_s=sizes,
        backward_s=backward * sizes,
        weight_s=weight * backward * sizes,
        transfer_s=transfer_frac * data.draw(st.floats(0.0, 1.0)),
    )


def played_s(name: str, times: StageTimes, shape: PipelineShape) -> float:
    order = pipelines[name].order(shape)
    return played(order, times.chunk_times(order)).pipeline_s


@pytest.mark.parametrize("name", pipelines.names())
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_equal_stages_take_what_the_order_takes(name, data):
    shape = data.draw(shapes(name))
    forward, inputs, weights = (data.draw(seconds) for _ in range(3))
    stages = np.ones(shape.num_stages)
    times = StageTimes(forward_s=forward * stages, backward_s=(inputs + weights) * stages, weight_s=weights * stages)
    assert pipelines[name].pipeline_s(times, shape) == pytest.approx(played_s(name, times, shape))


@pytest.mark.parametrize(("index", "transfer_frac"), list(enumerate(TRANSFER_FRACS)))
@pytest.mark.parametrize("name", pipelines.names())
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_uneven_stages_take_no_longer_and_hardly_less_than_the_order(name, index, transfer_frac, data):
    shape = data.draw(shapes(name))
    near = st.lists(st.floats(0.7, 1.3), min_size=shape.num_stages, max_size=shape.num_stages)
    times = drawn_times(data, near, transfer_frac * 0.7 / (2 if name == "dualpipe" else int(shape.interleave)))
    step_s, exact_s = float(pipelines[name].pipeline_s(times, shape)), played_s(name, times, shape)
    assert exact_s * (1 - pipelines[name].worst_short_frac[index] - 1e-9) <= step_s <= exact_s * (1 + 1e-9)


@pytest.mark.parametrize(("name", "short_frac"), [("1f1b", 1e-9), ("gpipe", 1e-9), ("zb-h1", 0.005)])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_equal_stages_with_any_transfers_take_what_the_order_takes(name, short_frac, data):
    shape = data.draw(shapes(name))
    times = drawn_times(data, st.just([1.0] * shape.num_stages), 2.0)
    step_s, exact_s = float(pipelines[name].pipeline_s(times, shape)), played_s(name, times, shape)
    assert exact_s * (1 - short_frac) <= step_s <= exact_s * (1 + 1e-9)


def test_two_unlike_stages_wait_for_each_other_across_a_long_hop():
    """Up and down between both, and on the second alone at the end: F0 F1 B1 B0 F0 F1 B1 F1 B1 B0 and six hops."""
    times = StageTimes(forward_s=[1.0, 2.0], backward_s=[1.0, 2.0], transfer_s=2.0)
    assert pipelines["1f1b"].pipeline_s(times, PipelineShape(num_stages=2, num_microbatches=4)) == pytest.approx(24.0)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_1f1b_over_hops_longer_than_passes_falls_hardly_short(data):
    """Two kinds of stages, and between them a hop of up to eight passes: a cluster of two parts."""
    shape = data.draw(shapes("1f1b"))
    num_first = data.draw(st.integers(1, shape.num_stages - 1))
    part = (0,) * num_first + (1,) * (shape.num_stages - num_first)
    size = np.where(np.array(part) == 0, 1.0, data.draw(st.floats(1.0, 3.0)))
    hops_s = [data.draw(st.floats(0.0, 0.1)), data.draw(st.floats(0.0, 0.1)), data.draw(st.floats(0.0, 8.0))]
    times = StageTimes(forward_s=size, backward_s=2 * size, transfer_s=np.array(hops_s), stage_pool=part)
    step_s, exact_s = float(pipelines["1f1b"].pipeline_s(times, shape)), played_s("1f1b", times, shape)
    assert exact_s * (1 - 0.02) <= step_s <= exact_s * (1 + 1e-9)


@pytest.mark.parametrize("name", pipelines.names())
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_no_step_is_shorter_than_the_work_of_a_stage(name, data):
    shape = data.draw(shapes(name))
    wild = st.lists(seconds, min_size=shape.num_stages, max_size=shape.num_stages)
    times = drawn_times(data, wild, 1.0)
    work_s = shape.num_microbatches / pipelines[name].num_copies * float(times.pace_s)
    step_s = float(pipelines[name].pipeline_s(times, shape))
    assert work_s * (1 - 1e-9) <= step_s <= played_s(name, times, shape) * (1 + 1e-9)


@pytest.mark.parametrize("name", pipelines.names())
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_stages_hold_what_the_order_has_begun_and_not_left(name, data):
    shape, pipeline = data.draw(shapes(name)), pipelines[name]
    assert held(pipeline.order(shape)) == tuple(
        PeakActivations(
            in_flight=float(pipeline.in_flight(stage, shape)), waiting=float(pipeline.waiting(stage, shape))
        )
        for stage in range(shape.num_stages)
    )


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_1f1b_is_exact_for_any_stages_without_transfers(data):
    shape = data.draw(shapes("1f1b"))
    forward_s, backward_s = (
        data.draw(st.lists(seconds, min_size=shape.num_stages, max_size=shape.num_stages)) for _ in range(2)
    )
    times = StageTimes(forward_s=forward_s, backward_s=backward_s)
    assert pipelines["1f1b"].pipeline_s(times, shape) == pytest.approx(played_s("1f1b", times, shape))


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_1f1b_is_as_long_as_gpipe_and_holds_no_more(data):
    shape = data.draw(shapes("1f1b"))
    forward, backward = data.draw(seconds), data.draw(seconds)
    stages = np.ones(shape.num_stages)
    times = StageTimes(forward_s=forward * stages, backward_s=backward * stages)
    assert pipelines["1f1b"].pipeline_s(times, shape) == pytest.approx(
        float(pipelines["gpipe"].pipeline_s(times, shape))
    )
    for stage in range(shape.num_stages):
        assert pipelines["1f1b"].in_flight(stage, shape) <= pipelines["gpipe"].in_flight(stage, shape)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_zb_h1_is_no_longer_than_1f1b_on_equal_stages(data):
    shape = data.draw(shapes("zb-h1"))
    forward, inputs, weights = (data.draw(seconds) for _ in range(3))
    stages = np.ones(shape.num_stages)
    times = StageTimes(forward_s=forward * stages, backward_s=(inputs + weights) * stages, weight_s=weights * stages)
    assert pipelines["zb-h1"].pipeline_s(times, shape) <= pipelines["1f1b"].pipeline_s(times, shape) * (1 + 1e-9)
