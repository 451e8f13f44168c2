"""A long run with failures and checkpoints: the share of its time that is of use, and the best interval. Closed forms.

Failures come as a Poisson process. docs/model/goodput.md derives every formula; `step/failure_events.py` plays the
same run out event by event, and a test makes the two agree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dovetail.hardware.reliability import BestInterval, CountedInterval, Interval

MIN_USEFUL_FRAC = 0.0005  # a day of work that takes five years: such a run does not get on
NUM_HALVINGS = 200  # of an interval of floats: until its ends meet


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What failures and checkpoints take of a run.

    Training waits `stall_s` for each checkpoint to be copied off the device, and `write_s` after that it can be gone
    back to. There is room for one copy: where the last is not written yet, training waits for that first, and then for
    the whole of its own copy. A failure, once in `mtbf_s` at any time, costs what was done since the last checkpoint
    that was written, and `restart_s`, which a further failure starts again.
    """

    mtbf_s: float
    stall_s: float
    write_s: float  # beside training
    restart_s: float

    def cycle_s(self, work_s: float) -> float:
        """From the end of a checkpoint's copy to the next one's, which begins when the last is written, or later."""
        return max(work_s, self.write_s) + self.stall_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Where the time of a run goes; the shares add up to one."""

    useful_frac: float
    checkpoint_frac: float  # waiting for checkpoints
    rework_frac: float  # done, lost with a failure, and done again
    restart_frac: float


def shares(recovery: Recovery, work_s: float) -> Shares:
    """Of a long run that begins a checkpoint after every `work_s` of work.

    A run starts from a checkpoint, gets as far as the time X to its next failure lets it, and restarts. The n-th
    checkpoint after a restart is copied after work + stall + (n - 1) cycles, and counts if X is that and a write or
    more, which has the chance exp(-that / mtbf); their sum is the expected number that count. The expected time is
    mtbf, and the restart, which failures draw out to mtbf (exp(restart / mtbf) - 1). With write_s = 0 this is Daly's
    model of complete restarts (Future Generation Computer Systems 22, 2006).
    """
    mtbf_s, first_s, cycle_s = recovery.mtbf_s, work_s + recovery.stall_s, recovery.cycle_s(work_s)
    up_frac = math.exp(-recovery.restart_s / mtbf_s)
    first_frac = math.exp(-(first_s + recovery.write_s) / mtbf_s)  # chance that the first checkpoint counts
    num_kept = first_frac / -math.expm1(-cycle_s / mtbf_s)
    kept_frac = up_frac * (num_kept * cycle_s - first_frac * (cycle_s - first_s)) / mtbf_s
    useful_frac = up_frac * num_kept * work_s / mtbf_s
    return Shares(
        useful_frac=useful_frac,
        checkpoint_frac=max(0.0, kept_frac - useful_frac),  # below 0 is the last bit of a float
        rework_frac=max(0.0, up_frac - kept_frac),
        restart_frac=1.0 - up_frac,
    )


def best_work_s(recovery: Recovery) -> float:
    """Work between checkpoints that loses least, if a run could stop anywhere.

    Where x = work / mtbf and a = stall / mtbf, work over expected time is largest at x = 1 - exp(-x - a): the exact
    optimum of Daly's model, whose first order in a is Young's sqrt(2 stall mtbf). Less work than takes as long as a
    write makes the next checkpoint wait, and cycles do not get shorter: there, work exp(-work / mtbf) is what grows, up
    to mtbf.
    """
    a = recovery.stall_s / recovery.mtbf_s
    low, high = 0.0, 1.0
    for _ in range(NUM_HALVINGS):
        middle = (low + high) / 2
        is_short = middle + math.expm1(-middle - a) < 0
        low, high = (middle, high) if is_short else (low, middle)
    return max(high * recovery.mtbf_s, min(recovery.write_s, recovery.mtbf_s))


def young_s(recovery: Recovery) -> float:
    """Work between checkpoints that loses least where both are short against failures (Young, CACM 17, 1974)."""
    return math.sqrt(2 * recovery.stall_s * recovery.mtbf_s)


def best_num_steps(recovery: Recovery, step_s: float) -> int:
    """Steps between checkpoints that lose least: beside the best work, as its shares fall on both sides of that."""
    below = max(1, math.floor(best_work_s(recovery) / step_s))
    return max((below, below + 1), key=lambda num_steps: shares(recovery, num_steps * step_s).useful_frac)


def num_steps_of(interval: Interval, recovery: Recovery, step_s: float) -> int:
    """Steps between checkpoints, as asked for."""
    if isinstance(interval, BestInterval):
        return best_num_steps(recovery, step_s)
    if isinstance(interval, CountedInterval):
        return interval.num_steps
    return max(1, round(interval.interval_s / step_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowing:
    """What slow devices take of a run: a step takes `slow_s` for `slow_frac` of the time, else `step_s`."""

    step_s: float
    slow_s: float
    slow_frac: float
    swap_frac: float  # time of replacing slow devices over that of all else but restarts

    @property
    def mean_step_s(self) -> float:
        """A step's mean time, waiting for slow devices counted and swaps not."""
        return 1.0 / ((1.0 - self.slow_frac) / self.step_s + self.slow_frac / self.slow_s)


