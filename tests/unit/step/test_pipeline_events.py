"""Orders of passes played out by hand-made examples."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.step.pass_order import backward, forward, input_gradient, pass_order, weight_gradient
from dovetail.step.pipeline_events import ChunkTimes, PeakActivations, held, played


def times(*forward_s: float, weight: float = 1.0, transfer: float = 0.0) -> ChunkTimes:
    ones = np.ones(len(forward_s))
    return ChunkTimes(forward_s=np.array(forward_s), input_s=ones, weight_s=weight * ones, transfer_s=transfer)


def test_a_pass_starts_when_its_device_and_what_it_needs_are_done():
    order = pass_order([[forward(0, 0), forward(0, 1), backward(0, 0), backward(0, 1)]] * 1, 1)
    assert played(order, times(3.0)).starts_s[0].tolist() == [0.0, 3.0, 6.0, 8.0]


def test_passes_wait_for_the_chunk_before_and_after_and_for_transfers():
    order = pass_order([[forward(0, 0), backward(0, 0)], [forward(1, 0), backward(1, 0)]], 2)
    timeline = played(order, times(1.0, 2.0, transfer=0.5))
    assert [start.tolist() for start in timeline.starts_s] == [[0.0, 6.0], [1.5, 3.5]]
    assert timeline.pipeline_s == 8.0
    assert timeline.bubble_s == (5.0, 4.0)
    assert timeline.gaps_s == (5.0, 0.0)


def test_chunks_on_one_device_hand_on_at_once():
    order = pass_order([[forward(0, 0), forward(1, 0), backward(1, 0), backward(0, 0)]], 2)
    assert played(order, times(1.0, 1.0, transfer=9.0)).pipeline_s == 6.0


def test_halves_of_a_backward_pass_take_their_own_times():
    order = pass_order([[forward(0, 0), input_gradient(0, 0), weight_gradient(0, 0)]], 1)
    assert played(order, times(1.0, weight=4.0)).ends_s[0].tolist() == [1.0, 2.0, 6.0]


def test_joined_passes_wait_for_both_needs_and_end_together():
    first = [forward(0, 0), forward(0, 1, is_joined=True), backward(0, 0), backward(0, 1)]
    second = [forward(1, 0), backward(1, 0), forward(1, 1), backward(1, 1)]
    timeline = played(pass_order([first, second], 2), times(1.0, 1.0))
    assert timeline.starts_s[0].tolist() == [0.0, 4.0, 4.0, 10.0]
    assert timeline.ends_s[0].tolist() == [1.0, 7.0, 7.0, 12.0]
    assert timeline.busy_s == (6.0, 6.0)


def test_an_order_that_cannot_run_is_named_pass_by_pass():
    order = pass_order([[backward(0, 0), forward(0, 0)], [forward(1, 0), backward(1, 0)]], 2)
    with pytest.raises(AssertionError, match="device 0 at BACKWARD of chunk 0, microbatch 0; device 1 at FORWARD"):
        played(order, times(1.0, 1.0))


def test_activations_are_held_until_the_weight_gradient_is_done():
    passes = [forward(0, 0), input_gradient(0, 0), forward(0, 1), weight_gradient(0, 0), input_gradient(0, 1)]
    order = pass_order([[*passes, weight_gradient(0, 1)]], 1)
    assert held(order) == (PeakActivations(in_flight=2.0, waiting=1.0),)
    assert played(order, times(1.0)).held == held(order)


def test_two_chunks_of_a_microbatch_are_one_held():
    order = pass_order([[forward(0, 0), forward(1, 0), backward(1, 0), backward(0, 0)]], 2)
    assert held(order) == (PeakActivations(in_flight=1.0, waiting=0.0),)
