"""Who computes, sends and waits when: the passes of every stage of a step, or of its beginning and its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dovetail.evaluate import Outcome
from dovetail.report.charts.chart import WIDE, Chart, Figure, axis, layout
from dovetail.report.charts.palette import GREY, PALE, PASSES, TIME, filled
from dovetail.report.labels import AXIS_LABELS, counted, percent
from dovetail.report.table import Table
from dovetail.step.pass_order import Kind
from dovetail.step.pipeline_events import Timeline
from dovetail.step.stage_steps import MOST_PLAYED, num_played
from dovetail.step.step_events import PIPELINE, Event, StepEvents, step_events
from dovetail.step.work import COMM_AXES
from dovetail.units import format_rounded_s, format_s

NAMES = {
    Kind.FORWARD: "forward",
    Kind.BACKWARD: "backward",
    Kind.INPUT: "input gradient",
    Kind.WEIGHT: "weight gradient",
}
ENDS = {"exchange": "waits for gradients", "offload": "copies to the host", "update": "optimizer"}
MOST_PASSES = 3000  # drawn at once: more are too fine to see and slow to draw
MOST_MICROBATCHES = 64  # of a stage, drawn in all
MOST_LANES = 40  # of communication; of more stages, those of the slowest alone are drawn
PASS_PX, LANE_PX, GAP_PX, MOST_PX = 22, 7, 8, 1100
FINE_FRAC = 1 / 300  # of what is shown: collectives nearer to each other than that are drawn as one


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """A stretch of the step that is drawn."""

    name: str
    title: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Where rows lie, in pixels from the top: passes of each stage, and under them lanes of communication."""

    tops: tuple[int, ...]
    lanes: tuple[tuple[str, ...], ...]
    height_px: int

    def pass_middle(self, stage: int) -> float:
        return self.tops[stage] + PASS_PX / 2

    def lane_middle(self, stage: int, axis_name: str) -> float:
        return self.tops[stage] + PASS_PX + LANE_PX * (self.lanes[stage].index(axis_name) + 0.5) + 1


def pipeline_timeline(outcome: Outcome) -> tuple[Chart, ...]:
    """Passes with the numbers of their microbatches, communication under them, and bubbles between them.

    One chart, or of long steps two: the beginning and the end. None of more passes than are played.
    """
    graph = outcome.workload.training_graph()
    if outcome.workload.is_forward_only or num_played(graph, outcome.plan) > MOST_PLAYED:
        return ()
    events = step_events(graph, outcome.plan, outcome.cluster, outcome.workload.precision)
    return tuple(_chart(outcome, events, window) for window in _windows(events))


def _windows(events: StepEvents) -> list[_Window]:
    found = events.timeline
    num_passes = sum(len(rows) for rows in found.order.devices)
    num_each = found.order.num_microbatches * found.order.chunks_per_device
    what = "The pipeline" if events.num_stages > 1 else "The step"
    if num_passes <= MOST_PASSES and num_each <= MOST_MICROBATCHES:
        return [_Window(name="pipeline", title=f"{what}, pass by pass", start_s=0.0, end_s=events.end_s)]
    shown = min(MOST_PASSES / 2 / num_passes, MOST_MICROBATCHES / 2 / num_each, 0.5)
    # Long enough to see the pipeline fill: until the last stage has begun its second backward pass.
    filled_s = max(float(starts[min(3, len(starts) - 1)]) for starts in found.starts_s)
    length_s = min(max(shown * found.pipeline_s, 1.15 * filled_s), found.pipeline_s)
    start_s = max(0.0, events.end_s - length_s)
    return [
        _Window(name="pipeline-begin", title=f"{what} as a step begins", start_s=0.0, end_s=length_s),
        _Window(name="pipeline-end", title=f"{what} as a step ends", start_s=start_s, end_s=events.end_s),
    ]


