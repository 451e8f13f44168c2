"""Everything a search has evaluated, in one SQLite file: kept at once, found again, never mixed with other numbers.

A study is known by the hash of all its inputs and of the physics that evaluates them, so a changed input or numbers
that moved start a new one. Rows are written in write-ahead mode, a transaction for each batch: a process killed at any
moment loses no row it was given, and several may work on one file.

Names are taken from their modules when they are first used: `dovetail --version` reads `store/version.py` alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dovetail.store.opening import opened, reading
    from dovetail.store.study import Store, Study

__all__ = ["Store", "Study", "opened", "reading"]
_HOMES = {"Store": "study", "Study": "study", "opened": "opening", "reading": "opening"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
