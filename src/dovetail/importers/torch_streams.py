"""Streams of a GPU that is not there: on which one each operator runs, and which operators it waits for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from dovetail.workload.dispatched import COMPUTE_STREAM


class Streams:
    """The current stream, the last operator of each stream, and what the next operator of each waits for.

    Operators are known by their place in the step.
    """

    def __init__(self) -> None:
        self.num_steps = 0  # begun so far; events of an earlier one stand for nothing
        self._num_streams = 0
        self._stream_of: list[str] = []
        self._last: dict[str, int] = {}
        self._pending: dict[str, set[int]] = {}
        self._ended: dict[
            tuple[str, str], int
        ] = {}  # by two streams: the last operator of the second that is waited for
        self.stream_kind, self.event_kind = _kinds(self)
        self.default = self.stream_kind(label=COMPUTE_STREAM)
        self.current = self.default

    def begin(self) -> None:
        """Forgets all operators: a step begins with nothing under way."""
        self.num_steps += 1
        self._stream_of = []
        self._last.clear()
        self._pending.clear()
        self._ended.clear()

    def new_label(self) -> str:
        self._num_streams += 1
        return f"stream {self._num_streams}"

    def ended(self, stream: str) -> frozenset[int]:
        """The operators that an event recorded on `stream` at this point waits for."""
        found = set(self._pending.get(stream, ()))
        if stream in self._last:
            found.add(self._last[stream])
        return frozenset(found)

    def wait(self, stream: str, places: Iterable[int]) -> None:
        """Lets the next operator on `stream` wait for those at `places`."""
        self._pending.setdefault(stream, set()).update(places)

    def placed(self, stream: str) -> tuple[int, ...]:
        """Puts the next operator of the step on `stream`, and returns those on other streams that it waits for."""
        latest: dict[str, int] = {}
        for place in self._pending.pop(stream, ()):
            other = self._stream_of[place]
            latest[other] = max(place, latest.get(other, -1))
        waits = []
        for other, place in latest.items():
            if other != stream and place > self._ended.get((stream, other), -1):
                self._ended[stream, other] = place
                waits.append(place)
        self._last[stream] = len(self._stream_of)
        self._stream_of.append(stream)
        return tuple(sorted(waits))


def _kinds(streams: Streams) -> tuple[Any, Any]:
    """The classes that stand for `torch.cuda.Stream` and `torch.cuda.Event`."""

    class Stream:
        def __init__(self, device: Any = None, priority: int = 0, *, label: str | None = None, **_more: Any) -> None:
            del device
            self.label = streams.new_label() if label is None else label
            self.priority = priority
            self.cuda_stream = self.stream_id = 0 if label == COMPUTE_STREAM else id(self)
            self._before: list[Stream] = []

        @property
        def device(self) -> torch.device:
            return torch.device("cuda", torch.cuda.current_device())

        @property
        def device_index(self) -> int:
            return int(torch.cuda.current_device())

        def wait_event(self, event: Event) -> None:
            event.wait(self)

        def wait_stream(self, stream: Stream) -> None:
            streams.wait(self.label, streams.ended(stream.label))

        def record_event(self, event: Event | None = None) -> Event:
            return (event or Event()).record(self)

        def synchronize(self) -> None:  # the host waits, which is no operator
            return

        def query(self) -> bool:
            return True

        def is_capturing(self) -> bool:
            return False

        def __enter__(self) -> Stream:
            self._before.append(streams.current)
            streams.current = self
            return self

        def __exit__(self, *_error: object) -> None:
            streams.current = self._before.pop()

    class Event:
        def __init__(self, *_args: object, **_kwargs: object) -> None:
            self._step, self._places = streams.num_steps, frozenset[int]()

        def record(self, stream: Stream | None = None) -> Event:
            self._step, self._places = streams.num_steps, streams.ended((stream or streams.current).label)
            return self

        def wait(self, stream: Stream | None = None) -> None:
            if self._step == streams.num_steps:
                streams.wait((stream or streams.current).label, self._places)

        def synchronize(self) -> None:
            return

        def query(self) -> bool:
            return True

    # Milliseconds, as PyTorch has it: some, that scripts may divide by, as nothing runs here.
    Event.elapsed_time = lambda _event, _end: 1.0  # type: ignore[attr-defined]
    return Stream, Event
