"""The model catalogue: one file per family, each model with its published configuration and parameter count."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.registry import Registry
from dovetail.workload.model import Model

models: Registry[Callable[[], Model]] = Registry("model", __name__)
