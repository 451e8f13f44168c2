"""Papers that are many searches: PHAZE's, NEST's and WHAM's models, one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files.phaze_dp import load_instance
from dovetail.files.text import one_line
from dovetail.papers.mappers import OURS, PAPERS, Mapper
from dovetail.papers.nest import CASES as NEST_CASES
from dovetail.papers.nest import NestRow, nest_study
from dovetail.papers.phaze import Compared, around_real, phaze_study
from dovetail.papers.phaze_cases import CASES, PUBLISHED, TERMS, Case, Terms
from dovetail.papers.phaze_claims import Phaze
from dovetail.papers.phaze_dp import Placed
from dovetail.papers.phaze_joint import best_around_real, best_joint
from dovetail.papers.published_plans import best_on_terms
from dovetail.papers.wham.cases import NAMES, tasks
from dovetail.papers.wham.study import step_name
from dovetail.papers.wham.study import wham as wham_both
from dovetail.report.papers.phaze import phaze_record
from dovetail.report.papers.wham import wham_record
from dovetail.report.plain import Record
from dovetail.search.planners.placement.placed import best_placement, placement_of
from dovetail.search.planners.placement.problem import Placement

Stepping = Callable[[list[str]], AbstractContextManager[Callable[[str], None]]]  # is told each name as it is begun


def phaze(models: Sequence[str], stepping: Stepping, *, is_quick: bool) -> Record:
    """All of PHAZE's and NEST's models by both mappers, or those named; where `is_quick` chips are not searched.

    Chips are searched on published terms, which the paper's claims are on; on calibrated ones that takes many times
    longer, and `benchmarks/phaze_records.py` does it.
    """
    known = tuple(dict.fromkeys(case.model for case in (*CASES, *NEST_CASES)))
    for name in models:
        if name not in known:
            hint = did_you_mean(name, known)
            raise InvalidInput(f"neither PHAZE nor NEST has a model {one_line(name)!r}{hint}", "--model")
    chosen = [case for case in CASES if not models or case.model in models]
    nest_cases = [case for case in NEST_CASES if not models or case.model in models]
    names = [f"{case.name}, {terms.name} terms" for terms in TERMS for case in chosen]
    names += [f"{case.name} by the paper's mapper" for case in chosen]
    names += [f"{case.name} on NEST's system" for case in nest_cases]
    ours: list[Compared] = []
    theirs: list[Compared] = []
    nest: dict[Mapper, list[NestRow]] = {OURS: [], PAPERS: []}
    with stepping(names) as report_step:
        for terms in TERMS:
            for case in chosen:
                report_step(f"{case.name}, {terms.name} terms")
                ours.append(_compared(case, terms, OURS, is_quick=is_quick or not terms.is_published))
        for case in chosen:
            report_step(f"{case.name} by the paper's mapper")
            theirs.append(_compared(case, PUBLISHED, PAPERS, is_quick=is_quick))
        for nest_case in nest_cases:
            report_step(f"{nest_case.name} on NEST's system")
            for mapper, rows in nest.items():
                rows += nest_study([nest_case], mapper)
    found = Phaze(
        ours=tuple(ours),
        by_paper_mapper=tuple(theirs),
        nest=tuple(nest[OURS]),
        nest_by_paper_mapper=tuple(nest[PAPERS]),
    )
    return phaze_record(found)


def _compared(case: Case, terms: Terms, mapper: Mapper, *, is_quick: bool) -> Compared:
    """One model; chips are searched where it is not `is_quick`."""
    [one] = phaze_study(best_on_terms, None if is_quick else best_joint, [case], [terms], mapper)
    if is_quick:
        return one
    return replace(one, real=around_real(best_on_terms, best_around_real, case, terms, mapper))


def wham(models: tuple[str, ...], stepping: Stepping, *, is_exhaustive: bool) -> Record:
    """The comparison over `models`, all of the paper's where none is named."""
    chosen = tuple(tasks(models or NAMES))
    with stepping([step_name(task.name, mapper) for mapper in (PAPERS, OURS) for task in chosen]) as report_step:
        return wham_record(wham_both(chosen, is_exhaustive=is_exhaustive, log=report_step))


def placed_instance(file: Path) -> Placed:
    """Our optimum of a PHAZE instance, and the experts' placement timed."""
    instance = load_instance(file)
    best = best_placement(instance.problem)
    if not isinstance(best, Placement):
        raise InvalidInput(f"{one_line(file.name)}: {best.reason}")
    degree = instance.expert_tensor_parallel
    chosen = [variant for variant in instance.problem.variants if variant.tensor_parallel == degree]
    if not chosen:
        raise InvalidInput(f"{one_line(file.name)}: the experts' degree {degree} has no table of layers")
    expert = placement_of(instance.problem, chosen[0], instance.expert_data_parallel, instance.expert_ends)
    return Placed(
        batch_s=best.batch_s,
        expert_batch_s=expert.batch_s,
        tensor_parallel=best.variant.tensor_parallel,
        data_parallel=best.data_parallel,
        num_stages=len(best.stages),
    )
