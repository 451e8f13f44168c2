"""A training log as it is read, line by line: ranks that print the same step become one, restarts are seen."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dovetail.accuracy.training_log import NUM_WARM_UP_STEPS, LoggedStep, Pace, Reason, TrainingLog
from dovetail.errors import InvalidInput
from dovetail.files.text import one_line

MAX_STEP = 10**9  # style: a bound on counts of a log
MAX_STEPS = 1_000_000  # style: a bound; lines of steps that are kept
MAX_BAD_LINES = 100_000  # kept; more are a file of something else
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
# The rank that printed a line: torchrun --tee ([default3]:), TorchTitan ([rank3]:), srun --label (3:), mpirun.
_PREFIX = re.compile(
    r"\s*(?:\S+/\d+ )?"
    r"(?:\[(?:rank|default)\s?(?P<name>\d+)\]:?|(?P<label>\d+):(?=\s)|\[\d+,(?P<place>\d+)\](?:<\w+>)?:?)\s?"
)
_NUMBER = re.compile(r"[+-]?(?:\d[\d,]{0,20}(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a log without colours and without the rank that printed it, which stands apart."""

    number: int
    text: str
    rank: str = ""


def lines_of(text: str) -> list[Line]:
    """The lines of a text; what a progress bar wrote over is a line of its own, with the number of the whole."""
    found = []
    for number, whole in enumerate(text.split("\n"), start=1):
        for part in whole.split("\r"):
            bare = _ANSI.sub("", part)
            prefix = _PREFIX.match(bare)
            if prefix:
                rank = prefix["name"] or prefix["label"] or prefix["place"]
                found.append(Line(number, bare[prefix.end() :].rstrip(), rank))
            elif bare.strip():
                found.append(Line(number, bare.rstrip()))
    return found


def number_in(text: str) -> float:
    """The number that `text` is, with or without commas between thousands; nan, which is above nothing, if none."""
    plain = text.strip()
    if not _NUMBER.fullmatch(plain):
        return math.nan
    try:
        return float(plain.replace(",", ""))
    except (ValueError, OverflowError):
        return math.nan


def count_in(text: str) -> int:
    """The whole number that `text` is; 0 where it is none."""
    plain = text.strip().replace(",", "").replace("_", "")
    return int(plain) if re.fullmatch(r"\d{1,9}", plain) else 0


def assume_eager(draft: Draft) -> None:
    """Kernels of a framework that runs whatever module it is given: PyTorch's own, as far as the log says nothing."""
    draft.describe("workload", attention="flash-2", kernels="eager")
    draft.notes.append("kernels are taken to be PyTorch's own: eager, with FlashAttention-2; set --spec to override")


