"""A table of measurements as it was written: cells of text, read column by column as a format asks for them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dovetail.errors import InvalidInput
from dovetail.workload.graph import BoolArray, FloatArray, IntArray

MAX_COUNT = 10**9  # style: a bound on every count, so that products of two stay far inside 64 bits
LEAST, MOST = 1e-30, 1e30  # style: bounds of what is measured, so that ratios and their squares stay finite
MAX_SHOWN = 40


class UnreadableRows(InvalidInput):
    """Rows of a table that cannot be compared: `reasons` by line of the file. It names the first of them."""

    def __init__(self, message: str, where: str = "", reasons: Mapping[int, str] | None = None) -> None:
        super().__init__(message, where)
        self.reasons = dict(reasons or {})


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """Rows under lower-case column names. `name` is the file's name without its ending, `shown` what errors call it."""

    name: str
    shown: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]  # of each row in its file
    uneven: tuple[tuple[int, str], ...] = ()  # lines that are no rows, having too few or too many cells, and why

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def _place(self) -> dict[str, int]:
        return {column: index for index, column in enumerate(self.columns)}

    def has(self, *columns: str) -> bool:
        return all(column in self._place for column in columns)

    def words(self, column: str) -> list[str]:
        """The cells of a column as text."""
        if column not in self._place:
            raise InvalidInput(f"column {column} is missing; the columns are {', '.join(self.columns)}", self._at(None))
        index = self._place[column]
        return [row[index] for row in self.rows]

    def numbers(self, column: str) -> FloatArray:
        """The cells of a column as finite numbers."""
        cells = self.words(column)
        try:
            values = np.array(cells, dtype=np.float64) if cells else np.zeros(0)
        except ValueError:
            self._check(column, np.array([_is_number(cell) for cell in cells]), "must be a number")
            raise
        self._check(column, np.isfinite(values), "must be a finite number")
        return values

    def positive(self, column: str) -> FloatArray:
        """The cells of a column as numbers above 0, as every time is."""
        values = self.numbers(column)
        self._check(column, values > 0, "must be above 0")
        self._check(column, (values >= LEAST) & (values <= MOST), f"must be from {LEAST:g} to {MOST:g}")
        return values

    def counts(self, column: str, least: int = 1) -> IntArray:
        """The cells of a column as whole numbers."""
        values = self.numbers(column)
        self._check(column, values == np.floor(values), "must be a whole number")
        self._check(column, (values >= least) & (values <= MAX_COUNT), f"must be from {least} to {MAX_COUNT:,}")
        return values.astype(np.int64)

    def where(self, kept: BoolArray) -> Measurements:
        rows = [int(row) for row in np.flatnonzero(kept)]
        return replace(self, rows=tuple(self.rows[r] for r in rows), lines=tuple(self.lines[r] for r in rows))

    def filled(self, columns: Sequence[str]) -> Measurements:
        """The rows that have something in each of `columns`."""
        places = [self._place[column] for column in columns]
        return self.where(np.array([all(row[p] for p in places) for row in self.rows], dtype=np.bool_))

    def refused(self, message: str, row: int | None = None) -> InvalidInput:
        return InvalidInput(message, self._at(row))

    def unreadable(self, reasons: Mapping[int, str]) -> UnreadableRows:
        """That rows of this table cannot be compared, and why, by their index."""
        first = min(reasons)
        by_line = {self.lines[row]: reason for row, reason in reasons.items()}
        return UnreadableRows(reasons[first], self._at(first), by_line)

    def without(self, lines: Container[int]) -> Measurements:
        """The rows that are not of these lines of the file."""
        return self.where(np.array([line not in lines for line in self.lines], dtype=np.bool_))

    def _check(self, column: str, holds: BoolArray, rule: str) -> None:
        if bool(holds.all()):
            return
        place = self._place[column]
        broken = [int(row) for row in np.flatnonzero(~holds)]
        raise self.unreadable({row: f"{column} {rule}; got {shown(self.rows[row][place])}" for row in broken})

    def _at(self, row: int | None) -> str:
        return f"{self.shown}:{self.lines[row]}" if row is not None else self.shown


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def shown(cell: str) -> str:
    """A cell as a message shows it."""
    return repr(cell if len(cell) <= MAX_SHOWN else cell[: MAX_SHOWN - 3] + "...")
