"""Tables that were computed before, kept while they are small: searches and perturbed chips ask for the same again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import wraps
from threading import Lock
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import numpy as np

from dovetail.units import MEBI
from dovetail.workload.graph import FloatArray

MOST_BYTES = 64 * MEBI

Arguments = ParamSpec("Arguments")
Rows = TypeVar("Rows")
Columns = TypeVar("Columns")
Table = TypeVar("Table")


def remembered(compute: Callable[Arguments, Table]) -> Callable[Arguments, Table]:
    """`compute`, whose arguments and answer are dataclasses of arrays; callers must not write into an answer.

    All is forgotten where it grows too large. No lock: at worst two threads compute the same table.
    """
    known: dict[Hashable, Table] = {}
    total_bytes = 0

    def found(*arguments: Arguments.args, **named: Arguments.kwargs) -> Table:
        nonlocal total_bytes
        key = (*map(_key, arguments), *((name, _key(value)) for name, value in named.items()))
        kept = known.get(key)
        if kept is not None:
            return kept
        table = compute(*arguments, **named)
        _seal(table)
        num_bytes = _num_bytes(table)
        if total_bytes + num_bytes > MOST_BYTES:
            known.clear()
            total_bytes = 0
        if num_bytes <= MOST_BYTES:
            known[key] = table
            total_bytes += num_bytes
        return table

    return found


@dataclass(slots=True)
class _KeptColumns(Generic[Table]):
    """Columns of one table, in the order in which they were first wanted: fields by rows by columns."""

    place_of: dict[bytes, int] = field(default_factory=dict)
    cells: FloatArray = field(default_factory=lambda: np.empty((0, 0, 0)))
    first: list[Table] = field(default_factory=list)  # says which fields there are, and of which type

    def add(self, names: Sequence[bytes], table: Table) -> None:
        """Those that are not there yet; where there is no room, it is made for as many again."""
        cells = np.array([getattr(table, one.name) for one in fields(table)])  # type: ignore[arg-type]
        new = [at for at, name in enumerate(names) if name not in self.place_of]
        begin, end = len(self.place_of), len(self.place_of) + len(new)
        if end > self.cells.shape[2]:
            larger = np.empty((*cells.shape[:2], 2 * end))
            if begin:
                larger[:, :, :begin] = self.cells[:, :, :begin]
            self.cells = larger
        self.cells[:, :, begin:end] = cells[:, :, new]
        self.place_of.update((names[at], begin + more) for more, at in enumerate(new))
        self.first = self.first or [table]

    def taken(self, names: Sequence[bytes]) -> Table:
        cells = np.take(self.cells, [self.place_of[name] for name in names], axis=2)
        [first] = self.first
        columns = {
            one.name: column.astype(getattr(first, one.name).dtype, copy=False)
            for one, column in zip(fields(first), cells, strict=True)  # type: ignore[arg-type]
        }
        return type(first)(**columns)


def remembered_columns(
    compute: Callable[Concatenate[Rows, Columns, Arguments], Table],
) -> Callable[Concatenate[Rows, Columns, Arguments], Table]:
    """`compute(rows, columns, ...)`, where a column of the answer depends on its own of `columns` and on no other.

    A search wants the same columns again and again, each time beside others: those it had before are not computed
    again. `columns` is a dataclass of arrays whose first axis is theirs; the answer is one of arrays, rows by columns,
    of floats and of whole numbers below 2^53. All is forgotten where it grows too large.
    """
    known: dict[Hashable, _KeptColumns[Table]] = {}
    lock = Lock()  # nothing is computed under it: at worst two threads compute the same

    @wraps(compute)
    def found(rows: Rows, columns: Columns, /, *others: Arguments.args, **named: Arguments.kwargs) -> Table:
        key = (_key(rows), *map(_key, others), *((name, _key(value)) for name, value in named.items()))
        names = _column_names(columns)
        with lock:
            kept = known.setdefault(key, _KeptColumns())
            missing = {name: at for at, name in enumerate(names) if name not in kept.place_of}
        if missing:
            places = np.array([*missing.values()])
            some = type(columns)(**{one.name: getattr(columns, one.name)[places] for one in fields(columns)})  # type: ignore[arg-type]
            table = compute(rows, some, *others, **named)
            is_whole = len(missing) == len(names)
            if is_whole and _num_bytes(table) > MOST_BYTES:  # not worth a copy
                return table
            with lock:
                kept.add([*missing], table)
                if sum(one.cells.nbytes for one in known.values()) > MOST_BYTES:
                    known.clear()
            if is_whole:
                return table
        with lock:
            return kept.taken(names)

    return found


def _column_names(columns: Any) -> list[bytes]:
    """Of every column what tells it from others: the bytes of all its numbers."""
    arrays = [getattr(columns, one.name) for one in fields(columns)]
    numbers = np.column_stack([one.reshape(len(one), -1).astype(np.float64) for one in arrays])
    return [row.tobytes() for row in numbers]


def _key(value: Any) -> Hashable:
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if is_dataclass(value):
        return tuple(_key(getattr(value, one.name)) for one in fields(value))
    return value  # type: ignore[no-any-return]


def _seal(table: Any) -> None:
    """From now on it can only be read."""
    for one in fields(table):
        getattr(table, one.name).flags.writeable = False


def _num_bytes(table: Any) -> int:
    return sum(getattr(table, one.name).nbytes for one in fields(table))
