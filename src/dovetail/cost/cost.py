"""What running something costs, as a value that adds up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Time and energy of work done on one chip; `a + b` is a then b, `n * a` is a repeated n times."""

    compute_s: float = 0.0
    energy_j: float = 0.0
    flop: float = 0.0
    hbm_bytes: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            compute_s=self.compute_s + other.compute_s,
            energy_j=self.energy_j + other.energy_j,
            flop=self.flop + other.flop,
            hbm_bytes=self.hbm_bytes + other.hbm_bytes,
        )

    def __mul__(self, num_repeats: float) -> Cost:
        return Cost(
            compute_s=num_repeats * self.compute_s,
            energy_j=num_repeats * self.energy_j,
            flop=num_repeats * self.flop,
            hbm_bytes=num_repeats * self.hbm_bytes,
        )

    __rmul__ = __mul__
