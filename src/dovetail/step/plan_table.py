"""Plans as columns on whatever clusters: costs by chip, collectives by network, each worked out once and kept.

`PlanTable` keeps them; `Shared` is what it says of its plans on one cluster, of equal devices or of several pools.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dovetail.columns import distinct
from dovetail.cost.costs import chip_costs, op_costs
from dovetail.cost.op_cost import OpCosts
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.heterogeneous import AnyCluster, HeterogeneousCluster
from dovetail.hardware.topology import Group
from dovetail.parallel.placement import Placements, nowhere, placements_of
from dovetail.parallel.plan import Plan, Plans
from dovetail.parallel.sharding import ShardedPlans, shard, shard_plans
from dovetail.step.communication import CollectiveOverheads, CommTotals, by_group, exchanging, timed
from dovetail.step.offload import NoOffload, Offload, offload_of
from dovetail.step.work import NUM_ROWS, NUM_TIMED, StageWork
from dovetail.step.work_table import Costed, PlacedPlans, WorkTable, costed, placed_plans, sending
from dovetail.workload.graph import FloatArray, Graph, IntArray
from dovetail.workload.optimizer import Precision


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanContext:
    """Sharded plans on one cluster: where they lie, the work of their blocks, what stages hand on.

    On a cluster of several pools, `others` are the same plans on all but the first, which `cluster`, `places` and
    `table` are of; `between` is how two pools are joined, and `transfer_s` has one more axis, by kind of hop.
    """

    sharded: ShardedPlans
    cluster: Cluster
    precision: Precision
    places: Placements
    table: WorkTable
    num_microbatches: IntArray
    transfer_of: IntArray
    transfer_s: FloatArray  # one hand-over between stages
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
        """Share of compute that gradients and weights exchanged beside it take, on the first pool."""
        return self.cluster.chip.endpoint_kind.adding_slowdown_frac

    @property
    def least_link_frac(self) -> float:
        """What is reached of a link between pools: as much as the pool that reaches least."""
        return min(pool.cluster.chip.calibration.link_frac for pool in self.pools)


Where = tuple[bytes, ...]  # which group of ranks every plan has, of each kind


class PlanTable:
    """Sharded plans on whatever clusters: operators are costed once a chip, collectives once a network.

    What was found is kept by all it follows from, and no longer than this value.
    """

    def __init__(self, sharded: ShardedPlans, precision: Precision) -> None:
        self.sharded, self.precision = sharded, precision
        self._placed: dict[Where, PlacedPlans] = {}
        self._costs: dict[Chip, OpCosts] = {}
        self._blocks: dict[tuple[Chip, int], Costed] = {}
        self._sent: dict[tuple[Where, tuple[Group, ...], CollectiveOverheads], tuple[tuple[CommTotals, ...], ...]] = {}

    def on(self, cluster: AnyCluster, *, is_broken_down: bool = True) -> PlanContext:
        """The plans on `cluster`, of equal devices or of pools of them, which they must fill.

        Only time and energy can be said of plans whose work is not broken down.
        """
        num_rows = NUM_ROWS if is_broken_down else NUM_TIMED
        if isinstance(cluster, HeterogeneousCluster):
            return self._on_pools(cluster, num_rows)
        places = placements_of(self.sharded.plans, cluster.topology)
        return self._on_equal(cluster, places, num_rows, cluster.num_devices)

    def table(self, places: Placements, chip: Chip, num_devices: int, num_rows: int) -> WorkTable:
        """Of works the first `num_rows`: NUM_ROWS, or the NUM_TIMED that time and energy follow from."""
        sharded, pace = self.sharded, exchanging(chip.calibration)
        where = tuple(column.tobytes() for column in places.group_of.values())
        if where not in self._placed:
            self._placed[where] = placed_plans(sharded, places, self.precision)
        placed = self._placed[where].over(places.groups)
        if (chip, num_rows) not in self._blocks:
            if chip not in self._costs:
                self._costs[chip] = op_costs(sharded.costed_ops, chip)
            costs_of = partial(op_costs, chip=chip)
            self._blocks[chip, num_rows] = costed(sharded, self._costs[chip], costs_of, chip.calibration, (), num_rows)
        blocks = self._blocks[chip, num_rows]
        if (where, places.groups, pace) not in self._sent:
            self._sent[where, places.groups, pace] = placed.sent(pace)
        sent = self._sent[where, places.groups, pace]
        return WorkTable(
            sharded=sharded,
            comm_variant_of=placed.comm_variant_of,
            update_variant_of=sharded.update_variant_of,
            grad_sync_variant_of=placed.grad_sync_variant_of,
            are_ties_apart=sharded.are_ties_apart,
            works=sending(placed, blocks, sent, chip.calibration.host_exchange_s),
            updates=blocks.updates,
            chip=chip,
            num_devices=num_devices,
        )

    def cost_on(self, chips: Iterable[Chip]) -> None:
        """Costs operators on all of `chips` in one call: ten take little longer than one."""
        new = [chip for chip in dict.fromkeys(chips) if chip not in self._costs]
        self._costs.update(zip(new, chip_costs(self.sharded.costed_ops, new), strict=True))

    def _on_equal(self, cluster: Cluster, places: Placements, num_rows: int, num_devices: int) -> PlanContext:
        """The plans where they lie so on `cluster`, which is all or a pool of `num_devices`."""
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

    def _on_pools(self, cluster: HeterogeneousCluster, num_rows: int) -> PlanContext:
        """All devices together set how far the slowest is behind the mean; collectives lie within one pool."""
        plans, num_devices = self.sharded.plans, cluster.num_devices
        first, *others = (
            self._on_equal(pool, places, num_rows, num_devices)
            for pool, places in zip(cluster.pools, pool_places(plans, cluster), strict=True)
        )
        every = replace(first, others=tuple(others), between=cluster.group_between)
        columns = [pool.places.group_of[name] for pool in every.pools for name in ("pipeline", "tensor")]
        cut = self.sharded.cuts.of_plan
        rows, transfer_of = distinct(cut, plans.tensor_parallel, plans.sequence_parallel, *columns)
        within_s = [pool.transfer_s[pool.transfer_of[rows]] for pool in every.pools]
        across_s = np.stack([*within_s, _between_s(every, rows)], axis=1)
        return replace(every, transfer_of=transfer_of, transfer_s=across_s)


def shared(
    graph: Graph, plans: Plans, cluster: AnyCluster, precision: Precision, *, is_broken_down: bool = True
) -> PlanContext:
    """`plans` for `graph` on `cluster`, which they must fill."""
    return PlanTable(shard_plans(graph, plans), precision).on(cluster, is_broken_down=is_broken_down)


def lone_work(graph: Graph, plan: Plan, chip: Chip, precision: Precision) -> StageWork:
    """One microbatch of the first stage of `plan` on a device that waits for no other and sends nothing."""
    sharded = shard(graph, plan)
    table = PlanTable(sharded.table, precision).table(nowhere(sharded.table.plans), chip, 1, NUM_ROWS)
    return table.stages(sharded.runs[:1], np.zeros(1, dtype=np.int64)).at(0, 0)


def transfer_s(plans: Plans, boundary_activation_bytes: FloatArray, places: Placements, link_frac: float) -> FloatArray:
    """One hand-over between stages.

    Tensor ranks that all hold the same send a piece each, over their own port, and gather the pieces on the other
    side (Narayanan et al., SC 2021, section 4.1; DeepSpeed's pipeline does the same).
    """
    pieces = num_pieces(plans)
    piece_s = exchanged_s("point-to-point", boundary_activation_bytes / pieces, places, "pipeline", link_frac)
    gathered_bytes = np.where(pieces > 1, boundary_activation_bytes, 0.0)
    gather_s = exchanged_s("all-gather", gathered_bytes, places, "tensor", link_frac)
    return piece_s + np.where(piece_s > 0, gather_s, 0.0)


def num_pieces(plans: Plans) -> IntArray:
    """In how many pieces, one a tensor rank, what stages hand on is sent."""
    return np.where(plans.sequence_parallel, 1, plans.tensor_parallel)


def exchanged_s(
    collective: str, whole_bytes: FloatArray, places: Placements, group_name: str, link_frac: float
) -> FloatArray:
    """Seconds of a collective of each plan within its group of that name."""
    total_s = np.zeros(len(whole_bytes))
    for group, chosen in by_group(places.groups, places.group_of[group_name]):
        total_s[chosen] = timed(collective, whole_bytes[chosen], group, link_frac)[0]
    return total_s


def pool_places(plans: Plans, cluster: HeterogeneousCluster) -> tuple[Placements, ...]:
    """Where the stages on each pool lie; NOWHERE for plans whose axes do not nest there or do not fill it."""
    sizes = plans.num_devices // plans.pipeline_parallel
    found = []
    for pool in cluster.pools:
        one = np.ones_like(plans.interleave)
        num_stages = np.where(pool.num_devices % sizes, 1, pool.num_devices // sizes)
        there = replace(
            plans, pipeline_parallel=num_stages, interleave=one, schedule=0 * one, schedules=("1f1b",)
        )  # placement goes by degrees alone
        found.append(placements_of(there, pool.topology))
    return tuple(found)


def _between_s(every: PlanContext, rows: IntArray) -> FloatArray:
    """One hand-over between pools, as `transfer_s` has it within one: the slower of the two ways.

    Every device sends its share over its own port; shares of what tensor ranks all hold are gathered over there.
    """
    plans = every.plans.at(rows)
    boundary_activation_bytes = every.sharded.boundary_activation_bytes[every.table.cuts.of_plan[rows]]
    pieces = num_pieces(plans)
    sent_s = timed("point-to-point", boundary_activation_bytes / pieces, every.between, every.least_link_frac)[0]
    gathered_bytes = np.where(pieces > 1, boundary_activation_bytes, 0.0)
    gathers_s = [
        exchanged_s(
            "all-gather", gathered_bytes, pool.places.at(rows), "tensor", pool.cluster.chip.calibration.link_frac
        )
        for pool in every.pools
    ]
    return np.asarray(sent_s + np.max(gathers_s, axis=0))
