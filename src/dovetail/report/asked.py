"""What was asked, in words that need no table: models, clusters, plans and limits, as pairs for the head of a page."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.hardware.heterogeneous import AnyCluster, pools_of
from dovetail.parallel.plan import Plan
from dovetail.report.labels import counted, exchange_in_brief, in_a_row, offload_in_brief, recompute_in_brief
from dovetail.search.planners.constraints import Constraint
from dovetail.units import format_bytes, format_count, format_rate
from dovetail.workload.workload import Workload

Pair = tuple[str, str]
DEGREES = {
    "tp": "tensor parallel",
    "cp": "context parallel",
    "pp": "pipeline parallel",
    "dp": "data parallel",
}


def model_pair(workload: Workload) -> Pair:
    """A model and what one step of it covers."""
    noun = workload.model.sample
    each = f"sequences of {workload.seq:,} tokens" if noun == "tokens" else noun
    size = format_count(workload.training_graph().num_parameters)
    optimizer = "" if workload.is_forward_only else f", {workload.precision.optimizer}"
    what = "evaluation" if workload.is_forward_only else "training"
    work = f"{what}, {workload.global_batch:,} {each} per step in {workload.precision.compute}{optimizer}"
    return "Model", f"{workload.model.name}, {size} parameters; {work}"


def cluster_pair(cluster: AnyCluster) -> Pair:
    """Devices and how they are joined, innermost first."""
    pools = []
    for pool in pools_of(cluster):
        links = ", ".join(
            f"{one.name} {one.kind} of {one.num_devices:,} at {format_rate(one.link.bandwidth_bytes_per_s, 'B/s')}"
            for one in pool.topology.dimensions
            if one.num_devices > 1
        )
        memory = format_bytes(pool.chip.hbm.capacity_bytes)
        pools.append(f"{pool.num_devices:,} x {pool.chip.name} with {memory} each{f'; {links}' if links else ''}")
    return "Cluster", ". ".join(pools)


def format_plan(plan: Plan) -> str:
    """The decisions of a plan, each named: what `labels.plan_in_brief` abbreviates."""
    words = [f"{name} {plan.degree(axis)}" for axis, name in DEGREES.items() if plan.degree(axis) > 1]
    words += [f"context exchanged by {exchange_in_brief(plan)}"] if exchange_in_brief(plan) else []
    words += [f"expert parallel {plan.expert_parallel}"] if plan.expert_parallel > 1 else []
    if plan.pipeline_parallel > 1:
        words.append(
            f"schedule {plan.schedule}" if plan.interleave == 1 else f"{plan.interleave} chunks per stage, interleaved"
        )
    words += ["sequence parallel"] if plan.sequence_parallel and plan.tensor_parallel > 1 else []
    words += [f"ZeRO stage {plan.zero_stage}"] if plan.zero_stage else []
    words += [recompute_in_brief(plan)] if recompute_in_brief(plan) else []
    words += [offload_in_brief(plan)] if offload_in_brief(plan) else []
    if len(set(plan.layers_per_stage)) > 1:
        pieces = "chunks" if plan.interleave > 1 else "stages"
        words.append(f"{pieces} of {in_a_row(plan.layers_per_stage)} layers")
    return ", ".join([*words, counted(plan.microbatch, "sample") + " per microbatch"])


def constraint_pairs(constraints: tuple[Constraint, ...]) -> Iterator[Pair]:
    """Limits that a plan must keep, where any were set."""
    words = [one.words for one in constraints]
    if words:
        yield "Limits", "; ".join(words)
