"""PHAZE's placement program reproduced: for each recorded instance, our optimum beside the one its code found.

Instances and optima are those of the released code (commit fed7cde, MIT), whose cost formulas are given as tables. They
are read from files, so that our answer to one is handed in by the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

TOLERANCE_S = 1e-9  # style: a tolerance; two sums of the same seconds in another order


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A placement in a few numbers, and the batch time of the experts' placement of the same instance."""

    batch_s: float
    expert_batch_s: float
    tensor_parallel: int
    data_parallel: int
    num_stages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PhazeCase:
    """One instance: what PHAZE recorded, and what we find."""

    name: str
    recorded: Placed
    ours: Placed

    @property
    def gap_s(self) -> float:
        return self.ours.batch_s - self.recorded.batch_s

    @property
    def expert_gap_s(self) -> float:
        return self.ours.expert_batch_s - self.recorded.expert_batch_s

    @property
    def is_same_partition(self) -> bool:
        """Whether degrees and stages agree too; where two placements are equally fast they need not."""
        cuts = [(one.tensor_parallel, one.data_parallel, one.num_stages) for one in (self.ours, self.recorded)]
        return cuts[0] == cuts[1]

    @property
    def holds(self) -> bool:
        return max(abs(self.gap_s), abs(self.expert_gap_s)) <= TOLERANCE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class PhazeDpStudy:
    """The whole reproduction."""

    cases: tuple[PhazeCase, ...]

    @property
    def holds(self) -> bool:
        return bool(self.cases) and all(case.holds for case in self.cases)


def phaze_dp_study(recorded: Mapping[str, Placed], placed: Callable[[str], Placed]) -> PhazeDpStudy:
    """Every recorded instance placed again; `placed` gives our answer to the instance of a name."""
    cases = (PhazeCase(name=name, recorded=one, ours=placed(name)) for name, one in recorded.items())
    return PhazeDpStudy(cases=tuple(cases))
