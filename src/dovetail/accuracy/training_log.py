"""What a training log measured, step by step, and which of it counts: steady steps, and the others with the reason.

A log says how fast steps were in the words of its framework: seconds, samples or tokens per second. What it says of
its job is kept by the keys of a spec. Nothing here knows how a log is written.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from dovetail.errors import InvalidInput

NUM_WARM_UP_STEPS = 5  # ours: allocator, autotuning and compilation are through; see docs/decisions/0079
MAD_SCALE = 1.4826  # of a normal distribution: standard deviation over median absolute deviation (Leys et al. 2013)
MAX_DEVIATIONS = 3.0  # from the median, "very conservative" in Leys et al. 2013, J. Exp. Soc. Psychol. 49
LEAST_OUTLIER_FRAC = 0.05  # ours: nearer to the median a step is never an outlier, however equal the others are
MAX_STEP_S = 1e7  # style: a bound, four months; more is no step


class Reason(StrEnum):
    """Why a step is set apart from the steady ones."""

    WARM_UP = "warm-up"
    CHECKPOINT = "checkpoint"
    EVALUATION = "evaluation"
    SKIPPED_UPDATE = "skipped update"
    OTHER_BATCH = "other global batch"
    OUTLIER = "outlier"


MEANINGS = {
    Reason.WARM_UP: f"has one of the first {NUM_WARM_UP_STEPS} steps after a start or restart in it",
    Reason.CHECKPOINT: "a checkpoint was written since the line before",
    Reason.EVALUATION: "an evaluation ran since the line before",
    Reason.SKIPPED_UPDATE: "the optimizer skipped updates, as loss scaling does",
    Reason.OTHER_BATCH: "the batch size is not the job's, as while it ramps up",
    Reason.OUTLIER: f"further from the median than {MAX_DEVIATIONS:g} times 1.4826 MAD, and than"
    f" {100 * LEAST_OUTLIER_FRAC:g} %",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast a step was, in one of the ways that logs say it; the others are 0."""

    step_s: float = 0.0
    samples_per_s: float = 0.0  # of all devices
    tokens_per_s_per_device: float = 0.0

    def __post_init__(self) -> None:
        given = [value for value in (self.step_s, self.samples_per_s, self.tokens_per_s_per_device) if value]
        if len(given) != 1 or not 0 < given[0] < float("inf"):
            raise InvalidInput(f"a pace is one number above 0; got {given}")

    def seconds(self, global_batch: int, tokens_per_sample: int, num_devices: int) -> float:
        """Seconds of a step of so many samples, on so many devices."""
        if self.step_s:
            return self.step_s
        if self.samples_per_s:
            return global_batch / self.samples_per_s
        return global_batch * tokens_per_sample / (self.tokens_per_s_per_device * num_devices)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedStep:
    """One line of a log: the mean of the last `num_steps` steps up to `step`, as the ranks that print saw it."""

    line: int
    step: int
    pace: Pace
    num_steps: int = 1
    num_ranks: int = 1
    attempt: int = 0  # counted up by every restart
    set_apart: tuple[Reason, ...] = ()  # what the log itself says: warm-up, checkpoints, evaluations, skipped updates
    global_batch: int = 0  # 0 where the line does not say
    allocated_bytes: float = 0.0  # peaks; 0 where the line does not say
    reserved_bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLog:
    """A log as read: its steps, the lines that look like steps and cannot be read, and what it says of its job.

    `job` has sections `workload`, `cluster` and `plan` with the keys of a spec, as far as the log says them;
    `device` is the GPU as its driver calls it. `is_whole_run` is a mean over a run, which no finer line came with.
    """

    source: str
    framework: str
    num_lines: int
    steps: tuple[LoggedStep, ...]
    bad_lines: tuple[tuple[int, str], ...] = ()
    num_restarts: int = 0
    num_checkpoints: int = 0
    num_evaluations: int = 0
    allocated_bytes: float = 0.0
    reserved_bytes: float = 0.0
    device: str = ""
    is_whole_run: bool = False
    job: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def peaks_bytes(self) -> tuple[float, float]:
        """Allocated and reserved, the highest that any line has; 0 for what none has."""
        allocated = [self.allocated_bytes, *(one.allocated_bytes for one in self.steps)]
        reserved = [self.reserved_bytes, *(one.reserved_bytes for one in self.steps)]
        return max(allocated), max(reserved)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStep:
    """A line of a log in seconds, and why it is set apart; nothing where it is steady."""

    logged: LoggedStep
    step_s: float
    set_apart: tuple[Reason, ...]

    @property
    def is_steady(self) -> bool:
        return not self.set_apart


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSteps:
    """All lines of a log in seconds; the median and quartiles are of the steady ones."""

    steps: tuple[MeasuredStep, ...]
    notes: tuple[str, ...] = ()

    @property
    def steady(self) -> tuple[MeasuredStep, ...]:
        return tuple(one for one in self.steps if one.is_steady)

    @property
    def median_s(self) -> float:
        return statistics.median(one.step_s for one in self.steady)

    @property
    def quartiles_s(self) -> tuple[float, float]:
        lower, upper = np.quantile([one.step_s for one in self.steady], (0.25, 0.75)).tolist()
        return lower, upper