def standing(step_s: float, slow_s: float) -> Slowing:
    """Of slow devices that stay."""
    return Slowing(step_s=step_s, slow_s=slow_s, slow_frac=1.0, swap_frac=0.0)


def replaced(step_s: float, slow_s: float, onset_s: float, detect_s: float, swap_s: float) -> Slowing:
    """Of devices that turn slow once in `onset_s`, any of them, and are replaced `detect_s` later.

    Onsets are a Poisson process, so none of the last `detect_s` is that of a slow device still there with the chance
    exp(-detect / onset).
    """
    slow_frac = -math.expm1(-detect_s / onset_s)
    return Slowing(step_s=step_s, slow_s=slow_s, slow_frac=slow_frac, swap_frac=swap_s / onset_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """What a long run makes of its time; the shares and `useful_frac` add up to one."""

    useful_frac: float
    checkpoint_frac: float
    rework_frac: float
    restart_frac: float
    slow_frac: float  # waiting for slow devices
    replace_frac: float  # stopped to replace them
    num_steps: int  # between checkpoints
    best_num_steps: int
    best_frac: float  # of use with the best number of steps
    slowed_step_s: float  # of a step, slow devices counted
    recovery: Recovery
    checkpoint_bytes: float

    @property
    def makes_progress(self) -> bool:
        """Whether so much is of use that the run comes to an end."""
        return self.useful_frac >= MIN_USEFUL_FRAC

    @property
    def interval_s(self) -> float:
        """From checkpoint to checkpoint."""
        return self.recovery.cycle_s(self.num_steps * self.slowed_step_s)


def goodput(recovery: Recovery, slowing: Slowing, interval: Interval, checkpoint_bytes: float) -> Goodput:
    """Of a run whose steps take what `slowing` says; that failures leave nothing of it is an answer, too."""
    step_s = slowing.mean_step_s
    num_steps, best = num_steps_of(interval, recovery, step_s), best_num_steps(recovery, step_s)
    found, least = (shares(recovery, count * step_s) for count in (num_steps, best))
    pace, unswapped = slowing.step_s / step_s, 1.0 / (1.0 + slowing.swap_frac * (1.0 - found.restart_frac))
    return Goodput(
        useful_frac=unswapped * pace * found.useful_frac,
        checkpoint_frac=unswapped * found.checkpoint_frac,
        rework_frac=unswapped * found.rework_frac,
        restart_frac=unswapped * found.restart_frac,
        slow_frac=unswapped * (1.0 - pace) * found.useful_frac,
        replace_frac=1.0 - unswapped,
        num_steps=num_steps,
        best_num_steps=best,
        best_frac=unswapped * pace * least.useful_frac,
        slowed_step_s=step_s,
        recovery=recovery,
        checkpoint_bytes=checkpoint_bytes,
    )
