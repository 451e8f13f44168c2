"""What PHAZE says of itself, and NEST of it, beside what we find by both mappers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dovetail.papers.nest import CASES as NEST_CASES
from dovetail.papers.nest import NestRow
from dovetail.papers.phaze import Compared
from dovetail.papers.phaze_cases import CASES
from dovetail.papers.verdicts import Claim, Reading, mean

NOT_SEARCHED = "chips were not searched"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phaze:
    """PHAZE's models and NEST's, by our mapper and by the one that the paper likely had.

    The latter has the published terms alone: the paper's claims are on those.
    """

    ours: tuple[Compared, ...]
    by_paper_mapper: tuple[Compared, ...]
    nest: tuple[NestRow, ...]
    nest_by_paper_mapper: tuple[NestRow, ...]


def claims(found: Phaze) -> tuple[Claim, ...]:
    """PHAZE's two, and NEST's two figures of it."""
    published = [one for one in found.ours if one.terms.is_published]
    models = {one.case.name for one in published}
    part = "" if len(models) == len(CASES) else f"the paper's figure is of all {len(CASES)} models"
    nest_part = "" if len(found.nest) == len(NEST_CASES) else f"NEST's figure is of all {len(NEST_CASES)} models"
    of_phaze = (_over_tpu(published, found.by_paper_mapper, part), _over_spotlight(published)) if published else ()
    return (*of_phaze, *((_over_manual(found, nest_part), _over_phaze(found, nest_part)) if found.nest else ()))


def _mean(rows: Sequence[Compared], figure: Callable[[Compared], float | None]) -> float | None:
    """The geometric mean where there is a figure of any."""
    known = [value for value in map(figure, rows) if value is not None]
    return mean(known) if known else None


def _over_tpu(ours: Sequence[Compared], papers: Sequence[Compared], part: str) -> Claim:
    def reading(what: str, figure: Callable[[Compared], float | None], differs: str = "") -> Reading:
        return Reading(what=what, paper_mapper=_mean(papers, figure), ours=_mean(ours, figure), differs=differs)

    first = reading(
        "its TPU v4, experts' plan",
        lambda one: one.whole_gain,
        "its TPU v4 has an eighth of a TPU v4's lanes, and its chips keep its own model of area and no limit of power",
    )
    return Claim(
        what="throughput over TPU v4, mean",
        reported=(1.0,),
        is_floor=True,
        obstacle=part or ("" if first.ours is not None else NOT_SEARCHED),
        readings=(
            first,
            reading("its TPU v4, our plan", lambda one: one.joint_gain),
            reading("a real TPU v4 in its mm2, W; experts'", lambda one: one.real.whole_gain if one.real else None),
            reading("a real TPU v4 in its mm2, W; ours", lambda one: one.real.joint_gain if one.real else None),
        ),
    )


def _over_spotlight(ours: Sequence[Compared]) -> Claim:
    def over(one: Compared) -> float | None:
        beside = one.joint.beside if one.joint else None
        return beside.over_chip_then_plan if beside else None

    return Claim(
        what="throughput over Spotlight's chips",
        reported=(1.0,),
        is_floor=True,
        obstacle="Spotlight's chips are not published, and its search was not run",
        readings=(Reading(what="a chip found before its plan", paper_mapper=None, ours=_mean(ours, over)),),
    )


def _nest_mean(rows: Sequence[NestRow], figure: Callable[[NestRow], float]) -> float | None:
    return mean(map(figure, rows)) if rows else None


def _over_manual(found: Phaze, part: str) -> Claim:
    def reading(what: str, figure: Callable[[NestRow], float], differs: str = "") -> Reading:
        by_mapper = (_nest_mean(rows, figure) for rows in (found.nest_by_paper_mapper, found.nest))
        paper_mapper, ours = by_mapper
        return Reading(what=what, paper_mapper=paper_mapper, ours=ours, differs=differs)

    return Claim(
        what="its placement over manual, by NEST, mean",
        reported=(mean(case.phaze / case.manual for case in NEST_CASES),),
        obstacle=part,
        readings=(
            reading(
                "manual as NEST cuts it",
                lambda row: row.in_phaze_space.sequences_per_s / row.manual.sequences_per_s,
                "with the head in the last stage, manual's cut costs more in our model than in NEST's",
            ),
            reading(
                "manual in equal stages", lambda row: row.in_phaze_space.sequences_per_s / row.even.sequences_per_s
            ),
        ),
    )


def _over_phaze(found: Phaze, part: str) -> Claim:
    def over(row: NestRow) -> float:
        return row.ours.sequences_per_s / row.in_phaze_space.sequences_per_s

    return Claim(
        what="NEST's placement over PHAZE's, mean",
        reported=(mean(case.nest / case.phaze for case in NEST_CASES),),
        obstacle=part,
        readings=(
            Reading(
                what="all our plans over PHAZE's kinds",
                paper_mapper=_nest_mean(found.nest_by_paper_mapper, over),
                ours=_nest_mean(found.nest, over),
                differs="our planner in place of NEST's, on its chips and network",
            ),
        ),
    )
