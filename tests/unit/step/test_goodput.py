"""Failures and checkpoints in closed form: published optima, limits, and the run played out event by event."""

from __future__ import annotations

import math
from random import Random
from statistics import fmean, stdev

import pytest

from dovetail.hardware.failures import failures
from dovetail.hardware.reliability import BestInterval, CountedInterval, TimedInterval
from dovetail.step.failure_events import Onsets, PlayedRun, played_run
from dovetail.step.goodput import (
    Goodput,
    Recovery,
    best_num_steps,
    best_work_s,
    goodput,
    num_steps_of,
    replaced,
    shares,
    standing,
    young_s,
)
from dovetail.units import SECONDS_PER_HOUR, SECONDS_PER_MINUTE

SYNCHRONOUS = Recovery(mtbf_s=1000.0, stall_s=30.0, write_s=0.0, restart_s=200.0)
BESIDE = Recovery(mtbf_s=1000.0, stall_s=5.0, write_s=100.0, restart_s=200.0)
HELD_UP = Recovery(mtbf_s=1000.0, stall_s=5.0, write_s=300.0, restart_s=0.0)  # the next checkpoint waits for the last
UNSLOWED = standing(1.0, 1.0)
NUM_RUNS, NUM_FAILURES = 30, 400
PARTS = ("useful", "checkpoint", "rework", "restart")


def close_to(runs: list[PlayedRun], part: str, expected_frac: float) -> bool:
    """Whether the share that events give lies within four standard errors of what is expected."""
    parts, walls = [getattr(run, f"{part}_s") for run in runs], [run.wall_s for run in runs]
    found = fmean(parts) / fmean(walls)
    error = stdev(one - found * wall for one, wall in zip(parts, walls, strict=True))
    return bool(abs(found - expected_frac) <= 4 * error / math.sqrt(len(runs)) / fmean(walls))


@pytest.mark.parametrize(
    ("recovery", "work_s"), [(SYNCHRONOUS, 250.0), (SYNCHRONOUS, 1500.0), (BESIDE, 150.0), (HELD_UP, 150.0)]
)
def test_events_take_the_time_that_the_closed_form_says(recovery, work_s):
    rng = Random(5)
    runs = [played_run(recovery, work_s, NUM_FAILURES, rng) for _ in range(NUM_RUNS)]
    expected = shares(recovery, work_s)
    for part in PARTS:
        assert close_to(runs, part, getattr(expected, f"{part}_frac")), part


def test_a_played_run_accounts_for_all_of_its_time_and_repeats_with_its_seed():
    runs = [played_run(BESIDE, 150.0, 50, Random(3)) for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0].num_failures == 50
    assert runs[0].slow_s == 0.0


@pytest.mark.parametrize(("mtbf", "published"), [(24 * 60, 117), (6 * 60, 57), (15, 9.1)])
def test_the_best_interval_is_that_of_dalys_paper(mtbf, published):
    """Daly 2006, figures 3 to 5: dumps of 5 minutes, restarts of 10; the last is his series at the end of its range."""
    recovery = Recovery(mtbf_s=mtbf * SECONDS_PER_MINUTE, stall_s=300.0, write_s=0.0, restart_s=600.0)
    assert best_work_s(recovery) / SECONDS_PER_MINUTE == pytest.approx(published, rel=0.01)


def test_dalys_expected_time_is_that_of_a_synchronous_run():
    """Daly 2006, of complete restarts: a segment takes M exp(R / M) (exp((tau + delta) / M) - 1)."""
    mtbf_s, work_s = SYNCHRONOUS.mtbf_s, 400.0
    segment_s = mtbf_s * math.exp(200.0 / mtbf_s) * math.expm1((work_s + 30.0) / mtbf_s)
    assert shares(SYNCHRONOUS, work_s).useful_frac == pytest.approx(work_s / segment_s)


def test_youngs_interval_is_the_first_order_of_the_best_one():
    rare = Recovery(mtbf_s=SECONDS_PER_HOUR * 1000, stall_s=1.0, write_s=0.0, restart_s=10.0)
    assert best_work_s(rare) == pytest.approx(young_s(rare), rel=0.001)


