"""Memory per device over one step: what it always holds, and activations of the microbatches that are in flight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from dovetail.evaluate import MemoryUse, Outcome
from dovetail.parallel.memory import StageMemory, moments
from dovetail.parallel.sharding import shard
from dovetail.report.charts.chart import Chart, Figure, axis, layout
from dovetail.report.charts.palette import GREEN, MEMORY
from dovetail.report.charts.stage_memory import LABELS, held_bytes
from dovetail.report.labels import counted
from dovetail.report.memory import unit_of_bytes
from dovetail.report.table import Table
from dovetail.step.pass_order import Kind
from dovetail.step.pipelines import pipeline_shape, pipelines, schedule_name
from dovetail.step.stage_steps import MOST_PLAYED, num_played
from dovetail.step.step_events import StepEvents, step_events
from dovetail.units import format_bytes, format_rounded_s, format_s

STANDING = ("runtime", "weights", "optimizer", "gradients", "buffers", "reserve")  # from the bottom up
MOST_BANDS = 12  # microbatches in flight that are drawn one by one
MOST_POINTS = 400
SHORT_FRAC = 1e-7  # style: a tolerance, of a step: one pass ends as the next begins, but for rounding
LIGHT_GREEN = "#5cc9a7"  # every other microbatch, so that neighbours can be told apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What a device holds from `begin_s` on, with activations of so many microbatches."""

    begin_s: float
    memory: StageMemory
    in_flight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTrack:
    """Memory per device of one stage from the beginning of a step to its end."""

    stage: int
    moments: tuple[Moment, ...]
    end_s: float
    runtime_bytes: float

    @property
    def peak(self) -> Moment:
        return max(self.moments, key=lambda one: float(one.memory.reserved_bytes))

    @property
    def peak_bytes(self) -> float:
        return float(self.peak.memory.reserved_bytes) + self.runtime_bytes


def memory_track(outcome: Outcome, events: StepEvents, stage: int) -> MemoryTrack:
    """`stage` of `outcome` over a step: the model's moments, where the schedule has them.

    What a device holds of a microbatch it holds from its forward pass on, until its backward pass or its weight
    gradient ends. Buffers that come and go within a pass, and what the allocator holds beside, are taken at their
    fullest.
    """
    precision, plan = outcome.workload.precision, outcome.plan
    sharded = shard(outcome.workload.training_graph(), plan)
    shape = pipeline_shape(plan, sharded.num_microbatches)
    most = float(pipelines[schedule_name(plan)].in_flight(stage, shape))
    begin, at_layer, at_end, update = moments(sharded, stage, precision, most)
    rows, timeline = events.timeline.order.devices[stage], events.timeline
    chunks = timeline.order.chunks_per_device
    starts_s, ends_s = timeline.starts_s[stage].tolist(), timeline.ends_s[stage].tolist()
    changes = []  # in the order of passes: what ends as another begins is gone by then
    for kind, start_s, end_s in zip(rows[:, 0].tolist(), starts_s, ends_s, strict=True):
        if kind == Kind.FORWARD:
            changes.append((start_s, 1))
        elif kind in (Kind.BACKWARD, Kind.WEIGHT):
            changes.append((end_s, -1))
    found = [Moment(begin_s=0.0, memory=replace(begin, activations_bytes=0.0), in_flight=0.0)]
    held = 0
    for change_s, change in changes:
        held += change
        share = held / chunks / most
        kept = replace(begin, activations_bytes=begin.activations_bytes * share)
        found.append(Moment(begin_s=max(change_s, found[-1].begin_s), memory=kept, in_flight=held / chunks))
    first_s, last_s = starts_s[-1], ends_s[-1]
    found = [one for one in found if one.begin_s < last_s]
    found.append(Moment(begin_s=(first_s + last_s) / 2, memory=at_layer, in_flight=1 / chunks))
    found.append(Moment(begin_s=first_s + 0.75 * (last_s - first_s), memory=at_end, in_flight=0.0))
    update_s = events.end_s - float(events.assembly.update_s[0])
    found.append(Moment(begin_s=update_s, memory=update, in_flight=0.0))
    ordered = tuple(sorted(found, key=lambda one: one.begin_s))
    return MemoryTrack(stage=stage, moments=ordered, end_s=events.end_s, runtime_bytes=outcome.memory.runtime_bytes)


def memory_over_time(outcome: Outcome, stage: int | None = None) -> tuple[Chart, ...]:
    """Of a device of `stage`, or of the fullest; none of steps of more passes than are played."""
    graph = outcome.workload.training_graph()
    if outcome.workload.is_forward_only or num_played(graph, outcome.plan) > MOST_PLAYED:
        return ()
    events = step_events(graph, outcome.plan, outcome.cluster, outcome.workload.precision)
    use = outcome.memory
    chosen = use.fullest.stage if stage is None else stage
    return (_chart(memory_track(outcome, events, chosen), use, events.num_stages),)


def _chart(track: MemoryTrack, use: MemoryUse, num_stages: int) -> Chart:
    limit_bytes = use.limits_bytes[track.stage if len(use.limits_bytes) > 1 else 0]
    scale_bytes, symbol = unit_of_bytes(max(track.peak_bytes, limit_bytes))
    shown = _thinned(track.moments)
    times_s = [*(one.begin_s for one in shown), track.end_s]
    data = list(_areas(shown, use, times_s, scale_bytes, symbol))
    data.append(_peak(track, scale_bytes, symbol))
    whose = f"stage {track.stage}" if num_stages > 1 else "the step"
    in_flight = track.peak.in_flight
    when = f" after {format_rounded_s(track.peak.begin_s, 3)}" if track.peak.begin_s else ""
    with_what = f", with {_microbatches(in_flight)} in flight" if in_flight >= 1 else ""
    return Chart(
        name="memory-over-time",
        title=f"Memory over one step, per device{f' of stage {track.stage}' if num_stages > 1 else ''}",
        alt=f"Memory of {whose} peaks at {format_bytes(track.peak_bytes)}{when}{with_what};"
        f" {format_bytes(limit_bytes)} are usable.",
        figure={"data": data, "layout": _layout(track, limit_bytes / scale_bytes, symbol, scale_bytes)},
        table=_table(shown, use, scale_bytes, symbol),
    )


