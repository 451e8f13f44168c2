"""Families of chips, one file each: chips that one set of constants is fitted on, and how far off it is elsewhere.

A chip that says `calibration: {family: tpu}` is calibrated by its family at its own clock. Nothing is copied from the
chip it was changed from, so a chip on paper is judged as the real ones of its family are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dovetail.errors import InvalidInput
from dovetail.hardware.chip import Calibration
from dovetail.registry import Registry, holding, named

PLAIN = "plain"  # of frameworks: none in particular


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """How far a family's constants are off on chips that they were not fitted on.

    `spread_frac` is the standard deviation of the logarithm of predicted over measured seconds of a step.
    """

    spread_frac: float
    measured_on: str

    def __post_init__(self) -> None:
        if not self.spread_frac > 0:
            raise InvalidInput(f"spread_frac must be above 0; got {self.spread_frac:g}", "spread_frac")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """`calibration(clock_hz, host_slower)` gives the constants of a chip: what waits on the chip waits for clocks.

    `host_slower` is by how much its host is slower on one thread than that of the H200 that was measured; it matters
    where a host is part of the calibration. `fitted` names the numbers that were fitted, `source` says on what.
    `framework` is what trains on its chips where a plan names no other.
    """

    name: str
    summary: str
    calibration: Callable[[float, float], Calibration]
    fitted: tuple[str, ...]
    source: str
    left_out: LeftOut
    framework: str = PLAIN


def _check(name: str, family: Family) -> None:
    holding("family", Family)(name, family)
    named("family", name, family.name)


families: Registry[Family] = Registry("family", __name__, check=_check)
PAPER = "paper"  # of chips that were never built, whose calibration is the model itself


def left_out_of(calibration: Calibration) -> LeftOut:
    """The error of the family that a calibration is of; of one that names none, that of chips on paper."""
    return families[calibration.family or PAPER].left_out