def test_without_failures_only_stalls_are_lost_and_none_beside_compute():
    forever = Recovery(mtbf_s=1e15, stall_s=30.0, write_s=0.0, restart_s=200.0)  # style: longer than any run
    assert shares(forever, 270.0).useful_frac == pytest.approx(0.9)
    free = Recovery(mtbf_s=1e15, stall_s=0.0, write_s=100.0, restart_s=200.0)  # style: longer than any run
    assert shares(free, 270.0).useful_frac == pytest.approx(1.0)


def test_what_is_written_later_costs_what_fails_meanwhile():
    at_once, later = (Recovery(mtbf_s=1000.0, stall_s=5.0, write_s=w, restart_s=0.0) for w in (0.0, 100.0))
    ratio = shares(later, 300.0).useful_frac / shares(at_once, 300.0).useful_frac
    assert ratio == pytest.approx(math.exp(-0.1))


def test_a_checkpoint_that_is_not_written_yet_holds_the_next_one_up():
    assert HELD_UP.cycle_s(150.0) == 305.0
    assert best_work_s(HELD_UP) == 300.0
    slower = Recovery(mtbf_s=100.0, stall_s=5.0, write_s=3000.0, restart_s=0.0)
    assert best_work_s(slower) == 100.0  # work exp(-work / mtbf) is largest at mtbf


@pytest.mark.parametrize(
    ("copy_s", "write_s", "work_s", "useful_frac"), [(20.0, 100.0, 80.0, 0.660), (60.0, 120.0, 30.0, 0.165)]
)
def test_a_copy_that_waits_for_the_last_write_leaves_what_an_independent_simulation_found(
    copy_s, write_s, work_s, useful_frac
):
    recovery = Recovery(mtbf_s=22.5 * SECONDS_PER_HOUR, stall_s=copy_s, write_s=write_s, restart_s=600.0 + write_s)
    assert shares(recovery, work_s).useful_frac == pytest.approx(useful_frac, abs=0.001)


def test_checkpoints_that_hold_each_other_up_are_safe_when_counted_by_hand():
    """Work to 10, copied at 15, written at 35; work to 25, waits to 35, copied at 40, written at 60; and every 25."""
    recovery = Recovery(mtbf_s=70.0, stall_s=5.0, write_s=20.0, restart_s=0.0)
    safe_at = (35, 60, 85, 110, 135, 160, 185, 210, 235, 260, 285, 310, 335, 360, 385, 410, 435, 460, 485, 510)
    num_kept = sum(math.exp(-time / 70) for time in safe_at)
    assert shares(recovery, 10.0).useful_frac == pytest.approx(10 * num_kept / 70, rel=0.001)


class Told(Random):
    """Failures after the times that it is told."""

    def __init__(self, *times_s: float) -> None:
        super().__init__(0)
        self.times_s = list(times_s)

    def expovariate(self, lambd: float = 1.0) -> float:
        del lambd
        return self.times_s.pop(0)


@pytest.mark.parametrize(
    ("fails_at_s", "useful_s", "checkpoint_s", "rework_s"),
    [
        (34.0, 0.0, 0.0, 34.0),  # the first is not written yet
        (37.0, 10.0, 5.0, 22.0),  # it is, and the second being copied
        (59.0, 10.0, 5.0, 44.0),
        (62.0, 20.0, 20.0, 22.0),  # the second took 10 of work, 10 of waiting and 5 of copying
    ],
)
def test_events_wait_for_the_last_write_before_they_copy(fails_at_s, useful_s, checkpoint_s, rework_s):
    recovery = Recovery(mtbf_s=70.0, stall_s=5.0, write_s=20.0, restart_s=0.0)
    run = played_run(recovery, 10.0, 1, Told(fails_at_s, 1000.0))
    assert (run.useful_s, run.checkpoint_s, run.rework_s) == (useful_s, checkpoint_s, rework_s)


