"""What operators cost, as columns: the value every cost function returns, and how an operator can be run."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum

from dovetail.cost.cost import Cost
from dovetail.workload.graph import BoolArray, FloatArray

LIMITS = ("tensor", "vector", "sram", "hbm", "latency", "launch")  # what an operator can be limited by


class Setting(Enum):
    """How an operator runs."""

    STREAM = "stream"  # behind other operators, the queue full; the power limit is the step's affair
    KERNEL = "kernel"  # its kernels timed by themselves, again and again
    ALONE = "alone"  # from an idle queue, caches cold, as the host gives it out


@dataclass(frozen=True, slots=True, kw_only=True)
class OpCosts:
    """Cost of every row of a graph, at full clock; with a table of chips, of every row on every chip; as in `Cost`."""

    compute_s: FloatArray
    clocked_s: FloatArray
    energy_j: FloatArray
    core_j: FloatArray
    flop: FloatArray
    hbm_bytes: FloatArray
    host_s: FloatArray

    def total(self, rows: BoolArray) -> Cost:
        """The cost of some rows on one chip, one after another."""
        return Cost(**{f.name: float(getattr(self, f.name)[rows].sum()) for f in fields(Cost)})
