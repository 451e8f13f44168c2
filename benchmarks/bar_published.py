"""Published training runs: errors of a step, ranks of plans, regret of the pick, and a peer's errors beside ours."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.bar import Bar
from benchmarks.left_out_runs import errors, left_out, mean_frac
from benchmarks.published_gemm import ABSENT
from benchmarks.published_runs import published_runs
from dovetail.accuracy.choice_bars import AT_LEAST, Choice
from dovetail.accuracy.runs.machines import EARLY_HOPPER_FRAC
from dovetail.accuracy.validation import Beside, Scored, ScoredSet, validation
from dovetail.hardware.families.gpu import CLOCK_SPREAD_FRAC

ISSUE, TRUST_ISSUE = 5, 26
LABELS = {
    "Spearman": "ranks inside jobs",
    "regret": "regret of the pick, mean",
    "worst regret": "regret of the pick, worst",
    "one factor": "one factor a publisher from three rows",
    "decided": "does it fit",
}


MAX_MEAN_FRAC, MAX_MEDIAN_FRAC, MAX_LEFT_OUT_FRAC = 0.085, 0.06, 0.11  # issue 26, of the rows that ship


def bars() -> Iterator[Bar]:
    yield from _shipped()
    sets = validation(published_runs()).sets
    if not sets:
        name, told = "published training runs", "as promised"
        yield Bar(name=name, issue=ISSUE, bar=told, measured="-", holds=None, note=ABSENT)
        return
    for one in sets:
        for scored in one.scored:
            yield from _judged(one, scored)
        yield from (_chosen(one, choice) for choice in one.choices)
        yield from (_beside(beside) for beside in one.peers)


def _shipped() -> Iterator[Bar]:
    """Complete rows of the table that ships, and each by constants that were chosen without its publisher."""
    publishers, by_constants = errors()
    shipped = np.abs(by_constants[CLOCK_SPREAD_FRAC, EARLY_HOPPER_FRAC])
    for statistic, found_frac, limit_frac in (
        ("mean", float(shipped.mean()), MAX_MEAN_FRAC),
        ("median", float(np.median(shipped)), MAX_MEDIAN_FRAC),
    ):
        yield Bar(
            name="published training, rows that ship",
            issue=TRUST_ISSUE,
            bar=f"{statistic} <= {limit_frac:.1%}",
            measured=f"{found_frac:.1%} of {len(publishers)} rows",
            holds=found_frac <= limit_frac,
        )
    found = left_out()
    worst = sorted(found, key=lambda one: -one.left_out_frac)[:4]
    yield Bar(
        name="published training, a publisher left out",
        issue=TRUST_ISSUE,
        bar=f"mean <= {MAX_LEFT_OUT_FRAC:.0%}",
        measured=f"{mean_frac(found):.1%} of {len(publishers)} rows",
        holds=mean_frac(found) <= MAX_LEFT_OUT_FRAC,
        note="furthest off: " + ", ".join(f"{one.publisher} {one.left_out_frac:.1%}" for one in worst),
    )


def _judged(one: ScoredSet, scored: Scored) -> Iterator[Bar]:
    for found in scored.judged:
        yield Bar(
            name=one.name,
            issue=ISSUE,
            bar=f"{found.bar.statistic} <= {found.bar.limit_frac:.0%}",
            measured=f"{found.measured_frac:.1%} of {scored.score.num_rows:,} rows",
            holds=found.holds,
        )


def _chosen(one: ScoredSet, choice: Choice) -> Bar:
    is_share = choice.statistic != "Spearman"
    limit = f"{choice.limit:.0%}" if is_share else f"{choice.limit:g}"
    found = f"{choice.measured:.1%}" if is_share else f"{choice.measured:.2f}"
    return Bar(
        name=f"{choice.kind or one.name}: {LABELS[choice.statistic]}",
        issue=ISSUE,
        bar=f"{'>=' if choice.statistic in AT_LEAST else '<='} {limit}",
        measured=f"{found} over {choice.num_judged:,}",
        holds=choice.holds,
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
