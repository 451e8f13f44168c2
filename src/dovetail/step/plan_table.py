"""Plans as columns on any cluster: operators are costed once per chip and collectives once per network, and kept.

`PlanTable` keeps these costs; `PlanContext` is its plans on one cluster, of equal devices or of several pools.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dovetail.columns import distinct
from dovetail.cost.costs import chip_costs, op_costs
from dovetail.cost.limits import op_limits
from dovetail.cost.op_cost import OpCosts
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.heterogeneous import AnyCluster, HeterogeneousCluster
from dovetail.hardware.topology import Group
from dovetail.parallel.placement import Placements, nowhere, placements_of
from dovetail.parallel.plan import Plan, Plans
from dovetail.parallel.sharding import ShardedPlans, shard, shard_plans
from dovetail.step.communication import CollectiveOverheads, CommTotals, by_group, collective_overheads, timed
from dovetail.step.offload import NoOffload, Offload, offload_of
from dovetail.step.work import NUM_ROWS, NUM_TIMED, StageWork
from dovetail.step.work_table import Costed, PlacedPlans, WorkTable, costed, placed_plans, with_communication
from dovetail.workload.graph import FloatArray, Graph, IntArray
from dovetail.workload.optimizer import Precision


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanContext:
    """Sharded plans on one cluster: their placement, the work of their blocks, transfers between stages.

    On a cluster of several pools, `cluster`, `places` and `table` are of the first pool and `others` are the same
    plans on each other pool; `between` joins two pools, and `transfer_s` has one more axis, by kind of hop.
    """

    sharded: ShardedPlans
    cluster: Cluster
    precision: Precision
    places: Placements
    table: WorkTable
    num_microbatches: IntArray
    transfer_of: IntArray
    transfer_s: FloatArray  # one send between neighbouring stages
    offload: Offload | NoOffload
    others: tuple[PlanContext, ...] = ()
    between: Group = ()

    @property
    def graph(self) -> Graph:
        return self.sharded.graph

    @property
    def plans(self) -> Plans:
        return self.sharded.plans

    @property
    def pools(self) -> tuple[PlanContext, ...]:
        return (self, *self.others)

    @property
    def compute_slowdown_frac(self) -> float:
        """Share of compute that the gradient sync takes while it overlaps, on the first pool."""
        return self.cluster.chip.endpoint_kind.adding_slowdown_frac

    @property
    def least_link_frac(self) -> float:
        """Share of a link's bandwidth that is reached between pools: that of the pool which reaches least."""
        return min(pool.cluster.chip.calibration.link_frac for pool in self.pools)


Where = tuple[bytes, ...]  # which group of ranks every plan has, of each kind