def test_a_run_with_a_slow_device_and_a_restart_that_fails_is_what_it_is_by_hand():
    """Slow at 6 and found at 10, when 8 of the work is done; replaced by 13, worked to 15, copied at 20, safe at 40.

    Work to 30, a wait to 40 and a copy to 45; a failure at 50, before that is written, and one more in the restart.
    """
    recovery = Recovery(mtbf_s=70.0, stall_s=5.0, write_s=20.0, restart_s=7.0)
    onsets = Onsets(onset_s=500.0, detect_s=4.0, swap_s=3.0, pace_frac=0.5)
    run = played_run(recovery, 10.0, 1, Told(47.0, 6.0, 1000.0, 4.0, 1000.0), onsets)
    assert run == PlayedRun(
        useful_s=10.0, checkpoint_s=5.0, rework_s=30.0, restart_s=11.0, slow_s=2.0, replace_s=3.0, num_failures=2
    )
    assert run.wall_s == 61.0


def test_a_slow_device_stays_slow_over_a_restart_which_does_not_find_it_out():
    """Slow from 6, a failure at 8 and a restart to 15; found 2 s later, replaced by 20, worked to 29 and copied at 34.

    Safe at 54, so that the next copy is made at 59; the failure at 63 loses that one and 4 s of work.
    """
    recovery = Recovery(mtbf_s=70.0, stall_s=5.0, write_s=20.0, restart_s=7.0)
    onsets = Onsets(onset_s=500.0, detect_s=4.0, swap_s=3.0, pace_frac=0.5)
    run = played_run(recovery, 10.0, 2, Told(8.0, 6.0, 1000.0, 52.0, 1000.0), onsets)
    assert run == PlayedRun(
        useful_s=10.0, checkpoint_s=5.0, rework_s=37.0, restart_s=14.0, slow_s=1.0, replace_s=3.0, num_failures=2
    )
    assert run.wall_s == 70.0


def test_what_turns_slow_while_a_checkpoint_is_copied_shows_when_work_goes_on():
    """Slow from 12, in the copy that ends at 15, and found at 16; replaced by 19, which holds writing up to 38.

    Work ends at 28.5 and the next copy at 43, of which the failure at 45 leaves nothing.
    """
    recovery = Recovery(mtbf_s=70.0, stall_s=5.0, write_s=20.0, restart_s=7.0)
    onsets = Onsets(onset_s=500.0, detect_s=4.0, swap_s=3.0, pace_frac=0.5)
    run = played_run(recovery, 10.0, 1, Told(42.0, 12.0, 1000.0, 1000.0), onsets)
    assert run == PlayedRun(
        useful_s=10.0, checkpoint_s=5.0, rework_s=27.0, restart_s=7.0, slow_s=0.0, replace_s=3.0, num_failures=1
    )
    assert run.wall_s == 52.0


@pytest.mark.parametrize(
    ("interval", "num_steps"),
    [
        (CountedInterval(num_steps=7), 7),
        (TimedInterval(interval_s=100.0), 40),
        (TimedInterval(interval_s=0.1), 1),
        (BestInterval(), best_num_steps(SYNCHRONOUS, 2.5)),
    ],
)
def test_an_interval_is_a_whole_number_of_steps(interval, num_steps):
    assert num_steps_of(interval, SYNCHRONOUS, 2.5) == num_steps


def test_shares_of_a_run_with_slow_devices_add_up():
    slowing = replaced(1.0, 1.25, onset_s=5000.0, detect_s=600.0, swap_s=230.0)
    found = goodput(SYNCHRONOUS, slowing, BestInterval(), 10.0)
    assert sum(getattr(found, f"{part}_frac") for part in (*PARTS, "slow", "replace")) == pytest.approx(1)
    assert found.best_frac == found.useful_frac
    assert found.interval_s == pytest.approx(found.num_steps * found.slowed_step_s + 30.0)


def test_slow_devices_that_stay_lengthen_every_step():
    slowed = goodput(SYNCHRONOUS, standing(1.0, 1.25), CountedInterval(num_steps=200), 0.0)
    assert slowed.slowed_step_s == 1.25
    assert slowed.useful_frac == pytest.approx(0.8 * shares(SYNCHRONOUS, 250.0).useful_frac)


