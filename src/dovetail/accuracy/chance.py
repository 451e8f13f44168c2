"""The chance that a step is truly shorter than another, from the errors of published pairs that ran the same job.

Two predictions of one model on one cluster share the error of its software and machine: what counts is the spread of
the difference.
That grows with how far apart the plans are, as measured on plans of the same job by the same publisher.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from dovetail.accuracy.evidence import GIVEN, Selection, class_of, evidence, standard_deviation
from dovetail.accuracy.residuals import Residual
from dovetail.hardware.heterogeneous import AnyCluster
from dovetail.parallel.plan import Plan
from dovetail.workload.graph import FloatArray
from dovetail.workload.workload import Workload

BLOM = 0.375  # of Blom's approximation to the extremes of a normal sample: Blom 1958, Statistical Estimates
PAIR_PUBLISHERS = ("vTrain, many nodes", "BLOOM's tuning")  # that ship, and have many plans of one job


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSpread:
    """Scale of the difference of two errors, in logarithms: its square is a sum over what tells the plans apart."""

    same: float  # of any two plans
    doubling: float  # of tensor parallelism, once
    gap: float  # of predicted times a factor of e apart

    def scale(self, doublings: FloatArray, gaps: FloatArray) -> FloatArray:
        found: FloatArray = np.sqrt(self.same**2 + self.doubling**2 * doublings + self.gap**2 * np.abs(gaps))
        return found


# Fitted on 3,220 pairs of vTrain and of BLOOM's tuning by `python -m benchmarks.pair_errors`, which prints them.
PAIRS = PairSpread(same=0.041, doubling=0.083, gap=0.124)


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """A prediction: of which job, by which plan, and the seconds of its step."""

    workload: Workload
    cluster: AnyCluster
    plan: Plan
    step_s: float


def chance_shorter_frac(one: Predicted, other: Predicted, rows: Sequence[Residual]) -> float:
    """The chance that a step of `one` is truly shorter than one of `other`, which does the same work.

    On the same cluster errors are as close as those of published pairs; where `rows` are less sure of the job than of
    those pairs, as much further apart. On another cluster, errors are taken to be independent.
    """
    gap = math.log(other.step_s / one.step_s)
    spreads = [_spread(each, rows) for each in (one, other)]
    if one.cluster != other.cluster:
        return NormalDist(sigma=math.hypot(*spreads)).cdf(gap)
    return float(student_t3_cdf(np.array([gap / (_widening(max(spreads), rows) * _pair_scale(one, other))]))[0])


def _spread(one: Predicted, rows: Sequence[Residual]) -> float:
    """The standard deviation of the error of a prediction, by its interval."""
    return standard_deviation(evidence(class_of(one.workload, one.cluster, one.plan), rows).half_width)


def _pair_scale(one: Predicted, other: Predicted) -> float:
    doublings = abs(math.log2(one.plan.tensor_parallel / other.plan.tensor_parallel))
    return float(PAIRS.scale(np.array([doublings]), np.array([math.log(other.step_s / one.step_s)]))[0])


def _widening(spread: float, rows: Sequence[Residual]) -> float:
    """By how much errors of pairs are wider than published ones, as `spread` is wider than those of their rows."""
    known = [row.log_ratio for row in rows if row.publisher in PAIR_PUBLISHERS]
    return max(1.0, spread / float(np.sqrt(np.mean(np.square(known))))) if known else 1.0


def selection_of(best: Predicted, others: Sequence[Predicted], rows: Sequence[Residual]) -> Selection:
    """Of the best of several plans on one cluster."""
    scales = [_widening(max(_spread(best, rows), _spread(one, rows)), rows) * _pair_scale(best, one) for one in others]
    gaps = [math.log(one.step_s / best.step_s) for one in others]
    return selection(np.array(gaps), np.array(scales))


def selection(gaps: FloatArray, scales: FloatArray) -> Selection:
    """Of a prediction that is shorter than others by `gaps`, in logarithms, whose errors differ by `scales`.

    By the expected extreme of as many independent errors as are near, each a plan's own: that of a pair over the
    square root of 2 (Blom 1958 for the extreme of a normal sample).
    """
    near = scales[gaps <= scales]
    num_near = 1 + len(near)
    if num_near == 1:
        return GIVEN
    extreme = NormalDist().inv_cdf((num_near - BLOM) / (num_near + 1 - 2 * BLOM))
    return Selection(num_near=num_near, shift_frac=math.expm1(extreme * float(near.mean()) / math.sqrt(2.0)))


def student_t3_cdf(values: FloatArray) -> FloatArray:
    """Of Student's t with three degrees of freedom: errors of pairs have longer tails than a normal distribution."""
    x = values / math.sqrt(3.0)
    found: FloatArray = 0.5 + (x / (1.0 + x**2) + np.arctan(x)) / math.pi
    return found


def student_t3_log_density(values: FloatArray) -> FloatArray:
    found: FloatArray = math.log(2.0 / (math.pi * math.sqrt(3.0))) - 2.0 * np.log1p(values**2 / 3.0)
    return found