@dataclass(slots=True)
class Draft:
    """What was read of a log so far; `finished` makes a value of it."""

    framework: str
    folder: Path  # where the log lies
    steps: list[LoggedStep] = field(default_factory=list)
    bad: dict[int, str] = field(default_factory=dict)
    job: dict[str, dict[str, Any]] = field(default_factory=dict)
    device: str = ""
    notes: list[str] = field(default_factory=list)
    allocated_bytes: float = 0.0
    reserved_bytes: float = 0.0
    is_whole_run: bool = False
    num_restarts: int = 0
    num_checkpoints: int = 0
    num_evaluations: int = 0
    _pending: list[Reason] = field(default_factory=list)  # happened since the last step
    _has_started: bool = False  # again, since the last step
    _last: dict[str, int] = field(default_factory=dict)  # the last step by rank, of the present attempt
    _before_newest: int = 0  # the step of the line before the newest

    def describe(self, section: str, **values: Any) -> None:
        """What the log says of its job, by section and key of a spec; nothing that is 0 or empty says anything."""
        stated = {key: value for key, value in values.items() if value not in (0, "", None, {})}
        if stated:
            self.job[section] = self.job.get(section, {}) | stated

    def started(self) -> None:
        """The framework began, or began again."""
        self._has_started = True

    def checkpointed(self) -> None:
        if Reason.CHECKPOINT not in self._pending:
            self.num_checkpoints += 1
            self._pending.append(Reason.CHECKPOINT)

    def evaluated(self) -> None:
        if Reason.EVALUATION not in self._pending:
            self.num_evaluations += 1
            self._pending.append(Reason.EVALUATION)

    def cannot_read(self, line: Line, why: str) -> None:
        if len(self.bad) < MAX_BAD_LINES:
            self.bad.setdefault(line.number, why)

    def took(self, line: Line, step: int, pace: dict[str, float], *, num_steps: int = 0, **more: Any) -> None:
        """A step's line; a pace that is no number above 0 makes it one that cannot be read.

        `num_steps` is how many steps the line is the mean of, where the log says it; else those since the line before.
        """
        [(name, value)] = pace.items()
        if not 0 < step <= MAX_STEP:
            return self.cannot_read(line, f"the number of a step is from 1 to {MAX_STEP:,}")
        if not (math.isfinite(value) and value > 0):
            return self.cannot_read(line, f"{name.replace('_', ' ')} must be a number above 0")
        if len(self.steps) >= MAX_STEPS:
            raise InvalidInput(f"a log has at most {MAX_STEPS:,} lines of steps; cut it")
        is_other_rank = self._is_other_rank(step, line.rank)
        if not is_other_rank:
            self._begin_again_where(step)
        reasons = (*((Reason.SKIPPED_UPDATE,) if more.pop("is_skipped", False) else ()), *self._pending)
        self.steps.append(
            LoggedStep(
                line=line.number,
                step=step,
                pace=Pace(**{name: value}),
                num_steps=num_steps,
                attempt=self.num_restarts,
                set_apart=reasons,
                **more,
            )
        )
        if not is_other_rank:
            self._pending.clear()
            self._before_newest = max(self._last.values(), default=0)
        self._last[line.rank] = step
        return None

    def _is_other_rank(self, step: int, rank: str) -> bool:
        """Whether a line is of a step that another rank has printed before, rather than of a run that began again."""
        if self._has_started or not self._last:
            return False
        newest = max(self._last.values())
        if rank and rank not in self._last:
            return step <= newest
        if rank and len(self._last) > 1:
            return self._last[rank] < step <= newest
        return not rank and step in (newest, self._before_newest)  # ranks that do not say which they are

    def _begin_again_where(self, step: int) -> None:
        """Counts a restart: steps went back, or the framework began again where it had ended."""
        if self._last and (self._has_started or step <= max(self._last.values())):
            self.num_restarts += 1
            self._last.clear()
            self._before_newest = 0
        self._has_started = False

    def finished(self, source: str, num_lines: int) -> TrainingLog:
        """The log as a value, a step that several ranks printed once; raises where it has no step that can be read."""
        if not self.steps:
            why = min(self.bad.items()) if self.bad else (0, "")
            message = f"no line of a {self.framework} log could be read as a step"
            raise InvalidInput(f"{message}{f'; line {why[0]}: {why[1]}' if self.bad else ''}", source)
        return TrainingLog(
            source=source,
            framework=self.framework,
            num_lines=num_lines,
            steps=tuple(replace(one, set_apart=()) for one in self.steps) if self.is_whole_run else self._merged(),
            bad_lines=tuple(sorted(self.bad.items())),
            num_restarts=self.num_restarts,
            num_checkpoints=self.num_checkpoints,
            num_evaluations=self.num_evaluations,
            allocated_bytes=self.allocated_bytes,
            reserved_bytes=self.reserved_bytes,
            device=one_line(self.device)[:100],
            is_whole_run=self.is_whole_run,
            job=self.job,
            notes=tuple(dict.fromkeys(self.notes)),
        )

    def _merged(self) -> tuple[LoggedStep, ...]:
        by_step: dict[tuple[int, int], list[LoggedStep]] = {}
        for one in self.steps:
            by_step.setdefault((one.attempt, one.step), []).append(one)
        merged = [_of_ranks(same) for same in by_step.values()]
        found: list[LoggedStep] = []
        for attempt in range(self.num_restarts + 1):
            found += _of_attempt([one for one in merged if one.attempt == attempt])
        return tuple(found)


def _of_ranks(same: list[LoggedStep]) -> LoggedStep:
    """The median pace of ranks that printed one step, and the most memory that any of them saw."""
    if len(same) == 1:
        return same[0]
    [name] = [name for name in Pace.__slots__ if getattr(same[0].pace, name)]
    values = [value for one in same if (value := getattr(one.pace, name))]
    return replace(
        same[0],
        pace=Pace(**{name: statistics.median(values)}),
        num_ranks=len(same),
        allocated_bytes=max(one.allocated_bytes for one in same),
        reserved_bytes=max(one.reserved_bytes for one in same),
    )


def _of_attempt(steps: list[LoggedStep]) -> list[LoggedStep]:
    """Lines of one attempt, each with how many steps it is of and whether it is of the warm-up.

    A line is of the steps since the line before; the first one of as many as are mostly between two lines.
    """
    if not steps:
        return []
    gaps = [after.step - before.step for before, after in itertools.pairwise(steps)]
    usual = max(1, statistics.mode(gaps) if gaps else steps[0].num_steps)
    start = max(0, steps[0].step - usual)
    found, before = [], start
    for one in steps:
        is_warm_up = before - start < NUM_WARM_UP_STEPS
        found.append(
            replace(
                one,
                num_steps=one.num_steps or max(1, one.step - before),
                set_apart=((Reason.WARM_UP,) if is_warm_up else ()) + one.set_apart,
            )
        )
        before = one.step
    return found
