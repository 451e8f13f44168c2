"""Rows of published memory as what ran: a model, its samples, a plan, and the conventions of the publisher.

Nothing here is fitted to rows: dtypes, kernels and ZeRO stage are those a publisher states or its framework is known
for. A publisher that is not known is taken at its word: what its columns say, and Megatron-LM's defaults for the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from dovetail.accuracy.jobs import Job
from dovetail.parallel.plan import RECOMPUTE_POLICIES, Plan
from dovetail.units import GIGA
from dovetail.workload.experts import Experts
from dovetail.workload.gpt2 import gpt2_like
from dovetail.workload.latent import LatentAttention
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.transformer import Transformer

Fields = Mapping[str, str]
FRAMEWORK_WORDS = ("megatron", "deepspeed", "torchtitan")  # as sources have them
# Microbatches that zero-bubble schedules hold, on every stage: ZB-1p no more than 1F1B's first stage, ZB-2p up to
# 2p - 1 (Qi et al. 2024, table 2 and section 4.1)
ZERO_BUBBLE: Mapping[str, Callable[[int, int], float]] = {
    "ZB-1p": lambda _, num_stages: float(num_stages),
    "ZB-2p": lambda _, num_stages: 2.0 * num_stages - 1.0,
}
MEGATRON = Precision()
# FSDP2 as TorchTitan runs it: fp32 parameters, gradients and moments, all sharded; bf16 when gathered
FSDP = Precision(weights="fp32", has_master_weights=False, has_persistent_gradients=False)
# Megatron-LM with --fp16 accumulates gradients in fp16, as the script of the zero-bubble runs has it
MEGATRON_FP16 = Precision(compute="fp16", gradients="fp16")
# DeepSpeed ZeRO-1 with fp16: gradients as fp16; with bf16 they are accumulated in fp32
DEEPSPEED_FP16 = Precision(compute="fp16", weights="fp16", gradients="fp16")
DEEPSPEED_BF16 = Precision(has_compute_gradients=True)
BLOOM_VOCAB, GPT2_VOCAB = 250_880, 50_304
BLOOM_HEADS = 96  # where a row gives none: as the publisher's other rows of about that width

MOST_LAYERS, MOST_CHUNKS = 200, 10_000  # of a model whose depth is not given, and of a pipeline: bounds


class NotExpressed(Exception):
    """A row that names something no plan can say."""


def memory_job(row: Fields) -> Job:
    """What a row ran, by the publisher its source names; raises `NotExpressed` with the reason."""
    reader = next((job for word, job in _READERS.items() if word in row["source"]), _stated_job)
    return reader(row)


def _whole(row: Fields, column: str, default: int = 0) -> int:
    """A count of a row; blank where there is no default is a reason not to express it."""
    cell = row[column].strip()
    if _is_count(cell):
        return int(cell)
    if not cell and default:
        return default
    what = "the model's shape" if column in ("layers", "hidden", "heads") else column
    raise NotExpressed(f"{what} is not given" if not cell else f"{column} is {cell[:20]!r}, not a count")


def _is_count(cell: str) -> bool:
    """Whether a cell is a whole number from 1 to below 10^9; what is a digit in other scripts is none."""
    return cell.isascii() and cell.isdigit() and len(cell.lstrip("0")) in range(1, 10)


def _zero_stage(row: Fields) -> int:
    """The digit that a cell begins with, as in '3 (FSDP2)'; 0 where it is none."""
    stage = row["zero_stage"].strip()[:1]
    return int(stage) if stage and stage in "0123" else 0


def _degrees(row: Fields) -> tuple[int, int, int]:
    return _whole(row, "tp"), _whole(row, "pp"), _whole(row, "dp")


def _stated_job(row: Fields) -> Job:
    """A row of a publisher we know nothing of: its shape as a GPT's unless the catalogue has the model."""
    layers, hidden, heads = (_whole(row, column) for column in ("layers", "hidden", "heads"))
    seq, batch, (tp, pp, dp) = _whole(row, "seq"), _whole(row, "micro_batch"), _degrees(row)
    policy = (row["recompute"].split() or ["none"])[0]
    if policy not in RECOMPUTE_POLICIES:
        raise NotExpressed(f"recompute {row['recompute'][:20]!r} is not modelled")
    precision = MEGATRON_FP16 if row["precision"].startswith("fp16") else MEGATRON
    plan = Plan(
        tensor_parallel=tp,
        sequence_parallel=row["seq_parallel"] == "True",
        pipeline_parallel=pp,
        data_parallel=dp,
        context_parallel=_whole(row, "cp", 1),
        expert_parallel=_whole(row, "ep", 1),
        zero_stage=_zero_stage(row),
        microbatch=batch,
        recompute=(policy,),
        framework=next((name for name in FRAMEWORK_WORDS if name in row["source"].lower()), "plain"),
    )
    name = row["model"].lower().replace("_", "-").replace(" ", "-")
    gpt = gpt2_like(row["model"], layers, hidden, heads, GPT2_VOCAB, num_positions=seq)
    model = _cut(name, layers) if name in models else gpt
    sample = Sample(batch=batch * dp * 4 * pp, seq=seq, dtype=precision.storage)
    return Job(model=model, sample=sample, plan=plan, precision=precision)


