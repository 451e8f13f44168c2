"""The model catalogue: one file per family, each model with its published configuration and parameter count."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.registry import Registry, made, named
from dovetail.workload.model import Model


def _check(name: str, build: Callable[[], Model]) -> None:
    named("model", name, made("model", Model, name, build).name)


models: Registry[Callable[[], Model]] = Registry("model", __name__, check=_check)
