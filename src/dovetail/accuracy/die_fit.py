"""Published dies and power limits, and ours with constants that were fitted on the other ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np

from dovetail.cost.area import FITTED_AREA, FittedArea, silicon
from dovetail.cost.inventory import inventory
from dovetail.cost.tdp import tdp
from dovetail.hardware.catalog import chips
from dovetail.hardware.part_energy import ACTIVITY
from dovetail.workload.graph import FloatArray

Fit = tuple[float, ...]
Predict = Callable[[str, Fit], float]
AREA_FIT: Fit = (FITTED_AREA.scheduler_mm2, FITTED_AREA.other_frac)
POWER_FIT: Fit = (ACTIVITY,)
# What constants are fitted on. An H200 has the die of an H100, so both count once, and are left out together.
DIES_MM2: dict[str, float] = {"v100-32gb-sxm": 815.0, "a100-80gb-sxm": 826.0, "h100-sxm": 814.0}
TDPS_W: dict[str, float] = {
    "v100-32gb-sxm": 300.0,
    "a100-80gb-sxm": 400.0,
    "h100-sxm": 700.0,
    "h200-sxm": 700.0,
    "tpu-v4i": 175.0,
}
_SAME_DIE = {"h200-sxm": "h100-sxm"}


def predicted_mm2(name: str, fit: Fit = AREA_FIT) -> float:
    fitted_area = FittedArea(scheduler_mm2=fit[0], other_frac=fit[1])
    return float(silicon(inventory(chips[name]()), fitted_area).total_mm2)


def predicted_w(name: str, fit: Fit = POWER_FIT) -> float:
    return float(tdp(chips[name](), activity=fit[0]).total_w)


@cache
def left_out_mm2(name: str) -> float:
    """Area of a chip by constants that its own die had no part in."""
    own = _SAME_DIE.get(name, name)
    others = {die: mm2 for die, mm2 in DIES_MM2.items() if die != own}
    return predicted_mm2(name, fitted(others, predicted_mm2, AREA_FIT) if len(others) < len(DIES_MM2) else AREA_FIT)


@cache
def left_out_w(name: str) -> float:
    """Power of a chip with everything busy, by an activity that its own limit had no part in."""
    others = {chip: limit_w for chip, limit_w in TDPS_W.items() if chip != name}
    return predicted_w(name, fitted(others, predicted_w, POWER_FIT) if len(others) < len(TDPS_W) else POWER_FIT)


def fitted(known: Mapping[str, float], predict: Predict, start: Fit, num_steps: int = 20) -> Fit:
    """Constants with the least squared relative errors: Gauss-Newton on logarithms, constants in logarithms too."""
    point = np.log(start)
    step = 0.01  # style: of a logarithm, for slopes

    def errors(at: FloatArray) -> FloatArray:
        return np.array([np.log(predict(name, tuple(np.exp(at))) / value) for name, value in known.items()])

    for _ in range(num_steps):
        now = errors(point)
        slopes = np.array([(errors(point + step * side) - now) / step for side in np.eye(len(point))]).T
        point = point - np.clip(np.linalg.lstsq(slopes, now, rcond=None)[0], -0.5, 0.5)
    return tuple(float(value) for value in np.exp(point))
