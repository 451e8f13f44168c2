"""What a prediction takes for granted, as sentences: so that a number is never read for more than it says."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields

import numpy as np

from dovetail.cost.own_costs import entries_for, operator_costs
from dovetail.evaluate import Infeasible, Outcome, masked_graph
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.endpoints import SM_DRIVEN
from dovetail.hardware.heterogeneous import AnyCluster, HeterogeneousCluster, chips_of, equal_devices
from dovetail.hardware.host import COPY_FRAC
from dovetail.hardware.reliability import Reliability
from dovetail.parallel.layout import layers_per_chunk
from dovetail.parallel.plan import Plan
from dovetail.report.labels import percent
from dovetail.report.measured import measured_sentences
from dovetail.step.goodput import Goodput
from dovetail.step.offload import UPDATE_FRAC, does_offload, host_of
from dovetail.units import format_rate, format_s
from dovetail.workload.graph import Axis, Graph, N
from dovetail.workload.lora import targets_of
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload

PHYSICS = (
    "operators by tiles, waves, passes over memory and launches, at the clock that the power limit leaves the slowest"
    " device"
)
RUNTIME = "the allocator's reserve and the runtime's memory are as measured with PyTorch and NCCL on NVIDIA chips"
LEFT_OUT = "no stragglers, failures, data loading or checkpoints; energy is the chips' and their links', no more"
LEFT_OUT_OF_GOODPUT = "no data loading; energy is the chips' and their links' over one step, no more"
_OVERLAPS = (
    ("data_parallel", "data", "gradient reductions and parameter gathers"),
    ("tensor_parallel", "tensor", "tensor-parallel collectives"),
    ("context_parallel", "context", "key-value exchange"),
    ("expert_parallel", "expert", "expert all-to-all"),
    ("pipeline_parallel", "pipeline", "transfers between stages"),
)


# Figures of a chip that no equation of a step reads, as they are written in a spec: area and price do.
UNUSED_FIGURES = {
    "year": "year",
    "tensor.num_rows": "tensor.rows",
    "tensor.num_cols": "tensor.cols",
    "interconnect_bytes_per_s": "interconnect",
}


def assumptions(result: Outcome | Infeasible) -> tuple[str, ...]:
    """Every assumption behind `result`, the weightiest first."""
    workload, plan, chips = result.workload, result.plan, chips_of(result.cluster)
    graph = workload.forward_graph()
    sentences = (
        PHYSICS,
        *_forward_only(workload),
        *_adapters(workload),
        *measured_sentences(result),
        *_own_costs(workload, chips),
        *(_reached(chip) for chip in chips),
        *(told for chip in chips for told in _unused_figures(chip)),
        *_pools(result.cluster),
        *(() if workload.is_forward_only else _overlap(plan)),
        *(_ended(chip) for chip in chips if chip.endpoint != SM_DRIVEN),
        *_context(graph, plan),
        *_offload(result),
        _layers(graph, plan),
        *_experts(graph, plan),
        *_padding(graph, plan),
        *_repeated_heads(graph, plan),
        _kernels(graph, workload),
        *_utilisation(masked_graph(workload)),
        *default_sentences(workload),
        *workload.model.notes,
        RUNTIME,
        *_left_out(result),
    )
    return tuple(sentence for sentence in sentences if sentence)


def _forward_only(workload: Workload) -> tuple[str, ...]:
    if not workload.is_forward_only:
        return ()
    return (
        "forward passes alone, microbatches one after another through the stages; activations are freed as they are"
        " used; recompute, offload, ZeRO-1 and 2 and the order of a pipeline's passes have no meaning and are left out",
    )


def _adapters(workload: Workload) -> tuple[str, ...]:
    if not workload.lora.is_used:
        return ()
    named = ", ".join(targets_of(workload.lora, workload.model.architecture))
    return (
        f"adapters of rank {workload.lora.rank} beside {named}, each a product down, one up, a scale and an add, in the"
        " workload's dtypes and without dropout; every other parameter is frozen, kept as weights are and without"
        " gradient or optimizer state; gradients go back to the input of the first layer",
    )


def _left_out(result: Outcome | Infeasible) -> tuple[str, ...]:
    """What is not counted; where failures are, how."""
    if isinstance(result, Infeasible) or not isinstance(result.goodput, Goodput):
        return (LEFT_OUT,)
    counted = (
        "devices fail independently and at a steady rate, all wait for a restart, and every copy of the model saves"
    )
    reliability = equal_devices(result.cluster, "goodput").reliability
    source = f"; {reliability.failures.source}" if isinstance(reliability, Reliability) else ""
    return (f"goodput: {counted} its share of a checkpoint{source}", LEFT_OUT_OF_GOODPUT)


def _pools(cluster: AnyCluster) -> tuple[str, ...]:
    if not isinstance(cluster, HeterogeneousCluster):
        return ()
    rate = format_rate(cluster.between.bandwidth_bytes_per_s, "B/s")
    speed = f"{rate} per device and {format_s(cluster.between.latency_s)}"
    return (
        f"{len(cluster.pools)} pools with {speed} between them; every stage lies within one, and all devices together"
        " set how far the slowest is behind; no published run behind an interval is of several chips",
    )


def _reached(chip: Chip) -> str:
    return f"{chip.name} runs at {percent(chip.calibration.tensor_frac, 0)} of its tensor peak at best; {_fitted(chip)}"


def _fitted(chip: Chip) -> str:
    """What the calibration rests on, which its own words may already say."""
    words = chip.calibration.fitted_on
    return words if words.startswith(("not fitted", "given")) else f"fitted on {words}"


def _unused_figures(chip: Chip) -> tuple[str, ...]:
    """Said of a chip that differs from its base in nothing that matters: its answer is its base's."""
    given = [path for path, source in chip.sources if source.startswith("given ")]
    unused = UNUSED_FIGURES | {path: path for path in given if path.startswith("die.")}
    if not given or any(path not in unused for path in given):
        return ()
    figures = ", ".join(unused[path] for path in given)
    return (f"what is given of {chip.name} changes nothing here: the time of a step does not depend on {figures}",)


