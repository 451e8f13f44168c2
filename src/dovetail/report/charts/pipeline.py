"""Who computes what when: the passes of every stage of a step, or of its beginning and its end."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.evaluate import Outcome
from dovetail.report.charts.bars import MOST_PX
from dovetail.report.charts.chart import Chart, Figure, axis, layout
from dovetail.report.charts.palette import PASSES, filled
from dovetail.report.labels import percent
from dovetail.report.table import Table
from dovetail.step.pass_order import Kind
from dovetail.step.pipeline_events import Timeline
from dovetail.step.stage_steps import MOST_PLAYED, num_played, step_timeline
from dovetail.units import format_s

NAMES = {
    Kind.FORWARD: "forward",
    Kind.BACKWARD: "backward",
    Kind.INPUT: "input gradient",
    Kind.WEIGHT: "weight gradient",
}
MOST_PASSES = 3000  # drawn at once: more are too fine to see and slow to draw
MOST_MICROBATCHES = 64  # of a stage, drawn in all
ROW_PX = 26


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """A stretch of the step that is drawn."""

    name: str
    title: str
    start_s: float
    end_s: float


def pipeline_timeline(outcome: Outcome) -> tuple[Chart, ...]:
    """One chart, or of long steps two; none of one stage, which runs pass after pass, or of too many passes to play."""
    graph = outcome.workload.training_graph()
    if outcome.plan.pipeline_parallel == 1 or num_played(graph, outcome.plan) > MOST_PLAYED:
        return ()
    found = step_timeline(graph, outcome.plan, outcome.cluster, outcome.workload.precision)
    return tuple(_chart(found, window) for window in _windows(found))


def _windows(found: Timeline) -> list[_Window]:
    num_passes = sum(len(rows) for rows in found.order.devices)
    num_each = found.order.num_microbatches * found.order.chunks_per_device
    if num_passes <= MOST_PASSES and num_each <= MOST_MICROBATCHES:
        return [_Window(name="pipeline", title="The pipeline, pass by pass", start_s=0.0, end_s=found.pipeline_s)]
    shown = min(MOST_PASSES / 2 / num_passes, MOST_MICROBATCHES / 2 / num_each, 0.5)
    # Long enough to see the pipeline fill: until the last stage has begun its second backward pass.
    filled_s = max(float(starts[min(3, len(starts) - 1)]) for starts in found.starts_s)
    length_s = min(max(shown * found.pipeline_s, 1.15 * filled_s), found.pipeline_s)
    return [
        _Window(name="pipeline-begin", title="The pipeline as a step begins", start_s=0.0, end_s=length_s),
        _Window(
            name="pipeline-end",
            title="The pipeline as the step ends",
            start_s=found.pipeline_s - length_s,
            end_s=found.pipeline_s,
        ),
    ]


def _chart(found: Timeline, window: _Window) -> Chart:
    idle = [bubble_s / found.pipeline_s for bubble_s in found.bubble_s]
    message = (
        f"{len(found.order.devices)} stages and {found.order.num_microbatches:,} microbatches; between the first pass"
        f" and the last, stages idle {percent(min(idle))} to {percent(max(idle))} of the time."
    )
    if window.end_s - window.start_s < found.pipeline_s:
        which = "last" if window.start_s else "first"
        message += f" Shown are the {which} {format_s(window.end_s - window.start_s)} of {format_s(found.pipeline_s)}."
    return Chart(
        name=window.name,
        title=window.title,
        alt=message,
        figure={
            "data": [trace for kind in Kind if (trace := _trace(found, window, kind))],
            "layout": _layout(len(found.order.devices), window),
        },
        table=_table(found),
    )


def _layout(num_stages: int, window: _Window) -> Figure:
    shown_s = [window.start_s, window.end_s]
    return layout(
        height=min(MOST_PX, 120 + ROW_PX * num_stages),
        showlegend=True,
        barmode="overlay",
        bargap=0.15,
        xaxis=axis("since the step began", tickformat="~s", ticksuffix="s", range=shown_s),
        yaxis={
            "type": "category",
            "automargin": True,
            "categoryorder": "array",
            "categoryarray": [f"stage {stage}" for stage in reversed(range(num_stages))],
        },
    )


def _trace(found: Timeline, window: _Window, kind: Kind) -> Figure | None:
    """Passes of one kind, of all stages, that are in the window."""
    rows = [
        (f"stage {stage}", float(start_s), float(end_s), int(microbatch), int(chunk))
        for stage, (passes, starts_s, ends_s) in enumerate(
            zip(found.order.devices, found.starts_s, found.ends_s, strict=True)
        )
        for (of_kind, chunk, microbatch, _), start_s, end_s in zip(passes.tolist(), starts_s, ends_s, strict=True)
        if of_kind == kind and end_s > window.start_s and start_s < window.end_s
    ]
    if not rows:
        return None
    has_chunks = found.order.chunks_per_device > 1
    words = [f"microbatch {row[3]}" + (f", chunk {row[4]}" if has_chunks else "") for row in rows]
    return {
        "type": "bar",
        "orientation": "h",
        "name": NAMES[kind],
        "y": [row[0] for row in rows],
        "base": [row[1] for row in rows],
        "x": [row[2] - row[1] for row in rows],
        "text": words,
        "textposition": "none",
        "marker": {**filled(PASSES[NAMES[kind]]), "line": {"width": 0.5, "color": "#ffffff"}},
        "hovertemplate": f"%{{y}}: {NAMES[kind]}, %{{text}}<br>from %{{base:.4~s}}s, %{{x:.4~s}}s<extra></extra>",
    }


def _table(found: Timeline) -> Table:
    spans = zip(found.starts_s, found.ends_s, found.busy_s, found.bubble_s, strict=True)
    rows = tuple(
        (
            f"stage {stage}",
            f"{len(starts_s):,}",
            format_s(float(starts_s[0])),
            format_s(float(ends_s[-1])),
            format_s(busy_s),
            percent(bubble_s / found.pipeline_s),
        )
        for stage, (starts_s, ends_s, busy_s, bubble_s) in enumerate(spans)
    )
    return Table(
        title="Passes of a step",
        columns=("", "passes", "first begins", "last ends", "works", "idles"),
        rows=rows,
        align="lrrrrr",
    )
