"""Real and template accelerators, one file each, every figure with its source."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.hardware.chip import Chip
from dovetail.registry import Registry, made, named


def _check(name: str, build: Callable[[], Chip]) -> None:
    named("chip", name, made("chip", Chip, name, build).name)


chips: Registry[Callable[[], Chip]] = Registry("chip", __name__, check=_check)
