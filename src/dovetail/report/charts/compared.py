"""Jobs beside each other: where the time of each goes, and what memory each needs; of a sweep, curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dovetail.accuracy.evidence import interval_of
from dovetail.accuracy.residuals import Residual
from dovetail.evaluate import Outcome
from dovetail.report.charts.bars import stacked
from dovetail.report.charts.chart import Chart, axis, layout, said
from dovetail.report.charts.palette import SERIES, TIME
from dovetail.report.charts.plan_scatter import PlanPoint, points_scatter
from dovetail.report.charts.stage_time import LABELS
from dovetail.report.compared import ComparedJob, Refused, label_of
from dovetail.report.labels import percent
from dovetail.report.memory import unit_of_bytes
from dovetail.report.table import Table
from dovetail.step.work import COMM_AXES
from dovetail.units import format_bytes, format_rounded_s, format_s

MOST_BARS = 40  # jobs that bars can be read of; more are the table's


def time_by_job(jobs: Sequence[ComparedJob]) -> tuple[Chart, ...]:
    """A stacked bar for every job that has a step; nothing where none has, or too many."""
    timed = [(f"{place}: {label_of(job)}", job.result) for place, job in enumerate(jobs, start=1) if job.fits]
    outcomes = [(label, result) for label, result in timed if isinstance(result, Outcome)]
    if not 1 <= len(outcomes) <= MOST_BARS:
        return ()
    parts = [parts_s(outcome) for _, outcome in outcomes]
    kinds = [kind for kind in TIME if any(part.get(kind, 0.0) > 0 for part in parts)]
    labels = [label for label, _ in outcomes]
    columns = {LABELS[kind]: (TIME[kind], [part[kind] for part in parts]) for kind in kinds}
    quickest, outcome = min(outcomes, key=lambda one: one[1].step.step_s)
    return (
        Chart(
            name="time-by-job",
            title="Time of one step, by job",
            alt=f"The shortest step is {format_rounded_s(outcome.step.step_s, 3)}, of {quickest}.",
            figure=stacked(labels, columns, "time of one step", tickformat="~s", ticksuffix="s"),
            table=Table(
                title="Time of one step, by job",
                columns=("", *labels),
                rows=tuple((LABELS[kind], *(format_s(part[kind]) for part in parts)) for kind in kinds),
                align="l" + "r" * len(labels),
            ),
        ),
    )


def parts_s(outcome: Outcome) -> dict[str, float]:
    """Seconds of a step's slowest stage by kind, in the order that they are stacked in; they add up to the step."""
    step = outcome.step
    exposed_s = {axis: float(comm.exposed_s) for axis, comm in zip(COMM_AXES, step.comm, strict=True)}
    return {
        "compute": float(step.compute_s - step.recompute_s),
        "recompute": float(step.recompute_s),
        "host": float(step.host_s),
        **exposed_s,
        "offload": float(step.offload.exposed_s),
        "update": float(step.update_s),
        "idle": float(step.bubble_s),
    }


def memory_by_job(jobs: Sequence[ComparedJob]) -> tuple[Chart, ...]:
    """What the fullest device of every job needs, over what it may use: bars that lie over each other."""
    held = [
        (f"{place}: {label_of(job)}", job.result.memory)
        for place, job in enumerate(jobs, start=1)
        if not isinstance(job.result, Refused)
    ]
    if not 1 <= len(held) <= MOST_BARS:
        return ()
    labels = [label for label, _ in held]
    fullest = max(held, key=lambda one: one[1].need_bytes / one[1].limit_bytes)
    scale_bytes, symbol = unit_of_bytes(max(max(use.need_bytes, use.limit_bytes) for _, use in held))
    bars: list[dict[str, Any]] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": [said(label) for label in labels],
            "x": values,
            "width": width,
            "marker": {"color": colour},
            "hovertemplate": f"{name}<br>%{{y}}: %{{x:.2f}} {symbol}<extra></extra>",
        }
        for name, values, width, colour in (
            ("usable", [use.limit_bytes / scale_bytes for _, use in held], 0.8, "#b9b9b9"),
            ("needed", [use.need_bytes / scale_bytes for _, use in held], 0.45, SERIES[0]),
        )
    ]
    share = percent(fullest[1].need_bytes / fullest[1].limit_bytes, 0)
    return (
        Chart(
            name="memory-by-job",
            title="Memory of the fullest device, by job",
            alt=f"The fullest is {fullest[0]}: it needs {share} of what is usable.",
            figure={
                "data": bars,
                "layout": layout(
                    barmode="overlay",
                    height=110 + 34 * len(labels),
                    xaxis=axis(f"memory per device, {symbol}", rangemode="tozero"),
                    yaxis={"type": "category", "autorange": "reversed", "automargin": True},
                ),
            },
            table=Table(
                title="Memory of the fullest device, by job",
                columns=("", "needed", "usable"),
                rows=tuple((label, format_bytes(use.need_bytes), format_bytes(use.limit_bytes)) for label, use in held),
                align="lrr",
            ),
        ),
    )


