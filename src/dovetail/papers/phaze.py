"""PHAZE's models on its TPU v4: the experts' placements, our best plan, and the best chip and plan together.

Plan and joint search are handed in: both take minutes, and the study is the same for every planner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from dovetail.evaluate import trial
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.papers.mappers import OURS, Mapper
from dovetail.papers.phaze_cases import (
    CASES,
    HBM_BYTES,
    MICROBATCHES,
    TERMS,
    Case,
    Terms,
    cluster_of,
)
from dovetail.parallel.plan import Plan
from dovetail.workload.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A plan on a chip with so much HBM; no plan of those it was chosen from takes less than `bound_s`."""

    plan: Plan
    hbm_bytes: float
    step_s: float
    bound_s: float
    sequences_per_s: float

    @property
    def gap_frac(self) -> float:
        return max(0.0, 1 - self.bound_s / self.step_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """The best chip and plan together: how good, how good at most, and what became of the chips of the space.

    What else could have been done is in `beside`, where it was looked at.
    """

    chip: Chip
    found: Found
    num_chips: int
    num_evaluated: int
    num_pruned: int
    num_infeasible: int
    beside: OtherSearches | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherSearches:
    """What one search after the other, and PHAZE's stop rule, find in the space of a joint search.

    `searched_sequences_per_s` is of the plans that chips were searched with, and so are those of one search after the
    other: the best chip for the plan that PHAZE's TPU v4 has, and then the best plan of that chip; nothing where
    no plan fits. `stopped_chips` is how many chips PHAZE's stop rule would have looked at, and
    `stopped_sequences_per_s` the best it would have found there.
    """

    searched_sequences_per_s: float
    plan_then_chip_sequences_per_s: float | None
    chip_then_plan_sequences_per_s: float | None
    stopped_chips: int
    stopped_sequences_per_s: float

    @property
    def over_plan_then_chip(self) -> float | None:
        """What searching together gains over the plan first, and a chip for it."""
        return _over(self.searched_sequences_per_s, self.plan_then_chip_sequences_per_s)

    @property
    def over_chip_then_plan(self) -> float | None:
        """And over that chip with the best plan it has."""
        return _over(self.searched_sequences_per_s, self.chip_then_plan_sequences_per_s)


def _over(sequences_per_s: float, other_sequences_per_s: float | None) -> float | None:
    return sequences_per_s / other_sequences_per_s if other_sequences_per_s else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One model on one set of terms by one mapper; nothing where no plan of the kind fits the chip's memory.

    `real` is the same around a real TPU v4, where that was looked at.
    """

    case: Case
    terms: Terms
    expert: Found | None
    ours: Found | None
    joint: Joint | None = None
    mapper: Mapper = OURS
    real: Compared | None = None

    @property
    def placement_gain(self) -> float | None:
        """Our plan over the experts', on the same chip."""
        return self.ours.sequences_per_s / self.expert.sequences_per_s if self.ours and self.expert else None

    @property
    def joint_gain(self) -> float | None:
        """The best chip with its plan over PHAZE's TPU v4 with our plan."""
        return self.joint.found.sequences_per_s / self.ours.sequences_per_s if self.joint and self.ours else None

    @property
    def whole_gain(self) -> float | None:
        """The best chip with its plan over PHAZE's TPU v4 with the experts'."""
        return self.joint.found.sequences_per_s / self.expert.sequences_per_s if self.joint and self.expert else None


BestPlan = Callable[[Workload, Cluster, Terms], Found | None]
BestJoint = Callable[[Case, Terms, Mapper], Joint | None]


def phaze_study(
    best_plan: BestPlan,
    best_joint: BestJoint | None = None,
    cases: Sequence[Case] = CASES,
    terms: Sequence[Terms] = TERMS,
    mapper: Mapper = OURS,
) -> Iterator[Compared]:
    """Every model on every set of terms, one after the other; without `best_joint` on PHAZE's TPU v4 alone."""
    for on, case in product(terms, cases):
        expert = expert_placement(case, on, baselines(mapper))
        ours = next(filter(None, (_ours(case, on, chip, best_plan) for chip in baselines(mapper))), None)
        joint = best_joint(case, on, mapper) if best_joint else None
        yield Compared(case=case, terms=on, expert=expert, ours=ours, joint=joint, mapper=mapper)


def around_real(best_plan: BestPlan, best_joint: BestJoint, case: Case, terms: Terms, mapper: Mapper) -> Compared:
    """A model on a real TPU v4 with PHAZE's network, and the best chip around it."""
    chip = real_chip(mapper)
    return Compared(
        case=case,
        terms=terms,
        expert=expert_placement(case, terms, [chip]),
        ours=_ours(case, terms, chip, best_plan),
        joint=best_joint(case, terms, mapper),
        mapper=mapper,
    )


def baselines(mapper: Mapper = OURS) -> Iterator[Chip]:
    """PHAZE's TPU v4 with the least HBM of PHAZE's choice, then more."""
    chip = mapper.on(chips["phaze-tpuv4"]())
    return (replace(chip, hbm=replace(chip.hbm, capacity_bytes=capacity)) for capacity in HBM_BYTES)


def real_chip(mapper: Mapper) -> Chip:
    return mapper.on(chips["tpu-v4"]())


def expert_placement(case: Case, terms: Terms, tried_on: Iterable[Chip] | None = None) -> Found | None:
    """The experts' degrees with the best microbatch and recompute, on the first chip they fit: PHAZE's TPU v4s.

    Layers are spread evenly. The released code counts the embedding as a layer and so leaves its last stage one too
    many: a baseline that is worse than its experts meant.
    """
    plan = case.expert_plan
    workload = case.workload(terms, plan.data_parallel)
    for chip in baselines() if tried_on is None else tried_on:
        cluster = cluster_of(chip, terms, plan.num_devices)
        choices = product(MICROBATCHES, terms.recompute)
        tried = (replace(plan, microbatch=m, recompute=(r,), overlap=terms.overlap) for m, r in choices)
        if best := fastest(workload, cluster, tuple(tried)):
            return best
    return None


def fastest(workload: Workload, cluster: Cluster, tried: Sequence[Plan]) -> Found | None:
    """The fastest of these plans among those that fit; nothing where none does."""
    graph = workload.training_graph()
    outcomes = [(trial(graph, cluster, plan, workload.precision), plan) for plan in tried]
    fitting = [(outcome.step_s, plan) for outcome, plan in outcomes if outcome.need_bytes <= outcome.limit_bytes]
    if not fitting:
        return None
    step_s, plan = min(fitting, key=lambda one: one[0])
    return found(workload, cluster, plan, step_s, step_s)


def found(workload: Workload, cluster: Cluster, plan: Plan, step_s: float, bound_s: float) -> Found:
    rate = workload.global_batch / step_s
    return Found(
        plan=plan, hbm_bytes=cluster.chip.hbm.capacity_bytes, step_s=step_s, bound_s=bound_s, sequences_per_s=rate
    )


def _ours(case: Case, terms: Terms, chip: Chip, best_plan: BestPlan) -> Found | None:
    return best_plan(case.workload(terms), cluster_of(chip, terms), terms)
