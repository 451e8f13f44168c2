"""What a prediction takes for granted, as sentences: so that a number is never read for more than it says."""

from __future__ import annotations

from collections import Counter

import numpy as np

from dovetail.evaluate import Infeasible, Outcome
from dovetail.hardware.chip import Chip
from dovetail.plan.plan import Plan
from dovetail.plan.shard import axis_degrees, divisor, layers_per_chunk
from dovetail.report.words import percent
from dovetail.workload.graph import Axis, Graph, N
from dovetail.workload.workload import Workload

PHYSICS = (
    "operators by tiles, waves, passes over memory and launches, at the clock that the power limit leaves the slowest"
    " device"
)
RUNTIME = "the allocator's reserve and the runtime's memory are as measured with PyTorch and NCCL on NVIDIA chips"
LEFT_OUT = "no stragglers, failures, data loading or checkpoints; energy is the chips' and their links', no more"
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
    workload, plan, chip = result.workload, result.plan, result.cluster.chip
    graph = workload.model.forward(workload.sample)
    sentences = (
        PHYSICS,
        f"{chip.name} runs at {percent(chip.calibration.tensor_frac, 0)} of its tensor peak at best; {_fitted(chip)}",
        *_unused_figures(chip),
        *_overlap(plan),
        _layers(graph, plan),
        *_experts(graph),
        *_padding(graph, plan),
        *_repeated_heads(graph, plan),
        _kernels(graph, workload),
        *_utilisation(graph),
        *_length(workload),
        *workload.model.notes,
        RUNTIME,
        LEFT_OUT,
    )
    return tuple(sentence for sentence in sentences if sentence)


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
    """Where a mask leaves work undone that the convention counts."""
    if not any((block.ops.flop < block.ops.counted_flop).any() for block in graph.blocks):
        return ()
    return (
        "MFU counts the whole attention matrix, as published figures do; HFU counts what is executed, so it can be"
        " lower",
    )


def _length(workload: Workload) -> tuple[str, ...]:
    model = workload.model
    if model.sample != "tokens" or workload.seq != model.seq:
        return ()
    return (f"samples of {workload.seq:,} tokens, the default length of {model.name}; seq or --seq takes another",)


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


def _overlap(plan: Plan) -> tuple[str, ...]:
    used = [(flag, words) for degree, flag, words in _OVERLAPS if getattr(plan, degree) > 1]
    hidden = [words for flag, words in used if getattr(plan.overlap, flag)]
    waited = [words for flag, words in used if not getattr(plan.overlap, flag)]
    sentences = [f"may run beside compute: {', '.join(hidden)}"] if hidden else []
    sentences += [f"compute waits for: {', '.join(waited)}"] if waited else []
    return ("; ".join(sentences),) if sentences else ()


def _layers(graph: Graph, plan: Plan) -> str:
    stages, counts = plan.pipeline_parallel, layers_per_stage(graph.num_layers, plan)
    if stages == 1:
        return ""
    if min(counts) == max(counts):
        return f"{graph.num_layers} layers spread evenly over {stages} stages, {counts[0]} a stage"
    by_count = ", ".join(f"{times} with {count}" for count, times in sorted(Counter(counts).items()))
    how = "as the plan says" if plan.layers_per_stage else "they do not divide, so the middle takes the rest"
    return f"{graph.num_layers} layers over {stages} stages: {by_count}; {how}"


def _experts(graph: Graph) -> tuple[str, ...]:
    if not any(rule.axis == Axis.EXPERT_TENSOR for rule in graph.rules):
        return ()
    return ("experts are balanced: each gets the same number of tokens",)


def _padding(graph: Graph, plan: Plan) -> tuple[str, ...]:
    """Columns that tensor parallelism does not divide: in practice the vocabulary."""
    degrees = axis_degrees(plan, graph)
    tensor = divisor(int(Axis.TENSOR), degrees)
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
