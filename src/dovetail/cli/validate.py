"""`dovetail validate`: measurements in, how far we are off out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dovetail.accuracy.coverage import judged_coverage
from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Given, Prepared
from dovetail.accuracy.sets import format_of, prepared
from dovetail.accuracy.validation import validation
from dovetail.cli.naming import chip_named
from dovetail.cli.pictures import picture_file
from dovetail.cli.progress import busy
from dovetail.cli.screen import show_json, show_tables, write
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
from dovetail.files.residuals import load_residuals
from dovetail.files.results import load_results
from dovetail.files.text import one_line
from dovetail.files.written import write_file
from dovetail.report.accuracy import accuracy_tables, validation_record
from dovetail.report.accuracy_page import accuracy_page
from dovetail.report.record import Record
from dovetail.report.scatter import scatter_html, scatter_svg

GEMM = "published-gemm"
# Sets that are not shipped, by the files they are in; and files that join a shipped set where this machine has them.
PUBLISHED = {GEMM: PUBLISHED_GEMM}
BESIDE = {"published": MORE_RUNS}
QUICK = tuple(name for name in SHIPPED if name not in BESIDE)  # without whole training runs, which take longer
PICTURES = {".svg": scatter_svg, ".html": scatter_html}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateAsked:
    """The command's arguments."""

    targets: tuple[str, ...] = ()
    chip: str = ""
    dtype: str = ""
    plot: str = ""
    num_worst: int = 1
    as_json: bool = False
    as_markdown: bool = False


@dataclass(slots=True)
class _Found:
    """What the targets come to: sets, records of earlier runs, and words on what was left out."""

    sets: list[Prepared] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def answer(asked: ValidateAsked) -> bool:
    """Shows the scores, and says whether every documented bar holds."""
    picture = picture_file(asked.plot, PICTURES)
    given = Given(chip=chip_named(asked.chip) if asked.chip else None, dtype=asked.dtype)
    found = _Found()
    with busy("comparing predictions with measurements"):
        for target in asked.targets or (*QUICK, GEMM):
            _look_up(target, given, found, is_asked=bool(asked.targets))
    if asked.targets and not found.records and not any(len(one.measured) for one in found.sets):
        why = [f"{count:,} {what}" for one in found.sets for what, count in one.skipped]
        raise InvalidInput("; ".join(["no row could be compared", *why]))
    with busy("scoring"):
        covered = judged_coverage(load_residuals()) if set(asked.targets) & set(BESIDE) else ()
        compared = validation(found.sets, tuple(found.notes), asked.num_worst, covered)
    record = validation_record(compared)
    for earlier in found.records:
        record["sets"] += earlier["sets"]
        record["notes"] += earlier["notes"]
        record["coverage"] = [*record.get("coverage", ()), *earlier.get("coverage", ())]
        record["holds"] = record["holds"] and earlier["holds"]
    if picture is not None:
        write_file(picture, PICTURES[picture.suffix.lower()](compared.sets))
    if asked.as_json:
        show_json(record)
    elif asked.as_markdown:
        write(accuracy_page(record))
    else:
        show_tables(accuracy_tables(record))
    return bool(record["holds"])


def _look_up(target: str, given: Given, found: _Found, *, is_asked: bool) -> None:
    if target in SHIPPED:
        _take_folder(shipped_folder(target), target, given, found)
        for file in published_files(BESIDE.get(target, ())):
            found.sets += prepared(load_measurements(file), given)
    elif target in PUBLISHED:
        _take_published(target, given, found, is_asked=is_asked)
    elif Path(target).is_dir():
        _take_folder(Path(target), one_line(target), given, found)
    elif target.lower().endswith(".json"):
        found.records.append(load_results(Path(target)))
    else:
        _check_names_a_file(target)
        found.sets += prepared(load_measurements(Path(target)), given)


def _take_published(target: str, given: Given, found: _Found, *, is_asked: bool) -> None:
    names = PUBLISHED[target]
    files = published_files(names)
    if not files:
        listed = f"{', '.join(names[:-1])} and {names[-1]}"
        way_out = f"name their folder in {REFERENCE_DATA_VARIABLE}, or say dovetail validate FILE.csv"
        message = f"{listed} are not shipped; {way_out}"
        if is_asked:
            raise InvalidInput(message)
        found.notes.append(f"{target} skipped: {message}")
    for file in files:
        found.sets += prepared(load_measurements(file), given)


def _check_names_a_file(target: str) -> None:
    names = (*SHIPPED, *PUBLISHED)
    if "." not in target and "/" not in target and not Path(target).exists():
        raise InvalidInput(f"no set of measurements is named {one_line(target)!r}{did_you_mean(target, names)}")


def _take_folder(folder: Path, shown: str, given: Given, found: _Found) -> None:
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


def _tables(folder: Path, found: _Found) -> Iterator[Measurements]:
    for file in csv_files(folder):
        try:
            yield load_measurements(file)
        except DovetailError as error:  # a folder may hold anything; what cannot be read is told, not fatal
            found.notes.append(f"skipped: {error}")
