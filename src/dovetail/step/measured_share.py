"""How much of a step's compute was measured: operators that a profile has, by what they take, and those it has not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dovetail.cost.costs import op_costs
from dovetail.cost.overrides import measured_run_s, op_key, row_keys
from dovetail.hardware.heterogeneous import AnyCluster, chips_of, pools_of
from dovetail.parallel.plan import Plan
from dovetail.parallel.pools import on_pools
from dovetail.parallel.sharding import shard
from dovetail.workload.graph import Graph, Ops, Phase
from dovetail.workload.operators import DTYPES, OPERATORS, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMeasured:
    """Operators of one kind and shape that no profile has, on all stages: runs in a step, and their seconds."""

    what: str
    num_runs: int
    total_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredShare:
    """What of a step was measured, one device of each stage; nothing where no chip has measured times."""

    sources: tuple[str, ...] = ()
    num_operators: int = 0  # that differ by what they are matched by
    num_measured: int = 0
    compute_s: float = 0.0
    measured_s: float = 0.0
    not_measured: tuple[NotMeasured, ...] = ()  # the longest first
    num_unused: int = 0  # operators of profiles that the step has not

    @property
    def measured_frac(self) -> float:
        return self.measured_s / self.compute_s if self.compute_s else 0.0


def measured_share(graph: Graph, plan: Plan, cluster: AnyCluster) -> MeasuredShare:
    if not any(chip.measured for chip in chips_of(cluster)):
        return MeasuredShare()
    runs = list(_runs(graph, on_pools(plan, cluster), cluster))
    seen = {run.what: run.is_measured for run in runs}
    others: dict[str, list[_Runs]] = {}
    for run in runs:
        if not run.is_measured:
            others.setdefault(run.what, []).append(run)
    not_measured = [
        NotMeasured(what=what, num_runs=sum(r.num_runs for r in same_shape), total_s=sum(r.total_s for r in same_shape))
        for what, same_shape in others.items()
    ]
    return MeasuredShare(
        sources=tuple(chip.measured.source for chip in chips_of(cluster) if chip.measured),
        num_operators=len(seen),
        num_measured=sum(seen.values()),
        compute_s=sum(run.total_s for run in runs),
        measured_s=sum(run.total_s for run in runs if run.is_measured),
        not_measured=tuple(sorted(not_measured, key=lambda one: -one.total_s)),
        num_unused=_num_unused(cluster, graph, plan),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runs:
    """All runs in a step of one operator of a stage."""

    what: str
    is_measured: bool
    num_runs: int
    total_s: float


def _runs(graph: Graph, plan: Plan, cluster: AnyCluster) -> Iterator[_Runs]:
    """Every operator that a chip computes, of every stage."""
    sharded = shard(graph, plan)
    for stage in range(sharded.num_stages):
        chip = pools_of(cluster)[plan.stage_pools[stage] if plan.stage_pools else 0].chip
        for span, block in sharded.held(stage):
            ops = block.ops
            costs_s = op_costs(ops, chip).compute_s
            is_measured = np.isfinite(measured_run_s(ops, chip.measured))
            for row in np.flatnonzero(np.isin(ops.unit, (Unit.TENSOR, Unit.VECTOR)) & (costs_s > 0)).tolist():
                num_runs = span.count * (1 if ops.phase[row] == Phase.UPDATE else sharded.num_microbatches)
                yield _Runs(
                    what=_words(ops, row),
                    is_measured=bool(is_measured[row]),
                    num_runs=num_runs,
                    total_s=num_runs * float(costs_s[row]),
                )


def _num_unused(cluster: AnyCluster, graph: Graph, plan: Plan) -> int:
    """Of what profiles have, how many operators no row of the step is."""
    sharded = shard(graph, plan)
    spans = {span for run in sharded.runs for span in run.spans}
    rows = {key for span in spans for key in row_keys(sharded.block(span).ops)}
    keys = {op_key(op) for chip in chips_of(cluster) for op in chip.measured.ops}
    return len(keys - rows - {()})


def _words(ops: Ops, row: int) -> str:
    """An operator as a person says it: its kind, pass, shape and dtype."""
    operator, phase = OPERATORS[ops.kind[row]], Phase(int(ops.phase[row]))
    phase = Phase.FORWARD if phase == Phase.RECOMPUTE else phase
    b, m, n, k, v = (int(size) for size in ops.extents[row])
    is_tensor = operator.unit == Unit.TENSOR
    shape = f"{m}x{n}x{k}" if is_tensor else f"{b * m}x{n}"
    shape = f"{b} x {shape}" if is_tensor and b > 1 else shape
    shape = f"{shape}x{v}" if is_tensor and v > 1 else shape
    dtype = DTYPES[int(ops.math[row] if is_tensor else ops.dtype[row])]
    return f"{operator.name} {phase.name.lower().replace('_', '-')} {shape} {dtype}"
