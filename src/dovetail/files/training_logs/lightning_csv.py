"""Lightning's metrics.csv, which its CSVLogger writes: a row for whatever was logged at a step.

Times are there only where something logs them: ThroughputMonitor (`train|time`), NeMo (`train_step_timing in s`),
or a column of the user's own such as `step_time`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from typing import Any

from dovetail.errors import InvalidInput
from dovetail.files.training_logs import SURELY, LogFormat, log_formats
from dovetail.files.training_logs.draft import MAX_STEP, Draft, Line, assume_eager, count_in, number_in
from dovetail.units import MILLI

_TIMES = re.compile(r"(?:train_)?(?:step|iter|iteration|batch)_(?:time|timing)(?: in s)?(?:_s|_sec|_seconds|_ms)?")
_CLOCK = re.compile(r"(?:train|fit)[|/]time")
_RATE = re.compile(r"(?:(?:train|fit)[|/])?(?:device[|/])?batches_per_sec")
_PEAKS = {"allocated": re.compile(r"allocated_bytes\.all\.peak$|peak_memory_usage$"),
          "reserved": re.compile(r"reserved_bytes\.all\.peak$")}  # fmt: skip
NO_TIME = (
    "metrics.csv has no time of a step: add the callback ThroughputMonitor, or log one as step_time; its columns are"
)


def read(lines: list[Line], draft: Draft) -> None:
    rows = csv.reader(line.text for line in lines)
    try:
        columns = [name.strip() for name in next(rows)]
        _read_rows(columns, list(zip(lines[1:], rows, strict=False)), draft)
        assume_eager(draft)
    except csv.Error as error:
        raise InvalidInput(f"cannot read this as CSV: {error}") from None


def _read_rows(columns: list[str], rows: list[tuple[Line, list[str]]], draft: Draft) -> None:
    seconds, clock, rate = (_place(columns, pattern) for pattern in (_TIMES, _CLOCK, _RATE))
    if max(seconds, clock, rate) < 0:
        raise InvalidInput(f"{NO_TIME} {', '.join(columns)[:120]}")
    timed = next(place for place in (seconds, clock, rate) if place >= 0)
    step_place = columns.index("step")
    validation = [place for place, name in enumerate(columns) if re.match(r"val(?:id|idation)?[_/|]", name)]
    peaks = {what: _place(columns, pattern) for what, pattern in _PEAKS.items()}
    clocked = (0, -1.0)
    for line, cells in rows:
        if len(cells) != len(columns):
            draft.cannot_read(line, f"a row has {len(columns)} cells; got {len(cells)}")
            continue
        if any(cells[place].strip() for place in validation):
            draft.evaluated()
        step = _step(cells[step_place])
        if not cells[timed].strip():
            continue
        if step < 0:
            draft.cannot_read(line, "step must be a whole number")
            continue
        value = number_in(cells[timed])
        if timed == clock:
            before, before_s = clocked
            if not value > 0:
                draft.cannot_read(line, "the time must be a number above 0")
                continue
            clocked = (step, value)
            if before_s < 0 or step <= before or value < before_s:  # the first row, or of a run that began again
                continue
            value = (value - before_s) / (step - before)
        elif timed == rate:
            value = 1.0 / value if value > 0 else -1.0
        elif columns[timed].endswith("_ms"):
            value *= MILLI
        memory: dict[str, Any] = {
            f"{what}_bytes": number_in(cells[place])
            for what, place in peaks.items()
            if place >= 0 and number_in(cells[place]) > 0
        }
        draft.took(line, step + 1, {"step_s": value}, **memory)  # counted from 0


def _step(cell: str) -> int:
    """The step of a row, counted from 0; -1 where it is no whole number."""
    plain = cell.strip().removesuffix(".0")
    return count_in(plain) if plain.isdigit() and len(plain) < len(str(MAX_STEP)) else -1


def _place(columns: Sequence[str], pattern: re.Pattern[str]) -> int:
    """Where the first column of this kind is; -1 where there is none."""
    for place, name in enumerate(columns):
        last = re.split(r"[/|]", name)[-1] if pattern is _TIMES else name
        if pattern.search(last) if pattern in _PEAKS.values() else pattern.fullmatch(last):
            return place
    return -1


def is_header(text: str) -> bool:
    """Whether a CSV's first line is one of metrics.csv."""
    columns = [name.strip() for name in text.split(",")]
    return "step" in columns and ("epoch" in columns or _place(columns, _TIMES) >= 0)


log_formats.register("lightning-csv")(
    LogFormat(
        name="Lightning",
        summary="metrics.csv of its CSVLogger, with a time of steps",
        num_step_lines=lambda lines: SURELY * is_header(lines[0].text) if lines else 0,
        read=read,
    )
)
