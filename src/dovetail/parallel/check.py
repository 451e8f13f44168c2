"""Whether a plan can shard a graph at all: degrees must divide heads, layers, experts and the number of devices."""

from __future__ import annotations

import math

from dovetail.errors import InvalidInput
from dovetail.parallel.layout import stage_counts
from dovetail.parallel.plan import Plan
from dovetail.workload.graph import Axis, Graph, N

_FIELDS = {
    Axis.TENSOR: "tensor_parallel",
    Axis.SEQUENCE: "tensor_parallel",
    Axis.CONTEXT: "context_parallel",
    Axis.EXPERT: "expert_parallel",
    Axis.EXPERT_TENSOR: "expert_tensor_parallel",
}
RULED = (Axis.HEADS, *_FIELDS)  # axes that a rule can be of
_CAUSAL_FRAC, _WHOLE_FRAC = 0.5, 1.0  # of the pairs that attention looks at: those before, or all of them


def check_plan(plan: Plan, graph: Graph, num_devices: int) -> None:
    """Raises `InvalidInput` with the broken relation when `plan` cannot shard `graph` over `num_devices`."""
    _check_model_has_axes(plan, graph)
    for rule in graph.rules:
        if rule.axis == Axis.HEADS:
            continue
        degree = _degree(plan, rule.axis)
        if rule.count % degree:
            name, way_out = _FIELDS[rule.axis], _divisors_near(rule.count, degree)
            raise InvalidInput(f"{name}={degree} must divide {rule.label}={rule.count}; try {way_out}", name)
    tp, kv = plan.tensor_parallel, graph.num_kv_heads
    if tp % kv and kv % tp:
        raise InvalidInput(
            f"tensor_parallel={tp} must divide num_kv_heads={kv} or be a multiple of it", "tensor_parallel"
        )
    if problem := context_problem(graph, plan.context_comm_type, tp, plan.context_parallel):
        raise InvalidInput(problem, "context_comm_type")
    _check_devices(plan, num_devices)
    plan.num_microbatches(graph.batch)
    _check_experts(plan, graph)
    _check_stages(plan, graph)


def context_problem(graph: Graph, exchange: str, tp: int, cp: int) -> str:
    """The rule that this kind of context parallelism (gather, ring, all-to-all) breaks; empty where it breaks none."""
    if cp == 1 or exchange == "gather":
        return ""
    if exchange == "all-to-all":
        for rule in graph.rules:
            if rule.axis == Axis.HEADS and rule.count % (tp * cp):
                message = f"all-to-all deals heads out: tensor x context parallel = {tp} x {cp} must divide"
                return f"{message} {rule.label}={rule.count}; use a smaller context_parallel, or ring or gather"
        return ""
    attentions = [block.ops.where(block.ops.is_core) for block in graph.blocks]
    fracs = {float(f) for ops in attentions for f in ops.work_frac[(ops.splits[:, N] & int(Axis.HOPS)) != 0]}
    if not fracs and any(len(ops) for ops in attentions):
        return "a ring adds parts of attention up by the sums that fused kernels keep; use attention: flash, or gather"
    if fracs - {_CAUSAL_FRAC, _WHOLE_FRAC}:
        message = f"{graph.model} has layers that attend to a window, which leaves parts of a ring uneven"
        return f"{message}; use gather or all-to-all"
    return ""


def _degree(plan: Plan, axis: Axis) -> int:
    if axis == Axis.SEQUENCE:
        return plan.tensor_parallel * plan.context_parallel if plan.sequence_parallel else 1
    return int(getattr(plan, _FIELDS[axis]))


def _divisors_near(count: int, degree: int) -> str:
    """The divisors of `count` next below and next above `degree`."""
    small = [d for d in range(1, math.isqrt(count) + 1) if count % d == 0]
    divisors = sorted({*small, *(count // d for d in small)})
    below = [d for d in divisors if d < degree][-1:]
    above = [d for d in divisors if d > degree][:1]
    return " or ".join(str(d) for d in below + above)


def _check_devices(plan: Plan, num_devices: int) -> None:
    if plan.num_devices == num_devices:
        return
    rest = plan.num_devices // plan.data_parallel
    way_out = f"; try data_parallel={num_devices // rest}" if num_devices % rest == 0 else ""
    degrees = f"{plan.tensor_parallel} x {plan.context_parallel} x {plan.pipeline_parallel} x {plan.data_parallel}"
    raise InvalidInput(
        f"tensor x context x pipeline x data = {degrees} = {plan.num_devices}"
        f" must equal the cluster's {num_devices} devices{way_out}",
        "data_parallel",
    )


def _check_model_has_axes(plan: Plan, graph: Graph) -> None:
    known = {rule.axis for rule in graph.rules}
    for axis in (Axis.TENSOR, Axis.CONTEXT, Axis.EXPERT):
        if axis not in known and _degree(plan, axis) > 1:
            raise InvalidInput(
                f"{_FIELDS[axis]}={_degree(plan, axis)} has nothing to divide in {graph.model}; use 1", _FIELDS[axis]
            )


def _check_experts(plan: Plan, graph: Graph) -> None:
    ranks = plan.tensor_parallel * plan.context_parallel * plan.data_parallel
    group = plan.expert_parallel * plan.expert_tensor_parallel
    if ranks % group:
        raise InvalidInput(
            f"expert_parallel x expert_tensor_parallel = {group} must divide"
            f" tensor x context x data parallel = {ranks}",
            "expert_parallel",
        )
    has_experts = graph.has_experts
    is_unsplit = has_experts and plan.expert_tensor_parallel == 1 and plan.tensor_parallel > 1
    if is_unsplit and not plan.sequence_parallel:
        raise InvalidInput(
            f"expert_tensor_parallel=1 with tensor_parallel={plan.tensor_parallel} "
            " needs sequence_parallel: true, or every rank routes the same rows",
            "expert_tensor_parallel",
        )


def _check_stages(plan: Plan, graph: Graph) -> None:
    layers, chunks = graph.num_layers, plan.num_chunks
    if plan.layers_per_stage:
        if sum(plan.layers_per_stage) != layers:
            raise InvalidInput(
                f"layers_per_stage sums to {sum(plan.layers_per_stage)} and must be {graph.model}'s {layers} layers",
                "layers_per_stage",
            )
    elif chunks > layers:
        raise InvalidInput(
            f"pipeline_parallel x interleave = {chunks} must not exceed {graph.model}'s {layers} layers;"
            f" try {max(1, layers // plan.interleave)} stages or fewer",
            "pipeline_parallel",
        )
    counts = stage_counts(graph, plan)
    empty = [stage for stage, held in enumerate(counts.sum(axis=0)) if held == 0]
    if empty:
        raise InvalidInput(f"stage {empty[0]} would hold nothing; give every stage a layer", "layers_per_stage")
    _check_recomputed(plan, counts[[block.is_layer for block in graph.blocks]].sum(axis=0).tolist())


def _check_recomputed(plan: Plan, stage_layers: list[int]) -> None:
    """No stage can recompute more layers than it has. One number for all goes by the stage that has most."""
    recompute_layers, most = plan.recompute_layers, max(stage_layers)
    stages = enumerate(stage_layers) if len(recompute_layers) > 1 else [(stage_layers.index(most), most)]
    for (stage, num_layers), count in zip(stages, recompute_layers, strict=bool(recompute_layers)):
        if count > num_layers:
            message = f"recompute_layers={count} is more than the {num_layers} layers of stage {stage}"
            raise InvalidInput(
                f"{message}; set at most {num_layers}, or leave recompute_layers out for all", "recompute_layers"
            )
