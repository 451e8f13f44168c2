"""One number of a paper with ours beside it, and what counts as the same."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """`within_frac` 0 asks for the paper's number to its `digits`; `is_floor` for at least the paper's."""

    what: str
    ours: float
    paper: float
    digits: int = 2
    within_frac: float = 0.0
    is_floor: bool = False

    @property
    def error_frac(self) -> float:
        return self.ours / self.paper - 1

    @property
    def holds(self) -> bool:
        if self.is_floor:
            return round(self.ours, self.digits) >= self.paper
        if self.within_frac:
            return abs(self.error_frac) <= self.within_frac
        # A half may be rounded either way, as 3.375 is to 3.38.
        return abs(self.ours - self.paper) <= 0.5 * 10.0**-self.digits * (1 + HALF_TOLERANCE)


HALF_TOLERANCE = 1e-9
