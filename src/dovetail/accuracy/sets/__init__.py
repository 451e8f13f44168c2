"""Formats of measurement tables, one file each: recognised by their columns, turned into measured and predicted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Given, Prepared
from dovetail.errors import InvalidInput, did_you_mean
from dovetail.registry import Registry
from dovetail.workload.operators import DTYPES


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One kind of table: the columns that tell it, and how its rows are compared.

    Rows with nothing in a `needed` column are left out before `prepare` sees the table. Where a format `has_dtypes`,
    the user may say that of every row.
    """

    needed: tuple[str, ...]
    summary: str
    prepare: Callable[[Measurements, Given], tuple[Prepared, ...]]
    has_dtypes: bool = False


sets: Registry[Format] = Registry("set of measurements", __name__)


def format_of(measurements: Measurements) -> str:
    """The name of the format that `measurements` has: that with most of its columns told; empty where none fits."""
    fitting = [name for name, known in sets.items() if measurements.has(*known.needed)]
    return max(fitting, key=lambda name: len(sets[name].needed), default="")


def prepared(measurements: Measurements, given: Given) -> tuple[Prepared, ...]:
    """The sets in a table of measurements; a table of no known format is refused, naming what it lacks."""
    if given.dtype and given.dtype not in DTYPES:
        raise InvalidInput(f"no dtype is named {given.dtype!r}{did_you_mean(given.dtype, DTYPES)}", "--dtype")
    name = format_of(measurements)
    if not name:
        raise measurements.refused(_lacking(measurements))
    filled = measurements.filled(sets[name].needed)
    blank = len(measurements) - len(filled)
    if not len(filled):
        raise measurements.refused(f"a table needs at least one row with {', '.join(sets[name].needed)}")
    made = sets[name].prepare(filled, given)
    found = tuple(replace(one, is_of_dtype=sets[name].has_dtypes) for one in made)
    if blank and found:
        skipped = (*found[0].skipped, ("rows with a blank cell", blank))
        found = (replace(found[0], skipped=skipped), *found[1:])
    return found


def _lacking(measurements: Measurements) -> str:
    """What is missing for the table to be of the format that it is nearest to."""
    name, known = max(sets.items(), key=lambda item: _share(measurements, item[1]))
    lacking = [column for column in known.needed if not measurements.has(column)]
    if len(lacking) == len(known.needed):
        return f"no known table has these columns; known are {', '.join(sets.names())}"
    words = "column" if len(lacking) == 1 else "columns"
    return f"{words} {', '.join(lacking)} missing; a table of {name} has {', '.join(known.needed)}"


def _share(measurements: Measurements, known: Format) -> float:
    return sum(measurements.has(column) for column in known.needed) / len(known.needed)
