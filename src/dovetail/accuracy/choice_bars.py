"""The documented bars on choosing: ranks inside jobs, regret of the pick, one factor from three rows, what fits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dovetail.accuracy.one_scalar import OneScalar
from dovetail.accuracy.ranking import Ranking

MIN_SPEARMAN = {"vTrain, many nodes": 0.9, "vTrain, one node": 0.9, "BLOOM's tuning": 0.7}
MAX_REGRET_FRAC, MAX_WORST_REGRET_FRAC = 0.01, 0.03
MAX_FITTED_FRAC = 0.07  # mean error with one factor a publisher from three rows
MIN_DECIDED_FRAC = 0.97  # of decisions whether a run fits
AT_LEAST = ("Spearman", "decided")  # statistics that are to be large; the others are to be small


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One promise beside what was found over `num_judged` jobs, rows or runs; with no `kind`, of all publishers."""

    kind: str
    statistic: str  # Spearman, regret, worst regret, one factor, decided
    limit: float
    measured: float
    num_judged: int

    @property
    def holds(self) -> bool:
        if self.statistic in AT_LEAST:
            return self.measured >= self.limit
        return self.measured <= self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Unjudged:
    """One promise about a publisher none of whose rows are there to judge it by."""

    kind: str
    statistic: str
    limit: float


def unjudged_choices(publishers: Iterable[str]) -> Iterator[Unjudged]:
    """Of publishers that something is promised of, and that are not among `publishers`."""
    for kind in sorted(MIN_SPEARMAN.keys() - set(publishers)):
        yield Unjudged(kind=kind, statistic="Spearman", limit=MIN_SPEARMAN[kind])
        yield Unjudged(kind=kind, statistic="regret", limit=MAX_REGRET_FRAC)
        yield Unjudged(kind=kind, statistic="worst regret", limit=MAX_WORST_REGRET_FRAC)


def ranked_choices(publisher: str, ranking: Ranking) -> Iterator[Choice]:
    """Of a publisher whose jobs were run by several plans, where something is promised of it."""
    if publisher not in MIN_SPEARMAN:
        return
    if ranking.num_ranked:
        yield _choice(publisher, "Spearman", MIN_SPEARMAN[publisher], ranking.spearman, ranking.num_ranked)
    if ranking.num_picked:
        yield _choice(publisher, "regret", MAX_REGRET_FRAC, ranking.regret_frac, ranking.num_picked)
        yield _choice(publisher, "worst regret", MAX_WORST_REGRET_FRAC, ranking.worst_regret_frac, ranking.num_picked)


def fitted_choices(found: OneScalar) -> Iterator[Choice]:
    """Of all publishers together."""
    if found.num_rows:
        yield _choice("", "one factor", MAX_FITTED_FRAC, found.mape_frac, found.num_rows)


def decided_choices(num_decided: int, num_wrong: int) -> Iterator[Choice]:
    if num_decided:
        yield _choice("", "decided", MIN_DECIDED_FRAC, 1 - num_wrong / num_decided, num_decided)


def _choice(kind: str, statistic: str, limit: float, measured: float, num_judged: int) -> Choice:
    return Choice(kind=kind, statistic=statistic, limit=limit, measured=measured, num_judged=num_judged)
