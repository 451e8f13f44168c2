"""The operators that a device of one stage runs in a step, each with what it computes, moves and takes."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.cost.costs import op_costs
from dovetail.cost.limits import op_limits
from dovetail.cost.op_cost import LIMITS
from dovetail.hardware.heterogeneous import AnyCluster, pools_of
from dovetail.parallel.plan import Plan
from dovetail.parallel.pools import on_pools
from dovetail.parallel.sharding import shard
from dovetail.workload.graph import Graph, Phase
from dovetail.workload.operators import OPERATORS, Unit


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


def stage_operators(graph: Graph, plan: Plan, cluster: AnyCluster, stage: int) -> tuple[StageOperator, ...]:
    """Of every block that `stage` holds; what only sends is left out, and the update runs once."""
    plan = on_pools(plan, cluster)
    sharded = shard(graph, plan)
    chip = pools_of(cluster)[plan.stage_pools[stage] if plan.stage_pools else 0].chip
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
    return tuple(found)
