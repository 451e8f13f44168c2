"""A model on a network, before the chip is known: the plans it may be trained by, and what they cost beside compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.plan.cuts import cuts_of
from dovetail.plan.placements import NOWHERE, placements_of
from dovetail.plan.plan import RECOMPUTE_POLICIES
from dovetail.plan.plans import Plans, joined
from dovetail.schedule.assembly import Shared, by_pipeline, num_hiding
from dovetail.schedule.many_chips import PlanFrame, plan_frame
from dovetail.schedule.memory_needs import need_bytes
from dovetail.schedule.work import HELD_FRAC
from dovetail.schedule.work_columns import stage_work
from dovetail.search.block_lows import block_lows
from dovetail.search.bounds import ROUNDING_TOLERANCE, group_lows
from dovetail.search.memory_lows import may_fit
from dovetail.search.pipeline_lows import pace_slope, pipeline_low_s
from dovetail.search.plan_space import PlanSpace, batches
from dovetail.search.refine import Job
from dovetail.search.stage_options import with_policies
from dovetail.workload.graph import FloatArray, IntArray
from dovetail.workload.workload import Workload

FEW_BASES = 512  # base plans of which one table serves for all that is asked
Networks = Callable[[Chip, int], Cluster]  # so many devices of a chip, joined


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lines:
    """Of base plans: what a step takes at least, by the compute of one microbatch under `cut`.

    Two straight lines each, both valid: exchanges hide as far as they may, or behind no more than an even stage.
    """

    base: IntArray  # which of the frame's base plans
    cut: IntArray
    slope: FloatArray  # lines by 2
    fixed_s: FloatArray

    def at(self, rows: IntArray) -> Lines:
        return Lines(base=self.base[rows], cut=self.cut[rows], slope=self.slope[rows], fixed_s=self.fixed_s[rows])

    def step_s(self, compute_s: FloatArray) -> FloatArray:
        """Lines by chips, of what each cut computes: cuts by chips."""
        own_s = compute_s[self.cut]
        lows_s = (self.slope[:, way, None] * own_s + self.fixed_s[:, way, None] for way in (0, 1))
        return np.maximum(*lows_s)

    def lowest(self) -> Lines:
        """Those of which no other of the same cut is below in both lines, whatever the compute."""
        kept = []
        for cut in np.unique(self.cut).tolist():
            rows = np.flatnonzero(self.cut == cut)
            figures = np.concatenate([self.slope[rows], self.fixed_s[rows]], axis=1)
            order = np.lexsort(figures.T)
            front: list[int] = []
            for row in order.tolist():
                if not front or not (figures[front] <= figures[row]).all(axis=1).any():
                    front.append(row)
            kept.append(rows[front])
        return self.at(np.concatenate(kept)) if kept else self


class Frame:
    """Even plans on a cluster's network; a base plan leaves recompute open, and has a row for each policy."""

    def __init__(self, workload: Workload, cluster: Cluster, space: PlanSpace) -> None:
        _check_modelled(space)
        self.workload, self.cluster, self.space = workload, cluster, space
        self.graph = workload.training_graph()
        self.policies = tuple(RECOMPUTE_POLICIES.index(policy) for policy in space.recompute)
        bases = replace(space, recompute=space.recompute[:1])
        found = list(batches(bases, self.graph, cluster.num_devices))
        placed = _placed(joined(found), cluster) if found else None
        if placed is None or not len(placed):
            told = f"no plan of the space cuts {workload.model.name} for {cluster.num_devices} devices of this network"
            raise InvalidInput(f"{told}; allow more degrees, or another number of devices")
        self.bases: Plans = placed
        self._fitting: dict[float, IntArray] = {}

    @cached_property
    def plans(self) -> Plans:
        """Base plans under every policy, base after base."""
        return with_policies(self.bases, self.policies)

    @cached_property
    def _every(self) -> PlanFrame:
        return plan_frame(self.graph, self.plans, self.cluster, self.workload.precision)

    def some(self, bases: IntArray) -> tuple[PlanFrame, IntArray]:
        """A frame with the plans of at least these base plans, and where the first plan of each stands in it.

        Of few base plans one frame serves for all; of many a frame of those asked for is sooner made.
        """
        if len(self.bases) <= FEW_BASES:
            return self._every, bases * len(self.policies)
        distinct, which = np.unique(bases, return_inverse=True)
        plans = with_policies(self.bases.at(distinct), self.policies)
        frame = plan_frame(self.graph, plans, self.cluster, self.workload.precision)
        return frame, which * len(self.policies)

    @cached_property
    def base_frame(self) -> PlanFrame:
        return plan_frame(self.graph, self.bases, self.cluster, self.workload.precision)

    @cached_property
    def need_bytes(self) -> FloatArray:
        """Of each of `plans`."""
        return need_bytes(self.graph, self.plans, cuts_of(self.plans, self.graph), self.workload.precision)

    def on(self, chip: Chip) -> Cluster:
        """The network with this chip."""
        return replace(self.cluster, chip=chip)

    def with_memory(self, hbm_bytes: float) -> Cluster:
        """The network with the base's chip, but of so much memory."""
        chip = self.cluster.chip
        return self.on(replace(chip, hbm=replace(chip.hbm, capacity_bytes=hbm_bytes)))

    def job(self, cluster: Cluster) -> Job:
        return Job(graph=self.graph, cluster=cluster, precision=self.workload.precision, policies=self.policies)

    def fitting(self, hbm_bytes: float) -> IntArray:
        """Base plans that some number of layers by stage and some recompute may make fit."""
        if hbm_bytes not in self._fitting:
            limit = self.with_memory(hbm_bytes)
            fits = may_fit(self.graph, self.bases, limit, self.workload.precision, self.policies)
            self._fitting[hbm_bytes] = np.flatnonzero(fits)
        return self._fitting[hbm_bytes]

    @cached_property
    def lines(self) -> Lines:
        """Every base plan's."""
        every, num = self.base_frame.plain, len(self.bases)
        slope, fixed_s = np.empty((num, 2)), np.empty((num, 2))
        waits_s = _waits_s(every, self.policies)
        lows = block_lows(self.graph, every.table)
        for same in by_pipeline(self.graph, every.plans):
            group = group_lows(every, same, lows, self.policies)
            nothing = np.zeros(len(same.rows))
            steep = pipeline_low_s(same.name, nothing + same.num_copies, nothing, nothing, group.shape)
            paid_s = np.where(group.is_beside, 0.0, 2 * same.num_copies * same.interleave * group.transfer_s)
            beside_s = waits_s[every.table.sender_of[same.rows]] + same.num_stages * paid_s / same.num_copies
            hiding = group.hidden_frac * num_hiding(same, group.num_microbatches)
            is_longer = pace_slope(same.name, group.shape) >= hiding
            flat = steep - np.where(is_longer, hiding * same.num_copies / same.num_stages, 0.0)
            exposed_s = np.where(is_longer, group.exchanged_s, (1 - group.hidden_frac) * group.exchanged_s)
            slope[same.rows] = np.stack([steep, flat], axis=1)
            least_s = np.stack([(1 - group.hidden_frac) * group.exchanged_s, exposed_s], axis=1)
            fixed_s[same.rows] = slope[same.rows] * beside_s[:, None] + group.tied_s[:, None] + least_s
        cut = every.table.cuts.of_plan
        return Lines(base=np.arange(num), cut=cut, slope=slope * (1 - ROUNDING_TOLERANCE), fixed_s=fixed_s)


def _waits_s(every: Shared, policies: tuple[int, ...]) -> FloatArray:
    """What one microbatch waits for others through all blocks at least, by sender, however it hides behind compute."""
    graph, total_s = every.graph, 0.0
    for block, columns in zip(graph.blocks, every.table.works, strict=True):
        work = stage_work(columns)
        for way in (work.forward, work.backward):
            paid_s = np.asarray(sum(way.waiting_s) + HELD_FRAC * sum(way.beside_s))
            total_s = total_s + block.repeat * paid_s[:, list(policies)].min(axis=1)
    return np.asarray(total_s)


def _check_modelled(space: PlanSpace) -> None:
    if any(space.offload_optimizer) or any(space.offload_activations_frac):
        raise NotModelled("chip and plan together are searched without offload; leave offload out of the plan")


def _placed(plans: Plans, cluster: Cluster) -> Plans:
    """Those that nest in the network."""
    is_placed = placements_of(plans, cluster.topology).group_of["tensor"] != NOWHERE
    return plans.at(np.flatnonzero(is_placed))
