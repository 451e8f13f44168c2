"""A model on a network, before the chip is known: the plans it may be trained by, and what they cost beside compute."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dovetail.errors import NotModelled
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.parallel.placement import nesting
from dovetail.parallel.plan import RECOMPUTE_POLICIES, Plans, joined
from dovetail.parallel.pools import framework_of
from dovetail.parallel.sharding import shard_plans
from dovetail.search.codesign.affine_lower_bounds import AffineLowerBounds, pair_times_s
from dovetail.search.codesign.affine_terms import affine_lower_bounds_of
from dovetail.search.planners.bounds.memory_lower_bounds import may_fit
from dovetail.search.planners.cuts.stage_options import check_depth, with_policies
from dovetail.search.planners.plan_space import PlanSpace, batches
from dovetail.search.planners.refine import Job
from dovetail.step.chip_free_costs import ChipFreeCosts, chip_free_costs
from dovetail.step.memory_needs import need_bytes
from dovetail.step.plan_table import PlanContext
from dovetail.workload.graph import FloatArray, Graph, IntArray
from dovetail.workload.workload import Workload

FEW_BASES = 512  # base plans of which one table serves for every request


@dataclass(frozen=True, slots=True, kw_only=True)
class Unshardable:
    """A model that no plan of a space cuts for so many devices of a network: it has no score."""

    model: str
    num_devices: int


class _Cut:
    """Of a frame's plans all that links and endpoints have no part in: what networks of the same shape share."""

    def __init__(self, workload: Workload, graph: Graph, policies: tuple[int, ...], bases: Plans) -> None:
        self.workload, self.graph, self.policies, self.bases = workload, graph, policies, bases
        self._fitting: dict[float, IntArray] = {}

    @cached_property
    def plans(self) -> Plans:
        return with_policies(self.bases, self.policies)

    @cached_property
    def need_bytes(self) -> FloatArray:
        return need_bytes(shard_plans(self.graph, self.plans), self.workload.precision)

    def fitting(self, limit: Cluster) -> IntArray:
        if limit.usable_bytes not in self._fitting:
            fits = may_fit(self.graph, self.bases, limit, self.workload.precision, self.policies)
            self._fitting[limit.usable_bytes] = np.flatnonzero(fits)
        return self._fitting[limit.usable_bytes]


class PlanSet:
    """Even plans on a cluster's network; a base plan leaves recompute open, and has a row for each policy."""

    def __init__(self, cluster: Cluster, space: PlanSpace, cut: _Cut) -> None:
        self.cluster, self.space, self._cut = cluster, space, cut
        self.workload, self.graph, self.policies, self.bases = cut.workload, cut.graph, cut.policies, cut.bases

    def elsewhere(self, cluster: Cluster) -> PlanSet | None:
        """The same plans on another network; nothing where that differs in more than its links and endpoint."""
        own, dimensions = self.cluster.topology.dimensions, cluster.topology.dimensions
        if len(own) != len(dimensions):
            return None
        same_network = tuple(
            replace(other, link=one.link, is_reducing=one.is_reducing)
            for other, one in zip(dimensions, own, strict=True)
        )
        return PlanSet(cluster, self.space, self._cut) if same_network == own else None

    @property
    def plans(self) -> Plans:
        """Base plans under every policy, base after base."""
        return self._cut.plans

    @cached_property
    def _every(self) -> ChipFreeCosts:
        return chip_free_costs(self.graph, self.plans, self.cluster, self.workload.precision)

    def some(self, bases: IntArray) -> tuple[ChipFreeCosts, IntArray]:
        """A frame with the plans of at least these base plans, and where the first plan of each stands in it.

        Of few base plans one frame serves for all; of many a frame of the requested ones is sooner made.
        """
        if len(self.bases) <= FEW_BASES:
            return self._every, bases * len(self.policies)
        distinct, which = np.unique(bases, return_inverse=True)
        plans = with_policies(self.bases.at(distinct), self.policies)
        frame = chip_free_costs(self.graph, plans, self.cluster, self.workload.precision)
        return frame, which * len(self.policies)

    @cached_property
    def base_plan_set(self) -> ChipFreeCosts:
        return chip_free_costs(self.graph, self.bases, self.cluster, self.workload.precision)

    @property
    def need_bytes(self) -> FloatArray:
        """Of each of `plans`."""
        return self._cut.need_bytes

    def on(self, chip: Chip) -> Cluster:
        """The network with this chip."""
        return replace(self.cluster, chip=chip)

    def with_memory(self, hbm_bytes: float) -> Cluster:
        """The network with the base's chip, but with HBM of this capacity; as much of it is usable as of the base's."""
        chip = self.cluster.chip
        return self.on(replace(chip, hbm=replace(chip.hbm, capacity_bytes=hbm_bytes)))

    def job(self, cluster: Cluster) -> Job:
        return Job(graph=self.graph, cluster=cluster, precision=self.workload.precision, policies=self.policies)

    def fitting(self, hbm_bytes: float) -> IntArray:
        """Base plans that some number of layers by stage and some recompute may make fit."""
        return self._cut.fitting(self.with_memory(hbm_bytes))

    @cached_property
    def lines(self) -> AffineLowerBounds:
        """Every base plan's, to bound millions of chips with."""
        return affine_lower_bounds_of(self.base_plan_set.plain, self.policies, is_fine=False)

    @cached_property
    def fine_affine_lower_bounds(self) -> AffineLowerBounds:
        """Every base plan's, for pairs of a plan and a chip."""
        return affine_lower_bounds_of(self.base_plan_set.plain, self.policies, is_fine=True)

    def lowest_s(self, hbm_bytes: float, compute_s: FloatArray) -> FloatArray:
        """The least that any plan which may fit takes at least, of places by cuts by chips."""
        found_s = np.full(compute_s.shape[2], np.inf)
        lines = self.lines.of_bases(self.fitting(hbm_bytes))
        if not len(lines.base):
            return found_s
        lowest = lines.lowest()
        for row in range(len(lowest.base)):
            one = lowest.at(np.array([row])).without_lower_lines()
            np.minimum(found_s, one.step_s(compute_s)[0], out=found_s)
        return found_s

    def pair_lower_bounds_s(self, base: IntArray, context: PlanContext) -> FloatArray:
        """Lower bounds of the steps of plan and chip pairs, whatever layers and recompute; `context` has the pairs."""
        return self.fine_affine_lower_bounds.of_pairs_s(base, *pair_times_s(context, self.policies))


def plan_set(workload: Workload, cluster: Cluster, space: PlanSpace) -> PlanSet | Unshardable:
    """The frame of a model on a network, where some plan of the space cuts it for that."""
    _check_modelled(space)
    graph = workload.training_graph()
    check_depth(graph, "take a model of fewer")
    first = replace(space, recompute=space.recompute[:1])
    found = list(batches(first, graph, cluster.num_devices, framework_of(cluster)))
    placed = nesting(joined(found), cluster.topology) if found else None
    if placed is None or not len(placed):
        return Unshardable(model=workload.model.name, num_devices=cluster.num_devices)
    policies = tuple(RECOMPUTE_POLICIES.index(policy) for policy in space.recompute)
    return PlanSet(cluster, space, _Cut(workload, graph, policies, placed))


def _check_modelled(space: PlanSpace) -> None:
    if any(space.offload_optimizer) or any(space.offload_activations_frac):
        raise NotModelled("chip and plan together are searched without offload; leave offload out of the plan")
