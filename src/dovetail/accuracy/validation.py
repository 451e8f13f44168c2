"""Sets compared and scored: per set and operator kind, with the bars that hold for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from dovetail.accuracy.bars import Bar, bars_of
from dovetail.accuracy.choice_bars import (
    Choice,
    Unjudged,
    decided_choices,
    fitted_choices,
    ranked_choices,
    unjudged_choices,
)
from dovetail.accuracy.compared import NUM_WORST, Compared, Score, score
from dovetail.accuracy.coverage import JudgedCoverage
from dovetail.accuracy.one_scalar import OneScalar, one_scalar
from dovetail.accuracy.peers import PEERS, Peer
from dovetail.accuracy.prepared import Decision, Prepared
from dovetail.accuracy.ranking import Ranking, ranking


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
    ranking: Ranking = field(default_factory=Ranking)
    one_scalar: OneScalar = field(default_factory=OneScalar)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """How often we predicted rightly whether jobs of one kind fit; with no `kind`, of all of them."""

    kind: str
    num_ran: int
    num_false: int  # of those that ran, we say that they do not fit
    num_failed: int
    num_missed: int  # of those that ran out of memory, we say that they fit


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """A peer's error beside ours on the rows of the same publishers."""

    peer: Peer
    num_rows: int
    mape_frac: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredSet:
    """One set on one chip (empty where none matters): scored as a whole, then kind by kind where it has several
    or a bar is of that kind.
    """

    name: str
    chip: str
    unit: str
    rows: tuple[Compared, ...]
    scored: tuple[Scored, ...]
    skipped: tuple[tuple[str, int], ...]
    memory_verdicts: tuple[Decided, ...] = ()
    peers: tuple[Beside, ...] = ()
    choices: tuple[Choice, ...] = ()
    not_judged: tuple[Unjudged, ...] = ()  # bars on choosing, and peers, of publishers that have no rows here
    peers_without_rows: tuple[Peer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """Everything one run of the comparison found; `notes` say what was left out and why."""

    sets: tuple[ScoredSet, ...]
    notes: tuple[str, ...] = ()
    coverage: tuple[JudgedCoverage, ...] = ()  # of intervals, where published runs are requested

    @property
    def missed(self) -> tuple[tuple[ScoredSet, Scored, Judged], ...]:
        return tuple(
            (one, scored, judged)
            for one in self.sets
            for scored in one.scored
            for judged in scored.judged
            if not judged.holds
        )

    @property
    def holds(self) -> bool:
        """Whether every bar does, on errors, on choosing and on intervals."""
        is_chosen = all(choice.holds for one in self.sets for choice in one.choices)
        return not self.missed and is_chosen and all(one.holds for one in self.coverage)


def validation(
    prepared: Iterable[Prepared],
    notes: tuple[str, ...] = (),
    num_worst: int = NUM_WORST,
    coverage: tuple[JudgedCoverage, ...] = (),
) -> Validation:
    sets = [scored_set(one, num_worst) for one in prepared]
    judged = {choice.kind for one in sets for choice in one.choices}
    met = {beside.peer for one in sets for beside in one.peers}
    judged_sets = tuple(
        replace(
            one,  # what another set has rows of is judged there
            not_judged=tuple(not_judged for not_judged in one.not_judged if not_judged.kind not in judged),
            peers_without_rows=tuple(peer for peer in one.peers_without_rows if peer not in met),
        )
        for one in sets
    )
    return Validation(sets=judged_sets, notes=notes, coverage=coverage)


def scored_set(prepared: Prepared, num_worst: int = NUM_WORST) -> ScoredSet:
    rows = prepared.compared()
    kinds = sorted(set(prepared.kinds))
    scored = [_scored("", rows, prepared, num_worst)] if rows else []
    if len(kinds) > 1 or any(bars_of(prepared.promise, kind) for kind in kinds):
        scored += [_scored(kind, rows, prepared, num_worst) for kind in kinds]
    decided = tuple(_decided(prepared.decisions))
    has_promises = bool(prepared.groups and prepared.promise)
    is_of_many = has_promises and len(kinds) > 1  # a set of one publisher promises nothing of others
    return ScoredSet(
        name=prepared.name,
        chip=prepared.chip.name if prepared.is_of_chip else "",
        unit=prepared.unit,
        rows=rows,
        scored=tuple(scored),
        skipped=prepared.skipped,
        memory_verdicts=decided,
        peers=tuple(_beside(rows)) if has_promises else (),
        choices=tuple(_choices(scored, kinds, decided)) if prepared.promise else (),
        not_judged=tuple(unjudged_choices(kinds)) if is_of_many else (),
        peers_without_rows=tuple(peer for peer in PEERS if not {*peer.publishers} & {*kinds}) if is_of_many else (),
    )


def _scored(kind: str, rows: tuple[Compared, ...], prepared: Prepared, num_worst: int) -> Scored:
    """The score of the rows of one kind, or with no `kind` of all."""
    chosen = [index for index, row in enumerate(rows) if kind in ("", row.kind)]
    of_kind = tuple(rows[index] for index in chosen)
    found = score(of_kind, num_worst)
    judged = tuple(
        Judged(bar=bar, measured_frac=bar.measured_frac(found), holds=bar.holds(found))
        for bar in bars_of(prepared.promise, kind)
    )
    scored = Scored(kind=kind, score=found, judged=judged)
    if not prepared.groups:
        return scored
    measured, predicted = (np.array([getattr(row, name) for row in of_kind]) for name in ("measured", "predicted"))
    return replace(
        scored,
        ranking=ranking([prepared.groups[index] for index in chosen], measured, predicted),
        one_scalar=one_scalar([row.kind for row in of_kind], measured, predicted),
    )


def _decided(decisions: tuple[Decision, ...]) -> Iterable[Decided]:
    kinds = sorted({decision.kind for decision in decisions})
    for kind in ("", *kinds) if kinds else ():
        chosen = [decision for decision in decisions if kind in ("", decision.kind)]
        ran = [decision for decision in chosen if decision.has_run]
        failed = [decision for decision in chosen if not decision.has_run]
        yield Decided(
            kind=kind,
            num_ran=len(ran),
            num_false=sum(not decision.fits for decision in ran),
            num_failed=len(failed),
            num_missed=sum(decision.fits for decision in failed),
        )


def _choices(scored: list[Scored], kinds: list[str], decided: tuple[Decided, ...]) -> Iterable[Choice]:
    """Bars on choosing that hold for a set; a set of one publisher is scored as a whole."""
    for one in scored:
        yield from ranked_choices(one.kind or (kinds[0] if len(kinds) == 1 else ""), one.ranking)
    if len(kinds) > 1:
        yield from fitted_choices(scored[0].one_scalar)
    for whole in decided[:1]:
        yield from decided_choices(whole.num_ran + whole.num_failed, whole.num_false + whole.num_missed)


def _beside(rows: tuple[Compared, ...]) -> Iterable[Beside]:
    for peer in PEERS:
        same = [row for row in rows if row.kind in peer.publishers]
        if same:
            yield Beside(peer=peer, num_rows=len(same), mape_frac=score(same).mape_frac)
