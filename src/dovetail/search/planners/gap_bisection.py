"""Uneven plans, aimed at nearer and nearer: where too many cuts lie below the best plan, fewer lie below a nearer aim.

A base plan stays open where more of its cuts may beat the best plan than can be evaluated. Below an aim between the
bound and the best there are fewer: a plan below it is found, which is the new best, or the base plan is shown to hold
none, and the aim is its new bound. Either way what is left open between bound and best becomes less. Below a new best
fewer lie than below the old one, so that is the next aim itself.
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
    """As `refined`; then those that it refined and leaves open again below nearer aims, `num_most` times in all."""
    made, way = refined(job, bases, best_s, num_most, report), BISECTION_FRAC
    for _ in range(NUM_BISECTIONS):
        lower_bound_s, best_s = float(made.bounds_s[made.is_refined].min(initial=made.best_s)), made.best_s
        if lower_bound_s >= best_s * (1 - TIED_FRAC) or math.isinf(best_s) or not num_most:
            break
        aim_s = lower_bound_s + way * (best_s - lower_bound_s)
        rows = np.flatnonzero(made.is_refined & (made.bounds_s < aim_s))
        nearer = replace(bases.at(rows), bounds_s=made.bounds_s[rows])
        below = refined(job, nearer, aim_s, num_most, partial(_still, report, best_s, made.bound_s))
        num_most -= below.num_refined
        way = (
            1.0 if below.found and below.best_s < best_s else way * BISECTION_FRAC if below.num_open else BISECTION_FRAC
        )
        made = _with(made, rows, below)
    return made


def _still(report: ProgressReport, best_s: float, bound_s: float, num_done: int, num_all: int, *_: float) -> None:
    """Tells of base plans below an aim, which is not the best and whose bound is not that of all."""
    report(num_done, num_all, best_s, bound_s)


def _with(made: Refined, rows: IntArray, below: Refined) -> Refined:
    """What was known, and what became of the base plans of `rows` below an aim."""
    bounds_s = made.bounds_s.copy()
    bounds_s[rows] = np.maximum(bounds_s[rows], below.bounds_s)
    best_s = min([made.best_s, *(each.step_s for each in below.found)])
    return Refined(
        found=(*made.found, *below.found),
        best_s=best_s,
        is_refined=made.is_refined,
        bounds_s=np.minimum(bounds_s, best_s),
    )
