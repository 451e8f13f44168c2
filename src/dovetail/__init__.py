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
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dovetail.api import *  # noqa: F403  # every name that it offers, for type checkers

__version__ = "0.1.0"
# names of layers that are also names of answers: modules that can be called
_BOTH = ("capture", "network", "plan", "schedule")


class _Layer(ModuleType):
    """A layer that can be called as the answer of its name: `dv.plan(...)` beside `from dovetail.plan.plan import`."""

    def __call__(self, *positional: Any, **named: Any) -> Any:
        return _answer_of(self)(*positional, **named)

    @property
    def __signature__(self) -> Any:
        """What `inspect.signature`, and so completion and help, shows: the answer's own."""
        return importlib.import_module("inspect").signature(_answer_of(self))

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return str(_answer_of(self).__doc__)


def _api() -> Any:
    return importlib.import_module("dovetail.api")


def _answer_of(layer: ModuleType) -> Any:
    return getattr(_api(), layer.__name__.rpartition(".")[2])


class _Package(ModuleType):
    """This package; makes layers callable as the import system hands them over."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in _BOTH and isinstance(value, ModuleType):
            value.__class__ = _Layer
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name in _BOTH:
        return importlib.import_module(f"{__name__}.{name}")
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
