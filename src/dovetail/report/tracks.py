"""A record of a run as tracks of slices: a process for each device, a track for each of its streams and links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.comm.events.network_graph import Floats, LinkGraph
from dovetail.comm.events.recording import Record, StreamSlice, link_owners
from dovetail.comm.one_collective import NetworkAnswer, library_selection
from dovetail.report.labels import counted
from dovetail.report.links import block_ranges, dimensions_of_links

Note = tuple[str, int | float | str]
NUM_BINS = 200
STREAMS = ("compute", "cpu", "waits", "communication")  # the order of tracks; others follow
SIGNIFICANT = 3  # decimals of bytes: below that stands rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Something that lasts, with a name, a category and notes."""

    name: str
    begin_s: float
    end_s: float
    category: str
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """Slices one after the other, none beside another."""

    name: str
    slices: tuple[Slice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """A value over time: each holds from its moment on."""

    name: str
    unit: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A device, or what belongs to none, with its tracks; `number` is above 0."""

    number: int
    name: str
    tracks: tuple[Track, ...]
    counters: tuple[Counter, ...] = ()


def device_processes(record: Record, graph: LinkGraph | None, names: Mapping[str, str]) -> tuple[Process, ...]:
    """A process for each device of `record`, one for links between switches, and one of counters.

    `names` are words for tasks that are called otherwise; without a graph there are no links.
    """
    links = {} if graph is None else _link_tracks(record, graph, names)
    streams: dict[int, list[StreamSlice]] = {device: [] for device in record.devices}
    for one in record.streams:
        streams[one.device].append(one)
    found = [
        Process(
            number=device + 1,
            name=_device_name(device, record),
            tracks=(*_stream_tracks(own, names), *links.pop(device, ())),
        )
        for device, own in streams.items()
    ]
    if graph is None:
        return tuple(found)
    between = tuple(track for owner in sorted(links) for track in links[owner])
    if between:
        found.append(Process(number=graph.num_devices + 1, name="between switches", tracks=between))
    counters = tuple(_counters(record, graph))
    return (*found, Process(number=graph.num_devices + 2, name="network", tracks=(), counters=counters))


def endpoint_processes(answer: NetworkAnswer) -> tuple[Process, ...]:
    """The least time the chip needs for what it reads, adds and writes, where an endpoint was named."""
    name, end_s = answer.job.endpoint.name, answer.endpoint_s
    if not name or not end_s:
        return ()
    notes: tuple[Note, ...] = (("duration_s", end_s),)
    one = Slice(name=answer.job.collective, begin_s=0.0, end_s=end_s, category="endpoint", notes=notes)
    number = answer.job.network.graph.num_devices + 3
    return (Process(number=number, name="every device", tracks=(Track(name=f"endpoint {name}", slices=(one,)),)),)


def library_processes(answer: NetworkAnswer) -> tuple[Process, ...]:
    """What the library of the network takes for the same collective, and how it runs it, where that is known."""
    job, number = answer.job, answer.job.network.graph.num_devices + 4
    slices = []
    for found in library_selection(job):
        channels = (counted(found.num_channels, "channel"),) if found.num_channels else ()
        notes: tuple[Note, ...] = (
            ("duration_s", found.time_s),
            ("collective", job.collective),
            ("bytes", _whole(job.payload_bytes)),
            ("num_ranks", answer.num_ranks),
            ("algorithm", found.algorithm),
            ("protocol", found.protocol),
            *((("num_channels", found.num_channels),) if found.num_channels else ()),
        )
        name = f"{job.collective}: {', '.join((found.algorithm, found.protocol, *channels))}"
        begin_s = answer.jitter_s
        slices.append(Slice(name=name, begin_s=begin_s, end_s=begin_s + found.time_s, category="library", notes=notes))
    if not slices:
        return ()
    return (Process(number=number, name="by the library", tracks=(Track(name="library", slices=tuple(slices)),)),)


def _device_name(device: int, record: Record) -> str:
    alike = f", the same on {record.num_identical:,}" if record.num_identical > 1 else ""
    return f"device {device}{alike}"


def _stream_tracks(own: Sequence[StreamSlice], names: Mapping[str, str]) -> Iterator[Track]:
    by_stream: dict[str, list[StreamSlice]] = {}
    for one in own:
        by_stream.setdefault(one.stream, []).append(one)
    known = [stream for stream in STREAMS if stream in by_stream]
    for stream in (*known, *sorted(set(by_stream) - set(known))):
        for number, lane in enumerate(_lanes(by_stream[stream])):
            name = stream if not number else f"{stream} {number + 1}"
            yield Track(name=name, slices=tuple(_stream_slice(one, names) for one in lane))


def _lanes(own: Sequence[StreamSlice]) -> list[list[StreamSlice]]:
    """Slices that lie beside each other go to different lanes, as few as it takes."""
    lanes: list[list[StreamSlice]] = []
    for one in sorted(own, key=lambda one: (one.begin_s, one.end_s)):
        free = next((lane for lane in lanes if lane[-1].end_s <= one.begin_s), None)
        if free is None:
            lanes.append([one])
        else:
            free.append(one)
    return lanes


def _stream_slice(one: StreamSlice, names: Mapping[str, str]) -> Slice:
    notes: tuple[Note, ...] = (("duration_s", one.end_s - one.begin_s),)
    if one.begin_s > one.ready_s:
        notes += (("waited_s", one.begin_s - one.ready_s),)
    name = names.get(one.task, one.task)
    name = f"wait for {name}" if one.stream == "waits" else name
    return Slice(name=name, begin_s=one.begin_s, end_s=one.end_s, category=one.stream, notes=notes)


def _link_tracks(record: Record, graph: LinkGraph, names: Mapping[str, str]) -> dict[int, list[Track]]:
    """Tracks of the links that carried something, by the device (or switch) they belong to."""
    slices: dict[int, list[Slice]] = {}
    links = record.links
    tasks = [names.get(name, name) for name in record.tasks]
    sizes_bytes = links.taken_s * graph.bandwidth_bytes_per_s[links.link]
    columns = (links.link, links.sender, links.task, links.chunk, links.phase, links.lane, links.step)
    times = (links.begin_s, links.end_s, links.taken_s, sizes_bytes)
    rows = zip(*(column.tolist() for column in (*columns, *times)), strict=True)
    for link, sender, task, chunk, phase, lane, step, begin_s, end_s, taken_s, size_bytes in rows:
        words = record.phases[task, chunk, phase]
        notes: tuple[Note, ...] = (("bytes", _whole(size_bytes)), ("duration_s", taken_s), ("sender", sender))
        name = tasks[task]
        if words:
            name = f"{name}, chunk {chunk}: {words}"
            notes += (("chunk", chunk), ("phase", phase), ("lane", lane), ("step", step))
        one = Slice(name=name, begin_s=begin_s, end_s=end_s, category="link", notes=notes)
        slices.setdefault(link, []).append(one)
    used = np.array(list(slices), np.int64)
    owners, dimensions = link_owners(graph)[used], dimensions_of_links(graph, used)
    found: dict[int, list[Track]] = {}
    for (link, own), owner, dimension in zip(slices.items(), owners.tolist(), dimensions, strict=True):
        ends = f"{_vertex(int(graph.source[link]), graph)} > {_vertex(int(graph.target[link]), graph)}"
        found.setdefault(owner, []).append(Track(name=f"{dimension}: {ends}", slices=tuple(own)))
    return found


def _whole(size_bytes: float) -> int | float:
    rounded = round(size_bytes, SIGNIFICANT)
    return int(rounded) if rounded.is_integer() else rounded


def _vertex(vertex: int, graph: LinkGraph) -> str:
    return str(vertex) if vertex < graph.num_devices else f"switch {vertex - graph.num_devices}"


def _counters(record: Record, graph: LinkGraph) -> Iterator[Counter]:
    """How busy the recorded links of each dimension are, in equal parts of the run."""
    links = record.links
    is_seen = graph.is_alive & np.isin(link_owners(graph), record.devices)
    if record.num_identical > 1:  # only the links one device stands for all with
        is_seen &= np.isin(np.arange(len(is_seen)), links.link)
    ends_s = [links.end_s.max(initial=0.0), *(one.end_s for one in record.streams)]
    edges_s = np.linspace(0.0, float(max(ends_s)), NUM_BINS + 1)
    for name, first, last in block_ranges(graph):
        carried = is_seen[links.link] & (links.link >= first) & (links.link < last)
        count = int(is_seen[first:last].sum())
        if not carried.any() or not edges_s[-1]:
            continue
        busy_s = _busy_until_s(links.begin_s[carried], links.end_s[carried], edges_s)
        shares = np.diff(busy_s) / np.diff(edges_s) / count
        points = tuple(zip(edges_s[:-1].tolist(), (100 * shares).tolist(), strict=True))
        yield Counter(name=f"{name}: links busy", unit="%", points=(*points, (float(edges_s[-1]), 0.0)))


def _busy_until_s(begin_s: Floats, end_s: Floats, at_s: Floats) -> Floats:
    """Seconds of all slices together that lie before each moment."""

    def since(starts_s: Floats) -> Floats:
        starts_s = np.sort(starts_s)
        place = np.searchsorted(starts_s, at_s)
        before_s: Floats = place * at_s - np.concatenate([[0.0], np.cumsum(starts_s)])[place]
        return before_s

    return since(begin_s) - since(end_s)