def _simumax_job(row: Fields) -> Job:
    """Megatron-LM with its distributed optimizer; what is left of the devices is context parallelism."""
    (tp, pp, dp), batch = _degrees(row), _whole(row, "micro_batch", 1)
    plan = Plan(
        tensor_parallel=tp,
        sequence_parallel=row["seq_parallel"] == "True",
        pipeline_parallel=pp,
        data_parallel=dp,
        context_parallel=_whole(row, "n_gpus") // (tp * pp * dp),
        expert_parallel=_whole(row, "ep", 1),
        zero_stage=1,
        microbatch=batch,
        framework="megatron-lm",
    )
    sample = Sample(batch=batch * dp * 4 * pp, seq=_whole(row, "seq"), dtype="bf16")
    return Job(model=_cut(row["model"], _whole(row, "layers")), sample=sample, plan=plan, precision=MEGATRON)


def _torchtitan_job(row: Fields) -> Job:
    """FSDP2; a pipeline cuts the local batch, which the notes give, into as many microbatches as it has stages.

    Blocks are compiled one by one where the notes say so, the loss with them from 2025 on.
    """
    tp, pp, dp = _degrees(row)
    name = row["model"].lower().replace("llama3.1", "llama3").replace("_", "-")
    stated = row["notes"].split(";")[0].removeprefix("local batch ")
    local_batch = _whole(row, "micro_batch", int(stated) if _is_count(stated) else 0)
    plan = Plan(
        tensor_parallel=tp,
        sequence_parallel=tp > 1,
        pipeline_parallel=pp,
        interleave=2 if "Interleaved" in row["pp_schedule"] else 1,
        data_parallel=dp,
        context_parallel=_whole(row, "cp", 1),
        zero_stage=3,
        microbatch=local_batch // pp,
        recompute=("full" if row["recompute"] == "full" else "selective-op",),
        framework="torchtitan",
    )
    kernels = "compiled" if "compile" in row["notes"] and "_2025" in row["source"] else "eager"
    sample = Sample(batch=dp * local_batch, seq=_whole(row, "seq"), dtype="bf16", kernels=kernels)
    return Job(model=_cut(name, _whole(row, "layers")), sample=sample, plan=plan, precision=FSDP)


def _zero_bubble_job(row: Fields) -> Job:
    """Embedding and head, which share no weights, each take the place of a layer, so that stages are even."""
    _, pp, _ = _degrees(row)
    batch, num_layers = _whole(row, "micro_batch"), _whole(row, "layers")
    shape = (num_layers, _whole(row, "hidden"), _whole(row, "heads"))
    model = gpt2_like(row["model"], *shape, GPT2_VOCAB, num_positions=_whole(row, "seq"))
    model = replace(model, is_tied=False)
    # interleaved as finely as it goes: a layer a chunk
    interleave = (num_layers + 2) // pp if row["pp_schedule"] == "1F1B-I" else 1
    chunk, chunks = (num_layers + 2) // (pp * interleave), pp * interleave
    if chunks > MOST_CHUNKS:
        raise NotExpressed(f"{chunks:,} pieces of a pipeline are more than {MOST_CHUNKS:,}")
    layers = (chunk - 1, *(chunk for _ in range(chunks - 2)), chunk - 1)
    sample = Sample(batch=batch * 4 * pp, seq=_whole(row, "seq"), dtype="fp16", attention="unfused")
    plan = Plan(pipeline_parallel=pp, interleave=interleave, microbatch=batch, layers_per_stage=layers)
    return Job(model=model, sample=sample, plan=plan, precision=MEGATRON_FP16)


