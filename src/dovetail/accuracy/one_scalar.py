"""What three rows of a publisher are worth: one factor from them, and the error that it leaves on the other rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from dovetail.workload.graph import FloatArray

NUM_FITTED = 3
NUM_DRAWS = 200  # of rows to fit on
SEED = 0
# What is known of a publisher before its first row, in logarithms (median errors of the eleven publishers of published
# training runs that have four rows or more; any one of them left out: 0.061 to 0.080, and 0.043 to 0.051).
PUBLISHER_SPREAD = 0.075  # of what the rows of a publisher have in common
ROW_SPREAD = 0.045  # of a row about that, at the publisher in the middle


@dataclass(frozen=True, slots=True, kw_only=True)
class OneScalar:
    """Mean error on rows that the factor was not fitted on, over draws of rows to fit; `num_rows` 0: too few rows."""

    num_rows: int = 0
    mape_frac: float = 0.0
    low_frac: float = 0.0  # of draws a twentieth is below this
    high_frac: float = 0.0  # and a twentieth above that


def one_scalar(kinds: Sequence[str], measured: FloatArray, predicted: FloatArray) -> OneScalar:
    """One factor for each of `kinds`, fitted on three of its rows; kinds of no more rows than that are left out."""
    logs = np.log(predicted / measured)
    of_kind = [logs[[kind == one for kind in kinds]] for one in sorted(set(kinds))]
    enough = [errors for errors in of_kind if len(errors) > NUM_FITTED]
    if not enough:
        return OneScalar()
    rng = Random(SEED)
    draws = [np.concatenate([_left(errors, rng) for errors in enough]) for _ in range(NUM_DRAWS)]
    means = [float(np.abs(np.expm1(left)).mean()) for left in draws]
    low, high = np.quantile(means, (0.05, 0.95))
    return OneScalar(
        num_rows=sum(len(errors) for errors in enough),
        mape_frac=float(np.mean(means)),
        low_frac=float(low),
        high_frac=float(high),
    )


def _left(errors: FloatArray, rng: Random) -> FloatArray:
    """Errors of the rows that were not drawn, in logarithms, once the factor of those that were is taken off."""
    drawn = rng.sample(range(len(errors)), NUM_FITTED)
    left: FloatArray = np.delete(errors, drawn) - shift(errors[drawn])
    return left


def shift(errors: FloatArray) -> float:
    """The common part of a few errors in logarithms: their median, less what its own uncertainty makes of it.

    The posterior mean of a publisher's offset, normal about 0 beforehand, whose rows scatter as these do and as those
    of other publishers do, weighted equally (empirical Bayes: Efron and Morris 1975). Rows that disagree say little.
    """
    spread = (float(errors.var(ddof=1)) + ROW_SPREAD**2) / 2
    return float(np.median(errors)) * PUBLISHER_SPREAD**2 / (PUBLISHER_SPREAD**2 + spread / len(errors))
