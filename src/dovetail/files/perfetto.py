"""Tracks as a Perfetto trace: the protocol buffers that ui.perfetto.dev and its trace processor read.

Field numbers are those of perfetto's trace_packet.proto, track_event.proto, track_descriptor.proto and
debug_annotation.proto. Times are whole nanoseconds there; the note duration_s keeps what that rounds away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from dovetail.errors import InvalidInput
from dovetail.files.protobuf import bytes_field, double_field, number_field
from dovetail.files.text import one_line
from dovetail.units import NANO

if TYPE_CHECKING:
    from dovetail.report.tracks import Counter, Note, Process, Slice, Track

_PACKET = 1  # of Trace
_TIMESTAMP, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _DESCRIPTOR = 8, 10, 11, 12, 13, 60  # of TracePacket
_FIRST, _NEEDS_FIRST = 1, 2  # flags: names start again here; names of before are needed
_CATEGORIES, _NAMES, _NOTE_NAMES = 1, 2, 3  # of InternedData, each with an iid and a name
_UUID, _NAME, _PROCESS, _PARENT, _COUNTER, _ORDER, _RANK = 1, 2, 3, 5, 8, 11, 12  # of TrackDescriptor
_PID, _PROCESS_NAME, _UNIT_NAME, _EXPLICIT = 1, 6, 6, 3
_CATEGORY_IID, _NOTE, _TYPE, _NAME_IID, _TRACK, _VALUE = 3, 4, 9, 10, 11, 44  # of TrackEvent
_BEGIN, _END, _COUNT = 1, 2, 4  # types of TrackEvent
_NOTE_IID, _INT, _DOUBLE, _TEXT = 1, 4, 5, 6  # of DebugAnnotation


_OTHER_SUFFIXES = (".json", ".csv", ".yaml", ".yml", ".txt")
_ONLY_SEQUENCE, _USES_NAMES = number_field(_SEQUENCE, 1), number_field(_FLAGS, _NEEDS_FIRST)


def check_trace_name(name: str) -> None:
    """Raises where a file's name says that it is text, which a trace is not."""
    if name.lower().endswith(_OTHER_SUFFIXES):
        message = f"a timeline is written as Perfetto's protocol buffers, which are no text; got {one_line(name)!r}"
        raise InvalidInput(f"{message}, so name it .pftrace", "--perfetto")


class _Names:
    """Words that are written once and then called by number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __getitem__(self, word: str) -> int:
        return self.numbers.setdefault(word, len(self.numbers) + 1)

    def field(self, number: int) -> bytes:
        entries = ((number_field(1, iid) + bytes_field(2, word.encode())) for word, iid in self.numbers.items())
        return b"".join(bytes_field(number, entry) for entry in entries)


def encoded_trace(processes: Iterable[Process]) -> bytes:
    """The bytes of a .pftrace file: a process track for each process, below it its tracks and counters."""
    encoder = _Encoder()
    packets = [packet for process in processes for packet in encoder.process(process)]
    return b"".join((encoder.head(), *packets))


class _Encoder:
    """Gives tracks and names their numbers."""

    def __init__(self) -> None:
        self._num_tracks = 0
        self._names, self._categories, self._note_names = _Names(), _Names(), _Names()
        self._known: dict[tuple[str, str], bytes] = {}
        self._known_notes: dict[tuple[str, type, int | float | str], bytes] = {}

    def head(self) -> bytes:
        """The packet that says all names; it goes before all others."""
        interned = self._categories.field(_CATEGORIES) + self._names.field(_NAMES) + self._note_names.field(_NOTE_NAMES)
        return _packet(number_field(_FLAGS, _FIRST) + bytes_field(_INTERNED, interned))

    def process(self, process: Process) -> Iterator[bytes]:
        parent = self._next_track()
        payload = number_field(_PID, process.number) + bytes_field(_PROCESS_NAME, process.name.encode())
        yield _descriptor(
            number_field(_UUID, parent) + bytes_field(_PROCESS, payload) + number_field(_ORDER, _EXPLICIT)
        )
        for rank, track in enumerate(process.tracks):
            uuid = self._next_track()
            yield _descriptor(_child(uuid, parent, track.name, rank))
            yield from self._slices(uuid, track)
        for rank, counter in enumerate(process.counters, start=len(process.tracks)):
            uuid = self._next_track()
            unit = bytes_field(_COUNTER, bytes_field(_UNIT_NAME, counter.unit.encode()))
            yield _descriptor(_child(uuid, parent, counter.name, rank) + unit)
            yield from _points(uuid, counter)

    def _next_track(self) -> int:
        self._num_tracks += 1
        return self._num_tracks

    def _slices(self, uuid: int, track: Track) -> Iterator[bytes]:
        """Begin and end of each in turn: of events at one moment, the first in the file counts as first."""
        on = number_field(_TRACK, uuid)
        begin, end = number_field(_TYPE, _BEGIN) + on, number_field(_TYPE, _END) + on
        for one in track.slices:
            yield _event(one.begin_s, b"".join((begin, self._called(one), *map(self._note, one.notes))))
            yield _event(one.end_s, end)

    def _called(self, one: Slice) -> bytes:
        key = (one.category, one.name)
        if key not in self._known:
            category = number_field(_CATEGORY_IID, self._categories[one.category])
            self._known[key] = category + number_field(_NAME_IID, self._names[one.name])
        return self._known[key]

    def _note(self, note: Note) -> bytes:
        name, value = note
        key = (name, type(value), value)
        known = self._known_notes.get(key)
        if known is None:
            payload = number_field(_NOTE_IID, self._note_names[name]) + _value(value)
            known = self._known_notes[key] = bytes_field(_NOTE, payload)
        return known


def _value(value: int | float | str) -> bytes:
    if isinstance(value, int):
        return number_field(_INT, value)
    return double_field(_DOUBLE, value) if isinstance(value, float) else bytes_field(_TEXT, value.encode())


def _points(uuid: int, counter: Counter) -> Iterator[bytes]:
    on = number_field(_TYPE, _COUNT) + number_field(_TRACK, uuid)
    for time_s, value in counter.points:
        yield _event(time_s, on + double_field(_VALUE, value))


def _child(uuid: int, parent: int, name: str, rank: int) -> bytes:
    payload = number_field(_UUID, uuid) + number_field(_PARENT, parent) + bytes_field(_NAME, name.encode())
    return payload + number_field(_RANK, rank)


def _descriptor(payload: bytes) -> bytes:
    return _packet(bytes_field(_DESCRIPTOR, payload))


def _event(time_s: float, payload: bytes) -> bytes:
    when = number_field(_TIMESTAMP, round(time_s / NANO))
    return _packet(when + bytes_field(_EVENT, payload) + _USES_NAMES)


def _packet(payload: bytes) -> bytes:
    return bytes_field(_PACKET, payload + _ONLY_SEQUENCE)