def _chart(outcome: Outcome, events: StepEvents, window: _Window) -> Chart:
    found = events.timeline
    gap_s = FINE_FRAC * (window.end_s - window.start_s)
    shown = [list(_shown(events, stage, window, gap_s)) for stage in range(events.num_stages)]
    rows = _rows(shown, int(outcome.step.slowest_stage))
    idle = [bubble_s / found.pipeline_s for bubble_s in found.bubble_s]
    message = f"{counted(len(idle), 'stage')} and {counted(found.order.num_microbatches, 'microbatch')}"
    if len(idle) > 1:
        least, most = percent(min(idle)), percent(max(idle))
        message += f"; between the first pass and the last, stages idle {least} to {most} of the time"
    if window.end_s - window.start_s < events.end_s:
        which = "last" if window.start_s else "first"
        part, whole = format_rounded_s(window.end_s - window.start_s, 3), format_rounded_s(events.end_s, 3)
        message += f". Shown are the {which} {part} of {whole}"
    elif not all(rows.lanes) and any(rows.lanes):
        message += f". Communication is drawn of stage {next(s for s, lanes in enumerate(rows.lanes) if lanes)}"
    data = [
        *_bubbles(found, rows, window),
        *(trace for kind in Kind if (trace := _passes(found, rows, window, kind))),
        *_step_end(shown, rows),
        *_lanes(shown, rows),
    ]
    return Chart(
        name=window.name,
        title=window.title,
        alt=f"{message}.",
        figure={"data": data, "layout": _layout(rows, window)},
        table=_table(found),
    )


def _shown(events: StepEvents, stage: int, window: _Window, gap_s: float) -> Iterator[Event]:
    """What a device of `stage` does beside its passes."""
    for event in (*events.communication(stage, gap_s), *_ends(events, stage)):
        if event.end_s > window.start_s and event.begin_s < window.end_s:
            yield event


def _ends(events: StepEvents, stage: int) -> Iterator[Event]:
    """What is sent to other stages, and what comes once a step."""
    if events.assembly.is_beside[0]:
        yield from events.sends(stage)
    yield from events.step_end(stage)


def _rows(shown: Sequence[Sequence[Event]], slowest: int) -> _Rows:
    axes = [tuple(one for one in COMM_AXES if any(_is_sent(e, one) for e in events)) for events in shown]
    if sum(map(len, axes)) > MOST_LANES or sum(map(len, shown)) > MOST_PASSES:
        axes = [lanes if stage == slowest else () for stage, lanes in enumerate(axes)]
    tops, at = [], 4
    for lanes in axes:
        tops.append(at)
        at += PASS_PX + LANE_PX * len(lanes) + GAP_PX
    return _Rows(tops=tuple(tops), lanes=tuple(axes), height_px=at)


def _is_sent(event: Event, axis_name: str) -> bool:
    return event.category == axis_name and event.track != PIPELINE


def _layout(rows: _Rows, window: _Window) -> Figure:
    labels = [f"stage {stage}" for stage in range(len(rows.tops))] if len(rows.tops) > 1 else ["passes"]
    marks = [rows.pass_middle(stage) for stage in range(len(rows.tops))]
    return layout(
        meta=WIDE,
        height=min(MOST_PX, 120 + rows.height_px),
        showlegend=True,
        barmode="overlay",
        xaxis=axis("since the step began", tickformat="~s", ticksuffix="s", range=[window.start_s, window.end_s]),
        yaxis={
            "automargin": True,
            "range": [rows.height_px, 0],
            "tickvals": marks,
            "ticktext": labels,
            "showgrid": False,
            "zeroline": False,
        },
    )


def _bar(
    name: str, look: tuple[str, str], thick_px: float, rows: list[tuple[float, float, float]], **said: object
) -> Figure:
    """`rows` are (middle, begin, end)."""
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": [middle for middle, _, _ in rows],
        "base": [begin_s for _, begin_s, _ in rows],
        "x": [end_s - begin_s for _, begin_s, end_s in rows],
        "width": thick_px,
        "marker": filled(look),
        "hovertemplate": f"{name} %{{text}}<br>from %{{base:.4~s}}s, %{{x:.4~s}}s<extra></extra>",
        "textposition": "none",
        **said,
    }


