"""Collectives on a network: one, or a sweep with its curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from dovetail.comm.events.decided import critical_visits, visit_label
from dovetail.comm.library.on_group import SUMMARIES
from dovetail.comm.one_collective import NetworkAnswer
from dovetail.hardware.topology import Dimension
from dovetail.report.curves import Curve, Panel
from dovetail.report.figures import (
    Figure,
    FigureList,
    FigureRow,
    Figures,
    FigureTable,
    Part,
    Phrase,
    TextOnly,
    entries_record,
    figures_in,
    labelled,
    phrase,
)
from dovetail.report.labels import counted, gain, percent
from dovetail.report.links import link_records
from dovetail.report.plain import Record
from dovetail.report.table import bar
from dovetail.units import format_bytes, format_rate, format_s

SAME_FRAC = 5e-4  # style: a tolerance; less shows as 0.0 %
ENGINE_LABELS = {
    "one rank": "one device stands for all",
    "all ranks": "every device simulated, in the order of messages",
    "messages": "message by message, as ranks meet at links in different orders",
    "closed form": "closed form",
    "library": "as the library's measured times have it",
}


def network_record(answer: NetworkAnswer, *, has_links: bool = True) -> Record:
    """One answer; `has_links` adds what each link did."""
    return entries_record((*_point(answer), *(_links(answer) if has_links else ())))


def _point(
    answer: NetworkAnswer, *, has_groups: bool = False, has_memory: bool = False
) -> Iterator[Figure | TextOnly | Phrase]:
    """What is known of one collective; labels are those of a sweep, where groups and memory may have a column."""
    job, num_devices = answer.job, answer.job.network.graph.num_devices
    memory, closed_form_s = memory_bytes_per_s(answer), answer.closed_form_s[0] if answer.closed_form_s else None
    yield labelled("collective", job.collective)
    yield labelled("topology", job.network.name)
    yield Figure("size_bytes", job.payload_bytes, format_bytes(job.payload_bytes), "size")
    yield Figure("num_devices", num_devices, f"{num_devices:,}", "devices")
    yield Figure("num_ranks", answer.num_ranks, f"{answer.num_ranks:,}", "group" if has_groups else None)
    if has_memory:
        yield TextOnly("memory_bytes_per_s", format_rate(memory, "B/s"), "memory")
    yield Figure("num_groups", answer.num_groups)
    yield Figure("num_chunks", job.num_chunks)
    yield Figure("engine", answer.engine)
    yield Figure("algorithm", answer.algorithm or None)
    yield Figure("protocol", answer.protocol or None)
    yield Figure("num_channels", answer.num_channels or None)
    yield Figure("outside_evidence", [answer.outside_evidence] if answer.outside_evidence else [])
    yield Figure("time_s", answer.time_s, format_s(answer.time_s), "time")
    closed = Figure("closed_form_s", closed_form_s, "-" if closed_form_s is None else format_s(closed_form_s))
    yield phrase("{}", closed, label="closed form", align="r")
    yield Figure(
        "algorithm_bytes_per_s", answer.algorithm_bytes_per_s, format_rate(answer.algorithm_bytes_per_s, "B/s")
    )
    yield Figure("bus_bytes_per_s", answer.bus_bytes_per_s, format_rate(answer.bus_bytes_per_s, "B/s"), "bus bandwidth")
    yield Figure("jitter_s", answer.jitter_s or None)
    yield Figure("endpoint", job.endpoint.name)
    yield Figure("endpoint_s", answer.endpoint_s, format_s(answer.endpoint_s))
    yield Figure("memory_bytes_per_s", memory if math.isfinite(memory) else None)
    yield Figure("bound_s", answer.bound_s, format_s(answer.bound_s))
    reached = percent(answer.bound_frac) if answer.is_bounded else "-"
    yield Figure("bound_frac", answer.bound_frac, reached, "of bound")
    yield Figure("dimensions", [asdict(load) for load in answer.loads])
    for timeline in answer.timeline:
        yield Figure("num_events", timeline.num_events)
        yield Figure("num_messages", timeline.num_messages)


def _links(answer: NetworkAnswer) -> Iterator[Figure]:
    """What each link did, and what decided the time."""
    if answer.timeline:
        [timeline] = answer.timeline
        yield Figure("links", lambda: link_records(answer.job.network.graph, timeline, answer.time_s))
        yield Figure("critical_path", lambda: critical_records(answer))


def critical_records(answer: NetworkAnswer) -> list[dict[str, Any]]:
    """The phases that decided when the last rank was done, first to last; the endpoint, where that was later."""
    [timeline] = answer.timeline
    if answer.endpoint_s > timeline.end_s:
        return [{"task": f"endpoint {answer.job.endpoint.name}", "start_s": 0.0, "end_s": answer.endpoint_s}]
    found = []
    for visit in critical_visits(timeline):
        begin_s, end_s = timeline.visits_s[visit]
        found.append({"task": visit_label(timeline, visit), "start_s": begin_s, "end_s": end_s})
    return found or [{"task": answer.job.collective, "start_s": 0.0, "end_s": timeline.end_s}]


def network_figures(answer: NetworkAnswer) -> Figures:
    """One collective: its time beside the bound, and how busy links were."""
    by_key = {figure.key: figure for figure in figures_in(_point(answer))}
    among: Part = replace(by_key["num_ranks"], text=counted(answer.num_ranks, "device"))
    if answer.num_groups != 1:
        groups = Figure("num_groups", answer.num_groups, counted(answer.num_groups, "group"))
        among = phrase("{} of {}", groups, among)
    return (
        FigureTable(
            title=phrase("{} of {} over {}: {}", by_key["collective"], by_key["size_bytes"], among, by_key["topology"]),
            align="lrl",
            rows=(
                FigureRow(("time", by_key["time_s"], _how(answer))),
                *_beside(answer, by_key),
                FigureRow(("algorithm bandwidth", by_key["algorithm_bytes_per_s"], "payload over time")),
                *_bounds(answer, by_key),
                *(replace(figure, label=None) for figure in by_key.values()),
                *_links(answer),
            ),
        ),
        FigureList(
            key="dimensions",
            title="how busy links were" if answer.loads else "",
            items=answer.loads,
            figures=lambda load: (
                labelled("dimension", load.dimension, "dimension"),
                labelled("kind", load.kind, "kind"),
                Figure("num_devices", load.num_devices, f"{load.num_devices:,}", "devices"),
                Figure("mean_frac", load.mean_frac, percent(load.mean_frac), "links busy"),
                Figure("most_frac", load.most_frac, percent(load.most_frac), "busiest"),
                TextOnly("bar", bar(load.most_frac, 16), "", "l"),
            ),
        ),
    )


def _how(answer: NetworkAnswer) -> Part:
    """How a time was found."""
    if not answer.algorithm:
        return _engine_label(answer)
    library = answer.job.network.parts[0]
    name = SUMMARIES[library.library] if isinstance(library, Dimension) else ""
    channels = f", {counted(answer.num_channels, 'channel')}" if answer.num_channels else ""
    outside = f"; outside the evidence: {answer.outside_evidence}" if answer.outside_evidence else ""
    return f"{answer.algorithm}, {answer.protocol}{channels}: {name}{outside}"


def _engine_label(answer: NetworkAnswer, key: str = "num_chunks") -> Part:
    """The engine, and of events in how many chunks the payload is sent."""
    if not answer.timeline:
        return ENGINE_LABELS[answer.engine]
    num_chunks = answer.job.num_chunks
    chunks = Figure(key, num_chunks, counted(num_chunks, "chunk"))
    return phrase("events, {}; {}", chunks, ENGINE_LABELS[answer.engine])


def _bounds(answer: NetworkAnswer, by_key: Mapping[str, Figure]) -> Iterator[FigureRow]:
    """What must pass the ports, and how near that is; nothing of a plugin's collective."""
    if answer.is_bounded:
        yield FigureRow(("bus bandwidth", by_key["bus_bytes_per_s"], "of what must pass each rank"))
        label = "bound of ports and middle" if answer.job.collective == "all-to-all" else "bound of the ports"
        yield FigureRow((label, by_key["bound_s"], phrase("reached to {}", by_key["bound_frac"])))