def measured_steps(log: TrainingLog, global_batch: int, tokens_per_sample: int, num_devices: int) -> MeasuredSteps:
    """The lines of `log` in seconds, of a job of this size; outliers are seen among those that nothing else sets apart.

    Where every line would be set apart, those of the warm-up count, and a note says so; raises where even then none
    is left.
    """
    found = []
    for one in log.steps:
        step_s = one.pace.seconds(global_batch, tokens_per_sample, num_devices)
        if not 0 < step_s < MAX_STEP_S:
            raise InvalidInput(f"a step takes up to {MAX_STEP_S:g} s; step {one.step:,} has {step_s:g} s", log.source)
        other = (Reason.OTHER_BATCH,) if one.global_batch not in (0, global_batch) else ()
        found.append(MeasuredStep(logged=one, step_s=step_s, set_apart=(*one.set_apart, *other)))
    if not any(one.is_steady for one in found):
        return _of_warm_up(found, log)
    return MeasuredSteps(steps=_without_outliers(found))


def _of_warm_up(found: Sequence[MeasuredStep], log: TrainingLog) -> MeasuredSteps:
    """The last steps of a log that ends in its warm-up, as the best that it has."""
    usable = [one for one in found if set(one.set_apart) == {Reason.WARM_UP}]
    if not usable:
        batches = sorted({one.logged.global_batch for one in found} - {0})
        got = f"; its lines are of global batch {', '.join(f'{batch:,}' for batch in batches[:5])}" if batches else ""
        raise InvalidInput(f"no line of the log is a steady step of this job{got}", log.source)
    last = usable[-1]
    steps = tuple(
        MeasuredStep(logged=one.logged, step_s=one.step_s, set_apart=()) if one is last else one for one in found
    )
    return MeasuredSteps(steps=steps, notes=("the log ends in its warm-up: its last line is taken, and may be slow",))


def _without_outliers(found: Sequence[MeasuredStep]) -> tuple[MeasuredStep, ...]:
    times_s = np.array([one.step_s for one in found if one.is_steady])
    median_s = float(np.median(times_s))
    deviation_s = MAD_SCALE * float(np.median(np.abs(times_s - median_s)))
    bound_s = max(MAX_DEVIATIONS * deviation_s, LEAST_OUTLIER_FRAC * median_s)
    return tuple(
        MeasuredStep(logged=one.logged, step_s=one.step_s, set_apart=(Reason.OUTLIER,))
        if one.is_steady and abs(one.step_s - median_s) > bound_s
        else one
        for one in found
    )
