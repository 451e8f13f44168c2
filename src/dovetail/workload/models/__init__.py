"""The model catalogue: each model with its published configuration and parameter count.

A transformer is a YAML file in the format of a user's model. What is no transformer is built by code, one module per
family.
"""

from __future__ import annotations

from collections.abc import Callable

from dovetail.registry import Registry, made, named
from dovetail.workload.model import Model


def _check(name: str, build: Callable[[], Model]) -> None:
    named("model", name, made("model", Model, name, build).name)


models: Registry[Callable[[], Model]] = Registry("model", __name__, check=_check, filed_by="dovetail.files.catalogue")
