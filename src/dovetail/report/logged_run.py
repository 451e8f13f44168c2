"""A training log beside its prediction: the step, throughput and memory, what was set apart, and step by step."""

from __future__ import annotations

from itertools import groupby

from dovetail.accuracy.logged_run import LoggedRun, StepPart, step_label
from dovetail.accuracy.training_log import MEANINGS, MeasuredStep
from dovetail.hardware.heterogeneous import chip_names
from dovetail.hardware.measured import Profile
from dovetail.report.labels import counted, gain, number, percent, plan_in_brief
from dovetail.report.page import Section
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.units import format_bytes, format_s

NUM_SHOWN = 20  # lines of a log, steady ones


def logged_run_record(run: LoggedRun) -> Record:
    log, measured = run.log, run.measured
    lower_s, upper_s = measured.quartiles_s
    return {
        "source": log.source,
        "framework": log.framework,
        "model": run.workload.model.name,
        "chip": chip_names(run.cluster),
        "num_devices": run.cluster.num_devices,
        "global_batch": run.workload.global_batch,
        "seq": run.workload.seq,
        "plan": plan_in_brief(run.plan),
        "num_lines": log.num_lines,
        "num_step_lines": len(log.steps),
        "num_steady": len(measured.steady),
        "num_skipped_lines": len(log.bad_lines),
        "num_restarts": log.num_restarts,
        "num_checkpoints": log.num_checkpoints,
        "num_evaluations": log.num_evaluations,
        "is_run_mean": log.is_whole_run,
        "measured_s": measured.median_s,
        "lower_quartile_s": lower_s,
        "upper_quartile_s": upper_s,
        "predicted_s": run.predicted_s,
        "error_frac": run.error_frac,
        "interval_s": [run.interval.lower_s, run.interval.upper_s],
        "evidence": run.interval.evidence,
        "need_bytes": run.memory.need_bytes,
        "limit_bytes": run.memory.limit_bytes,
        "peaks": [
            {"what": one.what, "measured_bytes": one.measured_bytes, "predicted_bytes": one.predicted_bytes}
            for one in run.peaks
        ],
        "times": [
            {"what": one.what, "measured_s": one.measured_s, "predicted_s": one.predicted_s} for one in run.parts
        ],
        "steps": [_step_record(one, run) for one in measured.steps],
        "skipped_lines": [{"line": line, "why": why} for line, why in log.bad_lines],
        "notes": list(run.notes),
    }


def _step_record(one: MeasuredStep, run: LoggedRun) -> Record:
    return {
        "line": one.logged.line,
        "step": one.logged.step,
        "num_steps": one.logged.num_steps,
        "num_ranks": one.logged.num_ranks,
        "num_restarts": one.logged.attempt,
        "measured_s": one.step_s,
        "error_frac": run.predicted_s / one.step_s - 1.0,
        "reasons": [reason.value for reason in one.set_apart],
    }


def logged_run_sentence(run: LoggedRun) -> str:
    """How far off we are on a run, in a line."""
    steps = counted(len(run.measured.steady), "steady line")
    return (
        f"{run.log.source}: {run.log.framework}, median of {steps} {format_s(run.measured.median_s)}, predicted"
        f" {format_s(run.predicted_s)} ({gain(run.error_frac)})"
    )


def logged_run_tables(run: LoggedRun) -> tuple[Table, ...]:
    tables = [_summary(run)]
    if run.parts:
        tables.append(_parts_table(run))
    if any(one.set_apart for one in run.measured.steps):
        tables.append(_set_apart_table(run))
    tables.append(_steps_table(run))
    return tuple(tables)


def logged_run_sections(run: LoggedRun) -> tuple[Section, ...]:
    """The same for a page."""
    return tuple(Section(title=table.title, tables=(table,)) for table in logged_run_tables(run))


def _summary(run: LoggedRun) -> Table:
    median_s, (lower_s, upper_s) = run.measured.median_s, run.measured.quartiles_s
    devices, sample = run.cluster.num_devices, run.workload.model.sample
    measured_rate, predicted_rate = (run.tokens_per_step / time_s / devices for time_s in (median_s, run.predicted_s))
    rows = [
        ("step", format_s(median_s), format_s(run.predicted_s), gain(run.error_frac)),
        (f"{sample}/s per device", number(measured_rate), number(predicted_rate), gain(1 / (1 + run.error_frac) - 1)),
    ]
    for one in run.peaks:
        error = gain(one.predicted_bytes / one.measured_bytes - 1)
        rows.append((f"peak {one.what}", format_bytes(one.measured_bytes), format_bytes(one.predicted_bytes), error))
    job = f"{run.workload.model.name} on {devices:,} x {chip_names(run.cluster)}"
    is_inside = run.interval.lower_s <= median_s <= run.interval.upper_s
    notes = [
        f"{job}, {run.workload.global_batch:,} samples per step: {plan_in_brief(run.plan)}",
        f"measured is the median of {counted(len(run.measured.steady), 'steady line')} of {_counted_lines(run)};"
        f" half of them are from {format_s(lower_s)} to {format_s(upper_s)}",
        f"90 % interval of the prediction {run.interval.bounds}: the median is {'inside' if is_inside else 'outside'}",
        *(f"- {note}" for note in run.notes),
        *([f"- {_unfit(run)}"] if not run.memory.fits else []),
    ]
    return Table(
        title=f"{run.log.source}: {run.log.framework}",
        columns=("", "measured", "predicted", "error"),
        rows=tuple(rows),
        align="lrrr",
        notes=tuple(notes),
    )