def _kernels(graph: Graph, workload: Workload) -> str:
    kernels = f"{workload.kernels} kernels"
    return f"{workload.attention} attention and {kernels}" if _has_attention(graph) else kernels


def _has_attention(graph: Graph) -> bool:
    return any(bool(block.ops.is_core.any()) for block in graph.blocks)


def _utilisation(graph: Graph) -> tuple[str, ...]:
    """Where a mask leaves work undone that PaLM's convention counts."""
    if not any((block.ops.causal_flop < block.ops.model_flop).any() for block in graph.blocks):
        return ()
    return (
        "MFU counts the pairs that attention's mask leaves, HFU what is executed, recompute too; PaLM's MFU, as most"
        " published figures, counts the whole attention matrix",
    )


def default_sentences(workload: Workload) -> tuple[str, ...]:
    """What of the workload is as it is where nothing is given, and the option or key that takes another."""
    model, own = workload.model, Precision()
    found = []
    if workload.global_batch == model.batch:
        found.append(f"global batch {workload.global_batch:,} (--global-batch)")
    if model.sample == "tokens" and workload.seq == model.seq:
        found.append(f"{workload.seq:,} tokens per sample (--seq)")
    if workload.precision.compute == own.compute:
        found.append(f"products in {own.compute} (--compute)")
    others = (field.name for field in fields(Precision) if field.name not in ("compute", "recipe"))
    if all(getattr(workload.precision, name) == getattr(own, name) for name in others):
        state = f"{own.weights} weights, {own.gradients} gradients, {own.moments} moments and master weights"
        found.append(f"{own.optimizer} with {state} (precision in a spec)")
    return (f"as by default: {'; '.join(found)}",) if found else ()


def _repeated_heads(graph: Graph, plan: Plan) -> tuple[str, ...]:
    tensor, heads = plan.tensor_parallel, graph.num_kv_heads
    if tensor <= heads or not any((block.ops.splits & int(Axis.KV)).any() for block in graph.blocks):
        return ()
    return (
        f"{heads} key-value heads are repeated over tensor_parallel={tensor} ranks: {tensor // heads} ranks hold each",
    )


def layers_per_stage(num_layers: int, plan: Plan) -> tuple[int, ...]:
    """Layers that each stage runs, all its chunks together."""
    chunks = layers_per_chunk(num_layers, plan)
    return tuple(sum(chunks[stage :: plan.pipeline_parallel]) for stage in range(plan.pipeline_parallel))


def _ended(chip: Chip) -> str:
    kind = chip.endpoint_kind
    held = f"{percent(kind.adding_slowdown_frac)} of itself from compute where it adds, "
    held += f"{percent(kind.moving_held_frac)} else"
    return f"collectives of {chip.name} by {kind.name}: {kind.summary}; what is hidden takes {held}"


