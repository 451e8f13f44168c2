"""Families of chips: what they are fitted on, and how far they are off on chips that they were not fitted on."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from dovetail.errors import InvalidInput
from dovetail.files.residuals import load_residuals
from dovetail.hardware.chip import Calibration
from dovetail.hardware.families import LeftOut, families, left_out_of
from dovetail.units import GIGA


@pytest.mark.parametrize("name", families.names())
def test_a_family_gives_calibrations_of_its_own_name_and_names_numbers_that_were_fitted(name):
    family = families[name]
    found = family.calibration(1.5 * GIGA, 1.0)
    assert found.family == family.name == name
    assert set(family.fitted) <= {field.name for field in fields(Calibration)}
    assert all(getattr(found, number) != getattr(Calibration(fitted_on=""), number) for number in family.fitted)
    assert family.source.startswith("fitted on " if family.fitted else "estimate: ")
    assert found.fitted_on.startswith("not fitted: ") != bool(family.fitted)


def test_what_waits_on_a_gpu_waits_for_clocks_and_a_host_is_as_slow_as_is_said():
    family = families["gpu"]
    slow, fast = family.calibration(1 * GIGA, 1.0), family.calibration(2 * GIGA, 3.0)
    assert slow.launch_s == pytest.approx(2 * fast.launch_s)
    assert fast.host_op_s == pytest.approx(3 * slow.host_op_s)
    assert fast.tensor_frac == slow.tensor_frac


def test_the_error_of_gpus_is_that_of_published_steps_of_blackwell():
    ratios = [row.log_ratio for row in load_residuals() if row.chip in ("b200", "gb200", "b300", "gb300")]
    left_out = families["gpu"].left_out
    assert left_out.measured_on.startswith(f"{len(ratios)} published steps")
    assert left_out.spread_frac == pytest.approx(np.std(ratios), abs=0.005)


def test_a_calibration_without_a_family_is_as_far_off_as_chips_on_paper():
    own = replace(families["tpu"].calibration(GIGA, 1.0), family="")
    assert left_out_of(own) == families["paper"].left_out


def test_an_error_is_above_nothing():
    with pytest.raises(InvalidInput, match="spread_frac must be above 0"):
        LeftOut(spread_frac=0.0, measured_on="nothing")