def _counted_lines(run: LoggedRun) -> str:
    log = run.log
    events = ((log.num_restarts, "restart"), (log.num_checkpoints, "checkpoint"), (log.num_evaluations, "evaluation"))
    words = [counted(len(log.steps), "line"), *(counted(count, noun) for count, noun in events if count)]
    if log.bad_lines:
        words.append(f"{counted(len(log.bad_lines), 'line')} not read")
    return " with ".join((words[0], ", ".join(words[1:]))) if words[1:] else words[0]


def _unfit(run: LoggedRun) -> str:
    need, limit = format_bytes(run.memory.need_bytes), format_bytes(run.memory.limit_bytes)
    return f"it ran, but by our count needs {need} of {limit}: check recompute, microbatch and ZeRO stage of the job"


def _parts_table(run: LoggedRun) -> Table:
    return Table(
        title=f"{run.log.source}: where a step's time goes on the device",
        columns=("", "measured", "predicted", "error"),
        rows=tuple(_part_row(one) for one in run.parts),
        align="lrrr",
        notes=("measured is the median of traced steps; predicted is of a device of the slowest stage",),
    )


def _part_row(one: StepPart) -> tuple[str, ...]:
    error = gain(one.predicted_s / one.measured_s - 1) if one.measured_s > 0 else ""
    return (one.what, _time(one.measured_s), _time(one.predicted_s), error)


def _time(part_s: float) -> str:
    return format_s(part_s) if part_s > 0 else "-"


def _set_apart_table(run: LoggedRun) -> Table:
    """Lines by reason, those in a row together."""
    apart = [one for one in run.measured.steps if one.set_apart]
    rows = []
    for reasons, some in groupby(apart, key=lambda one: one.set_apart):
        same = list(some)
        labels = step_label(same[0].logged) if len(same) == 1 else f"{step_label(same[0].logged)}, {len(same) - 1} more"
        times = [one.step_s for one in same]
        rows.append((labels, ", ".join(reasons), format_s(min(times)), format_s(max(times))))
    shown = rows[:NUM_SHOWN]
    found = dict.fromkeys(reason for one in apart for reason in one.set_apart)
    more = (f"and {len(rows) - NUM_SHOWN} more",) if len(rows) > NUM_SHOWN else ()
    return Table(
        title=f"{run.log.source}: set apart, not in the median",
        columns=("steps", "why", "from", "to"),
        rows=tuple(shown),
        align="llrr",
        notes=(*more, *(f"{reason}: {MEANINGS[reason]}" for reason in found)),
    )


def _steps_table(run: LoggedRun) -> Table:
    steady = run.measured.steady
    shown = steady[:NUM_SHOWN]
    rows = tuple(
        (
            step_label(one.logged),
            str(one.logged.line),
            format_s(one.step_s),
            format_s(run.predicted_s),
            gain(run.predicted_s / one.step_s - 1),
        )
        for one in shown
    )
    rest = len(steady) - len(shown)
    worst = max(steady, key=lambda one: abs(run.predicted_s / one.step_s - 1))
    off = percent(abs(run.predicted_s / worst.step_s - 1))
    more = (f"and {counted(rest, 'steady line')} more; --json has all",) if rest else ()
    return Table(
        title=f"{run.log.source}: steady steps",
        columns=("steps", "line", "measured", "predicted", "error"),
        rows=rows,
        align="lrrrr",
        notes=(*more, f"furthest off, by {off}: {step_label(worst.logged)}"),
    )


def traced_steps_record(profile: Profile) -> Record:
    """The whole steps of a trace that no job was named for."""
    return {
        "source": profile.source,
        "steps": [
            {
                "step": one.number,
                "step_s": one.step_s,
                "compute_s": one.compute_s,
                "collective_s": one.collective_s,
                "exposed_s": one.exposed_s,
                "idle_s": one.idle_s,
            }
            for one in profile.steps
        ],
    }


def traced_steps_table(profile: Profile) -> Table:
    """Steps of a trace alone, as measured."""
    rows = tuple(
        (
            str(one.number),
            *(_time(part_s) for part_s in (one.step_s, one.compute_s, one.collective_s, one.exposed_s, one.idle_s)),
        )
        for one in profile.steps[:NUM_SHOWN]
    )
    rest = len(profile.steps) - len(rows)
    more = (f"and {counted(rest, 'step')} more; --json has all",) if rest else ()
    return Table(
        title=f"{profile.source}: whole steps",
        columns=("step", "time", "compute", "collectives", "exposed", "idle"),
        rows=rows,
        align="rrrrrr",
        notes=(*more, "give the job by --spec FILE or --model, --cluster and --plan, to compare with a prediction"),
    )
