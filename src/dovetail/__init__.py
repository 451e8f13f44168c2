"""Dovetail predicts distributed deep-learning training.

Give it a model, a cluster and a plan, and it answers with the time of a training step, memory, energy and what limits
them:

    import dovetail as dv
    dv.simulate(model="llama3-70b", cluster="h100x512", plan="auto")

This package imports nothing itself: what `dovetail.api` offers is taken from there when it is first used, so that
starting a command costs only what that command uses.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dovetail.api import *  # noqa: F403  # every name that it offers, for type checkers

__version__ = "0.1.0"


def _api() -> Any:
    return importlib.import_module("dovetail.api")


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return _offered()
    if name in _offered():
        return getattr(_api(), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), "__all__", *_offered()})


def _offered() -> list[str]:
    """The names of `dovetail.api`, and the version."""
    return sorted(("__version__", *_api().__all__))
