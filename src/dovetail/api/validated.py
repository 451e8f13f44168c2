"""Predictions beside measurements: from the sets that were asked for to how far we are off."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import SupportsIndex

from dovetail.accuracy.coverage import judged_coverage
from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Given, Prepared
from dovetail.accuracy.profiled import Profiled
from dovetail.accuracy.sets import format_of, prepared
from dovetail.accuracy.validation import Validation as Compared
from dovetail.accuracy.validation import validation
from dovetail.api.answer import Answer, call_of
from dovetail.api.arguments import counted, in_python
from dovetail.api.around import Around, called
from dovetail.api.profiled_answers import other_chip, profile_compared
from dovetail.api.progress import Tell
from dovetail.errors import DovetailError, InvalidInput, did_you_mean
from dovetail.files.given import ChipGiven, chip_given
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
from dovetail.report.accuracy import accuracy_tables, accuracy_verdict, validation_record
from dovetail.report.page import Page
from dovetail.report.pages.accuracy import accuracy_page
from dovetail.report.profiled import profiled_record, profiled_sections, profiled_sentence, profiled_tables
from dovetail.report.record import Record
from dovetail.report.table import Table

GEMM = "published-gemm"
# Sets that are not shipped, by the files they are in; and files that join a shipped set where this machine has them.
PUBLISHED = {GEMM: PUBLISHED_GEMM}
BESIDE = {"published": MORE_RUNS}
QUICK = tuple(name for name in SHIPPED if name not in BESIDE)  # without whole training runs, which take longer


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateAsked:
    """Which sets, and what holds of every row of them, whatever its table says."""

    targets: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    chip: ChipGiven = ""
    dtype: str = ""
    num_worst: int = 1

    @property
    def sets(self) -> tuple[str, ...]:
        return self.targets or (() if self.profiles else (*QUICK, GEMM))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Validation(Answer):
    """How far predictions are off, set by set: `outcome` is the comparison's own value.

    `earlier` are records of runs that were named as files; every one of `profiles` is a set too.
    """

    outcome: Compared
    earlier: tuple[Record, ...]
    profiles: tuple[Profiled, ...]
    said: Record
    call: str

    @property
    def fits(self) -> bool:
        """Whether every documented bar holds."""
        return bool(self.record["holds"])

    @property
    def headline(self) -> str:
        record = self.record
        if self.profiles:
            return "; ".join(profiled_sentence(one) for one in self.profiles)
        return f"{len(record['sets'])} sets of measurements; {accuracy_verdict(record, self._left_out)}"

    @property
    def tables(self) -> tuple[Table, ...]:
        return (
            *accuracy_tables(self.record),
            *(table for one in self.profiles for table in profiled_tables(one)),
        )

    @property
    def record(self) -> Record:
        record = validation_record(self.outcome)
        for earlier in self.earlier:
            record["sets"] += earlier["sets"]
            record["notes"] += earlier["notes"]
            record["coverage"] = [*record.get("coverage", ()), *earlier.get("coverage", ())]
            record["holds"] = record["holds"] and earlier["holds"]
        profiles = [profiled_record(one) for one in self.profiles]
        profiles += [one for earlier in self.earlier for one in earlier.get("profiles", ())]
        return record | ({"profiles": profiles} if profiles else {})

    @property
    def _left_out(self) -> tuple[str, ...]:
        """Sets that ship and are not compared where none is named."""
        return tuple(BESIDE) if self.said["targets"] == list(ValidateAsked().sets) else ()

    @property
    def page(self) -> Page:
        page = accuracy_page(self.outcome, self.record, self._left_out)
        more = tuple(section for one in self.profiles for section in profiled_sections(one))
        return replace(page, sections=(*page.sections, *more))

    @property
    def inputs(self) -> Record:
        return self.said


@in_python
def validate(
    *target: str | PathLike[str],
    chip: ChipGiven = "",
    dtype: str = "",
    worst: SupportsIndex = 1,
    profile: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    progress: Tell | bool = False,
) -> Validation:
    """Compare predictions with measurements, set by set.

    Without an argument, with what ships: h200, array-sims, dies and astra-sim. A `target` is a set by name, a CSV
    file, a folder of them, or results as JSON. `worst` is how many of each set's worst rows are shown, 0 for none.
    `profile` is a trace of PyTorch's profiler or of Chakra, or several: every operator of it is a row.
    """
    num_worst = 0 if worst == 0 and not isinstance(worst, bool) else counted("worst", worst)
    traces = [profile] if isinstance(profile, str | PathLike) else list(profile)
    asked = ValidateAsked(
        targets=tuple(os.fspath(one) for one in target),
        profiles=tuple(os.fspath(one) for one in traces),
        chip=chip,
        dtype=dtype,
        num_worst=num_worst,
    )
    call = call_of("validate", target=target, chip=chip, dtype=dtype, worst=worst, profile=asked.profiles)
    with called(progress) as around:
        return validated(asked, around, call)


def validated(asked: ValidateAsked, around: Around, call: str = "dovetail.validate()") -> Validation:
    """How far we are off; raises where nothing that was named can be compared."""
    if asked.dtype and not asked.sets:
        raise InvalidInput(
            "a trace says the dtype of every operator, so there is nothing for it to say; leave it out", "--dtype"
        )
    chip = None if asked.chip == "" else chip_given(asked.chip)
    given = Given(chip=chip, dtype=asked.dtype)
    found = _Found()
    for target in around.through("comparing predictions with measurements", asked.sets):
        _look_up(target, given, found, is_asked=bool(asked.targets))
    compared_profiles = [profile_compared(file, chip) for file in asked.profiles]
    found.sets += [one for _, one in compared_profiles]
    found.notes += [note for one, _ in compared_profiles for note in other_chip(one)]
    if (
        (asked.targets and not asked.profiles)
        and not found.records
        and not any(len(one.measured) for one in found.sets)
    ):
        why = [f"{count:,} {what}" for one in found.sets for what, count in one.skipped]
        raise InvalidInput("; ".join(["no row could be compared", *why]))
    with around.busy("scoring"):
        covered = judged_coverage(load_residuals()) if set(asked.targets) & set(BESIDE) else ()
        compared = validation(found.sets, tuple(found.notes), asked.num_worst, covered)
    said = {"targets": [*asked.sets, *asked.profiles], "chip": chip.name if chip else "", "dtype": asked.dtype}
    profiles = tuple(one for one, _ in compared_profiles)
    return Validation(outcome=compared, earlier=tuple(found.records), profiles=profiles, said=said, call=call)


@dataclass(slots=True)
class _Found:
    """What the targets come to: sets, records of earlier runs, and words on what was left out."""

    sets: list[Prepared] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


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
