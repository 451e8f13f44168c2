"""What a paper says of itself beside what we find: figures by two mappers, and one word for each claim.

A claim is judged by its first reading, the one nearest to what the paper measured, with the paper's mapper. It is
reproduced where that figure is within a quarter of the published effect: of its logarithm, so that 1.2 and 12 times are
judged equally strictly, and a gain of nothing reproduces no gain. Other readings and our own mapper are shown, and do
not count. Where what is needed was not published, or was not measured, a claim is not comparable.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

REPRODUCED = "reproduced"
NOT_REPRODUCED = "not reproduced"
NOT_COMPARABLE = "not comparable"
# Of the logarithm of a published ratio. Chosen, not measured; our own mapper's figures were known then.
EFFECT_FRAC = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One way to measure a claim, by each mapper; nothing where it was not measured by it."""

    what: str
    paper_mapper: float | None
    ours: float | None
    differs: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A published ratio with our readings of it; `obstacle` is what keeps it from being compared, if anything.

    `reported` is a number or the ends of a range, and 1 where the paper says no more than that it is higher
    (`is_floor`). `least` is what each figure of ours must be above, if anything (0: no).
    """

    what: str
    reported: tuple[float, ...]
    readings: tuple[Reading, ...]
    is_floor: bool = False
    obstacle: str = ""
    least: float = 0.0

    @property
    def figure(self) -> float | None:
        """What the claim is judged by."""
        return self.readings[0].paper_mapper if self.readings else None

    @property
    def verdict(self) -> str:
        if self.obstacle or self.figure is None:
            return NOT_COMPARABLE
        low, high = accepted(self.reported, is_floor=self.is_floor)
        return REPRODUCED if low <= self.figure <= high and self.figure != 1 else NOT_REPRODUCED

    @property
    def why(self) -> str:
        """The verdict in a sentence."""
        if self.figure is None:
            return self.obstacle or "not measured here"
        low, high = accepted(self.reported, is_floor=self.is_floor)
        if self.is_floor:
            relation = "higher" if self.verdict == REPRODUCED else "not higher"
            found = f"{self.figure:.2f} by the paper's mapper is {relation}"
        else:
            relation = "below" if self.figure < low else "above" if self.figure > high else "within"
            found = f"{self.figure:.2f} by the paper's mapper is {relation} the {low:.2f} to {high:.2f} that count"
        return "; ".join(filter(None, (self.obstacle, found, self.readings[0].differs)))

    @property
    def holds(self) -> bool:
        own = [reading.ours for reading in self.readings[:1] if reading.ours is not None]
        return all(figure > self.least for figure in own)


def accepted(reported: tuple[float, ...], *, is_floor: bool = False) -> tuple[float, float]:
    """Between which figures a published one counts as met."""
    if is_floor:
        return max(reported), math.inf
    least, most = math.log(min(reported)), math.log(max(reported))
    return math.exp(least * (1 - EFFECT_FRAC)), math.exp(most * (1 + EFFECT_FRAC))


def mean(ratios: Iterable[float]) -> float:
    """The geometric mean."""
    return float(np.exp(np.mean(np.log(list(ratios)))))