def _overlap(plan: Plan) -> tuple[str, ...]:
    used = [(flag, words) for degree, flag, words in _OVERLAPS if getattr(plan, degree) > 1]
    hidden = [words for flag, words in used if getattr(plan.overlap, flag)]
    waited = [words for flag, words in used if not getattr(plan.overlap, flag)]
    sentences = [f"may overlap with compute: {', '.join(hidden)}"] if hidden else []
    sentences += [f"compute waits for: {', '.join(waited)}"] if waited else []
    return ("; ".join(sentences),) if sentences else ()


def _offload(result: Outcome | Infeasible) -> tuple[str, ...]:
    """What is taken for granted of the host."""
    plan, cluster = result.plan, result.cluster
    if not does_offload(plan) or not isinstance(cluster, Cluster):
        return ()
    host = host_of(cluster)
    link, memory = (format_rate(rate, "B/s") for rate in (host.link.bandwidth_bytes_per_s, host.share_bytes_per_s))
    message = f"the host gives each device {link} each way and {memory} of memory bandwidth, all devices at once"
    update = f"; its update reaches {percent(UPDATE_FRAC, 0)} of the latter" if plan.offload_optimizer else ""
    copies = f"pinned copies reach {percent(COPY_FRAC, 0)} of the link{update}"
    return (f"{message}; {copies}; its energy is not counted, and no run behind an interval offloads",)


def _own_costs(workload: Workload, chips: tuple[Chip, ...]) -> tuple[str, ...]:
    """Operators whose cost is a plugin's, and whose."""
    known = entries_for({chip.name for chip in chips})
    if not known:
        return ()
    codes = {int(code) for block in workload.training_graph().blocks for code in block.ops.kind}
    used = ((code, name) for code, names in known.items() for name in names if code in codes)
    return tuple(
        f"the time of {name} comes from {operator_costs.owner(name)}; energy and memory traffic stay ours, and no run"
        " behind an interval is of it"
        for _, name in used
    )


def _layers(graph: Graph, plan: Plan) -> str:
    stages, counts = plan.pipeline_parallel, layers_per_stage(graph.num_layers, plan)
    if stages == 1:
        return ""
    if min(counts) == max(counts):
        return f"{graph.num_layers} layers spread evenly over {stages} stages, {counts[0]} per stage"
    by_count = ", ".join(f"{times} with {count}" for count, times in sorted(Counter(counts).items()))
    how = "as the plan says" if plan.layers_per_stage else "they do not divide, so the middle takes the rest"
    return f"{graph.num_layers} layers over {stages} stages: {by_count}; {how}"


def _context(graph: Graph, plan: Plan) -> tuple[str, ...]:
    """How devices that share a sequence attend to all of it, where that is not by gathering keys and values."""
    words = {
        "ring": "keys and values go round a ring; positions are dealt out so that every part takes as long (zigzag)",
        "all-to-all": "attention waits for heads dealt out all to all, four times a pass",
    }
    is_used = plan.context_parallel > 1 and _has_attention(graph) and plan.context_comm_type in words
    return (words[plan.context_comm_type],) if is_used else ()


def _experts(graph: Graph, plan: Plan) -> tuple[str, ...]:
    """How evenly rows reach experts, and what becomes of those beyond a capacity."""
    if not graph.has_experts:
        return ()
    routing, most = graph.routing, float(graph.routing.most(plan.expert_parallel))
    message = "experts are balanced: each gets the same number of tokens"
    if most != 1.0:
        message = f"the most loaded device's experts get {most:g} times the mean of tokens; energy counts all as it"
    if routing.capacity_factor:
        beyond = "and is padded to that" if routing.pads_to_capacity else "and tokens beyond are dropped"
        message += f"; an expert takes at most {routing.capacity_factor:g} times the mean, {beyond}"
    return (message,)


def _padding(graph: Graph, plan: Plan) -> tuple[str, ...]:
    """Columns that tensor parallelism does not divide: in practice the vocabulary."""
    tensor = plan.tensor_parallel
    padded: dict[int, str] = {}
    for block in graph.blocks:
        ops = block.ops
        columns = np.flatnonzero((ops.splits[:, N] == Axis.TENSOR) & (ops.extents[:, N] % tensor != 0))
        padded = {int(ops.extents[row, N]): ops.names[row] for row in reversed(columns)} | padded
    return tuple(
        f"{name}'s {count:,} columns are padded to {-(-count // tensor) * tensor:,}"
        f" for tensor_parallel={plan.tensor_parallel}"
        for count, name in padded.items()
    )
