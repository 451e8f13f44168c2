"""Closed forms of pipelines: the formulas of their papers, and what they say of uneven stages."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest

from dovetail.errors import NotModelled
from dovetail.step.pipeline_events import played
from dovetail.step.pipelines import PipelineShape, StageTimes, pipelines


def shape_of(stages: int, microbatches: int, interleave: int = 1) -> PipelineShape:
    return PipelineShape(num_stages=stages, num_microbatches=microbatches, interleave=interleave)


def equal(stages: int, forward: float, inputs: float, weights: float, transfer: float = 0.0) -> StageTimes:
    return StageTimes(
        forward_s=(forward,) * stages,
        backward_s=(inputs + weights,) * stages,
        weight_s=(weights,) * stages,
        transfer_s=transfer,
    )


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
def test_equal_stages_idle_for_all_but_one_of_them(name):
    """Narayanan et al., SC 2021, section 2.2.1: bubble (p - 1)(f + b)."""
    assert pipelines[name].pipeline_s(equal(4, 1.0, 1.0, 1.0), shape_of(4, 8)) == pytest.approx((8 + 3) * 3.0)


@pytest.mark.parametrize("interleave", [2, 3])
def test_interleaving_cuts_the_bubble_of_equal_stages(interleave):
    """Narayanan et al., SC 2021, section 2.2.2: bubble (p - 1)(f + b) / v."""
    step_s = pipelines["interleaved"].pipeline_s(equal(4, 1.0, 1.0, 1.0), shape_of(4, 8, interleave))
    assert step_s == pytest.approx((8 + 3 / interleave) * 3.0)


def test_an_order_of_too_many_passes_is_not_followed():
    with pytest.raises(NotModelled, match="of 1,024 stages of 2 pieces has 6,291,456 passes as it begins, and at most"):
        pipelines["interleaved"].pipeline_s(equal(1024, 1.0, 1.0, 1.0), shape_of(1024, 10**6, 2))
    assert pipelines["1f1b"].pipeline_s(equal(1024, 1.0, 1.0, 1.0), shape_of(1024, 2048)) == pytest.approx(3071 * 3.0)


@pytest.mark.parametrize(
    ("forward", "inputs", "weights", "bubble"),
    [(1.0, 1.0, 1.0, 7 * 1.0), (1.2, 1.1, 0.8, 7 * 1.5), (1.0, 1.4, 1.3, 7 * 1.4)],
)
def test_zb_h1_has_the_bubble_of_its_paper_or_waits_for_input_gradients(forward, inputs, weights, bubble):
    """Qi et al., ICLR 2024, table 2: (p - 1)(f + b - w); where w exceeds f, the first stage's wait (p - 1) b."""
    step_s = pipelines["zb-h1"].pipeline_s(equal(8, forward, inputs, weights), shape_of(8, 24))
    assert step_s == pytest.approx(24 * (forward + inputs + weights) + bubble)


def test_zb_v_leaves_no_gap_between_equal_passes():
    """Qi et al., ICLR 2024, section 6: no bubble but what the last device waits for its first microbatch."""
    times, shape = equal(8, 1.0, 1.0, 1.0), shape_of(8, 24, 2)
    order = pipelines["zb-v"].order(shape)
    assert played(order, times.chunk_times(order)).gaps_s == pytest.approx([0.0] * 8)
    assert pipelines["zb-v"].pipeline_s(times, shape) == pytest.approx(24 * 3.0 + 7 / 2)


@pytest.mark.parametrize(("stages", "forward", "weights"), [(8, 1.0, 1.0), (8, 1.2, 0.9), (16, 1.0, 0.8)])
def test_dualpipe_has_the_bubble_of_its_report(stages, forward, weights):
    """DeepSeek-V3 report, table 2: (p / 2 - 1)(F&B + B - 3 W) of a chunk, which holds where f = B - W.

    A stage here is a chunk of either way.
    """
    times = equal(stages, 2 * forward, 2 * forward, 2 * weights)
    whole = forward + weights
    bubble_s = (stages / 2 - 1) * (forward + whole + whole - 3 * weights)
    step_s = pipelines["dualpipe"].pipeline_s(times, shape_of(stages, 40))
    assert step_s == pytest.approx(40 * (forward + whole) + bubble_s)


@pytest.mark.parametrize(("forward", "inputs", "weights"), [(1.3, 1.2, 0.9), (1.0, 1.1, 0.8)])
def test_dualpipe_with_forward_and_input_gradient_apart_waits_for_forward(forward, inputs, weights):
    step_s = pipelines["dualpipe"].pipeline_s(equal(8, 2 * forward, 2 * inputs, 2 * weights), shape_of(8, 40))
    whole = inputs + weights
    assert step_s == pytest.approx(40 * (forward + whole) + 3 * (2 * forward + whole - 2 * weights))


