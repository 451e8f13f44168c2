"""The pace of a host from steps that wait for it."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.accuracy.host_fit import fit_host
from dovetail.workload.graph import FloatArray

DEVICE_S = np.array([0.010, 0.020, 0.200])
HOST_S = np.array([0.050, 0.040, 0.030])  # the last step waits for the device


def predicted(slowdown: float) -> FloatArray:
    found: FloatArray = np.maximum(DEVICE_S, slowdown * HOST_S)
    return found


@pytest.mark.parametrize("slowdown", [0.6, 1.0, 1.7])
def test_a_host_of_a_known_pace_is_found(slowdown):
    found = fit_host(predicted, predicted(slowdown))
    assert found.after == pytest.approx(slowdown, rel=0.01)
    assert found.num_rows == 2
    assert found.after_frac < 0.01
    assert found.left_out_frac < 0.01


def test_a_row_that_is_off_does_not_move_the_others_far():
    measured_s = predicted(1.5) * np.array([1.0, 1.0, 3.0])
    assert fit_host(predicted, measured_s).after == pytest.approx(1.5, rel=0.01)


def test_steps_that_wait_for_the_device_tell_nothing():
    found = fit_host(lambda slowdown: np.maximum(DEVICE_S, slowdown * HOST_S * 0.01), DEVICE_S)
    assert (found.after, found.num_rows) == (1.0, 0)
