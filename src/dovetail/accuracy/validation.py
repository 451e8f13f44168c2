"""Sets compared and scored: per set and operator kind, with the bars that hold for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dovetail.accuracy.bars import Bar, bars_of
from dovetail.accuracy.compared import NUM_WORST, Compared, Score, score
from dovetail.accuracy.prepared import Prepared


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A bar and whether it holds."""

    bar: Bar
    measured_frac: float
    holds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """The rows of one kind in a set, or with no `kind` all of them."""

    kind: str
    score: Score
    judged: tuple[Judged, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredSet:
    """One set on one chip (empty where none matters): scored as a whole, then kind by kind where it has several."""

    name: str
    chip: str
    unit: str
    rows: tuple[Compared, ...]
    scored: tuple[Scored, ...]
    skipped: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """Everything one run of the comparison found; `notes` say what was left out and why."""

    sets: tuple[ScoredSet, ...]
    notes: tuple[str, ...] = ()

    @property
    def missed(self) -> tuple[tuple[ScoredSet, Scored, Judged], ...]:
        return tuple(
            (one, scored, judged)
            for one in self.sets
            for scored in one.scored
            for judged in scored.judged
            if not judged.holds
        )


def validation(prepared: Iterable[Prepared], notes: tuple[str, ...] = (), num_worst: int = NUM_WORST) -> Validation:
    return Validation(sets=tuple(scored_set(one, num_worst) for one in prepared), notes=notes)


def scored_set(prepared: Prepared, num_worst: int = NUM_WORST) -> ScoredSet:
    rows = prepared.compared()
    kinds = sorted(set(prepared.kinds))
    scored = [_scored("", rows, prepared.promise, num_worst)] if rows else []
    if len(kinds) > 1:
        for kind in kinds:
            of_kind = tuple(row for row in rows if row.kind == kind)
            scored.append(_scored(kind, of_kind, prepared.promise, num_worst))
    return ScoredSet(
        name=prepared.name,
        chip=prepared.chip.name if prepared.is_of_chip else "",
        unit=prepared.unit,
        rows=rows,
        scored=tuple(scored),
        skipped=prepared.skipped,
    )


def _scored(kind: str, rows: tuple[Compared, ...], promise: str, num_worst: int) -> Scored:
    found = score(rows, num_worst)
    judged = tuple(
        Judged(bar=bar, measured_frac=bar.measured_frac(found), holds=bar.holds(found))
        for bar in bars_of(promise, kind)
    )
    return Scored(kind=kind, score=found, judged=judged)
