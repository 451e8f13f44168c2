"""What many plans for one model and cluster share: where they lie, the work of their blocks, what stages hand on."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.topology import Group
from dovetail.plan.placements import Placements, placements_of
from dovetail.plan.plans import Plans, distinct
from dovetail.plan.sharding import ShardedPlans, shard_plans
from dovetail.schedule.offload import NoOffload, Offload, offload_of
from dovetail.schedule.same_plans import SamePlans
from dovetail.schedule.transfers import transfer_s
from dovetail.schedule.work_columns import NUM_ROWS, NUM_TIMED
from dovetail.schedule.work_table import WorkTable
from dovetail.workload.graph import FloatArray, Graph, IntArray
from dovetail.workload.optimizer import Precision


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shared:
    """What many plans for one model and cluster share.

    On a cluster of several parts, `others` are the same plans on all but the first, which `cluster`, `places` and
    `table` are of; `between` is how two parts are joined, and `transfer_s` has one more axis, by kind of hop.
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
    others: tuple[Shared, ...] = ()
    between: Group = ()

    @property
    def graph(self) -> Graph:
        return self.sharded.graph

    @property
    def plans(self) -> Plans:
        return self.sharded.plans

    @property
    def parts(self) -> tuple[Shared, ...]:
        return (self, *self.others)

    @property
    def held_frac(self) -> float:
        """Share of compute that gradients and weights exchanged beside it take, on the first part."""
        return self.cluster.chip.endpoint_kind.adding_held_frac

    @property
    def least_link_frac(self) -> float:
        """What is reached of a link between parts: as much as the part that reaches least."""
        return min(part.cluster.chip.calibration.link_frac for part in self.parts)


def shared(
    graph: Graph, plans: Plans, cluster: Cluster, precision: Precision, *, is_broken_down: bool = True
) -> Shared:
    """Only time and energy can be said of plans whose work is not to be broken down."""
    return shared_on(SamePlans(shard_plans(graph, plans), precision), cluster, is_broken_down=is_broken_down)


def shared_on(same: SamePlans, cluster: Cluster, *, is_broken_down: bool) -> Shared:
    """As `shared`, of plans that may be on other clusters too."""
    places = placements_of(same.sharded.plans, cluster.topology)
    num_rows = NUM_ROWS if is_broken_down else NUM_TIMED
    return placed(same, cluster, places, num_rows=num_rows, num_devices=cluster.num_devices)


def placed(same: SamePlans, cluster: Cluster, places: Placements, *, num_rows: int, num_devices: int) -> Shared:
    """As `shared_on`, of plans that lie so on `cluster`, which is all or a part of `num_devices`."""
    sharded, precision = same.sharded, same.precision
    table = same.table(places, cluster.chip, num_devices, num_rows)
    cut, groups = sharded.cuts.of_plan, places.group_of
    first, transfer_of = distinct(cut, groups["pipeline"], groups["tensor"])
    link_frac = cluster.chip.calibration.link_frac
    return Shared(
        sharded=sharded,
        cluster=cluster,
        precision=precision,
        places=places,
        table=table,
        num_microbatches=sharded.num_microbatches,
        transfer_of=transfer_of,
        transfer_s=transfer_s(sharded.plans.at(first), sharded.carried_bytes[cut[first]], places.at(first), link_frac),
        offload=offload_of(sharded, table, cluster, precision),
    )
