"""Named plans, one file per family: common starting points, and what published runs used."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.parallel.plan import Plan
from dovetail.registry import Registry, holding


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEntry:
    """A plan with a name.

    Where it `fills_data_parallel`, its own data-parallel degree is the one it was published with and gives way to
    whatever fills the cluster at hand; otherwise the plan is for one number of devices.
    """

    plan: Plan
    fills_data_parallel: bool
    summary: str
    source: str


plans: Registry[PlanEntry] = Registry("plan", __name__, check=holding("plan", PlanEntry))
