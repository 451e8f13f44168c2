"""Formats of measurement tables, one file each: recognised by their columns, turned into measured and predicted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from dovetail.accuracy.measurements import Measurements, UnreadableRows
from dovetail.accuracy.prepared import Prepared, TableContext
from dovetail.errors import InvalidInput, did_you_mean
from dovetail.registry import Registry
from dovetail.workload.operators import DTYPES

MAX_REASONS, MAX_LINES = 12, 5  # shown of rows that cannot be read


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One kind of table: the columns that tell it, and how its rows are compared.

    Rows with nothing in a `needed` column are left out before `prepare` sees the table. Where a format `has_dtypes`,
    the user may say that of every row.
    """

    needed: tuple[str, ...]
    summary: str
    prepare: Callable[[Measurements, TableContext], tuple[Prepared, ...]]
    has_dtypes: bool = False


sets: Registry[Format] = Registry("set of measurements", __name__)


def format_of(measurements: Measurements) -> str:
    """The name of the format that `measurements` has: that with most of its columns present; empty where none fits."""
    fitting = [name for name, known in sets.items() if measurements.has(*known.needed)]
    return max(fitting, key=lambda name: len(sets[name].needed), default="")


def prepared(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
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
    made, unreadable = readable(lambda table: sets[name].prepare(table, given), filled)
    unreadable |= dict(measurements.uneven)
    found = tuple(replace(one, is_of_dtype=sets[name].has_dtypes) for one in made)
    left_out = (*counted_reasons(unreadable), *((("rows with a blank cell", blank),) if blank else ()))
    if left_out and found:
        found = (replace(found[0], skipped=(*found[0].skipped, *left_out)), *found[1:])
    return found


T = TypeVar("T")


def readable(read: Callable[[Measurements], T], table: Measurements) -> tuple[T, dict[int, str]]:
    """What `read` makes of the rows that it can read, and why not by line of the others; raises where it reads none.

    A format reads column by column and names every row that a column breaks, so this ends after as many turns as
    there are columns.
    """
    unreadable: dict[int, str] = {}
    while True:
        rest = table.without(unreadable)
        try:
            return read(rest), unreadable
        except UnreadableRows as error:
            unreadable |= error.reasons
            if unreadable.keys() >= {*table.lines}:  # a line of a log has several rows
                raise table.refused(unreadable[table.lines[0]], 0) from None


def counted_reasons(unreadable: dict[int, str]) -> tuple[tuple[str, int], ...]:
    """Words for rows that were left out, by reason, with the lines of the first of each."""
    lines: dict[str, list[int]] = defaultdict(list)
    for line, reason in sorted(unreadable.items()):
        lines[reason].append(line)
    found = [(f"rows not predicted: {reason} ({_lines(where)})", len(where)) for reason, where in lines.items()]
    others = sum(count for _, count in found[MAX_REASONS:])
    return (
        *found[:MAX_REASONS],
        *((("rows not predicted, for other reasons of this kind", others),) if others else ()),
    )


def _lines(lines: list[int]) -> str:
    shown = ", ".join(str(line) for line in lines[:MAX_LINES])
    return f"line{'s' if len(lines) > 1 else ''} {shown}{' ...' if len(lines) > MAX_LINES else ''}"


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
