"""Published die areas and power limits against ours: chip, die_area_mm2, tdp_W. Cells with words behind them count.

Ours are by constants that the chip itself had no part in: those of the others that constants are fitted on. A die "at
most" or "below" so many mm2 is an upper bound, of which only what is beyond it counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from dovetail.accuracy.die_fit import left_out_mm2, left_out_w
from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Prepared, TableContext, chip_for
from dovetail.accuracy.sets import Format, sets
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.workload.graph import FloatArray

# Names of such tables that the catalogue has otherwise; the rest are tried in lower case, '-' for a blank.
NAMES = {
    "a100 sxm4 80gb": "a100-80gb-sxm",
    "v100 sxm2": "v100-32gb-sxm",
    "h100 sxm5": "h100-sxm",
    "tpu v6e (trillium)": "tpu-v6e",
}
# The documented bars are for these; what others come to is shown and not promised.
AREA_CHIPS = ("a100-80gb-sxm", "h100-sxm", "h200-sxm", "v100-32gb-sxm", "tpu-v5e")
POWER_CHIPS = ("a100-80gb-sxm", "h100-sxm", "h200-sxm", "v100-32gb-sxm", "tpu-v4i")
_BOUND = re.compile(r"(?:at most|below) (\d+(?:\.\d+)?)")
_NUMBER = re.compile(r"\d+(\.\d+)?")
_PER_DIE = re.compile(r"per \w+ x(\d+)")


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    area = ("die_area_mm2", "mm2", AREA_CHIPS, "die area", left_out_mm2)
    power = ("tdp_w", "W", POWER_CHIPS, "die power", left_out_w)
    chosen = [what for what in (area, power) if measurements.has(what[0])]
    found = [one for what in chosen for one in _sets(measurements, given, *what)]
    if measurements.has("die_area_mm2"):
        found += _bounds(measurements, given)
    if not found:
        raise measurements.refused("no chip of this table is in the catalogue with an area or a power limit")
    return tuple(found)


def _sets(
    table: Measurements,
    given: TableContext,
    column: str,
    unit: str,
    promised: tuple[str, ...],
    promise: str,
    predict: Callable[[str], float],
) -> list[Prepared]:
    """The chips a bar is for, and the others."""
    known = [(_name(word), figure(cell)) for word, cell in zip(table.words("chip"), table.words(column), strict=True)]
    rows = [(name, value) for name, value in known if name in chips and value > 0]
    found = []
    for label, is_promised in ((promise, True), (f"{promise}, other chips", False)):
        chosen = [(name, value) for name, value in rows if (name in promised) is is_promised]
        if chosen:
            names = tuple(name for name, _ in chosen)
            ours = np.array([predict(name) for name in names])
            found.append(_prepared(given, label, unit, names, np.array([v for _, v in chosen]), ours, is_promised))
    return found


def _bounds(table: Measurements, given: TableContext) -> list[Prepared]:
    """Dies of which an upper bound is known: what they come to where that is beyond it, else the bound itself."""
    cells = zip(table.words("chip"), table.words("die_area_mm2"), strict=True)
    rows = [(_name(word), float(match[1])) for word, cell in cells if (match := _BOUND.match(cell.strip()))]
    known = [(name, bound_mm2, left_out_mm2(name)) for name, bound_mm2 in rows if name in chips]
    if not known:
        return []
    names, bounds_mm2, ours_mm2 = zip(*known, strict=True)
    whats = tuple(f"{mm2:.0f} mm2" for mm2 in ours_mm2)
    ours = np.maximum(ours_mm2, bounds_mm2)
    return [_prepared(given, "die area, upper bounds", "mm2", names, np.array(bounds_mm2), ours, True, whats)]


def _prepared(
    given: TableContext,
    name: str,
    unit: str,
    names: tuple[str, ...],
    known: FloatArray,
    ours: FloatArray,
    is_promised: bool,
    whats: tuple[str, ...] = (),
) -> Prepared:
    def predicted(_chip: Chip) -> FloatArray:
        return ours

    return Prepared(
        name=name,
        chip=chip_for(given),
        unit=unit,
        kinds=names,
        whats=whats or ("",) * len(names),
        measured=known,
        predicted=predicted,
        is_of_chip=False,
        promise=name if is_promised else "",
    )


def figure(cell: str) -> float:
    """The number a cell begins with, times the dies it says there are; 0 where there is none."""
    match = _NUMBER.match(cell)
    if match is None:
        return 0.0
    dies = _PER_DIE.search(cell)
    return float(match[0]) * (int(dies[1]) if dies else 1)


def _name(word: str) -> str:
    plain = word.strip().lower()
    return NAMES.get(plain, plain.replace(" ", "-"))


sets.register("dies")(Format(needed=("chip", "tdp_w"), summary="dies: chip, die_area_mm2, tdp_W", prepare=prepare))