def _microbatches(in_flight: float) -> str:
    return counted(int(in_flight), "microbatch") if in_flight == int(in_flight) else f"{in_flight:.2g} microbatches"


def _thinned(found: Sequence[Moment]) -> list[Moment]:
    """All that last a while, or of very many the fullest of each short stretch."""
    least_s = SHORT_FRAC * found[-1].begin_s
    lasting = [one for one, after in pairwise(found) if after.begin_s - one.begin_s > least_s]
    lasting.append(found[-1])
    if len(lasting) <= MOST_POINTS:
        return lasting
    parts = np.array_split(np.arange(len(lasting)), MOST_POINTS)
    best = (max(part.tolist(), key=lambda place: float(lasting[place].memory.total_bytes)) for part in parts)
    return [lasting[place] for place in sorted(best)]


def _areas(
    shown: Sequence[Moment], use: MemoryUse, times_s: list[float], scale_bytes: float, symbol: str
) -> Iterator[Figure]:
    """One area on the other; the last holds to the end of the step."""
    held = [held_bytes(one.memory, use) for one in shown]
    below = np.zeros(len(shown))
    for kind in STANDING:
        own = np.array([one[kind] for one in held]) / scale_bytes
        if own.max() <= 0:
            continue
        below = below + own
        label = LABELS.get(kind, kind)
        yield _area(label, MEMORY[kind][0], times_s, below, [f"{value:.2f} {symbol}" for value in own])
    activations = np.array([one["activations"] for one in held]) / scale_bytes
    flights = np.array([one.in_flight for one in shown])
    most = int(np.ceil(flights.max()))
    if activations.max() <= 0:
        return
    bands = range(1, most + 1) if 1 < most <= MOST_BANDS else (most,)
    for band in bands:
        share = np.divide(np.minimum(flights, band), flights, out=np.ones_like(flights), where=flights > 0)
        hover = [
            f"{value:.2f} {symbol} in all, {flight:g} in flight"
            for value, flight in zip(activations, flights, strict=True)
        ]
        name = "activations, by microbatch" if len(bands) > 1 else "activations"
        area = _area(name, GREEN if band % 2 else LIGHT_GREEN, times_s, below + activations * share, hover)
        yield area | {"legendgroup": "activations", "showlegend": band == bands[0]}


def _area(name: str, colour: str, times_s: list[float], tops: np.ndarray, hover: list[str]) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": times_s,
        "y": [round(float(top), 6) for top in (*tops, tops[-1])],
        "text": [*hover, hover[-1]],
        "fill": "tonexty",
        "fillcolor": colour,
        "line": {"shape": "hv", "width": 0, "color": colour},
        "hovertemplate": f"{name}: %{{text}}<br>at %{{x:.4~s}}s<extra></extra>",
    }


def _peak(track: MemoryTrack, scale_bytes: float, symbol: str) -> Figure:
    peak = track.peak_bytes / scale_bytes
    is_late = track.peak.begin_s > 0.6 * track.end_s
    return {
        "type": "scatter",
        "mode": "markers+text",
        "name": "peak",
        "showlegend": False,
        "x": [track.peak.begin_s],
        "y": [peak],
        "text": [f"peak {peak:.1f} {symbol}"],
        "textposition": "top left" if is_late else "top right",
        "marker": {"color": "#d55e00", "size": 8},
        "hovertemplate": "%{text}<extra></extra>",
    }


def _layout(track: MemoryTrack, limit: float, symbol: str, scale_bytes: float) -> Figure:
    line = {
        "type": "line", "name": f"usable, {limit:.1f} {symbol}", "showlegend": True, "x0": 0.0, "x1": track.end_s,
        "y0": limit, "y1": limit, "line": {"width": 2, "dash": "dash"},
    }  # fmt: skip
    most = 1.12 * max(limit, track.peak_bytes / scale_bytes)
    return layout(
        height=400,
        showlegend=True,
        shapes=[line],
        xaxis=axis("since the step began", tickformat="~s", ticksuffix="s", range=[0.0, track.end_s]),
        yaxis=axis(f"memory per device, {symbol}", range=[0.0, most]),
    )


def _table(shown: Sequence[Moment], use: MemoryUse, scale_bytes: float, symbol: str) -> Table:
    """Where it begins, where it is fullest, and how it ends."""
    fullest = max(shown, key=lambda one: float(one.memory.reserved_bytes))
    kinds = ("weights", "optimizer", "gradients", "activations", "buffers", "reserve", "runtime")
    rows = tuple(
        (
            label,
            format_s(one.begin_s),
            f"{one.in_flight:g}",
            *(f"{held_bytes(one.memory, use)[kind] / scale_bytes:.2f}" for kind in kinds),
            f"{(float(one.memory.reserved_bytes) + use.runtime_bytes) / scale_bytes:.2f}",
        )
        for label, one in (("first", shown[0]), ("fullest", fullest), ("update", shown[-1]))
    )
    return Table(
        title=f"Memory per device, {symbol}",
        columns=("", "from", "in flight", *(LABELS.get(kind, kind) for kind in kinds), "in all"),
        rows=rows,
        align="l" + "r" * (len(kinds) + 3),
    )
