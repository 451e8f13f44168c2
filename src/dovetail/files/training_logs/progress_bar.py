"""Progress bars of tqdm as measured steps: `12%|#2  | 100/800 [00:50<05:50,  2.00it/s, ...]`.

The rate that a bar shows is smoothed, so steps are timed by the bar's clock, which has whole seconds: over windows of
at least LEAST_WINDOW_S, and where a log has none so long, by the rate.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from dovetail.files.training_logs.draft import Draft, Line, count_in, number_in

LEAST_WINDOW_S = 30.0  # ours: a second of a clock that has whole ones is 3 % of it
SMOOTHED = "steps are timed by the rate that a progress bar shows, which is smoothed: no bar ran for 30 s"
TIMED = "steps are timed by the clock of a progress bar, which has whole seconds, over windows of 30 s"
BAR = re.compile(
    r"(?P<title>.*?)\s*(?P<percent>\d{1,3})%\|(?P<drawn>[^|]*)\|\s*(?P<done>\d+)/(?P<total>\d+)"
    r"\s*\[(?P<elapsed>[\d:]+)<(?P<left>[\d:?]+),\s*(?P<rate>[\d.]+|\?)\s*(?P<unit>s/it|it/s)"
)
CUT_BAR = re.compile(r"\d{1,3}%\|[^|]*\|\s*\d+/\d+\s*\[")


def elapsed_s(text: str) -> float:
    """Seconds of a bar's clock: MM:SS or H:MM:SS."""
    total_s = 0.0
    for part in text.split(":"):
        total_s = 60.0 * total_s + count_in(part)
    return total_s


@dataclass(slots=True)
class BarSteps:
    """Steps of the bars of one log, added to its draft when all are seen."""

    windows: list[tuple[Line, int, float, int]] = field(default_factory=list)  # line, step, seconds of a step, steps
    shown_s: list[tuple[Line, int, float]] = field(default_factory=list)
    _base: tuple[int, float] = (0, -1.0)  # step and clock at which a window begins; before any, none does

    def take(self, line: Line, bar: re.Match[str], step: int) -> bool:
        """A bar at `step`; whether a window ended with it."""
        clock_s, rate = elapsed_s(bar["elapsed"]), number_in(bar["rate"])
        if step > 0 and rate > 0:
            self.shown_s.append((line, step, rate if bar["unit"] == "s/it" else 1.0 / rate))
        base_step, base_s = self._base
        if base_s < 0 or step < base_step or clock_s < base_s:
            if step > 0:
                self._base = (step, clock_s)
            return False
        if clock_s - base_s < LEAST_WINDOW_S or step == base_step:
            return False
        self.windows.append((line, step, (clock_s - base_s) / (step - base_step), step - base_step))
        self._base = (step, clock_s)
        return True

    def begin_window(self) -> None:
        """What comes next is not timed together with what was before."""
        self._base = (0, -1.0)


def take_windows(draft: Draft, bars: BarSteps, taken: int) -> int:
    """Adds windows that the draft does not have yet; returns how many it has now."""
    for line, step, step_s, num_steps in bars.windows[taken:]:
        draft.took(line, step, {"step_s": step_s}, num_steps=num_steps)
    return len(bars.windows)


def take_rates(draft: Draft, bars: BarSteps) -> None:
    """The rates that bars showed, of a log in which nothing else times a step."""
    for line, step, step_s in bars.shown_s:
        draft.took(line, step, {"step_s": step_s})
    if bars.shown_s:
        draft.notes.append(SMOOTHED)