def _beside(answer: NetworkAnswer, by_key: Mapping[str, Figure]) -> Iterator[FigureRow]:
    """The closed form beside events, and the endpoint beside the network, where there are any."""
    for timeline in answer.timeline:
        for closed_form_s in answer.closed_form_s:
            of = closed_form_s / timeline.end_s - 1 if timeline.end_s else 0.0
            beside = TextOnly("closed_form_s against events", gain(of) if abs(of) >= SAME_FRAC else "the same")
            links = " as links alone" if answer.endpoint_s > timeline.end_s else ""
            chunk = " for one chunk" if answer.job.num_chunks > 1 else ""
            yield FigureRow(("closed form", by_key["closed_form_s"], phrase("{}{}{}", beside, links, chunk)))
    if answer.job.endpoint.name:
        word = "sets the time" if answer.endpoint_s >= answer.time_s else "hidden behind the links"
        yield FigureRow((phrase("endpoint {}", answer.job.endpoint.name), by_key["endpoint_s"], word))
        grant = answer.job.endpoint.grant
        if math.isfinite(grant.num_sms):
            rate = TextOnly("sm_bytes_per_s", format_rate(grant.sm_bytes_per_s, "B/s"))
            yield FigureRow(("SMs given", TextOnly("num_sms", f"{grant.num_sms:.0f}"), phrase("of {} each", rate)))


