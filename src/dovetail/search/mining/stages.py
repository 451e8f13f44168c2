"""The best designs of every kind of stage, and what they come to together: WHAM's global search over top-k lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dovetail.hardware.die import RETICLE_MM2
from dovetail.hardware.template import Design
from dovetail.search.algorithms import Algorithm, Scored
from dovetail.search.algorithms.exact import proving
from dovetail.search.designs import Limits, design_at, silicon_of
from dovetail.search.mining.choice import (
    Assigned,
    StageDesign,
    common,
    mosaic,
    only_job,
    pooled,
    stage_job,
    stage_kinds,
)
from dovetail.search.mining.miner import Mined
from dovetail.search.mining.score import Question
from dovetail.search.space import Point

ONE, MOSAIC, POOLED = "one", "mosaic", "pooled"
DIRECTIONS = {
    ONE: "one design for all stages",
    MOSAIC: "a design for each kind of stage, every die within the limits",
    POOLED: "the same, the limits kept on the mean over all devices: a stage may take what another leaves",
}
NUM_KEPT, MOST_KEPT = 10, 200  # style: designs of each kind of stage; of a pool several times as many are compared
SHARES = (0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5)  # estimate: of the limits, for stages that leave something to others

Known = Mapping[Point, Scored]
Searched = Callable[[Question, Algorithm, Known], tuple[Mined, ...]]  # none where no design is within the limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Equal stages: their design, what a microbatch takes on the best design for all, and how sure its list is."""

    stages: tuple[int, ...]
    chosen: StageDesign
    common_pass_s: float
    num_kept: int
    num_proven: int  # of those kept, best of all designs within the limits


@dataclass(frozen=True, slots=True, kw_only=True)
class ByStage:
    """Designs by kind of stage, beside the best design for all of them."""

    way: str
    kinds: tuple[Kind, ...]
    chosen: Assigned
    common: Assigned
    limits: Limits  # of one device
    num_designs: int  # that were chosen from, all different
    num_lists: int  # that they are the best of: of all stages, of each kind, and in a pool within other limits too

    @property
    def gain_frac(self) -> float:
        """How much better than one design for all."""
        return self.common.loss / self.chosen.loss - 1.0

    @property
    def slowest(self) -> Kind:
        """The kind whose microbatch takes longest: the pace of the pipeline."""
        return max(self.kinds, key=lambda kind: kind.chosen.pass_s)


def by_stage(
    question: Question, found: Mined, algorithm: Algorithm, search: Searched, *, way: str, num_kept: int
) -> ByStage:
    """Each kind of stage mined, and the best of the combinations; `found` is what the job came to with one design.

    The best `num_kept` designs for all stages are open to each kind too, so the answer is never worse than the first.
    """
    wide = proving(num_kept) if algorithm.is_exact else algorithm
    job = only_job(question)
    kinds = stage_kinds(job)
    alone = [replace(question, jobs=(stage_job(job, job.stages[stages[0]]),)) for stages in kinds]
    mined_kinds = [search(one, wide, {})[0] for one in alone]
    for_all = _kept(question, found, num_kept)
    tops = [for_all, *(_kept(question, one, num_kept) for one in mined_kinds)]
    best = common(question, for_all)
    chosen = min(best, mosaic(question, tops), key=lambda assigned: assigned.loss)
    if way == POOLED:
        for one, mined in zip(alone, mined_kinds, strict=True):
            tops += _of_a_pool(
                one, mined, lambda question_of_pool, known: search(question_of_pool, wide, known), num_kept
            )
        chosen = min(chosen, pooled(question, tops), key=lambda assigned: assigned.loss)
    return ByStage(
        way=way,
        kinds=_labelled_kinds(kinds, mined_kinds, chosen, best, num_kept),
        chosen=chosen,
        common=best,
        limits=question.limits,
        num_designs=len({design for top in tops for design in top}),
        num_lists=len(tops),
    )


def _labelled_kinds(
    kinds: Sequence[tuple[int, ...]], mined_kinds: Sequence[Mined], chosen: Assigned, best: Assigned, num_kept: int
) -> tuple[Kind, ...]:
    return tuple(
        Kind(
            stages=stages,
            chosen=chosen.stages[stages[0]],
            common_pass_s=best.stages[stages[0]].pass_s,
            num_kept=min(num_kept, mined.num_scheduled),
            num_proven=min(num_kept, mined.num_proven),
        )
        for stages, mined in zip(kinds, mined_kinds, strict=True)
    )


def _kept(question: Question, found: Mined, num_kept: int) -> list[Design]:
    return [design_at(question.space, one.point) for one in found.found[:num_kept]]


def _of_a_pool(
    question: Question, found: Mined, search: Callable[[Question, Known], tuple[Mined, ...]], num_kept: int
) -> Iterator[list[Design]]:
    """The best designs of one stage within other limits than its own, those that one search scored known to the next.

    More than its own up to a reticle, unless those are beyond one, at the same watts for each mm2; and less. Where the
    best within some limits keep lower ones too, they are the best within those.
    """
    limits, known = question.limits, {one.point: one for one in found.found}
    most = RETICLE_MM2 / limits.area_mm2
    last = found.found[:num_kept]
    for share in (*((most,) if most > 1 else ()), *SHARES):
        inside = Limits(area_mm2=share * limits.area_mm2, power_w=share * limits.power_w)
        if share < 1 and len(_within(question, last, inside)) == len(last):
            continue
        for mined in search(replace(question, limits=inside), _within(question, known.values(), inside)):
            known |= {one.point: one for one in mined.found}
            last = mined.found[:num_kept] if share < 1 else last
            yield _kept(question, mined, num_kept)


def _within(question: Question, found: Iterable[Scored], limits: Limits) -> dict[Point, Scored]:
    """Those of `found` that keep `limits`, which may be lower than the ones they were scored within."""
    scored = list(found)
    silicon = silicon_of(question.base, [design_at(question.space, one.point) for one in scored])
    keeps = silicon.excess_frac(limits) == 0
    return {one.point: one for one, kept in zip(scored, keeps, strict=True) if kept}
