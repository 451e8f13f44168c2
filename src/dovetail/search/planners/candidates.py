"""Plans that fit in memory with their figures, how many were evaluated, and the best per combination of degrees."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.columns import distinct
from dovetail.hardware.cluster import Cluster
from dovetail.parallel.plan import Plan, Plans
from dovetail.search.objectives import Figures, Objective
from dovetail.units import Amount
from dovetail.workload.graph import FloatArray

DEGREES = ("tensor_parallel", "context_parallel", "pipeline_parallel", "data_parallel", "expert_parallel")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A plan that fits in memory, with its step time, energy, memory and score."""

    plan: Plan
    step_s: float
    energy_j: float
    need_bytes: float
    score: float
    figure: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many even plans a search has enumerated, how many it evaluated, and how many of these fit.

    Plans that were not evaluated cannot be among the best: a lower bound rules them out. `least` holds the plan that
    needs least memory and `least_bytes` its need; it is empty before any plan, or where none nests in the network.
    """

    num_plans: int = 0
    num_evaluated: int = 0
    num_fitting: int = 0
    least_bytes: float = np.inf
    least: tuple[Plan, ...] = ()

    def met(self, num_plans: int) -> Tally:
        return replace(self, num_plans=self.num_plans + num_plans)

    def evaluated(self, num_evaluated: int, num_fitting: int) -> Tally:
        return replace(
            self,
            num_evaluated=self.num_evaluated + num_evaluated,
            num_fitting=self.num_fitting + num_fitting,
        )

    def with_need(self, plans: Plans, need_bytes: FloatArray) -> Tally:
        """With the plan of least memory so far, `plans` and their `need_bytes` included."""
        row = int(need_bytes.argmin())
        if not need_bytes[row] < self.least_bytes:
            return self
        return replace(self, least_bytes=float(need_bytes[row]), least=(plans.plan(row),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A plan with its step time, energy and memory."""

    plan: Plan
    step_s: float
    energy_j: float
    need_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """What turns the figures of plans into scores."""

    objective: Objective
    cluster: Cluster
    num_tokens: int
    cluster_usd: float

    def figures(self, step_s: Amount, energy_j: Amount, need_bytes: Amount) -> Figures:
        return Figures(
            step_s=step_s,
            energy_j=energy_j,
            need_bytes=need_bytes,
            limit_bytes=self.cluster.usable_bytes,
            num_tokens=self.num_tokens,
            cluster_usd=self.cluster_usd,
        )

    def candidate(self, found: Found) -> Candidate:
        figures = self.figures(found.step_s, found.energy_j, found.need_bytes)
        return Candidate(
            plan=found.plan,
            step_s=found.step_s,
            energy_j=found.energy_j,
            need_bytes=found.need_bytes,
            score=float(self.objective.score(figures)),
            figure=float(self.objective.figure(figures)),
        )

    def best(self, plans: Plans, figures: Figures, num_best: int) -> tuple[Candidate, ...]:
        """The best of `plans`, the best of each combination of degrees; of equals the one that needs less memory."""
        scores = np.asarray(self.objective.score(figures), dtype=np.float64)
        order = np.lexsort((figures.need_bytes, scores))
        _, kind_of = distinct(*(getattr(plans, name) for name in DEGREES))
        _, first = np.unique(kind_of[order], return_index=True)
        return tuple(
            self.candidate(
                Found(
                    plan=plans.plan(int(row)),
                    step_s=float(figures.step_s[row]),
                    energy_j=float(figures.energy_j[row]),
                    need_bytes=float(figures.need_bytes[row]),
                )
            )
            for row in order[np.sort(first)][:num_best]
        )


def degrees_of(plan: Plan) -> tuple[int, ...]:
    return tuple(getattr(plan, name) for name in DEGREES)


def best_of(found: tuple[Candidate, ...], num_best: int) -> tuple[Candidate, ...]:
    """The best of each combination of degrees, best first."""
    best: dict[tuple[int, ...], Candidate] = {}
    for candidate in sorted(found, key=lambda candidate: (candidate.score, candidate.need_bytes)):
        best.setdefault(degrees_of(candidate.plan), candidate)
    return tuple(best.values())[:num_best]


def least_s(best: tuple[Candidate, ...]) -> float:
    return best[0].step_s if best else np.inf
