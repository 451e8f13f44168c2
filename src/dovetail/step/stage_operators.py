"""The operators that a device of one stage runs in a step, each with what it computes, moves and takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from dovetail.cost.costs import op_costs
from dovetail.cost.limits import op_limits
from dovetail.cost.op_cost import LIMITS
from dovetail.hardware.heterogeneous import AnyCluster, HeterogeneousCluster, pools_of
from dovetail.parallel.placement import placements_of
from dovetail.parallel.plan import Plan
from dovetail.parallel.pools import on_pools
from dovetail.parallel.sharding import ShardedPlan, shard
from dovetail.step.plan_table import pool_places
from dovetail.step.sharding_copies import COPIES, GATHERED, block_copies, priced_copies
from dovetail.step.work import COSTS
from dovetail.step.work_table import placed_plans
from dovetail.workload.graph import Graph, Phase
from dovetail.workload.operators import OPERATORS, Unit
from dovetail.workload.optimizer import Precision


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOperator:
    """One operator of a block: what one run of it is, at full clock, and how often a step has it."""

    block: str
    name: str
    kind: str  # of workload.operators
    phase: str
    num_runs: int
    flop: float
    hbm_bytes: float
    compute_s: float
    limit: str  # of cost.op_cost.LIMITS

    @property
    def total_s(self) -> float:
        return self.num_runs * self.compute_s


def stage_operators(
    graph: Graph, plan: Plan, cluster: AnyCluster, stage: int, precision: Precision
) -> tuple[StageOperator, ...]:
    """Of every block that `stage` holds; what only sends is left out, and the update runs once.

    What the plan's framework copies of sharded parameters stands behind all others.
    """
    plan = on_pools(plan, cluster)
    sharded = shard(graph, plan)
    pool = plan.stage_pools[stage] if plan.stage_pools else 0
    chip = pools_of(cluster)[pool].chip
    found = []
    for span, block in sharded.held(stage):
        ops = block.ops
        costs, limits = op_costs(ops, chip), op_limits(ops, chip)
        for row, name in enumerate(ops.names):
            operator, phase = OPERATORS[ops.kind[row]], Phase(ops.phase[row])
            if operator.unit not in (Unit.TENSOR, Unit.VECTOR) or costs.compute_s[row] <= 0:
                continue
            found.append(
                StageOperator(
                    block=block.name,
                    name=name,
                    kind=operator.name,
                    phase=phase.name.lower().replace("_", "-"),
                    num_runs=span.count * (1 if phase == Phase.UPDATE else sharded.num_microbatches),
                    flop=float(costs.flop[row]),
                    hbm_bytes=float(costs.hbm_bytes[row]),
                    compute_s=float(costs.compute_s[row]),
                    limit=LIMITS[int(limits[row])],
                )
            )
    return (*found, *_copied(sharded, cluster, stage, pool, precision))


def _copied(
    sharded: ShardedPlan, cluster: AnyCluster, stage: int, pool: int, precision: Precision
) -> Iterator[StageOperator]:
    """Copies of sharded parameters and gradients of the blocks that `stage` holds."""
    table, chip = sharded.table, pools_of(cluster)[pool].chip
    costs = priced_copies(table, precision, partial(op_costs, chip=chip))
    if not costs.size:
        return
    if isinstance(cluster, HeterogeneousCluster):
        places = pool_places(table.plans, cluster)[pool]
    else:
        places = placements_of(table.plans, cluster.topology)
    variants = placed_plans(table, places, precision).variants
    for span in sharded.spans(stage):
        for direction, of_pass in zip(("forward", "backward"), block_copies(costs, span.block, variants), strict=True):
            for name, columns in zip(COPIES, of_pass[..., 0], strict=True):
                row = dict(zip(COSTS, columns.tolist(), strict=True))
                if row["compute_s"] <= 0:
                    continue
                later = "input-grad" if name == GATHERED else "weight-grad"
                yield StageOperator(
                    block=sharded.graph.blocks[span.block].name,
                    name=name,
                    kind="copy",
                    phase="forward" if direction == "forward" else later,
                    num_runs=span.count * sharded.num_microbatches,
                    flop=row["flop"],
                    hbm_bytes=row["hbm_bytes"],
                    compute_s=row["compute_s"],
                    limit="hbm",
                )
