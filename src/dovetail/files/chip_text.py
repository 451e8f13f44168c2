"""A calibrated chip as the YAML file that describes it: its base, and the numbers that were fitted."""

from __future__ import annotations

import os
from pathlib import Path

from dovetail.files.entry import is_file_name
from dovetail.files.schema import MAX_TEXT_CHARACTERS, unit_of, written_keys
from dovetail.files.text import one_line
from dovetail.files.value_formats import SYMBOLS
from dovetail.hardware.chip import Calibration, Chip
from dovetail.units import MICRO

DIGITS = 6


def calibrated_text(chip: Chip, base: str, fitted: tuple[str, ...], fitted_on: str, out: Path) -> str:
    """`chip` as a change of `base`; only the `fitted` numbers are written, the rest stays the base's."""
    keys = written_keys(Calibration)
    lines = [
        "# Written by `dovetail calibrate`; what is not here is as in the base.",
        f"base: {quoted_text(reference_from(out, base) if is_file_name(base) else base)}",
        f"name: {quoted_text(chip.name)}",
        "calibration:",
        *(f"  {keys[name]}: {_number(name, getattr(chip.calibration, name))}" for name in fitted),
        f"  fitted_on: {quoted_text(fitted_on[:MAX_TEXT_CHARACTERS])}",
    ]
    return "\n".join(lines) + "\n"


def _number(name: str, value: float) -> str:
    """A number with the unit that its name ends in."""
    unit = unit_of(name)
    if unit == "s":
        return f"{value / MICRO:.{DIGITS}g} us"
    return f"{value:.{DIGITS}g} {SYMBOLS[unit]}" if unit else f"{value:.{DIGITS}g}"


def reference_from(out: Path, base: str) -> str:
    """The path from the folder of `out` to the file `base`."""
    path = os.path.relpath(base, out.parent)
    return path if is_file_name(path) else os.path.join(os.curdir, path)


def quoted_text(text: str) -> str:
    return "'" + one_line(text).replace("'", "''") + "'"
