"""Measured beside predicted, and what a sequence of such pairs comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.errors import InvalidInput

NUM_WORST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One measured row and what we say of it, both in `unit`."""

    set: str
    kind: str
    what: str
    measured: float
    predicted: float
    unit: str

    @property
    def error_frac(self) -> float:
        """Above 0 where we say more than was measured."""
        return self.predicted / self.measured - 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Errors of a set: absolute ones but for the bias, as shares of what was measured."""

    num_rows: int
    mape_frac: float
    median_frac: float
    p90_frac: float
    worst_frac: float
    bias_frac: float  # mean of the signed errors: above 0 where we say more than was measured
    worst: tuple[Compared, ...]


def score(rows: Sequence[Compared], num_worst: int = NUM_WORST) -> Score:
    """The score of at least one row; quantiles are interpolated between rows."""
    if not rows:
        raise InvalidInput("a score needs at least one row")
    errors = np.array([row.error_frac for row in rows])
    sizes = np.abs(errors)
    order = np.argsort(-sizes, kind="stable")[: max(0, num_worst)]
    return Score(
        num_rows=len(rows),
        mape_frac=float(sizes.mean()),
        median_frac=float(np.quantile(sizes, 0.5)),
        p90_frac=float(np.quantile(sizes, 0.9)),
        worst_frac=float(sizes.max()),
        bias_frac=float(errors.mean()),
        worst=tuple(rows[i] for i in order),
    )