def _passes(found: Timeline, rows: _Rows, window: _Window, kind: Kind) -> Figure | None:
    """Passes of one kind, of all stages, that are in the window; each has the number of its microbatch."""
    shown = [
        (rows.pass_middle(stage), float(start_s), float(end_s), int(microbatch), int(chunk), stage)
        for stage, (passes, starts_s, ends_s) in enumerate(
            zip(found.order.devices, found.starts_s, found.ends_s, strict=True)
        )
        for (of_kind, chunk, microbatch, _), start_s, end_s in zip(passes.tolist(), starts_s, ends_s, strict=True)
        if of_kind == kind and end_s > window.start_s and start_s < window.end_s
    ]
    if not shown:
        return None
    has_chunks = found.order.chunks_per_device > 1
    marker = {**filled(PASSES[NAMES[kind]]), "line": {"width": 0.5, "color": "#ffffff"}}
    return _bar(
        NAMES[kind], PASSES[NAMES[kind]], PASS_PX, [row[:3] for row in shown],
        marker=marker,
        text=[str(row[3]) for row in shown],
        textposition="inside",
        insidetextanchor="middle",
        insidetextfont={"size": 10},
        textangle=0,
        customdata=[f"stage {row[5]}" + (f", chunk {row[4]}" if has_chunks else "") for row in shown],
        hovertemplate=f"{NAMES[kind]} of microbatch %{{text}}, %{{customdata}}<br>from %{{base:.4~s}}s, %{{x:.4~s}}s"
        "<extra></extra>",
    )  # fmt: skip


def _bubbles(found: Timeline, rows: _Rows, window: _Window) -> Iterator[Figure]:
    """Where a stage has nothing to do, between the first pass of the step and the last."""
    shown: list[tuple[float, float, float]] = []
    for stage, (starts_s, ends_s) in enumerate(zip(found.starts_s, found.ends_s, strict=True)):
        begins, ends = [0.0, *ends_s.tolist()], [*starts_s.tolist(), found.pipeline_s]
        for begin_s, end_s in zip(begins, ends, strict=True):
            is_seen = end_s > window.start_s and begin_s < window.end_s
            if is_seen and end_s - begin_s > FINE_FRAC / 4 * (window.end_s - window.start_s):
                shown.append((rows.pass_middle(stage), begin_s, end_s))
    if shown:
        marker = {**filled((PALE, "")), "opacity": 0.45}
        yield _bar("bubble", (PALE, ""), PASS_PX, shown, marker=marker, text=[""] * len(shown))


def _step_end(shown: Sequence[Sequence[Event]], rows: _Rows) -> Iterator[Figure]:
    """What stages do once a step, after their passes: it stands in the row of passes."""
    for category, name in ENDS.items():
        found = [
            (rows.pass_middle(stage), event.begin_s, event.end_s)
            for stage, events in enumerate(shown)
            for event in events
            if event.category == category and event.track == PIPELINE and event.end_s > event.begin_s
        ]
        if found:
            look = {"exchange": (PALE, "/"), "offload": TIME["offload"], "update": (GREY, ".")}[category]
            yield _bar(name, look, PASS_PX, found, text=[""] * len(found))


def _lanes(shown: Sequence[Sequence[Event]], rows: _Rows) -> Iterator[Figure]:
    """Collectives and sends, paler where those drawn as one run part of the time."""
    for axis_name in COMM_AXES:
        found = [
            (rows.lane_middle(stage, axis_name), event.begin_s, event.end_s, event)
            for stage, events in enumerate(shown)
            for event in events
            if _is_sent(event, axis_name) and axis_name in rows.lanes[stage]
        ]
        if found:
            name, busy = AXIS_LABELS[axis_name], [float(dict(one[3].notes).get("busy_frac", 1.0)) for one in found]
            marker = {**filled(TIME[axis_name]), "opacity": [round(0.3 + 0.7 * share, 2) for share in busy]}
            texts = [
                f"{one[3].name}" + (f", {percent(share, 0)} of" if share < 1 else ",")
                for one, share in zip(found, busy, strict=True)
            ]
            hover = f"{name}: %{{text}} %{{x:.4~s}}s<br>from %{{base:.4~s}}s<extra></extra>"
            bars = [one[:3] for one in found]
            yield _bar(name, TIME[axis_name], LANE_PX - 1, bars, text=texts, marker=marker, hovertemplate=hover)


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
