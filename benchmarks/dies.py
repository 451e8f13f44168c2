"""Dies and power limits that were published, beside ours: as fitted, and with each left out of the fit.

`python -m benchmarks.dies` prints all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dovetail.accuracy.die_fit import (
    AREA_FIT,
    DIES_MM2,
    POWER_FIT,
    TDPS_W,
    fitted,
    left_out_mm2,
    left_out_w,
    predicted_mm2,
    predicted_w,
)
from dovetail.errors import NotModelled
from dovetail.hardware.catalog import chips

# Never fitted on. The v5e and Gaudi 2 figures are third-party ones; B200: two dies of about 800; MI300X: eight dies of
# 115 and four of 370 (recalled).
OTHER_DIES = {"h200-sxm": 814.0, "tpu-v5e": 325.0, "b200": 1600.0, "mi250x": 1448.0, "mi300x": 2400.0, "gaudi2": 826.0}
LARGEST_DIES = {"tpu-v2": 625.0, "tpu-v3": 700.0, "tpu-v4": 600.0, "tpu-v4i": 400.0}  # upper bounds
PROMISED_DIES = (*DIES_MM2, "h200-sxm", "tpu-v5e")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One published figure and ours."""

    name: str
    predicted: float
    known: float

    @property
    def error_frac(self) -> float:
        return self.predicted / self.known - 1


def area_rows() -> tuple[Row, ...]:
    """The dies that constants are fitted on, mm2."""
    return _rows(DIES_MM2, predicted_mm2)


def left_out_area_rows() -> tuple[Row, ...]:
    """Each promised die from constants fitted on the others."""
    return _rows({name: mm2 for name, mm2 in (DIES_MM2 | OTHER_DIES).items() if name in PROMISED_DIES}, left_out_mm2)


def bound_rows() -> tuple[Row, ...]:
    """Dies of which an upper bound is published, mm2; none had a part in the fit."""
    return _rows(LARGEST_DIES, left_out_mm2)


def other_rows() -> tuple[Row, ...]:
    """Dies that had no part in the fit, mm2."""
    return _rows(OTHER_DIES, predicted_mm2)


def tdp_rows() -> tuple[Row, ...]:
    """The power limits that the activity is fitted on, W."""
    return _rows(TDPS_W, predicted_w)


def left_out_tdp_rows() -> tuple[Row, ...]:
    """Each power limit from a constant fitted on the others."""
    return _rows(TDPS_W, left_out_w)


def other_tdp_rows() -> tuple[Row, ...]:
    """TDP of every catalogue chip that had no part in the fit and whose power is modelled (GDDR6's is not), W."""
    others = {name: entry().tdp_w for name, entry in chips.items() if name not in TDPS_W}
    return _rows({name: tdp_w for name, tdp_w in others.items() if _is_modelled(name)}, predicted_w)


def _is_modelled(name: str) -> bool:
    try:
        return predicted_w(name) > 0
    except NotModelled:
        return False


def _rows(known: Mapping[str, float], predict: Callable[[str], float]) -> tuple[Row, ...]:
    return tuple(Row(name=name, predicted=predict(name), known=value) for name, value in known.items())


def main() -> None:
    sets = (
        ("die area, mm2", area_rows()),
        ("die area, each left out of the fit", left_out_area_rows()),
        ("die area, upper bounds, never fitted on", bound_rows()),
        ("die area, never fitted on", other_rows()),
        ("TDP, W", tdp_rows()),
        ("TDP, each left out of the fit", left_out_tdp_rows()),
        ("TDP, never fitted on", other_tdp_rows()),
    )
    for title, rows in sets:
        print(title)
        for row in rows:
            print(f"  {row.name:<16}{row.predicted:>8.0f}{row.known:>8.0f}{100 * row.error_frac:>+8.1f} %")
    print(f"area constants as fitted now: {fitted(DIES_MM2, predicted_mm2, AREA_FIT)}")
    print(f"activity as fitted now: {fitted(TDPS_W, predicted_w, POWER_FIT)}")


if __name__ == "__main__":
    main()
