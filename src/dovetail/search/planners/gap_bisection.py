"""Bisection of the gap between the best plan and the lower bound, over plans with uneven stages.

A base plan stays open where more of its cuts may beat the best plan than can be evaluated. Fewer cuts lie below a
target between the bound and the best: either one is found, which is the new best, or the base plan is shown to hold
none, and the target is its new bound. Either way the gap becomes smaller. After a new best, the next target is that.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from dovetail.search.planners.bases import BasePlans, Refined
from dovetail.search.planners.refine import Job, ProgressReport, no_progress, refined
from dovetail.workload.graph import IntArray

NUM_BISECTIONS = 8  # one after the other
BISECTION_FRAC = (
    0.5  # of the way from the bound to the best: where the first aim is, and how much nearer one is that follows
)
TIED_FRAC = 1e-10  # style: a tolerance, of a step: what is no better than by this is not aimed at


def aimed(job: Job, bases: BasePlans, best_s: float, num_most: int, report: ProgressReport = no_progress) -> Refined:
    """As `refined`; then base plans that it left open are refined again below lower targets, `num_most` in all."""
    result, aim_frac = refined(job, bases, best_s, num_most, report), BISECTION_FRAC
    for _ in range(NUM_BISECTIONS):
        lower_bound_s, best_s = float(result.bounds_s[result.is_refined].min(initial=result.best_s)), result.best_s
        if lower_bound_s >= best_s * (1 - TIED_FRAC) or math.isinf(best_s) or not num_most:
            break
        aim_s = lower_bound_s + aim_frac * (best_s - lower_bound_s)
        rows = np.flatnonzero(result.is_refined & (result.bounds_s < aim_s))
        nearer = replace(bases.at(rows), bounds_s=result.bounds_s[rows])
        below = refined(job, nearer, aim_s, num_most, partial(_still, report, result))
        num_most -= below.num_refined
        aim_frac = (
            1.0
            if below.found and below.best_s < best_s
            else aim_frac * BISECTION_FRAC
            if below.num_open
            else BISECTION_FRAC
        )
        result = _with(result, rows, below)
    return result


def _still(report: ProgressReport, known: Refined, num_done: int, num_all: int, *_: object) -> None:
    """Tells of base plans below an aim, which is not the best and whose bound is not that of all."""
    report(num_done, num_all, known.best_s, known.bound_s, known.found)


def _with(known: Refined, rows: IntArray, below: Refined) -> Refined:
    """What was known, and what became of the base plans of `rows` below an aim."""
    bounds_s = known.bounds_s.copy()
    bounds_s[rows] = np.maximum(bounds_s[rows], below.bounds_s)
    best_s = min([known.best_s, *(each.step_s for each in below.found)])
    return Refined(
        found=(*known.found, *below.found),
        best_s=best_s,
        is_refined=known.is_refined,
        bounds_s=np.minimum(bounds_s, best_s),
    )
