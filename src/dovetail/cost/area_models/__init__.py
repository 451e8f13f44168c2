"""Area models by name, one file each: a chip in, mm2 of silicon out."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.hardware.chip import Chip
from dovetail.registry import Registry

area_models: Registry[Callable[[Chip], float]] = Registry("area model", __name__)
