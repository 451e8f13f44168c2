"""`dovetail reproduce phaze`: experts, our plans and the best chips for PHAZE's models, and NEST's placements."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.accuracy.reproduce.nest import CASES as NEST_CASES
from dovetail.accuracy.reproduce.nest import NestRow, nest_study
from dovetail.accuracy.reproduce.phaze import Compared, phaze_study
from dovetail.accuracy.reproduce.phaze_cases import CASES, TERMS
from dovetail.cli.progress import stepping
from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files.text import one_line
from dovetail.report.phaze import phaze_record
from dovetail.report.record import Record
from dovetail.search.phaze_joint import best_joint
from dovetail.search.published_plans import best_on_terms, nest_plans


def phaze(models: Sequence[str], *, is_quick: bool) -> Record:
    """All of PHAZE's and NEST's models, or those named; where `is_quick` chips are not searched."""
    known = tuple(dict.fromkeys(case.model for case in (*CASES, *NEST_CASES)))
    for name in models:
        if name not in known:
            hint = did_you_mean(name, known)
            raise InvalidInput(f"neither PHAZE nor NEST has a model {one_line(name)!r}{hint}", "--model")
    asked = [(case, terms) for terms in TERMS for case in CASES if not models or case.model in models]
    nest_cases = [case for case in NEST_CASES if not models or case.model in models]
    names = [f"{case.name}, {terms.name} terms" for case, terms in asked]
    names += [f"{case.name} on NEST's system" for case in nest_cases]
    best = None if is_quick else best_joint
    compared: list[Compared] = []
    rows: list[NestRow] = []
    with stepping(names) as told:
        for name, (case, terms) in zip(names, asked, strict=False):
            told(name)
            compared += phaze_study(best_on_terms, best, [case], [terms])
        for name, nest_case in zip(names[len(asked) :], nest_cases, strict=True):
            told(name)
            rows += nest_study(nest_plans(), [nest_case])
    return phaze_record(compared, rows)
