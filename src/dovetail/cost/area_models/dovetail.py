"""Our own model: every component of the die, checked against dies that were measured."""

from __future__ import annotations

from dovetail.cost.area import silicon
from dovetail.cost.area_models import area_models
from dovetail.cost.inventory import inventory
from dovetail.hardware.chip import Chip


@area_models.register("dovetail")
def dovetail_mm2(chip: Chip) -> float:
    """Silicon of the whole package on the chip's own node."""
    return float(silicon(inventory(chip)).total_mm2)