class PlanTable:
    """Sharded plans on any cluster: operators are costed once per chip, collectives once per network.

    Costs are cached under all they follow from, for as long as this value lives.
    """

    def __init__(self, sharded: ShardedPlans, precision: Precision) -> None:
        self.sharded, self.precision = sharded, precision
        self._placed: dict[Where, PlacedPlans] = {}
        self._costs: dict[Chip, OpCosts] = {}
        self._blocks: dict[tuple[Chip, int], Costed] = {}
        self._sent: dict[tuple[Where, tuple[Group, ...], CollectiveOverheads], tuple[tuple[CommTotals, ...], ...]] = {}

    def on(self, cluster: AnyCluster, places: Sequence[Placements] = (), *, is_broken_down: bool = True) -> PlanContext:
        """The plans on `cluster`, which they must fill. Its devices are equal, or equal within each of its pools.

        `places` are their placements on each pool, computed here where they are not given. Without `is_broken_down`
        only time and energy are known, not where the time goes.
        """
        num_rows, plans = NUM_ROWS if is_broken_down else NUM_TIMED, self.sharded.plans
        if isinstance(cluster, HeterogeneousCluster):
            return self._on_pools(cluster, places or pool_places(plans, cluster), num_rows)
        [equal] = places or [placements_of(plans, cluster.topology)]
        return self._on_equal(cluster, equal, num_rows, cluster.num_devices)

    def table(self, places: Placements, chip: Chip, num_devices: int, num_rows: int) -> WorkTable:
        """Work of each block on `chip`. `num_rows` is NUM_ROWS, or NUM_TIMED where only time and energy are needed."""
        sharded, overheads = self.sharded, collective_overheads(chip.calibration)
        where = tuple(column.tobytes() for column in places.group_of.values())
        if where not in self._placed:
            self._placed[where] = placed_plans(sharded, places, self.precision)
        placed = self._placed[where].over(places.groups)
        if (chip, num_rows) not in self._blocks:
            if chip not in self._costs:
                self._costs[chip] = op_costs(sharded.costed_ops, chip)
            costs_of = partial(op_costs, chip=chip)
            limit = op_limits(sharded.local, chip) if num_rows == NUM_ROWS else None
            self._blocks[chip, num_rows] = costed(
                sharded, self._costs[chip], costs_of, chip.calibration, self.precision, (), limit
            )
        blocks = self._blocks[chip, num_rows]
        if (where, places.groups, overheads) not in self._sent:
            self._sent[where, places.groups, overheads] = placed.sent(overheads)
        sent = self._sent[where, places.groups, overheads]
        return WorkTable(
            sharded=sharded,
            comm_variant_of=placed.comm_variant_of,
            update_variant_of=sharded.update_variant_of,
            grad_sync_variant_of=placed.grad_sync_variant_of,
            are_ties_apart=sharded.are_ties_apart,
            works=with_communication(placed, blocks, sent, chip.calibration.host_exchange_s),
            updates=blocks.updates,
            chip=chip,
            num_devices=num_devices,
        )

    def cost_on(self, chips: Iterable[Chip]) -> None:
        """Costs operators on all of `chips` in one call: ten chips take little longer than one."""
        new = [chip for chip in dict.fromkeys(chips) if chip not in self._costs]
        self._costs.update(zip(new, chip_costs(self.sharded.costed_ops, new), strict=True))

    def _on_equal(self, cluster: Cluster, places: Placements, num_rows: int, num_devices: int) -> PlanContext:
        """The plans placed at `places` on `cluster`, which is all or one pool of `num_devices`."""
        sharded = self.sharded
        table = self.table(places, cluster.chip, num_devices, num_rows)
        cut = sharded.cuts.of_plan
        first, transfer_of = distinct(cut, places.group_of["pipeline"], places.group_of["tensor"])
        boundary_activation_bytes, link_frac = (
            sharded.boundary_activation_bytes[cut[first]],
            cluster.chip.calibration.link_frac,
        )
        return PlanContext(
            sharded=sharded,
            cluster=cluster,
            precision=self.precision,
            places=places,
            table=table,
            num_microbatches=sharded.num_microbatches,
            transfer_of=transfer_of,
            transfer_s=transfer_s(sharded.plans.at(first), boundary_activation_bytes, places.at(first), link_frac),
            offload=offload_of(sharded, table, cluster, self.precision),
        )

    def _on_pools(
        self, cluster: HeterogeneousCluster, pool_placements: Sequence[Placements], num_rows: int
    ) -> PlanContext:
        """The plans on several pools; collectives lie within one pool, and the slowest device is that of all pools."""
        plans, num_devices = self.sharded.plans, cluster.num_devices
        first, *others = (
            self._on_equal(pool, places, num_rows, num_devices)
            for pool, places in zip(cluster.pools, pool_placements, strict=True)
        )
        context = replace(first, others=tuple(others), between=cluster.group_between)
        columns = [pool.places.group_of[name] for pool in context.pools for name in ("pipeline", "tensor")]
        cut = self.sharded.cuts.of_plan
        rows, transfer_of = distinct(cut, plans.tensor_parallel, plans.sequence_parallel, *columns)
        within_s = [pool.transfer_s[pool.transfer_of[rows]] for pool in context.pools]
        across_s = np.stack([*within_s, _between_s(context, rows)], axis=1)
        return replace(context, transfer_of=transfer_of, transfer_s=across_s)


