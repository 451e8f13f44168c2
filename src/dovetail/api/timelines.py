"""Timelines in files for ui.perfetto.dev."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, SupportsIndex

from dovetail.errors import InvalidInput
from dovetail.files.entry import described
from dovetail.files.network_formats import devices_of
from dovetail.files.perfetto import check_trace_name, encoded_trace
from dovetail.files.written import write_bytes

if TYPE_CHECKING:
    from dovetail.comm.events.recording import Watch
    from dovetail.evaluate import Infeasible, Outcome
    from dovetail.report.step_tracks import StepTracks
    from dovetail.report.tracks import Process


def write_timeline(path: str | PathLike[str], processes: Sequence[Process]) -> None:
    """Writes the tracks of `processes`; one that stands is written over."""
    check_trace_name(os.fspath(path))
    write_bytes(Path(path), encoded_trace(processes))


def recording_of(devices: tuple[int, ...]) -> Watch:
    """What a simulation records for a timeline: the events of these devices, of all where none is named."""
    from dovetail.comm.events.recording import Watch  # and all of a network's events with it

    return Watch(devices=devices)


def write_step_timeline(
    path: str | PathLike[str], outcome: Outcome | Infeasible, devices: tuple[int, ...]
) -> tuple[StepTracks, ...]:
    """Writes the timeline of a step, where there is one to show; what is in it."""
    from dovetail.evaluate import Infeasible
    from dovetail.report.step_tracks import step_tracks

    if isinstance(outcome, Infeasible):
        return ()
    tracks = step_tracks(outcome, devices)
    write_timeline(path, tracks.processes)
    return (tracks,)


def parsed_ranks(ranks: str | Sequence[SupportsIndex]) -> tuple[int, ...]:
    """Devices by their numbers, or as the command line has them: "0-3" or "0,2"; nothing for those it picks itself."""
    if isinstance(ranks, str):
        return devices_of(ranks, "ranks") if ranks else ()
    if not isinstance(ranks, Iterable):
        raise InvalidInput(f"ranks are numbers of devices, such as (0, 1) or '0-3'; got {described(ranks)}")
    return tuple(_rank(each) for each in ranks)


def _rank(value: object) -> int:
    if not isinstance(value, SupportsIndex) or isinstance(value, bool) or operator.index(value) < 0:
        raise InvalidInput(f"ranks are numbers of devices from 0 on; got {described(value)}")
    return operator.index(value)
