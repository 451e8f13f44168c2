"""What a prediction is worth for choosing: how it ranks the plans of one job, and what its pick costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.workload.graph import FloatArray

MIN_RANKED = 4  # plans of a job from which on a rank correlation says something
MIN_PICKED = 3  # and from which on there is something to pick


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Means over jobs that were run by several plans; 0 where there is no such job.

    `regret_frac`: how much longer the plan takes that is predicted to be fastest than the one that was.
    """

    num_ranked: int = 0
    spearman: float = 0.0
    num_picked: int = 0
    regret_frac: float = 0.0
    worst_regret_frac: float = 0.0


def ranking(groups: Sequence[str], measured: FloatArray, predicted: FloatArray) -> Ranking:
    """Of rows in `groups`, each the plans of one job."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, group in enumerate(groups):
        rows[group].append(row)
    large = [np.array(group) for group in rows.values() if len(group) >= MIN_PICKED]
    picked = [_regret_frac(measured[group], predicted[group]) for group in large]
    ranked = [spearman(measured[group], predicted[group]) for group in large if len(group) >= MIN_RANKED]
    return Ranking(
        num_ranked=len(ranked),
        spearman=float(np.mean(ranked)) if ranked else 0.0,
        num_picked=len(picked),
        regret_frac=float(np.mean(picked)) if picked else 0.0,
        worst_regret_frac=max(picked, default=0.0),
    )


def _regret_frac(measured: FloatArray, predicted: FloatArray) -> float:
    return float(measured[np.argmin(predicted)] / measured.min() - 1.0)


def spearman(first: FloatArray, second: FloatArray) -> float:
    """Correlation of ranks, equal values sharing theirs; 0 where all values of one side are equal."""
    ranks = [_ranks(column) - (len(column) - 1) / 2 for column in (first, second)]
    spread = float(np.sqrt((ranks[0] ** 2).sum() * (ranks[1] ** 2).sum()))
    return float((ranks[0] * ranks[1]).sum() / spread) if spread > 0 else 0.0


def _ranks(values: FloatArray) -> FloatArray:
    """From 0 on; equal values have the mean of the ranks they take up."""
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(sizes) - 1
    ranks: FloatArray = (last - (sizes - 1) / 2.0)[group]
    return ranks
