"""What binds the best system, and what a little more of a limit or a resource buys.

Of a limit: the least that it must be raised for a better system, and the best system without it. Of a resource: what
the system with its plans gains from a tenth more, as if that were free. Other systems count by plans of equal stages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.schedule.step import training_step
from dovetail.search.codesign.answers import SystemAnswer, chip_of
from dovetail.search.codesign.joint import CHUNK, CLOSE_FRAC, LOWS_AT_ONCE, WINDOW, places_at
from dovetail.search.codesign.question import Budget, JointQuestion, system_space
from dovetail.search.codesign.refining import system_at
from dovetail.search.codesign.scoring import Scorer, SystemScore
from dovetail.search.codesign.system_bounds import Bounds
from dovetail.search.metrics import ChipFigures
from dovetail.search.space import Point
from dovetail.units import GIBI
from dovetail.workload.graph import FloatArray, IntArray

RAISED_FRAC = 0.25  # how far limits and memory are raised
NUDGE_FRAC = 0.10  # as `evaluate` asks of resources
MOST_SCORED = 1024  # systems for one answer; some seconds
GIBS_FRAC = (0.05, 0.10, 0.15, 0.20, RAISED_FRAC)  # of the memory, more


@dataclass(frozen=True, slots=True, kw_only=True)
class Better:
    """A better system beyond a limit: what it takes of that, and its gain over the best within."""

    system: dict[str, float]
    taken: float
    gain_frac: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSense:
    """A limit by its name in `Budget`, what the best takes of it, and what lies beyond it alone; `limit` and `taken`
    in the unit that its name ends with.

    `raised` is the first better system as the limit is raised, to a quarter more; `free` the best without it. Where
    `is_settled` is false, so many systems may be better that not all were scored.
    """

    name: str
    taken: float
    limit: float
    raised: Better | None
    free: Better | None
    is_settled: bool

    @property
    def is_binding(self) -> bool:
        return self.free is not None

    @property
    def gain_frac_per_unit(self) -> float:
        """Of the first better system, for each unit that it takes beyond the limit."""
        return 0.0 if self.raised is None else self.raised.gain_frac / (self.raised.taken - self.limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSense:
    """A resource of each device, how much of it there is in `unit`, and the gain from `more` of it."""

    name: str
    amount: float
    unit: str
    more: float
    gain_frac: float

    @property
    def gain_frac_per_unit(self) -> float:
        return self.gain_frac / self.more


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """Of the best system: every limit that is set, and resources, the most useful first."""

    limits: tuple[LimitSense, ...]
    resources: tuple[ResourceSense, ...]


def sensitivity_of(scorer: Scorer, best: SystemAnswer) -> Sensitivity:
    resources = [*_rates(scorer.question, best), _memory(scorer, best)]
    return Sensitivity(
        limits=tuple(_limits(scorer, best)),
        resources=tuple(sorted(resources, key=lambda one: -one.gain_frac)),
    )


def limits_of(budget: Budget) -> dict[str, float]:
    """Those that are set, by name."""
    return {name: getattr(budget, name) for name in Budget.__slots__ if math.isfinite(getattr(budget, name))}


def taken_of(
    area_mm2: FloatArray, power_w: FloatArray, price_usd: FloatArray, num_devices: FloatArray
) -> dict[str, FloatArray]:
    """What systems take of every limit, from what a device does."""
    return {
        "area_mm2": area_mm2,
        "power_w": power_w,
        "total_area_mm2": num_devices * area_mm2,
        "total_power_w": num_devices * power_w,
        "total_usd": num_devices * price_usd,
    }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Ahead:
    """Systems, whatever their limits, that may be better than the best: numbers, lows and what they take of limits."""

    number: IntArray
    low: FloatArray
    taken: dict[str, FloatArray]


def _limits(scorer: Scorer, best: SystemAnswer) -> Iterator[LimitSense]:
    limits = limits_of(scorer.question.budget)
    if not limits:
        return
    ahead = _ahead(scorer, best.loss, tuple(limits))
    own = taken_of(*(np.array(v) for v in (best.area_mm2, best.power_w, best.price_usd, float(best.num_devices))))
    for name, limit in limits.items():
        keeps_others = np.ones(len(ahead.number), dtype=bool)
        for other, most in limits.items():
            if other != name:
                keeps_others &= ahead.taken[other] <= most
        beyond = np.flatnonzero(keeps_others & (ahead.taken[name] > limit))
        near = beyond[ahead.taken[name][beyond] <= limit * (1 + RAISED_FRAC)]
        near = near[np.lexsort((ahead.low[near], ahead.taken[name][near]))]
        raised, is_first_settled = _first_better(scorer, ahead, near, best.loss, name)
        beyond = beyond[np.argsort(ahead.low[beyond], kind="stable")]
        free, is_best_settled = _best_beyond(scorer, ahead, beyond, best.loss, name)
        yield LimitSense(
            name=name,
            taken=float(own[name]),
            limit=limit,
            raised=raised,
            free=free,
            is_settled=is_first_settled and is_best_settled,
        )


def _ahead(scorer: Scorer, loss: float, names: tuple[str, ...]) -> _Ahead:
    unlimited, num = scorer.under(Budget()), scorer.question.space.num_points
    numbers, lows, columns = [], [], []
    for start in range(0, num, LOWS_AT_ONCE):
        flat = np.arange(start, min(num, start + LOWS_AT_ONCE))
        bounds: Bounds = unlimited.bounds(places_at(scorer.question, flat))
        rows = np.flatnonzero(bounds.low < loss * (1 - CLOSE_FRAC))
        parts = (bounds.area_mm2, bounds.power_w, bounds.price_usd, bounds.num_devices)
        own = taken_of(*(part[rows] for part in parts))
        numbers.append(flat[rows])
        lows.append(bounds.low[rows])
        columns.append([own[name] for name in names])
    joined = [np.concatenate(parts) for parts in zip(*columns, strict=True)]
    taken = dict(zip(names, joined, strict=True))
    return _Ahead(number=np.concatenate(numbers), low=np.concatenate(lows), taken=taken)


def _first_better(scorer: Scorer, ahead: _Ahead, rows: IntArray, loss: float, name: str) -> tuple[Better | None, bool]:
    """The first of `rows`, in their order, that is better; and whether that is certain."""
    for start in range(0, min(len(rows), MOST_SCORED), CHUNK):
        some = rows[start : start + CHUNK]
        for row, score in zip(some.tolist(), _scores(scorer, ahead, some, loss), strict=True):
            if score.loss < loss * (1 - CLOSE_FRAC):
                return _better(scorer.question, score, float(ahead.taken[name][row]), loss), True
    return None, len(rows) <= MOST_SCORED


def _best_beyond(scorer: Scorer, ahead: _Ahead, rows: IntArray, loss: float, name: str) -> tuple[Better | None, bool]:
    """The best of `rows`, in the order of their lows, where it is better; and whether that is certain."""
    found, least, size = None, loss * (1 - CLOSE_FRAC), CHUNK * WINDOW
    for start in range(0, min(len(rows), MOST_SCORED), size):
        some = rows[start : start + size]
        some = some[ahead.low[some] < least]
        if not len(some):
            return found, True
        for row, score in zip(some.tolist(), _scores(scorer, ahead, some, least), strict=True):
            if score.loss < least:
                found, least = _better(scorer.question, score, float(ahead.taken[name][row]), loss), score.loss
    behind = rows[MOST_SCORED:]
    return found, not len(behind) or bool(ahead.low[behind[0]] >= least)


def _scores(scorer: Scorer, ahead: _Ahead, rows: IntArray, worst: float) -> list[SystemScore]:
    columns = np.stack(list(places_at(scorer.question, ahead.number[rows]).values()), axis=1)
    points: list[Point] = [tuple(row) for row in columns.tolist()]
    return scorer.score(points, worst)


def _better(question: JointQuestion, score: SystemScore, taken: float, loss: float) -> Better:
    return Better(system=system_at(question, score.point), taken=taken, gain_frac=loss / score.loss - 1.0)


def _rates(question: JointQuestion, best: SystemAnswer) -> Iterator[ResourceSense]:
    """What a tenth more of each rate of the device gains, with the same plans, at the same power and price."""
    chip = chip_of(question, best)
    before = _loss(question, best, question.network(chip, best.num_devices))
    for name, (amount, unit, changed) in _nudged(chip, question.cases[0].workload.precision.compute).items():
        gain_frac = before / _loss(question, best, question.network(changed, best.num_devices)) - 1.0
        yield ResourceSense(
            name=name,
            amount=amount,
            unit=unit,
            more=NUDGE_FRAC * amount,
            gain_frac=gain_frac if abs(gain_frac) > CLOSE_FRAC else 0.0,
        )


def _nudged(chip: Chip, dtype: str) -> dict[str, tuple[float, str, Chip]]:
    """How much of each rate `chip` has, in which unit, and the chip with a tenth more of it."""
    more, vector, hbm = 1 + NUDGE_FRAC, chip.vector, chip.hbm
    faster_vector = replace(vector, peak_flop_per_s=vector.peak_flop_per_s * more)
    faster_hbm = replace(hbm, bandwidth_bytes_per_s=hbm.bandwidth_bytes_per_s * more)
    links = chip.interconnect_bytes_per_s
    return {
        "tensor rate": (chip.peak_flop_per_s(dtype), "flop_per_s", replace(chip, tensor=chip.tensor.scaled(more))),
        "vector rate": (vector.peak_flop_per_s, "flop_per_s", replace(chip, vector=faster_vector)),
        "HBM bandwidth": (hbm.bandwidth_bytes_per_s, "bytes_per_s", replace(chip, hbm=faster_hbm)),
        "links": (links, "bytes_per_s", replace(chip, interconnect_bytes_per_s=links * more)),
    }


def _loss(question: JointQuestion, best: SystemAnswer, cluster: Cluster) -> float:
    """Of all cases with the plans that they have."""
    losses = []
    for case, own in zip(question.cases, best.cases, strict=True):
        graph = case.workload.training_graph()
        step = training_step(graph, own.plan, cluster, case.workload.precision)
        figures = ChipFigures(
            step_s=step.step_s,
            energy_j=step.energy_j,
            power_w=best.power_w,
            price_usd=best.price_usd,
            num_devices=best.num_devices,
            num_samples=graph.num_tokens,
        )
        losses.append([float(question.metric.loss(figures))])
    return float(question.combined(np.array(losses))[0])


def _memory(scorer: Scorer, best: SystemAnswer) -> ResourceSense:
    """The first of up to a quarter more GiB that a better plan of equal stages fits, at what they cost."""
    question, gib = scorer.question, best.system["stack_gib"]
    values = {name: (value,) for name, value in best.system.items()}
    stacks = (gib, *(gib * (1 + frac) for frac in GIBS_FRAC))
    space = system_space(question.base, best.num_devices, {**values, "stack_gib": stacks})
    own = scorer.over(space)
    first, *larger = own.score(list(space.points()), math.inf)
    amount = best.system["hbm_stacks"] * gib * GIBI
    for frac, score in zip(GIBS_FRAC, larger, strict=True):
        if score.loss < first.loss * (1 - CLOSE_FRAC):
            gain_frac = first.loss / score.loss - 1.0
            return ResourceSense(
                name="HBM capacity", amount=amount, unit="bytes", more=frac * amount, gain_frac=gain_frac
            )
    return ResourceSense(name="HBM capacity", amount=amount, unit="bytes", more=RAISED_FRAC * amount, gain_frac=0.0)