def curves_by_axis(jobs: Sequence[ComparedJob], axes: Sequence[str]) -> tuple[Chart, ...]:
    """Step time over the first axis of a sweep, a curve for every choice of the others; nothing of fewer than two."""
    points = [(dict(job.settings), job.result) for job in jobs if isinstance(job.result, Outcome)]
    if len(points) < 2 or not axes:
        return ()
    curves: dict[str, list[tuple[Any, float]]] = {}
    for settings, outcome in points:
        others = ", ".join(f"{key} {settings[key]}" for key in axes[1:]) or "step time"
        curves.setdefault(others, []).append((settings[axes[0]], float(outcome.step.step_s)))
    best_settings, best = min(points, key=lambda one: one[1].step.step_s)
    what = ", ".join(f"{key} {best_settings[key]}" for key in axes)
    data = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": said(name),
            "x": [said(str(x)) for x, _ in curve],
            "y": [y for _, y in curve],
            "line": {"color": SERIES[place % len(SERIES)], "width": 2},
            "hovertemplate": f"{said(name)}<br>%{{x}}: %{{y:.4~s}}s<extra></extra>",
        }
        for place, (name, curve) in enumerate(curves.items())
    ]
    return (
        Chart(
            name="step-over-axis",
            title=f"Time of one step over {axes[0]}",
            alt=f"The shortest step is {format_rounded_s(best.step.step_s, 3)}, at {what}.",
            figure={
                "data": data,
                "layout": layout(
                    height=400,
                    showlegend=len(curves) > 1,
                    xaxis=axis(axes[0], type="category"),
                    yaxis=axis("time of one step", rangemode="tozero", tickformat="~s", ticksuffix="s"),
                ),
            },
            table=Table(
                title=f"Time of one step over {axes[0]}",
                columns=("", axes[0], "time"),
                rows=tuple((name, str(x), format_s(y)) for name, curve in curves.items() for x, y in curve),
                align="lrr",
            ),
        ),
    )


def jobs_scatter(jobs: Sequence[ComparedJob], residuals: Sequence[Residual] = ()) -> tuple[Chart, ...]:
    """Jobs that fit by time and memory, each with the interval of its step; nothing of fewer than two, or of devices
    of unlike memory.
    """
    points, limits = [], set()
    for place, job in enumerate(jobs, start=1):
        if not isinstance(job.result, Outcome):
            continue
        found = job.result
        limits.add(found.memory.limit_bytes)
        bounds = (0.0, 0.0)
        if residuals and not found.workload.is_forward_only:
            interval = interval_of(
                found.workload, found.cluster, found.plan, found.step.step_s, residuals, job.selection
            )
            bounds = (interval.lower_s, interval.upper_s)
        points.append(
            PlanPoint(
                name=f"{place}: {label_of(job)}", step_s=float(found.step.step_s), need_bytes=found.memory.need_bytes,
                lower_s=bounds[0], upper_s=bounds[1],
            )
        )  # fmt: skip
    if len(limits) != 1 or len(points) < 2:
        return ()
    fastest = min(points, key=lambda one: one.step_s)
    marked = [replace(one, is_best=one is fastest) for one in points]
    return points_scatter(marked, limits.pop(), noun="job")
