"""A memory level: how much it holds and how fast it moves."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.errors import InvalidInput

PLAN_RESERVE_FRAC = 0.04  # of what the framework sees, where it keeps no stated reserve itself; PLAN_RESERVE_SOURCE
PLAN_RESERVE_SOURCE = "estimate: twice the 1 to 2 % by which our count of memory is off measured runs"
ASSUMED_SOURCES = (
    ("hbm_visible_frac", "assumed: the framework sees all of it"),
    ("hbm_reserve_frac", PLAN_RESERVE_SOURCE),
)  # of a chip that says neither
MAX_RESERVE_FRAC = 0.9  # style: a bound; with more left free it is another chip


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One memory level of a chip, seen whole: all banks or all stacks together."""

    capacity_bytes: float
    bandwidth_bytes_per_s: float

    def __post_init__(self) -> None:
        if not self.capacity_bytes > 0:
            raise InvalidInput(f"memory capacity must be positive; got {self.capacity_bytes:g} bytes", "capacity")
        if not self.bandwidth_bytes_per_s > 0:
            raise InvalidInput(
                f"memory bandwidth must be positive; got {self.bandwidth_bytes_per_s:g} bytes/s", "bandwidth"
            )
