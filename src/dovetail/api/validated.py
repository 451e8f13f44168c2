"""Predictions beside measurements: from the sets that were asked for to how far we are off."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import SupportsIndex

from dovetail.accuracy.appraisal import Appraisal
from dovetail.accuracy.coverage import judged_coverage
from dovetail.accuracy.prepared import Given
from dovetail.accuracy.profiled import Profiled
from dovetail.accuracy.validation import Validation as Compared
from dovetail.accuracy.validation import validation
from dovetail.api.answer import Answer, call_of
from dovetail.api.arguments import counted, in_python
from dovetail.api.around import Around, called
from dovetail.api.measured_sets import BESIDE, GEMM, QUICK, Found, check_any_row, look_up
from dovetail.api.profiled_answers import other_chip, profile_compared
from dovetail.api.progress import Tell
from dovetail.errors import InvalidInput
from dovetail.files.given import ChipGiven, chip_given
from dovetail.files.measurements import SHIPPED
from dovetail.files.residuals import load_residuals
from dovetail.files.text import quoted
from dovetail.report.accuracy import accuracy_tables, accuracy_verdict, judged_once, validation_record
from dovetail.report.appraisal import appraisal_record, appraisal_sections, whole_tables
from dovetail.report.page import Page
from dovetail.report.pages.accuracy import accuracy_page
from dovetail.report.plain import Record
from dovetail.report.profiled import profiled_record, profiled_sections, profiled_sentence, profiled_tables
from dovetail.report.table import Table

NUM_WORST = 1  # shown of each set, unless more are asked for
Appraise = Callable[[Around], Appraisal]


def _appraised(around: Around) -> Appraisal:
    from dovetail.api.appraised import appraised  # every search and engine, which other comparisons do without

    return appraised(around)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateAsked:
    """Which sets, and what holds of every row of them, whatever its table says."""

    targets: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    chip: ChipGiven = ""
    dtype: str = ""
    num_worst: int = NUM_WORST
    is_whole: bool = False  # every set, and speeds and gaps beside

    def __post_init__(self) -> None:
        given = {"--profile": self.profiles, "--chip": self.chip, "--dtype": self.dtype}
        if twice := next((one for one in self.targets if self.targets.count(one) > 1), ""):
            raise InvalidInput(f"{quoted(twice)} is named twice, and would count twice; name it once")
        for option in (option for option, said in given.items() if self.is_whole and said):
            rule = "--all shows what is promised, so chips and rows are those of the sets"
            raise InvalidInput(f"{rule}; leave out {option}, or --all", option)

    @property
    def sets(self) -> tuple[str, ...]:
        everything = (*SHIPPED, GEMM) if self.is_whole else (*QUICK, GEMM)
        return self.targets or (() if self.profiles else everything)

    @property
    def has_published_runs(self) -> bool:
        return bool(set(self.targets or self.sets) & set(BESIDE))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Validation(Answer):
    """How far predictions are off, set by set: `outcome` is the comparison's own value.

    `earlier` are records of runs that were named as files; every one of `profiles` is a set too. With `all`,
    `appraisal` is one value with speeds and gaps, and all of it is told on one page.
    """

    outcome: Compared
    earlier: tuple[Record, ...]
    profiles: tuple[Profiled, ...]
    said: Record
    call: str
    appraisal: tuple[Appraisal, ...] = ()

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
        for appraisal in self.appraisal:
            return whole_tables(self.record, appraisal)
        return (
            *accuracy_tables(self.record),
            *(table for one in self.profiles for table in profiled_tables(one)),
        )

    @property
    def _record(self) -> Record:
        record = validation_record(self.outcome)
        for earlier in self.earlier:
            record["sets"] = judged_once([*record["sets"], *earlier["sets"]])
            record["notes"] += earlier["notes"]
            record["coverage"] = [*record.get("coverage", ()), *earlier.get("coverage", ())]
            record["holds"] = record["holds"] and earlier["holds"]
        profiles = [profiled_record(one) for one in self.profiles]
        profiles += [one for earlier in self.earlier for one in earlier.get("profiles", ())]
        record |= {"profiles": profiles} if profiles else {}
        return record | {key: value for one in self.appraisal for key, value in appraisal_record(one).items()}

    @property
    def _left_out(self) -> tuple[str, ...]:
        """Sets that ship and are not compared where none is named."""
        return tuple(BESIDE) if self.said["targets"] == list(ValidateAsked().sets) else ()

    @property
    def page(self) -> Page:
        page = accuracy_page(self.outcome, self.record, self._left_out)
        more = tuple(section for one in self.profiles for section in profiled_sections(one))
        more += tuple(section for one in self.appraisal for section in appraisal_sections(one))
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
    all: bool = False,
    progress: Tell | bool = False,
) -> Validation:
    """Compare predictions with measurements, set by set.

    Without an argument, with what ships: h200, array-sims, dies and astra-sim. A `target` is a set by name, a CSV
    file, a folder of them, or results as JSON. `worst` is how many of each set's worst rows are shown, 0 for none.
    `profile` is a trace of PyTorch's profiler or of Chakra, or several: every operator of it is a row. `all` compares
    with every set that is here, times the commonest operations beside other tools, and proves gaps; it takes minutes.
    """
    traces = [profile] if isinstance(profile, str | PathLike) else list(profile)
    asked = ValidateAsked(
        targets=tuple(os.fspath(one) for one in target),
        profiles=tuple(os.fspath(one) for one in traces),
        chip=chip,
        dtype=dtype,
        num_worst=counted("worst", worst, least=0),
        is_whole=all,
    )
    call = call_of("validate", target=target, chip=chip, dtype=dtype, worst=worst, profile=asked.profiles, all=all)
    with called(progress) as around:
        return validated(asked, around, call)


def _check_used(asked: ValidateAsked, found: Found) -> None:
    """Raises where an option says something of rows, and there are none of which it could be said."""
    nowhere = "no set that was named takes it: simulators, dies and results have their own"
    if asked.chip != "" and not any(one.is_of_chip for one in found.sets):
        raise InvalidInput(f"{nowhere}; leave it out", "--chip")
    if asked.dtype and not any(one.is_of_dtype for one in found.sets):
        raise InvalidInput(f"{nowhere}; leave it out", "--dtype")
    if asked.num_worst != NUM_WORST and not found.sets:
        raise InvalidInput("results keep the worst rows that they were written with; leave it out", "--worst")


def validated(
    asked: ValidateAsked, around: Around, call: str = "dovetail.validate()", appraise: Appraise = _appraised
) -> Validation:
    """How far we are off; raises where nothing that was named can be compared."""
    if asked.dtype and not asked.sets:
        raise InvalidInput(
            "a trace says the dtype of every operator, so there is nothing for it to say; leave it out", "--dtype"
        )
    chip = None if asked.chip == "" else chip_given(asked.chip)
    given = Given(chip=chip, dtype=asked.dtype)
    found = Found()
    for target in around.through("comparing predictions with measurements", asked.sets):
        look_up(target, given, found, is_asked=bool(asked.targets), does_name_absent=asked.is_whole)
    compared_profiles = [profile_compared(file, chip) for file in asked.profiles]
    found.sets += [one for _, one in compared_profiles]
    found.notes += [note for one, _ in compared_profiles for note in other_chip(one)]
    if asked.targets and not asked.profiles:
        check_any_row(found)
    _check_used(asked, found)
    with around.busy("scoring"):
        covered = judged_coverage(load_residuals()) if asked.has_published_runs else ()
        compared = validation(found.sets, tuple(found.notes), asked.num_worst, covered)
    said = {"targets": [*asked.sets, *asked.profiles], "chip": chip.name if chip else "", "dtype": asked.dtype}
    return Validation(
        outcome=compared,
        earlier=tuple(found.records),
        profiles=tuple(one for one, _ in compared_profiles),
        said=said,
        call=call,
        appraisal=(appraise(around),) if asked.is_whole else (),
    )
