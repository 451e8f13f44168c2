"""The one place that says which cost model is being judged."""

from __future__ import annotations

from dovetail.cost.costs import LIMITS, OpCosts, Setting, op_costs

__all__ = ["LIMITS", "OpCosts", "Setting", "op_costs"]
