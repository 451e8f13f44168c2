"""A training log or a profiled run beside the prediction of its job: step by step, in sum, and in memory."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.accuracy.evidence import Interval, interval_of
from dovetail.accuracy.prepared import Prepared
from dovetail.accuracy.residuals import Residual
from dovetail.accuracy.training_log import LoggedStep, MeasuredSteps, Pace, TrainingLog, measured_steps
from dovetail.evaluate import MemoryUse, evaluate
from dovetail.hardware.chip import Chip
from dovetail.hardware.heterogeneous import AnyCluster, chips_of
from dovetail.hardware.measured import Profile, ProfiledStep
from dovetail.parallel.plan import Plan
from dovetail.step.step import Step, training_step
from dovetail.units import GIBI
from dovetail.workload.graph import FloatArray
from dovetail.workload.workload import Workload

PROFILER = "PyTorch profiler"
MAX_REASONS, MAX_LINES = 12, 5  # shown of lines that cannot be read


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """Peak memory per device as a log says it, `what` of the allocator it is, and what we say of the same."""

    what: str
    measured_bytes: float
    predicted_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPart:
    """Seconds of a step that the device spent on one thing: the median of traced steps, and ours."""

    what: str
    measured_s: float
    predicted_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRun:
    """What a run measured, and what is predicted of its job; `notes` say what was assumed, and what does not agree."""

    log: TrainingLog
    measured: MeasuredSteps
    workload: Workload
    cluster: AnyCluster
    plan: Plan
    predicted_s: float
    interval: Interval
    memory: MemoryUse
    peaks: tuple[Peak, ...] = ()
    parts: tuple[StepPart, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def error_frac(self) -> float:
        """Of the median steady step; above 0 where we say more than was measured."""
        return self.predicted_s / self.measured.median_s - 1.0

    @property
    def tokens_per_step(self) -> int:
        is_of_tokens = self.workload.model.sample == "tokens"
        return self.workload.global_batch * (self.workload.seq if is_of_tokens else 1)


def logged_run(
    log: TrainingLog,
    workload: Workload,
    cluster: AnyCluster,
    plan: Plan,
    residuals: Sequence[Residual],
    notes: tuple[str, ...] = (),
    traced: tuple[ProfiledStep, ...] = (),
) -> LoggedRun:
    """`log` beside what is predicted of this job; a job that would not fit by our count is predicted all the same."""
    measured = measured_steps(log, workload.global_batch, workload.seq, cluster.num_devices)
    found = evaluate(workload, cluster, plan, has_changes=False)
    step = getattr(found, "step", None)
    if step is None:  # it ran, so that it does not fit is our count's fault, or the job's that was named
        step = training_step(workload.training_graph(), found.plan, cluster, workload.precision)
    step_s = float(step.step_s)
    return LoggedRun(
        log=log,
        measured=measured,
        workload=workload,
        cluster=cluster,
        plan=found.plan,
        predicted_s=step_s,
        interval=interval_of(workload, cluster, found.plan, step_s, residuals),
        memory=found.memory,
        peaks=_peaks(log, found.memory),
        parts=_parts(step, traced) if traced else (),
        notes=(*log.notes, *measured.notes, *notes),
    )


def _peaks(log: TrainingLog, memory: MemoryUse) -> tuple[Peak, ...]:
    """A log is of some ranks only, so its highest is put beside the fullest stage."""
    allocated, reserved = log.peaks_bytes
    fullest = memory.fullest
    pairs = (("allocated", allocated, fullest.total_bytes), ("reserved", reserved, fullest.reserved_bytes))
    return tuple(
        Peak(what=what, measured_bytes=measured, predicted_bytes=float(predicted))
        for what, measured, predicted in pairs
        if measured > 0
    )


def _parts(step: Step, traced: tuple[ProfiledStep, ...]) -> tuple[StepPart, ...]:
    """Where the device's time went, by what a trace can tell apart."""
    collective_s = sum(float(one.exposed_s) + float(one.hidden_s) for one in step.comm)
    predicted = (
        ("compute kernels", "compute_s", float(step.compute_s) + float(step.update_s)),
        ("collectives", "collective_s", collective_s),
        ("collectives, exposed", "exposed_s", sum(float(one.exposed_s) for one in step.comm)),
        ("idle", "idle_s", float(step.bubble_s) + float(step.host_s)),
    )
    return tuple(
        StepPart(what=what, measured_s=statistics.median(getattr(one, name) for one in traced), predicted_s=part_s)
        for what, name, part_s in predicted
    )


