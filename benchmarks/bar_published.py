"""Published training runs: errors of a step, ranks of plans, regret of the pick, and a peer's errors beside ours."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bar import Bar
from benchmarks.published_gemm import ABSENT
from benchmarks.published_runs import published_runs
from dovetail.accuracy.validation import Beside, Scored, ScoredSet, validation

ISSUE = 5
MAX_FITTED_FRAC = 0.07  # mean error with one factor a publisher from three rows
MIN_SPEARMAN = {"vTrain, many nodes": 0.9, "vTrain, one node": 0.9, "BLOOM's tuning": 0.7}
MAX_REGRET_FRAC, MAX_WORST_REGRET_FRAC = 0.01, 0.03
MIN_DECIDED_FRAC = 0.97


def bars() -> Iterator[Bar]:
    sets = validation(published_runs()).sets
    if not sets:
        name, told = "published training runs", "as promised"
        yield Bar(name=name, issue=ISSUE, bar=told, measured="-", holds=None, note=ABSENT)
        return
    for one in sets:
        for scored in one.scored:
            yield from _judged(one, scored)
            yield from _ranked(one, scored)
        yield from (_beside(beside) for beside in one.beside)
    yield _fitted(sets[0].scored[0])
    yield _decided(sets)


def _judged(one: ScoredSet, scored: Scored) -> Iterator[Bar]:
    for found in scored.judged:
        yield Bar(
            name=one.name,
            issue=ISSUE,
            bar=f"{found.bar.statistic} <= {found.bar.limit_frac:.0%}",
            measured=f"{found.measured_frac:.1%} of {scored.score.num_rows:,} rows",
            holds=found.holds,
        )


def _ranked(one: ScoredSet, scored: Scored) -> Iterator[Bar]:
    """Of one publisher: a set of a single one is scored as a whole."""
    kinds = {row.kind for row in one.rows}
    name = scored.kind or (next(iter(kinds)) if len(kinds) == 1 else "")
    ranking = scored.ranking
    if name not in MIN_SPEARMAN or not ranking.num_picked:
        return
    least = MIN_SPEARMAN[name]
    yield Bar(
        name=f"{name}: ranks inside jobs",
        issue=ISSUE,
        bar=f"Spearman >= {least:g}",
        measured=f"{ranking.spearman:.2f} over {ranking.num_ranked} jobs",
        holds=ranking.spearman >= least,
    )
    yield Bar(
        name=f"{name}: regret of the pick",
        issue=ISSUE,
        bar=f"mean <= {MAX_REGRET_FRAC:.0%}, worst <= {MAX_WORST_REGRET_FRAC:.0%}",
        measured=f"{ranking.regret_frac:.1%}, {ranking.worst_regret_frac:.1%} over {ranking.num_picked} jobs",
        holds=ranking.regret_frac <= MAX_REGRET_FRAC and ranking.worst_regret_frac <= MAX_WORST_REGRET_FRAC,
    )


def _beside(beside: Beside) -> Bar:
    peer = beside.peer
    return Bar(
        name=f"{peer.what}, beside {peer.name}",
        issue=ISSUE,
        bar=f"MAPE < {peer.least_frac:.0%}",
        measured=f"{beside.mape_frac:.1%} of {beside.num_rows:,} rows",
        holds=beside.mape_frac < peer.least_frac,
    )


def _fitted(scored: Scored) -> Bar:
    found = scored.one_scalar
    draws = f"draws {found.low_frac:.1%} to {found.high_frac:.1%}"
    return Bar(
        name="one factor a publisher from three rows",
        issue=ISSUE,
        bar=f"MAPE <= {MAX_FITTED_FRAC:.0%}",
        measured=f"{found.mape_frac:.1%} ({draws}) of {found.num_rows:,} rows",
        holds=found.mape_frac <= MAX_FITTED_FRAC,
    )


def _decided(sets: tuple[ScoredSet, ...]) -> Bar:
    whole = [one.decided[0] for one in sets if one.decided]
    num = sum(decided.num_ran + decided.num_failed for decided in whole)
    num_wrong = sum(decided.num_false + decided.num_missed for decided in whole)
    return Bar(
        name="does it fit, published runs",
        issue=ISSUE,
        bar=f">= {MIN_DECIDED_FRAC:.0%} right",
        measured=f"{num - num_wrong} of {num}",
        holds=num - num_wrong >= MIN_DECIDED_FRAC * num,
    )
