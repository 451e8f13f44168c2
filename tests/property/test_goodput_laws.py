"""Laws of goodput: it is a share, it falls with everything that goes wrong, and the best interval is the best."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.hardware.reliability import BestInterval, CountedInterval
from dovetail.step.goodput import Recovery, best_num_steps, best_work_s, goodput, replaced, shares, standing

TOLERANCE = 1e-9


@st.composite
def recoveries(draw: st.DrawFn) -> Recovery:
    """From runs that fail hourly to those that fail yearly, with checkpoints from nothing to half an hour."""
    mtbf_s = draw(st.floats(3600.0, 3e7))
    is_asynchronous = draw(st.booleans())
    return Recovery(
        mtbf_s=mtbf_s,
        stall_s=draw(st.floats(0.0, 1800.0)),
        write_s=draw(st.floats(0.0, 1800.0)) if is_asynchronous else 0.0,
        restart_s=draw(st.floats(0.0, 7200.0)),
    )


steps = st.floats(0.1, 120.0)
counts = st.integers(1, 2000)


@given(recovery=recoveries(), work_s=st.floats(0.1, 50_000.0))
def test_shares_are_shares_and_add_up(recovery, work_s):
    found = shares(recovery, work_s)
    parts = (found.useful_frac, found.checkpoint_frac, found.rework_frac, found.restart_frac)
    assert all(0.0 <= part <= 1.0 for part in parts)
    assert found.useful_frac > 0.0
    assert sum(parts) == pytest.approx(1.0, abs=TOLERANCE)


@given(recovery=recoveries(), work_s=st.floats(1.0, 50_000.0), more=st.floats(1.01, 10.0))
def test_goodput_falls_with_failures_restarts_stalls_and_writes(recovery, work_s, more):
    best_frac = shares(recovery, work_s).useful_frac
    for worse in (
        replace(recovery, mtbf_s=recovery.mtbf_s / more),
        replace(recovery, restart_s=recovery.restart_s + more),
        replace(recovery, stall_s=recovery.stall_s + more),
        replace(recovery, write_s=recovery.write_s + more),
    ):
        assert shares(worse, work_s).useful_frac <= best_frac * (1 + TOLERANCE)


@given(recovery=recoveries(), factor=st.floats(0.05, 20.0))
def test_no_work_between_checkpoints_is_better_than_the_best_where_they_stall(recovery, factor):
    recovery = replace(recovery, stall_s=recovery.stall_s + 0.1)  # without one, the best is to save all the time
    best_s = best_work_s(recovery)
    assert shares(recovery, factor * best_s).useful_frac <= shares(recovery, best_s).useful_frac * (1 + TOLERANCE)


@given(recovery=recoveries(), step_s=steps, count=counts)
def test_no_number_of_steps_is_better_than_the_best(recovery, step_s, count):
    best = best_num_steps(recovery, step_s)
    best_frac = shares(recovery, best * step_s).useful_frac
    for other in {count, best + 1, max(1, best - 1)}:
        assert shares(recovery, other * step_s).useful_frac <= best_frac * (1 + TOLERANCE)


@given(recovery=recoveries(), step_s=steps, count=counts, slow=st.floats(1.0, 4.0))
def test_slow_devices_never_help_and_replacing_them_late_is_no_better_than_soon(recovery, step_s, count, slow):
    interval = CountedInterval(num_steps=count)

    def useful_frac(detect_s: float) -> float:
        slowing = replaced(step_s, slow * step_s, onset_s=100_000.0, detect_s=detect_s, swap_s=0.0)
        return goodput(recovery, slowing, interval, 0.0).useful_frac

    none = goodput(recovery, standing(step_s, step_s), interval, 0.0).useful_frac
    stays = goodput(recovery, standing(step_s, slow * step_s), interval, 0.0).useful_frac
    soon, late = useful_frac(600.0), useful_frac(60_000.0)
    slack = 1 + TOLERANCE
    assert stays <= late * slack
    assert late <= soon * slack
    assert soon <= none * slack


@given(recovery=recoveries(), step_s=steps)
def test_the_best_of_a_run_that_is_told_nothing_is_what_it_takes(recovery, step_s):
    found = goodput(recovery, standing(step_s, step_s), BestInterval(), 0.0)
    assert found.num_steps == found.best_num_steps
    assert found.useful_frac == found.best_frac
