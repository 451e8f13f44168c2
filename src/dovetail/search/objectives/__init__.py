"""What a planner can ask for, one file each: a score, least for the best plan, and the figure that people compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dovetail.registry import Registry, holding
from dovetail.units import Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one plan comes to, or many."""

    step_s: Amount
    energy_j: Amount
    need_bytes: Amount
    limit_bytes: float
    num_tokens: int  # or samples, where a model has none
    cluster_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """`score` is least for the best plan; `figure` is what people compare, in `unit`.

    `aspect` is what plans lose by: time, energy or memory. `is_priced`: it needs what the chips cost.
    """

    score: Callable[[Figures], Amount]
    figure: Callable[[Figures], Amount]
    unit: str
    summary: str
    aspect: str = "time"
    is_priced: bool = False


objectives: Registry[Objective] = Registry("objective", __name__, check=holding("objective", Objective))
