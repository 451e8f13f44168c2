"""Plans ranked by an upper quantile of their time: each predicted time, times what runs of its kind were off by.

How sure a prediction is depends on whether a plan has a pipeline, and by which schedule. A space is cut into parts that
are alike in this; each is searched by itself, and what is found is joined by the quantile. So the gap stays proven.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dovetail.accuracy.evidence import upper_factor
from dovetail.accuracy.residuals import Residual
from dovetail.errors import InvalidInput
from dovetail.hardware.heterogeneous import AnyCluster
from dovetail.parallel.plan import Plan
from dovetail.search.planners.candidates import Candidate
from dovetail.search.planners.plan_space import PlanSpace, divisors
from dovetail.search.planners.planner import PlanSearchResult, joined_results
from dovetail.workload.workload import Workload

MEDIAN_FRAC = 0.5
MOST_FRAC = 0.95  # the upper end of a 90 % interval; a class may have 15 runs, which say little beyond


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile:
    """Which quantile of its time a plan is ranked by, and the published runs that say how far off predictions are."""

    frac: float = MEDIAN_FRAC
    residuals: tuple[Residual, ...] = ()

    def __post_init__(self) -> None:
        if not MEDIAN_FRAC <= self.frac <= MOST_FRAC:
            message = f"plans are ranked by a quantile of their time from 50 % to 95 %; got {100 * self.frac:g} %"
            raise InvalidInput(message, "rank_by")

    @property
    def is_median(self) -> bool:
        return self.frac == MEDIAN_FRAC

    @property
    def words(self) -> str:
        return f"{100 * self.frac:g} % quantile"

    def factor(self, workload: Workload, cluster: AnyCluster, plan: Plan) -> float:
        """The quantile of a plan's time over its predicted time; 1 for the median."""
        if self.is_median:
            return 1.0
        return upper_factor(workload, cluster, plan, self.residuals, self.frac)

    def ranked(self, candidate: Candidate, workload: Workload, cluster: AnyCluster) -> Candidate:
        """`candidate` with the score that it is ranked by."""
        return replace(candidate, score=candidate.score * self.factor(workload, cluster, candidate.plan))


MEDIAN = Quantile()


def search_by_quantile(
    quantile: Quantile,
    workload: Workload,
    cluster: AnyCluster,
    space: PlanSpace,
    num_best: int,
    search: Callable[[PlanSpace], PlanSearchResult],
) -> PlanSearchResult:
    """What `search` finds in `space`, best by `quantile`, with the gap in it."""
    if quantile.is_median:
        return search(space)
    results = []
    for part, plan in _parts(space, workload, cluster):
        factor = quantile.factor(workload, cluster, plan)
        found = search(part)
        best = tuple(replace(one, score=one.score * factor) for one in found.best)
        results.append(replace(found, best=best, bound_score=factor * found.bound_s))
    firsts = sorted((one for found in results for one in found.best[:1]), key=lambda one: one.step_s)
    return replace(joined_results(results, num_best), fastest=tuple(firsts[:1]))


def _parts(space: PlanSpace, workload: Workload, cluster: AnyCluster) -> Sequence[tuple[PlanSpace, Plan]]:
    """`space` in parts whose plans are alike in what says how sure a prediction is, each with such a plan."""
    num_layers = workload.training_graph().num_layers
    degrees = [d for d in space.pipeline_parallel or divisors(cluster.num_devices) if d <= num_layers]
    alone, piped = tuple(d for d in degrees if d == 1), tuple(d for d in degrees if d > 1)
    parts = [(replace(space, pipeline_parallel=alone), Plan())] if alone else []
    for schedule in space.schedule if piped else ():
        plan = Plan(pipeline_parallel=piped[0], schedule=schedule)
        parts.append((replace(space, pipeline_parallel=piped, schedule=(schedule,)), plan))
    return parts or [(space, Plan())]
