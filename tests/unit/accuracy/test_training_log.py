"""Which lines of a training log count: steady ones, and the others with the reason."""

from __future__ import annotations

import pytest

from dovetail.accuracy.training_log import LoggedStep, Pace, Reason, TrainingLog, measured_steps
from dovetail.errors import InvalidInput


def log(*times_s: float, **more) -> TrainingLog:
    steps = tuple(LoggedStep(line=n, step=n, pace=Pace(step_s=time_s), **more) for n, time_s in enumerate(times_s, 1))
    return TrainingLog(source="run.log", framework="Megatron-LM", num_lines=len(steps), steps=steps)


def test_a_pace_in_tokens_per_second_of_a_device_becomes_seconds_of_a_step():
    assert Pace(tokens_per_s_per_device=1000.0).seconds(16, 2000, 8) == pytest.approx(4.0)


def test_a_pace_in_samples_per_second_becomes_seconds_of_a_step():
    assert Pace(samples_per_s=32.0).seconds(64, 2000, 8) == pytest.approx(2.0)


@pytest.mark.parametrize("values", [{}, {"step_s": 1.0, "samples_per_s": 2.0}, {"step_s": -1.0}])
def test_a_pace_is_one_number_above_0(values):
    with pytest.raises(InvalidInput, match="one number above 0"):
        Pace(**values)


def test_a_step_far_from_the_median_is_an_outlier_and_not_in_it():
    found = measured_steps(log(1.0, 1.01, 0.99, 1.0, 5.0, 1.0), 8, 128, 1)
    assert [one.step_s for one in found.steps if one.set_apart == (Reason.OUTLIER,)] == [5.0]
    assert found.median_s == 1.0
    assert found.quartiles_s == pytest.approx((1.0, 1.0))


def test_steps_that_hardly_differ_have_no_outlier_below_5_percent():
    found = measured_steps(log(1.0, 1.0, 1.0, 1.0, 1.0, 1.049), 8, 128, 1)
    assert len(found.steady) == 6
    assert len(measured_steps(log(1.0, 1.0, 1.0, 1.0, 1.0, 1.051), 8, 128, 1).steady) == 5


def test_a_line_of_another_batch_is_set_apart_as_while_it_ramps_up():
    steps = log(1.0, 1.0, global_batch=4).steps + log(2.0, 2.0, global_batch=8).steps
    found = measured_steps(TrainingLog(source="r", framework="f", num_lines=4, steps=steps), 8, 128, 1)
    assert [one.set_apart for one in found.steps] == [(Reason.OTHER_BATCH,), (Reason.OTHER_BATCH,), (), ()]
    assert found.median_s == 2.0


def test_a_log_of_another_batch_alone_is_refused_with_its_batch():
    with pytest.raises(InvalidInput, match="global batch 4"):
        measured_steps(log(1.0, 1.0, global_batch=4), 8, 128, 1)


def test_a_log_that_ends_in_its_warm_up_has_its_last_line_and_a_note():
    found = measured_steps(log(9.0, 3.0, set_apart=(Reason.WARM_UP,)), 8, 128, 1)
    assert found.median_s == 3.0
    assert "ends in its warm-up" in found.notes[0]
