"""Collectives on a network: as plain data, tables and curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dovetail.comm.events.decided import critical_visits, visit_label
from dovetail.comm.one_collective import NetworkAnswer
from dovetail.report.curves import Curve, Panel
from dovetail.report.labels import counted, gain, percent
from dovetail.report.links import link_records
from dovetail.report.plain import Record
from dovetail.report.table import Table, bar
from dovetail.units import format_bytes, format_rate, format_s

SAME_FRAC = 5e-4  # style: a tolerance; less shows as 0.0 %
SWEEP_HEADS = ("time", "closed form", "bus bandwidth", "of bound")
ENGINE_WORDS = {
    "one rank": "events; one device stands for all, being alike",
    "all ranks": "events; every device simulated, in the order of messages",
    "messages": "events; message by message, as ranks meet at links in different orders",
    "closed form": "closed form",
}


def network_record(answer: NetworkAnswer, *, has_links: bool = True) -> Record:
    """One answer; `has_links` adds what each link did."""
    asked = answer.asked
    found: Record = {
        "collective": asked.collective,
        "topology": asked.network.name,
        "size_bytes": asked.payload_bytes,
        "num_devices": asked.network.graph.num_devices,
        "num_ranks": answer.num_ranks,
        "num_groups": answer.num_groups,
        "num_chunks": asked.num_chunks,
        "engine": answer.engine,
        "time_s": answer.time_s,
        "closed_form_s": answer.closed_form_s[0] if answer.closed_form_s else None,
        "algorithm_bytes_per_s": answer.algorithm_bytes_per_s,
        "bus_bytes_per_s": answer.bus_bytes_per_s,
        "endpoint": asked.endpoint.name,
        "endpoint_s": answer.endpoint_s,
        "memory_bytes_per_s": memory_bytes_per_s(answer) if math.isfinite(memory_bytes_per_s(answer)) else None,
        "bound_s": answer.bound_s,
        "bound_frac": answer.bound_frac,
        "dimensions": [asdict(load) for load in answer.loads],
    }
    for timeline in answer.timeline:
        found |= {"num_events": timeline.num_events, "num_messages": timeline.num_messages}
        if has_links:
            found["links"] = link_records(asked.network.graph, timeline, answer.time_s)
            found["critical_path"] = critical_records(answer)
    return found


def critical_records(answer: NetworkAnswer) -> list[dict[str, Any]]:
    """The phases that decided when the last rank was done, first to last; the endpoint, where that was later."""
    [timeline] = answer.timeline
    if answer.endpoint_s > timeline.end_s:
        return [{"task": f"endpoint {answer.asked.endpoint.name}", "start_s": 0.0, "end_s": answer.endpoint_s}]
    found = []
    for visit in critical_visits(timeline):
        begin_s, end_s = timeline.visits_s[visit]
        found.append({"task": visit_label(timeline, visit), "start_s": begin_s, "end_s": end_s})
    return found or [{"task": answer.asked.collective, "start_s": 0.0, "end_s": timeline.end_s}]


def network_tables(answer: NetworkAnswer) -> tuple[Table, ...]:
    asked = answer.asked
    among = counted(answer.num_ranks, "device")
    among = among if answer.num_groups == 1 else f"{counted(answer.num_groups, 'group')} of {among}"
    rows = [
        ("time", format_s(answer.time_s), ENGINE_WORDS[answer.engine]),
        *_beside(answer),
        ("algorithm bandwidth", format_rate(answer.algorithm_bytes_per_s, "B/s"), "payload over time"),
        *_bounds(answer),
    ]
    title = f"{asked.collective} of {format_bytes(asked.payload_bytes)} over {among}: {asked.network.name}"
    head = Table(title=title, rows=tuple(rows), align="lrl")
    return (head, _load_table(answer)) if answer.loads else (head,)


def _bounds(answer: NetworkAnswer) -> Iterator[tuple[str, str, str]]:
    """What must pass the ports, and how near that is; nothing of a plugin's collective."""
    if answer.is_bounded:
        yield "bus bandwidth", format_rate(answer.bus_bytes_per_s, "B/s"), "of what must pass each rank"
        reached = f"reached to {percent(answer.bound_frac)}"
        yield _bound_label(answer.asked.collective), format_s(answer.bound_s), reached


