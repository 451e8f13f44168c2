"""Dies and power limits that were published, beside ours: as fitted, and with each left out of the fit.

`python -m benchmarks.dies` prints all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from dovetail.cost.area import FITTED_AREA, FittedArea, silicon
from dovetail.cost.inventory import inventory
from dovetail.cost.tdp import OPERAND_J_PER_BYTE, tdp
from dovetail.hardware.catalog import chips

# mm2. TPU v4i: "below 400" in the paper, listed as 400.
DIES = {"v100-32gb-sxm": 815.0, "a100-80gb-sxm": 826.0, "h100-sxm": 814.0, "tpu-v4i": 400.0}
TDP_BAR = {"a100-80gb-sxm": 400.0, "h100-sxm": 700.0, "h200-sxm": 700.0, "tpu-v4i": 175.0}
TDP_FIT = {"v100-32gb-sxm": 300.0, **TDP_BAR}
# Never fitted on. TPU v2, v3 and v4 are upper bounds, the v5e and Gaudi 2 figures third-party ones; B200: two dies of
# about 800; MI300X: 8 x 115 + 4 x 370 (recalled).
OTHER_DIES = {
    "tpu-v2": 625.0,
    "tpu-v3": 700.0,
    "tpu-v4": 600.0,
    "tpu-v5e": 325.0,
    "b200": 1600.0,
    "mi250x": 1448.0,
    "mi300x": 2400.0,
    "gaudi2": 826.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One published figure and ours."""

    name: str
    predicted: float
    known: float

    @property
    def error_frac(self) -> float:
        return self.predicted / self.known - 1


Fit = tuple[float, ...]
Predict = Callable[[str, Fit], float]
AREA_START: Fit = (FITTED_AREA.scheduler_mm2, FITTED_AREA.other_frac)
TDP_START: Fit = (OPERAND_J_PER_BYTE,)


def predicted_mm2(name: str, fit: Fit = AREA_START) -> float:
    fitted = FittedArea(scheduler_mm2=fit[0], other_frac=fit[1])
    return float(silicon(inventory(chips[name]()), fitted).total_mm2)


def predicted_w(name: str, fit: Fit = TDP_START) -> float:
    return float(tdp(chips[name](), operand_j_per_byte=fit[0]).total_w)


def area_rows() -> tuple[Row, ...]:
    """The dies of the bar, mm2."""
    return _rows(DIES, predicted_mm2)


def tdp_rows() -> tuple[Row, ...]:
    """The power limits of the bar, W."""
    return _rows(TDP_BAR, predicted_w)


def other_rows() -> tuple[Row, ...]:
    """Dies that had no part in the fit, mm2."""
    return _rows(OTHER_DIES, predicted_mm2)


def other_tdp_rows() -> tuple[Row, ...]:
    """TDP of every catalogue chip that had no part in the fit, W."""
    return _rows({name: entry().tdp_w for name, entry in chips.items() if name not in TDP_FIT}, predicted_w)


def left_out_area_rows() -> tuple[Row, ...]:
    """Each die from constants fitted on the others."""
    return _left_out_rows(DIES, DIES, predicted_mm2, AREA_START)


def left_out_tdp_rows() -> tuple[Row, ...]:
    """Each power limit from a constant fitted on the others."""
    return _left_out_rows(TDP_FIT, TDP_FIT, predicted_w, TDP_START)


def fitted(known: Mapping[str, float], predict: Predict, start: Fit, num_steps: int = 20) -> Fit:
    """Constants with the least squared relative errors: Gauss-Newton on logarithms, constants in logarithms too."""
    point = np.log(start)
    step = 0.01

    def errors(at: np.ndarray) -> np.ndarray:
        return np.array([np.log(predict(name, tuple(np.exp(at))) / value) for name, value in known.items()])

    for _ in range(num_steps):
        now = errors(point)
        slopes = np.array([(errors(point + step * side) - now) / step for side in np.eye(len(point))]).T
        point = point - np.clip(np.linalg.lstsq(slopes, now, rcond=None)[0], -0.5, 0.5)
    return tuple(float(value) for value in np.exp(point))


def _rows(known: Mapping[str, float], predict: Callable[[str], float]) -> tuple[Row, ...]:
    return tuple(Row(name=name, predicted=predict(name), known=value) for name, value in known.items())


def _left_out_rows(
    asked: Mapping[str, float], known: Mapping[str, float], predict: Predict, start: Fit
) -> tuple[Row, ...]:
    rows = []
    for name, value in asked.items():
        fit = fitted({other: figure for other, figure in known.items() if other != name}, predict, start)
        rows.append(Row(name=name, predicted=predict(name, fit), known=value))
    return tuple(rows)


def main() -> None:
    sets = (
        ("die area, mm2", area_rows()),
        ("die area, each left out of the fit", left_out_area_rows()),
        ("die area, never fitted on (TPU v2 to v4: upper bounds)", other_rows()),
        ("TDP, W", tdp_rows()),
        ("TDP, each left out of the fit", left_out_tdp_rows()),
        ("TDP, never fitted on", other_tdp_rows()),
    )
    for title, rows in sets:
        print(title)
        for row in rows:
            print(f"  {row.name:<16}{row.predicted:>8.0f}{row.known:>8.0f}{100 * row.error_frac:>+8.1f} %")
    print(f"area constants as fitted now: {fitted(DIES, predicted_mm2, AREA_START)}")
    print(f"operand energy as fitted now: {fitted(TDP_FIT, predicted_w, TDP_START)}")


if __name__ == "__main__":
    main()