@pytest.mark.parametrize("slow", range(4))
def test_a_slow_stage_is_counted_once_wherever_it_is(slow):
    """1F1B: a slow stage works without a pause; what is before it is filled and drained once."""
    forward = np.where(np.arange(4) == slow, 3.0, 1.0)
    step_s = pipelines["1f1b"].pipeline_s(StageTimes(forward_s=forward, backward_s=2 * forward), shape_of(4, 16))
    assert step_s == pytest.approx(16 * 9.0 + slow * 3.0)


@pytest.mark.parametrize("microbatches", [1, 2, 4, 5, 8, 13])
def test_transfers_delay_1f1b_by_up_to_two_a_microbatch(microbatches):
    step_s = pipelines["1f1b"].pipeline_s(equal(4, 1.0, 1.0, 1.0, 0.01), shape_of(4, microbatches))
    transfers = 2 * (microbatches + 4 - 2 - ceil((microbatches - 1) / 4))
    assert step_s == pytest.approx((microbatches + 3) * 3.0 + 0.01 * transfers)


def test_interleaving_holds_more_of_the_first_stage_as_the_recompute_paper_says():
    shape = shape_of(4, 100, 3)
    assert pipelines["interleaved"].in_flight(0, shape) == pytest.approx(4 * (1 + 3 / (4 * 3)))
    assert pipelines["interleaved"].in_flight(3, shape) == pytest.approx((2 * 4 + 1) / 3)


def test_the_model_is_held_twice_by_dualpipe_alone():
    assert {name for name, pipeline in pipelines.items() if pipeline.num_copies == 2} == {"dualpipe"}


# F forward, X whole backward, B input gradient, W weight gradient; then chunk and microbatch; + if joined with the next
ORDERS = {
    ("gpipe", 2, 2, 1): ("F00 F01 X01 X00", "F10 F11 X11 X10"),
    ("1f1b", 3, 4, 1): (
        "F00 F01 F02 X00 F03 X01 X02 X03",
        "F10 F11 X10 F12 X11 F13 X12 X13",
        "F20 X20 F21 X21 F22 X22 F23 X23",
    ),
    ("interleaved", 2, 4, 2): (
        "F00 F01 F20 F21 F02 X20 F03 X21 F22 X00 F23 X01 X22 X23 X02 X03",
        "F10 F11 F30 X30 F31 X31 F12 X10 F13 X11 F32 X32 F33 X33 X12 X13",
    ),
    ("zb-h1", 3, 4, 1): (
        "F00 F01 F02 B00 W00 F03 B01 W01 B02 W02 B03 W03",
        "F10 F11 B10 F12 B11 W10 F13 B12 W11 B13 W12 W13",
        "F20 B20 F21 B21 F22 B22 W20 F23 B23 W21 W22 W23",
    ),
    ("zb-v", 2, 3, 2): (
        "F00 F01 F02 F30 B30 W30 F31 B31 W31 B00 W00 F32 B32 W32 B01 W01 B02 W02",
        "F10 F20 F11 F21 B20 W20 F12 B10 W10 F22 B21 W21 B11 B22 B12 W11 W22 W12",
    ),
    ("dualpipe", 4, 8, 1): (
        "F00 F01 F02 F70 B70 W70 F71 F03+ X71 F72+ X00 X72 F73+ X01 X73 B02 W02 B03 W03",
        "F10 F60 F11 F61 F12 X60 F62+ X10 F13+ X61 F63+ X11 X62 X12 B63 B13 W63 W13",
        "F50 F20 F51 F21 F52 X20 F22+ X50 F53+ X21 F23+ X51 X22 X52 B23 B53 W23 W53",
        "F40 F41 F42 F30 B30 W30 F31 F43+ X31 F32+ X40 X32 F33+ X41 X33 B42 W42 B43 W43",
    ),
}


@pytest.mark.parametrize("case", ORDERS, ids=lambda case: case[0])
def test_passes_come_in_the_order_of_the_published_schedule(case):
    """Huang et al. 2019, figure 2; Narayanan et al., SC 2021, figures 3 and 4; Qi et al., ICLR 2024, figures 3 and 6;
    DeepSeek-V3 report, figure 5, and deepseek-ai/DualPipe: their rules, for a small pipeline.
    """
    name, *counts = case
    found = pipelines[name].order(shape_of(*counts)).devices
    told = tuple(
        " ".join(f"{'FXBW'[kind]}{chunk}{at}{'+' * joined}" for kind, chunk, at, joined in rows) for rows in found
    )
    assert told == ORDERS[case]