def _bound_label(collective: str) -> str:
    return "bound of ports and middle" if collective == "all-to-all" else "bound of the ports"


def _beside(answer: NetworkAnswer) -> Iterator[tuple[str, str, str]]:
    """The closed form beside events, and the endpoint beside the network, where there are any."""
    for timeline in answer.timeline:
        for closed_form_s in answer.closed_form_s:
            of = closed_form_s / timeline.end_s - 1 if timeline.end_s else 0.0
            said = gain(of) if abs(of) >= SAME_FRAC else "the same"
            said += " as links alone" if answer.endpoint_s > timeline.end_s else ""
            chunk = " for one chunk" if answer.asked.num_chunks > 1 else ""
            yield "closed form", format_s(closed_form_s), f"{said}{chunk}"
    if answer.asked.endpoint.name:
        word = "sets the time" if answer.endpoint_s >= answer.time_s else "hidden behind the links"
        yield f"endpoint {answer.asked.endpoint.name}", format_s(answer.endpoint_s), word
        grant = answer.asked.endpoint.grant
        if math.isfinite(grant.num_sms):
            yield "SMs given", f"{grant.num_sms:.0f}", f"of {format_rate(grant.sm_bytes_per_s, 'B/s')} each"


def _load_table(answer: NetworkAnswer) -> Table:
    rows = tuple(
        (
            load.dimension,
            load.kind,
            f"{load.num_devices:,}",
            percent(load.mean_frac),
            percent(load.most_frac),
            bar(load.most_frac, 16),
        )
        for load in answer.loads
    )
    heads = ("dimension", "kind", "devices", "links busy", "busiest", "")
    return Table(title="how busy links were", columns=heads, rows=rows, align="llrrrl")


def sweep_tables(answers: Sequence[NetworkAnswer]) -> tuple[Table, ...]:
    has_memory = len({memory_bytes_per_s(answer) for answer in answers}) > 1
    has_groups = any(answer.num_ranks != _num_devices(answer) for answer in answers)
    rows = tuple(
        (
            format_bytes(answer.asked.payload_bytes),
            f"{_num_devices(answer):,.0f}",
            *((f"{answer.num_ranks:,}",) if has_groups else ()),
            *((format_rate(memory_bytes_per_s(answer), "B/s"),) if has_memory else ()),
            format_s(answer.time_s),
            format_s(answer.closed_form_s[0]) if answer.closed_form_s else "-",
            format_rate(answer.bus_bytes_per_s, "B/s"),
            percent(answer.bound_frac) if answer.is_bounded else "-",
        )
        for answer in answers
    )
    first = answers[0]
    may_be = (("group", has_groups), ("memory", has_memory))
    heads = ("size", "devices", *(name for name, has_it in may_be if has_it), *SWEEP_HEADS)
    title = f"{first.asked.collective} on {first.asked.network.name}"
    title += " and larger" if len({_num_devices(answer) for answer in answers}) > 1 else ""
    used = dict.fromkeys(ENGINE_WORDS[answer.engine] for answer in answers)
    notes = (*used, *_closed_notes(answers))
    return (Table(title=title, columns=heads, rows=rows, align="r" * len(heads), notes=notes),)


def _closed_notes(answers: Sequence[NetworkAnswer]) -> Iterator[str]:
    """What the closed form beside the times leaves out, where it leaves out anything; a sweep has one of each."""
    asked = answers[0].asked
    of = (*(("links alone",) if asked.endpoint.name else ()), *(("one chunk",) if asked.num_chunks > 1 else ()))
    if of and any(answer.closed_form_s for answer in answers):
        yield f"the closed form is of {' and '.join(of)}"


def memory_bytes_per_s(answer: NetworkAnswer) -> float:
    """Memory bandwidth given to the endpoint; infinite where no limit was said."""
    return answer.asked.endpoint.grant.memory_bytes_per_s


def _num_devices(answer: NetworkAnswer) -> float:
    return float(answer.asked.network.graph.num_devices)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """One thing a sweep may vary: its value in an answer, and that value in words."""

    name: str
    value: Callable[[NetworkAnswer], float]
    words: Callable[[float], str]


_AXES = (
    _Axis(name="payload", value=lambda answer: answer.asked.payload_bytes, words=lambda v: format_bytes(v, 0)),
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
