"""Plans on many chips at once: what does not depend on the chip is worked out once, and pairs of both are timed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dovetail.cost.columns import ChipColumns
from dovetail.hardware.cluster import Cluster
from dovetail.parallel.plan import Plans
from dovetail.step.plan_table import PlanContext, plan_context
from dovetail.step.work import ChipRows
from dovetail.step.work_table import ChipWorks, PlacedPlans, chip_works, placed_plans
from dovetail.workload.graph import Graph, IntArray
from dovetail.workload.optimizer import Precision


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChipFreeCosts:
    """Plans on a network, on whatever chips: `plain` are they on the cluster's own."""

    plain: PlanContext
    works: PlacedPlans

    @property
    def plans(self) -> Plans:
        return self.plain.plans

    def on(self, chips: ChipColumns, rows: ChipRows) -> ChipWorks:
        """What its plans do on each of `chips`, all with the endpoint of the network's; `rows` are the same chips."""
        chips_with_endpoint = replace(rows, endpoint_kind=self.plain.cluster.chip.endpoint_kind)
        return chip_works(self.works, chips, chips_with_endpoint, self.plain.table.num_devices)

    def pairs(self, works: ChipWorks, plan: IntArray, chip: IntArray, cluster: Cluster) -> PlanContext:
        """Some of the plans, each on one of the chips, in devices of which `cluster` says the memory."""
        plain, table = self.plain, works.pairs(plan, chip)
        return replace(
            plain,
            sharded=table.sharded,
            cluster=cluster,
            places=plain.places.at(plan),
            table=table,
            num_microbatches=plain.num_microbatches[plan],
            transfer_of=plain.transfer_of[plan],
        )


def chip_free_costs(graph: Graph, plans: Plans, cluster: Cluster, precision: Precision) -> ChipFreeCosts:
    """`plans`, which must lie on `cluster`'s network and offload nothing."""
    plain = plan_context(graph, plans, cluster, precision, is_broken_down=False)
    return ChipFreeCosts(plain=plain, works=placed_plans(plain.sharded, plain.places, precision))