def log_of_profile(profile: Profile) -> TrainingLog:
    """The whole steps of a trace as a log; profilers are set to wait out the warm-up, so none is set apart."""
    steps = (
        LoggedStep(line=place, step=max(1, one.number), pace=Pace(step_s=one.step_s))
        for place, one in enumerate(profile.steps, start=1)
    )
    job = {"cluster": {"devices": profile.num_ranks}} if profile.num_ranks > 1 else {}
    return TrainingLog(
        source=profile.source,
        framework=PROFILER,
        num_lines=len(profile.steps),
        steps=tuple(steps),
        device=profile.device,
        job=job,
    )


def prepared_run(run: LoggedRun) -> tuple[Prepared, ...]:
    """The steady steps as a set of measurements, and the peak memory as another; no bar holds for either."""
    steady = run.measured.steady
    chip = chips_of(run.cluster)[0]

    def predicted(_: Chip) -> FloatArray:
        return np.full(len(steady), run.predicted_s)

    time = Prepared(
        name=run.log.source,
        chip=chip,
        unit="s",
        kinds=("step",) * len(steady),
        whats=tuple(step_label(one.logged) for one in steady),
        measured=np.array([one.step_s for one in steady]),
        predicted=predicted,
        is_of_chip=False,
        is_of_cluster=True,
        skipped=(*set_apart_labels(run.measured), *bad_line_labels(run.log)),
    )
    if not run.peaks:
        return (time,)
    memory = Prepared(
        name=f"{run.log.source} memory",
        chip=chip,
        unit="GiB",
        kinds=tuple(one.what for one in run.peaks),
        whats=("on the fullest device",) * len(run.peaks),
        measured=np.array([one.measured_bytes / GIBI for one in run.peaks]),
        predicted=lambda _: np.array([one.predicted_bytes / GIBI for one in run.peaks]),
        is_of_chip=False,
        is_of_cluster=True,
    )
    return time, memory


def step_label(one: LoggedStep) -> str:
    again = f" of attempt {one.attempt + 1}" if one.attempt else ""
    first = one.step - one.num_steps + 1
    return f"{first:,} to {one.step:,}{again}" if one.num_steps > 1 else f"{one.step:,}{again}"


def set_apart_labels(measured: MeasuredSteps) -> tuple[tuple[str, int], ...]:
    """How many lines are set apart for each reason; a line that has several counts for the first."""
    counts = Counter(one.set_apart[0].value for one in measured.steps if one.set_apart)
    return tuple((f"{_lines(count)} set apart: {reason}", count) for reason, count in counts.items())


def bad_line_labels(log: TrainingLog) -> tuple[tuple[str, int], ...]:
    """How many lines look like a step and cannot be read, by reason, with the first of them."""
    lines: dict[str, list[int]] = {}
    for number, why in log.bad_lines:
        lines.setdefault(why, []).append(number)
    found = [(f"{_lines(len(where))} not read: {why} ({_numbers(where)})", len(where)) for why, where in lines.items()]
    others = sum(count for _, count in found[MAX_REASONS:])
    more = ((f"{_lines(others)} not read, for other reasons of this kind", others),) if others else ()
    return (*found[:MAX_REASONS], *more)


def _lines(count: int) -> str:
    return "line" if count == 1 else "lines"


def _numbers(lines: list[int]) -> str:
    shown = ", ".join(str(line) for line in lines[:MAX_LINES])
    return f"line{'s' if len(lines) > 1 else ''} {shown}{' ...' if len(lines) > MAX_LINES else ''}"
