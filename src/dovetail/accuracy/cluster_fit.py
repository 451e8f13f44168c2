"""A cluster's pace from a few runs on it: one scale for all, or one for devices and one for links where runs tell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.errors import InvalidInput
from dovetail.evaluate import trial
from dovetail.hardware.cluster import MAX_SPREAD_FRAC, Cluster, OwnRuns
from dovetail.hardware.scales import MAX_SCALE, Scales, scaled
from dovetail.parallel.plan import Plan
from dovetail.step.step import training_step
from dovetail.workload.graph import FloatArray, Graph
from dovetail.workload.optimizer import Precision

MIN_FOR_TWO_SCALES = 4  # runs for two scales
LEAST_TELLING = 0.02  # how much of a link scale's effect, in logarithms, must not look like a compute scale's
MAX_FACTOR = 3.0  # between a run and what a fit says of it; further off, they are not of one job
NUDGE = 0.05  # of a scale's logarithm, to see how a run answers to it
MAX_ROUNDS = 12
LEAST_STEP = 1e-4  # style: a tolerance; of a scale's logarithm
LEAST_FREE = 1e-6  # style: a tolerance; a run that a fit follows whole has nothing left to say of the others
Directions = tuple[tuple[float, float], ...]
ONE: Directions = ((1.0, 1.0),)  # how the scales' logarithms follow what is fitted: both as one
TWO: Directions = ((1.0, 0.0), (0.0, 1.0))  # or each by itself


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRun:
    """A run of the user's: what was trained, where and how, and how long a step took."""

    name: str
    graph: Graph
    precision: Precision
    cluster: Cluster
    plan: Plan
    measured_s: float

    def step_s(self, scales: Scales) -> float:
        return float(training_step(self.graph, self.plan, scaled(self.cluster, scales), self.precision).step_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedRun:
    """A run, and what is predicted of it before and after the fit; `left_out_s` by a fit to all other runs.

    It ran, so that `need_bytes` above `limit_bytes` says that it was described wrongly, or its memory counted so.
    """

    name: str
    measured_s: float
    before_s: float
    after_s: float
    left_out_s: float
    need_bytes: float  # on the device with the least to spare
    limit_bytes: float

    @property
    def fits(self) -> bool:
        return self.need_bytes <= self.limit_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFit:
    """What was fitted to a user's runs. With a single run, `left_out_s` is what was predicted before."""

    scales: Scales
    num_scales: int
    runs: tuple[FittedRun, ...]
    spread_frac: float

    def own_runs(self, fitted_on: str) -> OwnRuns:
        return OwnRuns(
            num_runs=len(self.runs),
            num_scales=self.num_scales,
            spread_frac=min(self.spread_frac, MAX_SPREAD_FRAC),
            fitted_on=fitted_on,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Found:
    scales: Scales
    num_scales: int
    left: FloatArray  # log(measured / predicted) of each run
    left_out: FloatArray  # the same, of a fit to the others

    @property
    def spread_frac(self) -> float:
        return _rms(self.left_out)


class _Trial:
    """Runs, and what was predicted of them by scales tried before."""

    def __init__(self, runs: Sequence[OwnRun]) -> None:
        self._runs = runs
        self._known: dict[Scales, FloatArray] = {}

    def left(self, scales: Scales) -> FloatArray:
        """log(measured / predicted) of each run."""
        if scales not in self._known:
            ratios = [run.measured_s / run.step_s(scales) for run in self._runs]
            self._known[scales] = np.log(ratios)
        return self._known[scales]


def fit_cluster(runs: Sequence[OwnRun]) -> ClusterFit:
    """Least squares in logarithms. Two scales where they predict runs left out better than one, and are separable."""
    if not runs:
        raise InvalidInput("a cluster's fit needs at least 1 run; got none")
    trials = _Trial(runs)
    best = _fitted(trials, ONE)
    if len(runs) >= MIN_FOR_TWO_SCALES and _are_distinguishable(trials, best.scales):
        two = _fitted(trials, TWO)
        if two.spread_frac < best.spread_frac and not is_at_bound(two.scales):
            best = two
    _check_near(runs, best)
    return ClusterFit(
        scales=best.scales,
        num_scales=best.num_scales,
        spread_frac=best.spread_frac,
        runs=tuple(
            _fitted_run(run, before, left, left_out)
            for run, before, left, left_out in zip(runs, trials.left(Scales()), best.left, best.left_out, strict=True)
        ),
    )


def _fitted_run(run: OwnRun, before: float, left: float, left_out: float) -> FittedRun:
    tried = trial(run.graph, run.cluster.with_headroom(0.0), run.plan, run.precision)  # it ran: no margin is needed
    return FittedRun(
        name=run.name,
        measured_s=run.measured_s,
        before_s=run.measured_s * math.exp(-before),
        after_s=run.measured_s * math.exp(-left),
        left_out_s=run.measured_s * math.exp(-left_out),
        need_bytes=tried.need_bytes,
        limit_bytes=tried.limit_bytes,
    )


def _check_near(runs: Sequence[OwnRun], found: _Found) -> None:
    worst = int(np.argmax(np.abs(found.left)))
    factor = math.exp(abs(found.left[worst]))
    if factor > MAX_FACTOR:
        way = "longer" if found.left[worst] > 0 else "shorter"
        message = f"{runs[worst].name} is {factor:.3g} times {way} than predicted, after the fit to all runs"
        raise InvalidInput(f"{message}; it is not pace that is off: check its time, model and plan")


def is_at_bound(scales: Scales) -> bool:
    """Whether a scale wanted further than any may: it is not pace that is off."""
    bound = math.log(MAX_SCALE) * (1 - LEAST_STEP)
    return max(abs(math.log(scale)) for scale in (scales.compute_scale, scales.link_scale)) >= bound


def _fitted(trials: _Trial, directions: Directions) -> _Found:
    """Gauss-Newton with the step halved until it helps."""
    found = np.zeros(len(directions))
    for _ in range(MAX_ROUNDS):
        left = trials.left(_scales(found, directions))
        step = np.linalg.lstsq(_answers(trials, found, directions), left, rcond=None)[0]
        while float(np.abs(step).max()) >= LEAST_STEP:
            if _rms(trials.left(_scales(found + step, directions))) < _rms(left):
                break
            step = step / 2
        else:
            break
        found = np.clip(found + step, -math.log(MAX_SCALE), math.log(MAX_SCALE))
    scales = _scales(found, directions)
    left_out = _left_out(trials, scales, _answers(trials, found, directions))
    return _Found(scales=scales, num_scales=len(directions), left=trials.left(scales), left_out=left_out)


def _left_out(trials: _Trial, scales: Scales, answers: FloatArray) -> FloatArray:
    """Errors on runs by a fit to the others, from how far each pulls the fit (exact where answers are straight lines).

    A run that no other says anything about has the error that it had before any fit.
    """
    free = 1.0 - np.einsum("ij,ji->i", answers, np.linalg.pinv(answers))
    after, before = trials.left(scales), trials.left(Scales())
    return np.where(free > LEAST_FREE, after / np.maximum(free, LEAST_FREE), before)


def _are_distinguishable(trials: _Trial, scales: Scales) -> bool:
    """Whether runs answer to links in another measure than to devices."""
    here = np.log([scales.compute_scale, scales.link_scale])
    compute, links = _answers(trials, here, TWO).T
    explained = compute * float(compute @ links) / float(compute @ compute)
    return _rms(links - explained) >= LEAST_TELLING


def _answers(trials: _Trial, here: FloatArray, directions: Directions) -> FloatArray:
    """How the logarithm of each run's time changes with what is fitted, a column each."""
    left = trials.left(_scales(here, directions))
    columns = []
    for axis in range(len(directions)):
        nudge = np.zeros(len(directions))
        nudge[axis] = -NUDGE if here[axis] > NUDGE - math.log(MAX_SCALE) else NUDGE
        columns.append((left - trials.left(_scales(here + nudge, directions))) / nudge[axis])
    return np.stack(columns, axis=1)


def _scales(found: FloatArray, directions: Directions) -> Scales:
    bound = math.log(MAX_SCALE)
    compute, links = np.clip(np.exp(np.clip(found @ np.array(directions), -bound, bound)), 1 / MAX_SCALE, MAX_SCALE)
    return Scales(compute_scale=float(compute), link_scale=float(links))


def _rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(values**2)))
