"""A long run with failures, checkpoints and slow devices played out event by event: the second answer to `goodput`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random

from dovetail.step.goodput import Recovery

_NEVER_S = math.inf  # style: when events come that do not; it never leaves this module


@dataclass(frozen=True, slots=True, kw_only=True)
class Onsets:
    """Devices that turn slow once in `onset_s`, slow the run to `pace_frac`, and are replaced `detect_s` later.

    Replacing one stops the run for `swap_s`, and loses nothing.
    """

    onset_s: float
    detect_s: float
    swap_s: float
    pace_frac: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedRun:
    """How a run went: its time by what it was for."""

    useful_s: float
    checkpoint_s: float
    rework_s: float
    restart_s: float
    slow_s: float  # waiting for slow devices
    replace_s: float  # stopped to replace them
    num_failures: int

    @property
    def wall_s(self) -> float:
        return self.useful_s + self.checkpoint_s + self.rework_s + self.restart_s + self.slow_s + self.replace_s


def played_run(
    recovery: Recovery, work_s: float, num_failures: int, rng: Random, onsets: Onsets | None = None
) -> PlayedRun:
    """A run until its `num_failures`-th failure is over, with a checkpoint after every `work_s` of work at full pace.

    Where there are `onsets`, devices turn slow. Nothing fails or turns slow while a device is replaced, and nothing
    turns slow or is found out during a restart.
    """
    run = _RunState(recovery, work_s, rng, onsets)
    while run.num_failures < num_failures:
        run.play_cycle()
    return PlayedRun(
        useful_s=run.safe.work_s,
        checkpoint_s=run.safe.stall_s,
        rework_s=run.rework_s,
        restart_s=run.restarted_s,
        slow_s=run.safe.slow_s,
        replace_s=run.swapped_s,
        num_failures=run.num_failures,
    )


@dataclass(slots=True, kw_only=True)
class _Spent:
    """Time of a cycle, or of many."""

    work_s: float = 0.0
    slow_s: float = 0.0
    stall_s: float = 0.0

    def add(self, other: _Spent) -> None:
        self.work_s += other.work_s
        self.slow_s += other.slow_s
        self.stall_s += other.stall_s

    @property
    def total_s(self) -> float:
        return self.work_s + self.slow_s + self.stall_s


@dataclass(slots=True, kw_only=True)
class _Written:
    """A checkpoint on its way to storage: the cycle it saves, and when that is safe."""

    cycle: _Spent = field(default_factory=_Spent)
    safe_at_s: float = 0.0


class _RunState:
    """The state of one run: the clock, when what happens next, and what a failure would cost."""

    def __init__(self, recovery: Recovery, work_s: float, rng: Random, onsets: Onsets | None) -> None:
        self.recovery, self.work_s, self.rng, self.onsets = recovery, work_s, rng, onsets
        self.now_s = self.rework_s = self.restarted_s = self.swapped_s = 0.0
        self.num_failures = 0
        self.fails_at_s = rng.expovariate(1 / recovery.mtbf_s)
        self.slows_at_s = rng.expovariate(1 / onsets.onset_s) if onsets else _NEVER_S
        self.found_at_s: list[float] = []  # when each slow device is found out
        self.written = _Written()
        self.safe = _Spent()

    def play_cycle(self) -> None:
        """Work, the wait until the last checkpoint is written, and the copy of the next; or a failure on the way."""
        cycle = _Spent()
        if not self._has_worked(cycle):
            return self._fail(cycle)
        stall_s = max(0.0, self.written.safe_at_s - self.now_s) + self.recovery.stall_s
        if self.fails_at_s < self.now_s + stall_s:
            cycle.stall_s = self.fails_at_s - self.now_s
            self.now_s = self.fails_at_s
            return self._fail(cycle)
        self.now_s += stall_s
        cycle.stall_s = stall_s
        self.safe.add(self.written.cycle)
        self.written = _Written(cycle=cycle, safe_at_s=self.now_s + self.recovery.write_s)
        return None

    def _has_worked(self, cycle: _Spent) -> bool:
        """Whether all work of a cycle was done before the next failure."""
        while cycle.work_s < self.work_s:
            pace = self.onsets.pace_frac if self.onsets and self.found_at_s else 1.0
            end_s = self.now_s + (self.work_s - cycle.work_s) / pace
            due_s = min(end_s, self.fails_at_s, self.slows_at_s, *self.found_at_s)
            next_s = max(self.now_s, due_s)  # what came due during a stall shows when work goes on
            done_s = pace * (next_s - self.now_s)
            cycle.slow_s += next_s - self.now_s - done_s
            cycle.work_s = self.work_s if due_s == end_s else cycle.work_s + done_s
            self.now_s = next_s
            if due_s == self.fails_at_s:
                return False
            if self.onsets and due_s == self.slows_at_s:
                self.found_at_s.append(due_s + self.onsets.detect_s)
                self.slows_at_s = due_s + self.rng.expovariate(1 / self.onsets.onset_s)
            elif self.onsets and due_s in self.found_at_s:
                self.found_at_s.remove(due_s)
                self._replace_device(self.onsets.swap_s)
        return True

    def _replace_device(self, swap_s: float) -> None:
        self.swapped_s += swap_s
        self.now_s += swap_s
        self.fails_at_s += swap_s
        self.written.safe_at_s += swap_s
        self._hold_slowing(swap_s)

    def _hold_slowing(self, held_s: float) -> None:
        self.slows_at_s += held_s
        self.found_at_s = [at_s + held_s for at_s in self.found_at_s]

    def _fail(self, cycle: _Spent) -> None:
        """Back to the last safe checkpoint, after a restart that no other failure cuts short."""
        saved = self.written.cycle
        self.rework_s += cycle.total_s
        if self.written.safe_at_s <= self.now_s:
            self.safe.add(saved)
        else:
            self.rework_s += saved.total_s
        self.written = _Written()
        began_s = self.now_s
        while True:
            self.num_failures += 1
            self.fails_at_s = self.now_s + self.rng.expovariate(1 / self.recovery.mtbf_s)
            if self.fails_at_s >= self.now_s + self.recovery.restart_s:
                break
            self.now_s = self.fails_at_s
        self.now_s += self.recovery.restart_s
        self.restarted_s += self.now_s - began_s
        self._hold_slowing(self.now_s - began_s)
