"""`--perfetto FILE` of a simulated step: the timeline of its devices, in a file for ui.perfetto.dev."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dovetail.api.timelines import write_step_timeline
from dovetail.cli.results import ResultFiles
from dovetail.cli.screen import remark
from dovetail.errors import InvalidInput
from dovetail.files.network_formats import devices_of
from dovetail.files.perfetto import check_trace_name
from dovetail.files.text import one_line
from dovetail.files.written import check_writable
from dovetail.report.plain import Record
from dovetail.report.table import Table, text_of

if TYPE_CHECKING:
    from dovetail.evaluate import Infeasible, Outcome
    from dovetail.report.step_tracks import StepTracks


def timeline_files(perfetto: str, ranks: str) -> ResultFiles:
    """The file, found writable before any work is done; none where none is named."""
    if ranks and not perfetto:
        raise InvalidInput("--ranks selects whose timeline is written; pass --perfetto too")
    check_trace_name(perfetto)
    if perfetto:
        check_writable(Path(perfetto), is_forced=True)
    return ResultFiles(perfetto=perfetto, devices=devices_of(ranks, "--ranks") if ranks else ())


def write_step(files: ResultFiles, result: Outcome | Infeasible) -> tuple[StepTracks, ...]:
    """Writes the timeline, where one is requested and there is a step to show; what is in it."""
    return write_step_timeline(files.perfetto, result, files.devices) if files.perfetto else ()


def timeline_record(files: ResultFiles, written: tuple[StepTracks, ...]) -> Record:
    """What JSON says of it: nothing where there is none."""
    timelines = [{"file": files.perfetto, "end_s": one.end_s, "notes": list(one.notes)} for one in written]
    return {"timeline": timelines[0]} if timelines else {}


def tell_timeline(files: ResultFiles, written: tuple[StepTracks, ...]) -> None:
    """What text says of it."""
    for one in written:
        title = f"Timeline: {one_line(files.perfetto)}, which ui.perfetto.dev opens"
        remark("\n" + text_of((Table(title=title, notes=tuple(f"- {note}" for note in one.notes)),)))
