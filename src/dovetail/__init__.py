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
    from dovetail.api import (
        Answer,
        BlockSchedule,
        Catalogue,
        Chip,
        Cluster,
        Codesign,
        Collective,
        DovetailError,
        Entry,
        Front,
        InvalidInput,
        LaunchScript,
        Mining,
        Model,
        NotModelled,
        Operator,
        Plan,
        Planning,
        Progress,
        Reproduction,
        Simulation,
        Studies,
        Validation,
        chips,
        clusters,
        codesign,
        launch,
        mine,
        models,
        network,
        op,
        operator_kinds,
        pareto,
        plan,
        plans,
        reproduce,
        schedule,
        show,
        simulate,
        studies,
        sweep,
        validate,
    )

__version__ = "0.1.0"
__all__ = [
    "Answer",
    "BlockSchedule",
    "Catalogue",
    "Chip",
    "Cluster",
    "Codesign",
    "Collective",
    "DovetailError",
    "Entry",
    "Front",
    "InvalidInput",
    "LaunchScript",
    "Mining",
    "Model",
    "NotModelled",
    "Operator",
    "Plan",
    "Planning",
    "Progress",
    "Reproduction",
    "Simulation",
    "Studies",
    "Validation",
    "__version__",
    "chips",
    "clusters",
    "codesign",
    "launch",
    "mine",
    "models",
    "network",
    "op",
    "operator_kinds",
    "pareto",
    "plan",
    "plans",
    "reproduce",
    "schedule",
    "show",
    "simulate",
    "studies",
    "sweep",
    "validate",
]

_BOTH = ("network", "plan", "schedule")  # names of layers that are also names of answers: modules that can be called


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


def _answer_of(layer: ModuleType) -> Any:
    return getattr(importlib.import_module("dovetail.api"), layer.__name__.rpartition(".")[2])


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
    if name in __all__:
        return getattr(importlib.import_module("dovetail.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