def test_slow_devices_that_are_replaced_cost_what_events_say():
    """Within half a point of each share: how onsets and checkpoints fall together is left out of the closed form."""
    onsets = Onsets(onset_s=3000.0, detect_s=500.0, swap_s=100.0, pace_frac=0.7)
    slowing = replaced(1.0, 1 / 0.7, onset_s=3000.0, detect_s=500.0, swap_s=100.0)
    found = goodput(SYNCHRONOUS, slowing, CountedInterval(num_steps=250), 0.0)
    run = played_run(SYNCHRONOUS, 250.0, 20_000, Random(1), onsets)
    for part in (*PARTS, "slow", "replace"):
        assert getattr(found, f"{part}_frac") == pytest.approx(getattr(run, f"{part}_s") / run.wall_s, abs=0.005), part


@pytest.mark.parametrize(("detect_s", "slow_frac"), [(1.0, 0.001), (1000.0, 0.632), (5000.0, 0.993)])
def test_a_run_is_slow_while_any_device_is(detect_s, slow_frac):
    found = replaced(1.0, 2.0, onset_s=1000.0, detect_s=detect_s, swap_s=0.0)
    assert found.slow_frac == pytest.approx(slow_frac, abs=0.001)


def test_a_device_found_out_at_once_costs_its_replacement_alone():
    at_once = goodput(SYNCHRONOUS, replaced(1.0, 1.25, onset_s=5000.0, detect_s=0.0, swap_s=0.0), BestInterval(), 0.0)
    assert at_once == goodput(SYNCHRONOUS, UNSLOWED, BestInterval(), 0.0)


def test_devices_that_turn_slow_all_the_time_lose_their_pace_at_most_and_the_rest_to_replacing_them():
    often = replaced(1.0, 1.25, onset_s=100.0, detect_s=3600.0, swap_s=900.0)
    found = goodput(SYNCHRONOUS, often, BestInterval(), 0.0)
    assert found.slow_frac < 0.2
    assert found.replace_frac == pytest.approx(9 * (1 - 0.181) / (1 + 9 * (1 - 0.181)), abs=0.001)  # 0.181 restarts


def test_a_job_that_never_gets_on_is_an_answer():
    hopeless = Recovery(mtbf_s=1.0, stall_s=60.0, write_s=0.0, restart_s=600.0)
    found = goodput(hopeless, UNSLOWED, BestInterval(), 0.0)
    assert not found.makes_progress
    assert (found.useful_frac, found.restart_frac) == pytest.approx((0.0, 1.0))
    assert goodput(SYNCHRONOUS, UNSLOWED, BestInterval(), 0.0).makes_progress


def test_llama_3s_failures_leave_the_nine_tenths_that_its_paper_reports():
    """arXiv:2407.21783, section 3.3.4: over 90 % effective training time; it does not state how long restarts took.

    5.7 TB at the 2 TB/s of its storage (section 3.3.1); restarts of ten minutes as MegaScale's (arXiv:2402.15627) leave
    some room for planned interruptions.
    """
    mtbf_s = failures["llama3-405b"]().among_s(16384)
    assert mtbf_s == pytest.approx(3.09 * SECONDS_PER_HOUR, rel=0.01)
    recovery = Recovery(mtbf_s=mtbf_s, stall_s=2.84, write_s=0.0, restart_s=600.0 + 2.84)
    found: Goodput = goodput(recovery, standing(5.74, 5.74), BestInterval(), 0.0)
    assert 0.90 < found.useful_frac < 0.95


@pytest.mark.parametrize("recovery", [SYNCHRONOUS, BESIDE, HELD_UP], ids=["synchronous", "beside", "held up"])
@pytest.mark.parametrize("step_s", [0.7, 9.0, 37.0, 80.0, 400.0])
def test_the_best_number_of_steps_loses_least_of_all(recovery, step_s):
    every = [shares(recovery, num_steps * step_s).useful_frac for num_steps in range(1, 1500)]
    assert shares(recovery, best_num_steps(recovery, step_s) * step_s).useful_frac == pytest.approx(max(every))
