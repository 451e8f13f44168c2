"""The pace of a host fitted to steps that wait for it: one factor beside the host that paces were measured on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dovetail.workload.graph import BoolArray, FloatArray

LEAST, MOST = 0.1, 10.0  # style: bounds; further off, it is not the host's pace that differs
FIRST_STEP, LAST_STEP = 0.35, 0.005  # of the logarithm: 40 % and half a per cent
NUDGE = 1.1  # by which the host is slowed down to see whether a step notices
LEAST_EFFECT_FRAC = 0.005  # style: a tolerance; of a step, below which it does not wait for the host

Predicted = Callable[[float], FloatArray]  # seconds of every step with a host of such a slowdown


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFit:
    """A slowdown, the steps that tell of it, and their mean error before, after, and each fitted to the others."""

    before: float
    after: float
    num_rows: int
    before_frac: float
    after_frac: float
    left_out_frac: float


def fit_host(predicted: Predicted, measured_s: FloatArray, before: float = 1.0) -> HostFit:
    """The slowdown with the least mean error over the steps that wait for the host; as it was where none does.

    A median of ratios would do if steps waited throughout; where they wait in part, the error is searched.
    """
    kept: dict[float, FloatArray] = {}

    def times_s(slowdown: float) -> FloatArray:
        if slowdown not in kept:
            kept[slowdown] = predicted(slowdown)
        return kept[slowdown]

    waits = np.abs(times_s(before * NUDGE) / times_s(before) - 1.0) > LEAST_EFFECT_FRAC

    def error_frac(slowdown: float, rows: BoolArray) -> float:
        return float(np.abs(times_s(slowdown)[rows] / measured_s[rows] - 1.0).mean())

    if not waits.any():
        return HostFit(before=before, after=before, num_rows=0, before_frac=0.0, after_frac=0.0, left_out_frac=0.0)

    def fitted_to(rows: BoolArray) -> float:
        return _searched(before, lambda slowdown: error_frac(slowdown, rows))

    after = fitted_to(waits)
    places = np.flatnonzero(waits)
    left_out = []
    for place in places if len(places) > 1 else ():
        own = np.arange(len(waits)) == place
        left_out.append(error_frac(fitted_to(waits & ~own), own))
    return HostFit(
        before=before,
        after=after,
        num_rows=int(waits.sum()),
        before_frac=error_frac(before, waits),
        after_frac=error_frac(after, waits),
        left_out_frac=float(np.mean(left_out)) if left_out else error_frac(before, waits),
    )


def _searched(start: float, error_frac: Callable[[float], float]) -> float:
    """Up and down in logarithms, by steps that are halved where neither helps."""
    here, step = start, FIRST_STEP
    best = error_frac(here)
    while step >= LAST_STEP:
        tried = [round(here * math.exp(sign * step), 4) for sign in (1.0, -1.0)]
        found = min((error_frac(one), one) for one in tried if LEAST <= one <= MOST)
        if found[0] < best:
            best, here = found
        else:
            step /= 2
    return here
