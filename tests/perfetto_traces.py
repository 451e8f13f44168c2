"""Perfetto traces as perfetto's own schema reads them, for the tests that write some."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from importlib import import_module
from typing import Any

BEGIN, END, COUNT = 1, 2, 4
NAMES_BEGIN, NAMES_NEEDED = 1, 2


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One slice as a viewer would show it."""

    process: str
    track: str
    name: str
    category: str
    begin_ns: int
    end_ns: int
    notes: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class SeenTrace:
    processes: dict[int, str]  # by pid
    slices: list[Seen]
    counters: dict[str, list[tuple[int, float]]]

    def on(self, process: str, track: str) -> list[Seen]:
        return [one for one in self.slices if (one.process, one.track) == (process, track)]


def seen(data: bytes) -> SeenTrace:
    """Decodes with the generated classes of the perfetto package; checks what its importer relies on."""
    schema: Any = import_module("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    trace = schema.Trace()
    assert trace.ParseFromString(data) == len(data)
    head, *packets = trace.packet
    assert head.sequence_flags == NAMES_BEGIN
    assert {packet.trusted_packet_sequence_id for packet in trace.packet} == {1}
    words = {
        kind: {entry.iid: entry.name for entry in getattr(head.interned_data, kind)}
        for kind in ("event_names", "event_categories", "debug_annotation_names")
    }
    tracks: dict[int, Any] = {}
    open_at: dict[int, tuple[int, Any]] = {}
    slices: list[Seen] = []
    counters: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for packet in packets:
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in tracks
            assert track.HasField("process") or track.parent_uuid in tracks
            tracks[track.uuid] = track
            continue
        event = packet.track_event
        assert packet.sequence_flags == NAMES_NEEDED
        track = tracks[event.track_uuid]
        if event.type == BEGIN:
            assert event.track_uuid not in open_at, "a slice begins inside another"
            open_at[event.track_uuid] = (packet.timestamp, event)
        elif event.type == END:
            begin_ns, begun = open_at.pop(event.track_uuid)
            assert begin_ns <= packet.timestamp
            notes = {
                words["debug_annotation_names"][note.name_iid]: getattr(note, note.WhichOneof("value"))
                for note in begun.debug_annotations
            }
            slices.append(
                Seen(
                    process=tracks[track.parent_uuid].process.process_name,
                    track=track.name,
                    name=words["event_names"][begun.name_iid],
                    category=words["event_categories"][begun.category_iids[0]],
                    begin_ns=begin_ns,
                    end_ns=packet.timestamp,
                    notes=notes,
                )
            )
        else:
            assert event.type == COUNT
            assert track.HasField("counter")
            counters[track.name].append((packet.timestamp, event.double_counter_value))
    assert not open_at, "a slice never ends"
    processes = {t.process.pid: t.process.process_name for t in tracks.values() if t.HasField("process")}
    return SeenTrace(processes=processes, slices=slices, counters=dict(counters))