def plan_context(
    graph: Graph, plans: Plans, cluster: AnyCluster, precision: Precision, *, is_broken_down: bool = True
) -> PlanContext:
    """`plans` for `graph` on `cluster`, which they must fill, sharded and costed."""
    return PlanTable(shard_plans(graph, plans), precision).on(cluster, is_broken_down=is_broken_down)


def lone_work(graph: Graph, plan: Plan, chip: Chip, precision: Precision) -> StageWork:
    """One microbatch of the first stage of `plan` on a single device, without communication."""
    sharded = shard(graph, plan)
    table = PlanTable(sharded.table, precision).table(nowhere(sharded.table.plans), chip, 1, NUM_ROWS)
    return table.stages(sharded.runs[:1], np.zeros(1, dtype=np.int64)).at(0, 0)


def transfer_s(plans: Plans, boundary_activation_bytes: FloatArray, places: Placements, link_frac: float) -> FloatArray:
    """Seconds of sending boundary activations to the next stage.

    Tensor-parallel ranks that all hold the same activations send one piece each, over their own port, and all-gather
    the pieces on the other side (Narayanan et al., SC 2021, section 4.1; DeepSpeed's pipeline does the same).
    """
    pieces = num_pieces(plans)
    piece_s = collective_s("point-to-point", boundary_activation_bytes / pieces, places, "pipeline", link_frac)
    gathered_bytes = np.where(pieces > 1, boundary_activation_bytes, 0.0)
    gather_s = collective_s("all-gather", gathered_bytes, places, "tensor", link_frac)
    return piece_s + np.where(piece_s > 0, gather_s, 0.0)


def num_pieces(plans: Plans) -> IntArray:
    """Pieces that boundary activations are sent in: one per tensor-parallel rank, or 1 with sequence parallelism."""
    return np.where(plans.sequence_parallel, 1, plans.tensor_parallel)


def collective_s(
    collective: str, payload_bytes: FloatArray, places: Placements, group_name: str, link_frac: float
) -> FloatArray:
    """Seconds of a collective of `payload_bytes` per plan, within the plan's group of ranks called `group_name`."""
    total_s = np.zeros(len(payload_bytes))
    for group, chosen in by_group(places.groups, places.group_of[group_name]):
        total_s[chosen] = timed(collective, payload_bytes[chosen], group, link_frac)[0]
    return total_s


def pool_places(plans: Plans, cluster: HeterogeneousCluster) -> tuple[Placements, ...]:
    """Placements of the stages on each pool; NOWHERE for plans whose axes do not nest there or do not fill it."""
    sizes = plans.num_devices // plans.pipeline_parallel
    placements = []
    for pool in cluster.pools:
        one = np.ones_like(plans.interleave)
        num_stages = np.where(pool.num_devices % sizes, 1, pool.num_devices // sizes)
        stages_on_pool = replace(
            plans, pipeline_parallel=num_stages, interleave=one, schedule=0 * one, schedules=("1f1b",)
        )  # placement goes by degrees alone
        placements.append(placements_of(stages_on_pool, pool.topology))
    return tuple(placements)


def _between_s(context: PlanContext, rows: IntArray) -> FloatArray:
    """Seconds of sending boundary activations to a stage on another pool: the slower of the two directions.

    As in `transfer_s`, each device sends its piece over its own port, and pieces are gathered on the other side.
    """
    plans = context.plans.at(rows)
    boundary_activation_bytes = context.sharded.boundary_activation_bytes[context.table.cuts.of_plan[rows]]
    pieces = num_pieces(plans)
    sent_s = timed("point-to-point", boundary_activation_bytes / pieces, context.between, context.least_link_frac)[0]
    gathered_bytes = np.where(pieces > 1, boundary_activation_bytes, 0.0)
    gathers_s = [
        collective_s(
            "all-gather", gathered_bytes, pool.places.at(rows), "tensor", pool.cluster.chip.calibration.link_frac
        )
        for pool in context.pools
    ]
    return np.asarray(sent_s + np.max(gathers_s, axis=0))
