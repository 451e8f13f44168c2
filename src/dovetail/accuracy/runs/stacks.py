"""What the software of a run is known for where its row is silent: kernels, numbers kept, what overlaps what."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from dovetail.accuracy.runs.row import Row
from dovetail.errors import NotModelled
from dovetail.parallel.dispatchers import ALL_TO_ALL, DEEPEP
from dovetail.parallel.frameworks import frameworks
from dovetail.parallel.plan import Overlap
from dovetail.workload.optimizer import Precision

MEGATRON = "megatron-lm"
HYBRIDEP = "hybridep"
NOTHING_OVERLAPS = Overlap(data=False, tensor=False, context=False, expert=False, pipeline=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Conventions of one framework; `zero_stage` and the rest hold where a row does not say otherwise."""

    attention: str = "flash"
    kernels: str = "fused"
    precision: Precision = field(default_factory=Precision)
    overlap: Overlap = field(default_factory=Overlap)
    zero_stage: int = 0
    has_sequence_parallel: bool = False  # wherever there is tensor parallelism
    recompute: str = "none"
    has_wide_residual: bool = False
    dispatcher: str = ALL_TO_ALL
    has_fused_loss: bool = False
    framework: str = "megatron-lm"  # whose memory a plan's is taken to be


# Megatron-LM of 2021 and 2022: softmax fused with mask and scale, but scores written out; one all-reduce of 16-bit
# gradients after the last backward pass; sends between stages wait (arXiv:2104.04473, section 4).
MEGATRON_2021 = Stack(
    attention="unfused",
    precision=Precision(compute="fp16", weights="fp16", gradients="fp16", has_unfused_accumulation=True),
    overlap=NOTHING_OVERLAPS,
)
DEEPSPEED_2022 = replace(MEGATRON_2021, framework="deepspeed")
DEEPSPEED_BF16 = Precision(has_compute_gradients=True, has_unfused_accumulation=True)
# Composer's FSDP: flash attention in Triton, eager PyTorch otherwise; fp32 shards; gathers and reductions overlap.
COMPOSER = Stack(
    has_fused_loss=True,  # fused_crossentropy is the default of its MPT models
    has_wide_residual=True,  # estimate: autocast runs norms in fp32, or fp32 embeddings hand on fp32; not stated
    attention="flash-1",
    kernels="classic",
    precision=Precision(weights="fp32", gradients="bf16", has_master_weights=False, has_persistent_gradients=False),
    zero_stage=3,
    framework="fsdp",
)
TORCHTITAN = Stack(
    attention="flash-2",  # what PyTorch chooses by itself
    kernels="eager",
    precision=Precision(weights="fp32", has_master_weights=False, has_persistent_gradients=False),
    zero_stage=3,
    has_sequence_parallel=True,
    framework="torchtitan",
)
# Megatron-Core recipes: distributed optimizer, overlapped gradients and parameters, user buffers for tensor
# parallelism, asynchronous sends with interleaving.
MEGATRON_CORE = Stack(
    precision=Precision(gradients="bf16"),
    overlap=Overlap(tensor=True),
    zero_stage=1,
    has_sequence_parallel=True,
)
SIMUMAX = Stack(overlap=NOTHING_OVERLAPS, zero_stage=1, has_sequence_parallel=True)


def stack_of(row: Row) -> Stack:
    """By the framework, and what the row's notes say of it."""
    framework = row.word("framework").lower()
    if "composer" in framework:
        return _composer(row)
    if "torchtitan" in framework:
        return _torchtitan(row)
    if "deepspeed" in framework or "neox" in framework:
        return _deepspeed(row)
    if "te 2" in framework or "23e00ed" in framework:
        stack = _with_precision(SIMUMAX, row)
        return stack if row.count("EP", 1) == 1 else replace(stack, overlap=replace(stack.overlap, routing=False))
    if framework in (MEGATRON, *frameworks[MEGATRON].aliases):
        return MEGATRON_2021
    if "bridge" in framework:
        return _bridge(row)
    if "hai-llm" in framework:  # DualPipe hides exchange behind the other direction's compute (arXiv:2412.19437)
        stack = replace(_with_precision(MEGATRON_CORE, row), dispatcher=DEEPEP)
        return replace(stack, overlap=replace(stack.overlap, expert=True))
    return _with_precision(MEGATRON_CORE, row)


def _with_precision(stack: Stack, row: Row) -> Stack:
    compute = compute_of(row)
    precision = replace(stack.precision, compute=compute, weights="bf16", recipe=_recipe_of(row, compute))
    return replace(stack, precision=precision)


def _recipe_of(row: Row, compute: str) -> str:
    """How 8-bit tensors are scaled: in blocks where a row says MX, by the tensor itself in Megatron-Bridge's plain FP8.

    Others are taken to scale with delay, as Transformer Engine does by default; DeepSeek-V3 in blocks of its own.
    """
    if compute != "fp8":
        return ""
    if row.says("precision", "MX"):
        return "mxfp8"
    if row.says("framework", "hai-llm"):
        return "blockwise"
    is_current = row.says("framework", "Bridge") and row.word("precision").upper() in ("FP8", "FP8-CS", "")
    return "current" if is_current else "delayed"


def compute_of(row: Row) -> str:
    """The dtype that products are taken in; `NotModelled` where neither the row nor its publisher's recipes tell."""
    is_blackwell = row.says("gpu", "Blackwell") and row.says("source", "v5.1")
    if row.says("precision", "fp4") or (is_blackwell and row.says("model", "405B")):
        return "fp4"  # one configuration of MLPerf 5.1 says fp4; estimate: all of its large Llamas on Blackwell
    if row.says("precision", "fp8"):
        return "fp8"
    if not row.word("precision"):
        return _unstated(row)
    return "fp16" if row.says("precision", "fp16") else "bf16"


