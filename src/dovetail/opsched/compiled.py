"""The loops, compiled by Numba where it is installed and as plain Python where not; imported only when called."""

from __future__ import annotations

import hashlib
from functools import cache
from types import FunctionType, SimpleNamespace
from typing import Any

from dovetail.opsched import (
    batch_loops,
    bound_loops,
    frontier_loops,
    loops,
    mode_loops,
    moves,
    price_loops,
    small_loops,
)

SOURCES = (loops, small_loops, mode_loops, moves, bound_loops, batch_loops, frontier_loops, price_loops)


def plain_loops() -> SimpleNamespace:
    """The loops as they are written: what compiled ones must agree with."""
    return SimpleNamespace(**_functions())


@cache
def compiled_loops() -> SimpleNamespace:
    """The loops as fast as this installation has them. Numba takes seconds to start, so ask only when needed.

    Compiled code is kept between runs under a name that says what all loops together were compiled from: Numba itself
    looks at one file only, and would keep a loop whose callee in another file has changed.
    """
    try:
        from numba import njit
    except ImportError:
        return plain_loops()
    functions = _functions()
    names: dict[str, Any] = {}
    for source in SOURCES:
        names.update({name: value for name, value in vars(source).items() if not name.startswith("__")})
    digest = _digest(functions, names)
    for name, function in functions.items():
        own = FunctionType(function.__code__, names, name)
        own.__module__, own.__qualname__ = function.__module__, f"{name}_{digest}"
        own.__annotations__ = {}
        is_part = name in small_loops.PARTS
        names[name] = njit(cache=True, nogil=True, inline="always" if is_part else "never")(own)
    return SimpleNamespace(**{name: names[name] for name in functions})


def _functions() -> dict[str, FunctionType]:
    return {
        name: value
        for source in SOURCES
        for name, value in vars(source).items()
        if isinstance(value, FunctionType) and value.__module__ == source.__name__
    }


def _digest(functions: dict[str, FunctionType], names: dict[str, Any]) -> str:
    """What the loops and the whole numbers they name come to."""
    numbers = sorted((name, value) for name, value in names.items() if isinstance(value, int))
    code = [(f.__code__.co_code, repr(f.__code__.co_consts), f.__code__.co_names) for f in functions.values()]
    return hashlib.sha256(repr((numbers, code, small_loops.PARTS)).encode()).hexdigest()[:16]