def _bloom_job(row: Fields) -> Job:
    """Megatron-DeepSpeed. Where layers are not given, the multiple of stages nearest to the stated size."""
    tp, pp, dp = _degrees(row)
    hidden, batch = _whole(row, "hidden"), _whole(row, "micro_batch")
    layers = _whole(row, "layers", _num_layers_called(row["model"], hidden, pp))
    heads = _whole(row, "heads", BLOOM_HEADS)
    model = gpt2_like(row["model"], layers, hidden, heads, BLOOM_VOCAB, num_positions=2048)
    precision = DEEPSPEED_FP16 if row["precision"] == "fp16" else DEEPSPEED_BF16
    plan = Plan(
        tensor_parallel=tp,
        pipeline_parallel=pp,
        data_parallel=dp,
        zero_stage=_zero_stage(row),
        microbatch=batch,
        recompute=("full",),
        framework="deepspeed",
    )
    dtype = precision.storage
    sample = Sample(batch=batch * dp * 4 * pp, seq=_whole(row, "seq"), dtype=dtype, attention="unfused")
    return Job(model=model, sample=sample, plan=plan, precision=precision)


def _num_layers_called(name: str, hidden: int, num_stages: int) -> int:
    """Layers, evenly over stages, that come nearest to the size a model is called by, embedding counted or not."""
    size = name.removeprefix("GPT ").removesuffix("B")
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", size) or num_stages >= MOST_LAYERS:
        raise NotExpressed("the model's shape is not given")
    stated = float(size) * GIGA
    embeddings = (0, BLOOM_VOCAB * hidden)
    sizes = {
        abs(12 * layers * hidden**2 + embedding - stated): layers
        for layers in range(num_stages, MOST_LAYERS, num_stages)
        for embedding in embeddings
    }
    return sizes[min(sizes)]


def _cut(name: str, layers: int) -> Transformer:
    """A model by the publisher's name, cut to some layers."""
    latent = LatentAttention(query_rank=1536, kv_rank=512, nope_width=128, rotary_width=64, value_width=128)
    if name.startswith("deepseekv2"):
        experts = Experts(num_experts=160, num_experts_per_token=6, width=1536, shared_width=2 * 1536)
        shape = {"hidden": 5120, "ffn_width": 12_288, "vocab": 102_400, "experts": experts}
    elif name.startswith("deepseekv3"):
        experts = Experts(num_experts=256, num_experts_per_token=8, width=2048, shared_width=2048)
        shape = {"hidden": 7168, "ffn_width": 18_432, "vocab": 129_280, "experts": experts}
    else:
        known = {"llama3_70b": "llama3-70b", "llama3_405b": "llama3-405b"}.get(name.split(" ")[0], name)
        architecture = models[known]().architecture if known in models else None
        if not isinstance(architecture, Transformer):
            raise NotExpressed(f"no model of the catalogue is {name[:40]!r}")
        return replace(architecture, num_layers=layers)
    heads = {"num_heads": 128, "num_kv_heads": 128, "head_width": 128}
    return Transformer(name=name, num_layers=layers, num_dense_layers=1, latent=latent, **shape, **heads)  # type: ignore[arg-type]


_READERS: Mapping[str, Callable[[Fields], Job]] = {
    "SimuMax": _simumax_job,
    "torchtitan": _torchtitan_job,
    "Zero Bubble": _zero_bubble_job,
    "BigScience": _bloom_job,
}