# Publishers whose recipes are 8-bit where the table does not print a precision. Estimate: of Megatron-Bridge's summary
# those rows stand beside others of the same recipe in FP8; large models of MLPerf's closed division are trained in FP8.
FP8_STACKS = ("Megatron-Bridge", "MLPerf Training")


def _unstated(row: Row) -> str:
    """What a publisher's stack computes in where a row leaves the precision blank."""
    if row.says("source", *FP8_STACKS) and not row.says("gpu", "TPU"):
        return "bf16" if row.says("gpu", "A100") else "fp8"  # an A100 has no 8-bit dtype to train in
    if row.says("framework", "torchtitan"):
        return "bf16"  # training.mixed_precision_param is bfloat16 unless a configuration changes it
    raise NotModelled("incomplete: precision not given")


# Estimate from the rows themselves, not from release notes: the container from which mixtures of unchanged plans run
# 1.3 to 1.6 times faster, taken to be graphs that need no host to see how rows were routed, and hidden exchange.
GRAPHED_SINCE = (26, 6)


def _bridge(row: Row) -> Stack:
    """Megatron-Bridge's recipes; until 2026 the host waits for each routing."""
    dispatcher = HYBRIDEP if _is_sent_once(row) else ALL_TO_ALL
    stack = replace(_with_precision(MEGATRON_CORE, row), dispatcher=dispatcher, has_fused_loss=True)
    if row.count("EP", 1) == 1 or row.says("model", "tokendrop"):
        return stack  # with a capacity, shapes are known beforehand
    if row.container >= GRAPHED_SINCE:
        return replace(stack, kernels="compiled", overlap=replace(stack.overlap, expert=True))
    is_beside = row.says("model", "235B") and row.says("gpu", "H100")  # moe_a2a_overlap of that recipe
    kernels = "graphed-attention" if _is_graphed(row) else stack.kernels
    recompute = "norm-activation" if _recomputes_activation(row) else stack.recompute
    overlap = replace(stack.overlap, routing=False, expert=is_beside)
    return replace(stack, kernels=kernels, recompute=recompute, overlap=overlap)


def _recomputes_activation(row: Row) -> bool:
    """Recipes with recompute_modules layernorm and moe_act: GPT-OSS where memory is short (as `_is_graphed`)."""
    return row.says("model", "GPT OSS") and not row.says("gpu", "B300")


def _is_graphed(row: Row) -> bool:
    """Whether CUDA graphs hold attention and router, as a mixture's recipe says (Megatron-Bridge 0.3,
    scripts/performance/configs, cuda_graph_scope with attn).
    """
    is_grace = row.says("gpu", "GB200", "GB300")
    is_bf16 = compute_of(row) == "bf16"
    if row.says("model", "GPT OSS"):
        return row.says("gpu", "B300")  # the GB300, too
    if row.says("model", "Kimi"):
        return False
    if row.says("model", "DeepSeek"):
        return row.says("gpu", "GB200") or (row.says("gpu", "GB300") and is_bf16)
    if row.says("model", "235B"):
        return is_grace and not (row.says("gpu", "GB300") and is_bf16)
    return row.says("gpu", "GB200") and not row.says("precision", "MX")


def _is_sent_once(row: Row) -> bool:
    """Whether a mixture goes by HybridEP or DeepEP, as its recipe says (Megatron-Bridge, scripts/performance/configs).

    Plain all-to-all: with a capacity, Qwen3 235B on nodes of eight, and GPT-OSS before 26.06 (on B300 before 26.04).
    """
    is_of_eight = not row.says("gpu", "GB200", "GB300")
    if row.says("model", "GPT OSS"):
        return row.container >= ((26, 4) if is_of_eight and row.says("gpu", "B300") else GRAPHED_SINCE)
    return not (row.says("model", "tokendrop") or (is_of_eight and row.says("model", "235B")))


def _deepspeed(row: Row) -> Stack:
    is_bf16 = row.says("precision", "bf16")
    stack = replace(DEEPSPEED_2022, precision=DEEPSPEED_BF16) if is_bf16 else DEEPSPEED_2022
    if row.says("source", "BigScience"):
        # the script of their final run sets CUDA_LAUNCH_BLOCKING=1; estimate: so did the trials before it
        return replace(stack, overlap=replace(stack.overlap, host=False))
    return stack


def _composer(row: Row) -> Stack:
    is_fp8 = row.says("precision", "fp8")
    casts = row.says("notes", "mode DEFAULT")  # shards are gathered in fp32, and autocast casts them
    precision = replace(COMPOSER.precision, compute="fp8" if is_fp8 else "bf16", has_autocast_weights=casts)
    # estimate: the tables in mode DEFAULT, made again after those in PURE, are of PyTorch 2.1: recompute stops early
    return replace(COMPOSER, precision=precision, kernels="eager" if casts else COMPOSER.kernels)


def _torchtitan(row: Row) -> Stack:
    is_compiled = row.says("notes", "compile")
    is_async = row.says("notes", "async")
    compute = compute_of(row)
    return replace(
        TORCHTITAN,
        kernels="compiled" if is_compiled else "eager",
        overlap=Overlap(tensor=is_async),
        precision=replace(TORCHTITAN.precision, compute=compute, recipe="current" if compute == "fp8" else ""),
    )
