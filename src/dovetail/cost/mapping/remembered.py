"""Tables that were computed before, kept while they are small: searches and perturbed chips ask for the same again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

from dovetail.units import MEBI

MOST_BYTES = 64 * MEBI

Arguments = ParamSpec("Arguments")
Table = TypeVar("Table")


@dataclass(frozen=True, slots=True)
class _Kept(Generic[Table]):
    table: Table
    num_bytes: int


def remembered(compute: Callable[Arguments, Table]) -> Callable[Arguments, Table]:
    """`compute`, whose arguments and answer are dataclasses of arrays; nobody may write into an answer.

    All is forgotten where it grows too large. No lock: at worst two threads compute the same table.
    """
    known: dict[Hashable, _Kept[Table]] = {}

    def found(*arguments: Arguments.args, **named: Arguments.kwargs) -> Table:
        key = (*map(_key, arguments), *((name, _key(value)) for name, value in named.items()))
        kept = known.get(key)
        if kept is not None:
            return kept.table
        table = compute(*arguments, **named)
        one = _Kept(table, _sealed_bytes(table))
        if one.num_bytes + sum(other.num_bytes for other in tuple(known.values())) > MOST_BYTES:
            known.clear()
        if one.num_bytes <= MOST_BYTES:
            known[key] = one
        return table

    return found


def _key(value: Any) -> Hashable:
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if is_dataclass(value):
        return tuple(_key(getattr(value, one.name)) for one in fields(value))
    return value  # type: ignore[no-any-return]


def _sealed_bytes(table: Any) -> int:
    """How large it is; from now on it can only be read."""
    columns = [getattr(table, one.name) for one in fields(table)]
    for column in columns:
        column.flags.writeable = False
    return sum(column.nbytes for column in columns)
