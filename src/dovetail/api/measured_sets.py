"""Measurements by the names that people say: sets that ship, sets that this machine has, files and folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Prepared, RecordSteps, TableContext
from dovetail.accuracy.sets import format_of, prepared
from dovetail.errors import DovetailError, InvalidInput, did_you_mean
from dovetail.files.measurements import (
    MORE_RUNS,
    PUBLISHED_GEMM,
    REFERENCE_DATA_VARIABLE,
    SHIPPED,
    csv_files,
    load_measurements,
    published_files,
    shipped_folder,
)
from dovetail.files.text import LOG_SUFFIXES, one_line
from dovetail.files.training_logs import log_formats
from dovetail.files.validation_results import load_results
from dovetail.report.plain import Record

GEMM = "published-gemm"
# Sets that are not shipped, by the files they are in; and files that join a shipped set where this machine has them.
PUBLISHED = {GEMM: PUBLISHED_GEMM}
BESIDE = {"published": MORE_RUNS}
_FOLDER = f"name their folder in {REFERENCE_DATA_VARIABLE}"
QUICK = tuple(name for name in SHIPPED if name not in BESIDE)  # without whole training runs, which take longer


@dataclass(slots=True)
class Found:
    """What the targets come to: sets, records of earlier runs, and words on what was left out."""

    sets: list[Prepared] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


Recorder = Callable[[Path], RecordSteps]  # of the steps that a table names


def given_for(file: Path, given: TableContext, recorder: Recorder | None) -> TableContext:
    return given if recorder is None else replace(given, record_steps=recorder(file))


def look_up(
    target: str,
    given: TableContext,
    found: Found,
    *,
    is_asked: bool,
    does_name_absent: bool = False,
    recorder: Recorder | None = None,
) -> None:
    """Adds what `target` names to `found`; a set that is nowhere is an error if it `is_asked` for by name."""
    if target in SHIPPED:
        _take_folder(shipped_folder(target), target, given, found)
        beside = BESIDE.get(target, ())
        files = published_files(beside)
        for file in files:
            found.sets += prepared(load_measurements(file), given)
        for name in {*beside} - {file.name for file in files} if does_name_absent else ():
            found.notes.append(f"{name.removesuffix('.csv')} skipped: its rows are not shipped; {_FOLDER}")
    elif target in PUBLISHED:
        _take_published(target, given, found, is_asked=is_asked)
    elif Path(target).is_dir():
        _take_folder(Path(target), one_line(target), given_for(Path(target) / "steps.csv", given, recorder), found)
    elif target.lower().endswith(".json"):
        found.records.append(load_results(Path(target)))
    else:
        _check_names_a_file(target)
        file = Path(target)
        table = load_measurements(file, is_whole=False)
        if file.suffix.lower() in LOG_SUFFIXES and not format_of(table):
            names = sorted({known.name for _, known in log_formats.items()})
            rule = f"no line of it is a step of a training log ({', '.join(names)})"
            raise InvalidInput(f"{rule}, and it is no table or log of collectives", one_line(target))
        found.sets += prepared(table, given_for(file, given, recorder))


def _take_published(target: str, given: TableContext, found: Found, *, is_asked: bool) -> None:
    names = PUBLISHED[target]
    files = published_files(names)
    if not files:
        listed = f"{', '.join(names[:-1])} and {names[-1]}"
        message = f"{listed} are not shipped; {_FOLDER}, or pass a file: dovetail validate FILE.csv"
        if is_asked:
            raise InvalidInput(message)
        found.notes.append(f"{target} skipped: {message}")
    for file in files:
        found.sets += prepared(load_measurements(file), given)


def _check_names_a_file(target: str) -> None:
    names = (*SHIPPED, *PUBLISHED)
    if "." not in target and "/" not in target and not Path(target).exists():
        raise InvalidInput(f"no set of measurements is named {one_line(target)!r}{did_you_mean(target, names)}")


def _take_folder(folder: Path, shown: str, given: TableContext, found: Found) -> None:
    """Every table of a folder; those of other kinds are named, and are no error."""
    tables = list(_tables(folder, found))
    known = [table for table in tables if format_of(table)]
    other = [table.name for table in tables if not format_of(table)]
    if not known:
        raise InvalidInput(f"no table of folder {shown!r} is of a known kind; it has {', '.join(other)[:200]}")
    if other:
        found.notes.append(f"{shown}: not compared, being of no kind we predict: {', '.join(other)}")
    for table in known:
        found.sets += prepared(table, given)


def _tables(folder: Path, found: Found) -> Iterator[Measurements]:
    for file in csv_files(folder):
        try:
            yield load_measurements(file)
        except DovetailError as error:  # a folder may hold anything; what cannot be read is told, not fatal
            found.notes.append(f"skipped: {error}")


def check_any_row(found: Found) -> None:
    """Raises where none of what was named can be compared, and says why."""
    if not found.records and not any(len(one.measured) for one in found.sets):
        why = [f"{count:,} {what}" for one in found.sets for what, count in one.skipped]
        raise InvalidInput("; ".join(["no row could be compared", *why]))