def sweep_figures(answers: Sequence[NetworkAnswer]) -> Figures:
    """A collective at several points, a row each."""
    has_memory = len({memory_bytes_per_s(answer) for answer in answers}) > 1
    has_groups = any(answer.num_ranks != _num_devices(answer) for answer in answers)
    first = answers[0]
    has_larger = len({_num_devices(answer) for answer in answers}) > 1
    used = dict.fromkeys(_engine_label(answer, "points[0].num_chunks") for answer in answers)
    outside = dict.fromkeys(answer.outside_evidence for answer in answers if answer.outside_evidence)
    return (
        FigureList(
            key="points",
            title=phrase(
                "{} on {}{}", first.job.collective, first.job.network.name, " and larger" if has_larger else ""
            ),
            items=answers,
            figures=lambda answer: _point(answer, has_groups=has_groups, has_memory=has_memory),
            notes=(*used, *(f"outside the evidence: {why}" for why in outside), *_closed_notes(answers)),
        ),
    )


def _closed_notes(answers: Sequence[NetworkAnswer]) -> Iterator[str]:
    """What the closed form beside the times leaves out, where it leaves out anything; a sweep has one of each."""
    job = answers[0].job
    is_links = bool(job.endpoint.name) or any(answer.engine == "library" for answer in answers)
    of = (*(("links alone",) if is_links else ()), *(("one chunk",) if job.num_chunks > 1 else ()))
    if of and any(answer.closed_form_s for answer in answers):
        yield f"the closed form is of {' and '.join(of)}"


def memory_bytes_per_s(answer: NetworkAnswer) -> float:
    """Memory bandwidth given to the endpoint; infinite where no limit was given."""
    return answer.job.endpoint.grant.memory_bytes_per_s


def _num_devices(answer: NetworkAnswer) -> float:
    return float(answer.job.network.graph.num_devices)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """One thing a sweep may vary: its value in an answer, and that value in words."""

    name: str
    value: Callable[[NetworkAnswer], float]
    words: Callable[[float], str]


_AXES = (
    _Axis(name="payload", value=lambda answer: answer.job.payload_bytes, words=lambda v: format_bytes(v, 0)),
    _Axis(name="devices", value=_num_devices, words=lambda v: f"{v:,.0f} devices"),
    _Axis(name="memory bandwidth", value=memory_bytes_per_s, words=lambda v: format_rate(v, "B/s", 0)),
)


def sweep_panels(answers: Sequence[NetworkAnswer]) -> tuple[Panel, ...]:
    """Time, and bus bandwidth, over the first of size, devices and memory that varies; a curve for the rest."""
    varied = [axis for axis in _AXES if len({axis.value(answer) for answer in answers}) > 1] or [_AXES[0]]
    along, rest = varied[0], varied[1:] or [next(axis for axis in _AXES if axis is not varied[0])]
    series: dict[str, list[NetworkAnswer]] = {}
    for answer in answers:
        series.setdefault(", ".join(axis.words(axis.value(answer)) for axis in rest), []).append(answer)
    times, rates = [], []
    for name, ones in series.items():
        places = [along.value(one) for one in ones]
        times.append(_curve(name, places, [one.time_s for one in ones]))
        times.append(_curve(name, places, [one.bound_s for one in ones], is_dashed=True))
        rates.append(_curve(name, places, [one.bus_bytes_per_s for one in ones]))
    time = Panel(
        title="time (dashed: bound of the ports)", x_name=along.name, y_name="time", x_label=along.words,
        y_words=_time_tick, curves=tuple(times),
    )  # fmt: skip
    rate = Panel(
        title="bus bandwidth", x_name=along.name, y_name="bandwidth", x_label=along.words, y_words=_rate_tick,
        curves=tuple(rates), is_y_log=False, y_unit="B/s",
    )  # fmt: skip
    return time, rate


def _curve(name: str, places: list[float], values: list[float], *, is_dashed: bool = False) -> Curve:
    return Curve(name=name, points=tuple(zip(places, values, strict=True)), is_dashed=is_dashed)


def _time_tick(value: float) -> str:
    return format_s(value * (1 + 1e-9), 0)  # style: a tolerance, so that 1e-6 is 1 us


def _rate_tick(value: float) -> str:
    return format_rate(value, "B/s", 0)
