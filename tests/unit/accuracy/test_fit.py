from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.accuracy.fit import fit
from dovetail.accuracy.prepared import Prepared, TableContext
from dovetail.accuracy.sets import prepared
from dovetail.errors import InvalidInput
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.workload.graph import FloatArray
from tests.unit.accuracy.tables import table

H200 = chips["h200-sxm"]()
WORK_FLOP = np.geomspace(1e6, 1e13, 24)


def predicted(chip: Chip) -> FloatArray:
    """A plain stand-in for the cost model: arithmetic, then launch."""
    calibration = chip.calibration
    times: FloatArray = WORK_FLOP / (chip.peak_flop_per_s("bf16") * calibration.tensor_frac) + calibration.launch_s
    return times


def measured_as(measured: FloatArray) -> Prepared:
    num_rows = len(measured)
    return Prepared(
        name="mine", chip=H200, unit="s", kinds=("k",) * num_rows, whats=("",) * num_rows, measured=measured,
        predicted=predicted,
    )  # fmt: skip


def measured_on(**numbers: float) -> Prepared:
    return measured_as(predicted(replace(H200, calibration=replace(H200.calibration, **numbers))))  # type: ignore[arg-type]


def test_numbers_that_made_the_measurements_are_found_again():
    found = fit([measured_on(tensor_frac=0.5, launch_s=8e-6)], H200)
    after = {name: value for name, _, value in found.fitted}
    assert after == pytest.approx({"tensor_frac": 0.5, "launch_s": 8e-6}, rel=0.02)
    assert found.after_frac < 0.05 * found.before_frac
    assert found.cross_validated_frac < 0.1 * found.before_frac
    assert found.num_rows == len(WORK_FLOP)


def test_a_number_that_was_zero_can_be_found_too():
    paper = replace(H200, calibration=replace(H200.calibration, launch_s=0.0))
    after = {name: value for name, _, value in fit([measured_on(launch_s=8e-6)], paper).fitted}
    assert after == pytest.approx({"launch_s": 8e-6}, rel=0.02)


def test_a_fit_says_what_it_left_and_leaves_it():
    found = fit([measured_on()], H200)
    assert found.fitted == ()
    assert "link_frac" in found.unchanged
    assert found.chip == H200
    assert found.after_frac == found.before_frac == 0


def test_a_fit_repeats_to_the_bit_and_tells_what_it_does():
    rng = np.random.default_rng(7)
    noisy = measured_as(measured_on().measured * rng.uniform(0.8, 1.2, len(WORK_FLOP)))
    told: list[str] = []
    one, again = fit([noisy], H200, told.append), fit([noisy], H200)
    assert replace(one, chip=H200) == replace(again, chip=H200)
    assert one.chip.calibration == again.chip.calibration
    assert told[0].startswith("fitting 2 numbers to 24 rows: 2 tries, mean error ")
    assert told[-1].startswith("cross-validating, 5 of 5: ")
    assert one.after_frac <= one.before_frac
    assert one.cross_validated_frac >= one.after_frac


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_a_fit_stays_inside_what_a_calibration_may_hold_and_within_reach(scale):
    found = fit([measured_as(scale * measured_on().measured)], H200)
    for name, before, after in found.fitted:
        assert 0.09 < after / before < 11
        assert after <= 1 or not name.endswith("_frac")


def test_too_few_rows_and_rows_that_tell_nothing_are_refused():
    with pytest.raises(InvalidInput, match="at least 5 rows; got 1"):
        fit(prepared(table("m,n,k,time_us\n8,8,8,1\n"), TableContext()), H200)
    text = "tool,m,n,k,array_rows,array_cols,dataflow,cycles,stall_cycles\n" + "SCALE-Sim,8,8,8,8,8,os,22,0\n" * 6
    with pytest.raises(InvalidInput, match="no number of a calibration changes"):
        fit(prepared(table(text), TableContext()), H200)
