"""Tables as columns: arrays that share an axis of rows, checked when a table is built and used bare after that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_Ints = NDArray[np.int64]
_CODES_PER_ROW = 8  # of a table that finds distinct rows; beyond it, sorting is no slower


def check_rows(columns: Mapping[str, NDArray[Any]]) -> None:
    """All `columns` must have as many rows: what a table asserts of itself when it is built."""
    assert len({len(column) for column in columns.values()}) == 1, {name: len(c) for name, c in columns.items()}


def is_among(column: _Ints, values: Sequence[int]) -> NDArray[np.bool_]:
    """`np.isin` for a handful of values: of the few hundred rows that tables here have, a sixth of the time."""
    found = np.zeros(column.shape, dtype=np.bool_)
    for value in values:
        found |= column == value
    return found


def distinct(*columns: _Ints | NDArray[np.bool_]) -> tuple[_Ints, _Ints]:
    """Distinct rows of `columns` taken together: the first row of each, and which of them every row is."""
    code, size = np.zeros(len(columns[0]), dtype=np.int64), 1
    if len(code) == 1:  # one plan by itself
        return code, code.copy()
    for column in columns:
        is_flag = column.dtype == np.bool_
        least, greatest = (int(column.all()), int(column.any())) if is_flag else (int(column.min()), int(column.max()))
        if least == greatest:
            continue
        values, spread = column - least if least else column, greatest - least + 1
        if size * spread > _CODES_PER_ROW * len(code):
            code, size = _ranks(code, size)
            values, spread = _ranks(values.astype(np.int64), spread)  # flags are no indices
        size *= spread
        np.multiply(code, spread, out=code)  # each call has its own
        np.add(code, values, out=code)
    of_row, num_rows = _ranks(code, size)
    first = np.empty(num_rows, dtype=np.int64)
    first[of_row[::-1]] = np.arange(len(of_row) - 1, -1, -1)
    return first, of_row


def _ranks(code: _Ints, num_codes: int) -> tuple[_Ints, int]:
    """Codes below `num_codes` as places among those that occur, and how many do; by a table unless that is large."""
    if num_codes > _CODES_PER_ROW * len(code):
        values, of_row = np.unique(code, return_inverse=True)
        return of_row.reshape(-1), len(values)
    occurs = np.zeros(num_codes, dtype=bool)
    occurs[code] = True
    found = np.flatnonzero(occurs)
    places = np.empty(num_codes, dtype=np.int64)  # of codes that do not occur never read
    places[found] = np.arange(len(found))
    return places[code], len(found)
