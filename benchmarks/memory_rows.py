"""Measured and published memory beside ours: every row that a plan and a workload can express.

A row that cannot be expressed carries the word why. Nothing here is fitted to rows: conventions (dtypes, kernels,
ZeRO stage) are those the publisher states or its framework is known for.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.measured import h200_table
from dovetail.accuracy.jobs import Job
from dovetail.accuracy.sets.steps import step_jobs
from dovetail.evaluate import memory_use
from dovetail.plan.check import check_plan
from dovetail.plan.memory import ALLOCATOR_RESERVE_FRAC, moments, runtime_bytes
from dovetail.plan.plan import Plan
from dovetail.plan.shard import shard
from dovetail.schedule.pipelines import pipelines
from dovetail.schedule.step import pipeline_shape
from dovetail.units import GIBI, GIGA
from dovetail.workload.experts import Experts
from dovetail.workload.latent import LatentAttention
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.models.gpt2 import gpt2_like
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph
from dovetail.workload.transformer import Transformer

Fields = Mapping[str, str]
DATA = Path(__file__).resolve().parent / "data"

MEGATRON = Precision()
# FSDP2 as TorchTitan runs it: fp32 parameters, gradients and moments, all sharded; bf16 when gathered
FSDP = Precision(weights="fp32", has_master_weights=False, are_gradients_standing=False)
# DeepSpeed ZeRO-1 with fp16: gradients as fp16; with bf16 they are accumulated in fp32
DEEPSPEED_FP16 = Precision(compute="fp16", weights="fp16", gradients="fp16")
DEEPSPEED_BF16 = Precision(has_compute_gradients=True)
# DeepSpeed's defaults: allgather_bucket_size and reduce_bucket_size of 5e8 elements each, in 16 bits
DEEPSPEED_BUCKETS_BYTES = 2 * 0.5 * GIGA * 2
BLOOM_VOCAB, GPT2_VOCAB = 250_880, 50_304


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """One measured figure; `predicted_bytes` is 0 and `why_not` says why when the row cannot be expressed."""

    row: str
    source: str
    what: str
    measured_bytes: float
    predicted_bytes: float
    kind: str  # what was measured: allocated or reserved by torch, or all that the device reports in use
    why_not: str = ""

    @property
    def error_frac(self) -> float:
        return self.predicted_bytes / self.measured_bytes - 1.0


class NotExpressed(Exception):
    """A row that names something no plan can say."""


def figure_bytes(job: Job, kind: str) -> float:
    """Our peak over all stages, as a figure of this kind counts it."""
    graph = training_graph(job.model.forward(job.sample), job.precision)
    check_plan(job.plan, graph, job.plan.num_devices)
    cut = shard(graph, job.plan)
    if kind != "device":
        peak_bytes = memory_use(cut, job.precision, 0.0).fullest.total_bytes
        return peak_bytes * (1.0 + ALLOCATOR_RESERVE_FRAC) if kind == "reserved" else peak_bytes
    # All that the device reports. The update's flat fp32 gradients find no hole among freed activations, so what
    # the allocator reserves is the sum of both moments.
    in_flight, shape = pipelines["1f1b"].in_flight, pipeline_shape(cut)
    reserved_bytes = 0.0
    for stage in cut.stages:
        begin, end, update = moments(cut, stage, job.precision, in_flight(stage.index, shape))
        stage_bytes = max(begin.total_bytes, end.total_bytes) + update.buffers_bytes
        reserved_bytes = max(reserved_bytes, stage_bytes * (1.0 + ALLOCATOR_RESERVE_FRAC))
    return reserved_bytes + runtime_bytes(job.plan) + (DEEPSPEED_BUCKETS_BYTES if job.plan.zero_stage else 0.0)


# --- one H200, whole training steps ------------------------------------------------------------------------------


def h200_rows() -> Iterator[MemoryRow]:
    table = h200_table("models")
    jobs, _ = step_jobs(table)
    columns = (table.words(name) for name in ("model", "layers", "micro_batch", "recompute", "mode"))
    rows = zip(jobs, *columns, table.positive("peak_gib"), strict=True)
    for index, (job, model, layers, batch, recompute, mode, peak) in enumerate(rows):
        assert job is not None, f"the shipped row of {model} is not expressed"
        yield MemoryRow(
            row=f"H200-{index + 1:02d}",
            source="H200 training steps",
            what=f"{model} {layers}L mb{batch} recompute={recompute} {mode}",
            measured_bytes=float(peak) * GIBI,
            predicted_bytes=figure_bytes(job, "allocated"),
            kind="allocated",
        )


# --- published rows ----------------------------------------------------------------------------------------------


def published_rows() -> Iterator[MemoryRow]:
    """Measured rows of published_memory.csv; analytic ones are closed forms and are checked as such."""
    readers = {"SimuMax": _simumax_job, "torchtitan": _torchtitan_job, "Zero Bubble": _zero_bubble_job}
    readers |= {"BigScience": _bloom_job}
    for row in read_rows("published_memory.csv"):
        if row["quality"] == "analytic_not_measured":
            continue
        reader = next((job for word, job in readers.items() if word in row["source"]), _no_shape)
        what = f"{row['model']} {row['seq']} tp{row['TP']} pp{row['PP']} dp{row['DP']} mb{row['micro_batch']}"
        yield _priced(row["mem_id"], row["source"].split(",")[0][:48], what, _measured_bytes(row), row, reader)


def _measured_bytes(row: Fields) -> float:
    if row["value_gib"]:
        return float(row["value_gib"]) * GIBI
    return float(row["value_raw"]) * GIGA if row["value_raw"] else 0.0


def _degrees(row: Fields) -> tuple[int, int, int]:
    return int(row["TP"]), int(row["PP"]), int(row["DP"])


def _no_shape(_: Fields) -> Job:
    raise NotExpressed("the model's shape is not given")


def _simumax_job(row: Fields) -> Job:
    """Megatron-LM with its distributed optimizer; what is left of the devices is context parallelism."""
    tp, pp, dp = _degrees(row)
    num_microbatches = 4 * pp
    plan = Plan(
        tensor_parallel=tp,
        sequence_parallel=row["seq_parallel"] == "True",
        pipeline_parallel=pp,
        data_parallel=dp,
        context_parallel=int(row["n_gpus"]) // (tp * pp * dp),
        expert_parallel=int(row["EP"]),
        zero_stage=1,
    )
    sample = Sample(batch=dp * num_microbatches, seq=int(row["seq"]), dtype="bf16")
    return Job(model=_cut(row["model"], int(row["layers"])), sample=sample, plan=plan, precision=MEGATRON)


def _torchtitan_job(row: Fields) -> Job:
    if row["recompute"] != "full":
        raise NotExpressed("its selective recompute keeps every other product, ours the attention core")
    if not row["micro_batch"]:
        raise NotExpressed("the microbatch is not given")
    tp, pp, dp = _degrees(row)
    name = {"LLAMA3_8B": "llama3-8b", "LLAMA3_70B": "llama3-70b"}[row["model"]]
    plan = Plan(
        tensor_parallel=tp,
        sequence_parallel=tp > 1,
        pipeline_parallel=pp,
        data_parallel=dp,
        context_parallel=int(row["CP"]),
        zero_stage=3,
        microbatch=int(row["micro_batch"]),
        recompute=("full",),
    )
    sample = Sample(batch=dp * plan.microbatch, seq=int(row["seq"]), dtype="bf16", kernels="eager")
    return Job(model=_cut(name, int(row["layers"])), sample=sample, plan=plan, precision=FSDP)


def _zero_bubble_job(row: Fields) -> Job:
    if row["pp_schedule"] != "1F1B":
        raise NotExpressed(f"schedule {row['pp_schedule']} with its settings is not modelled yet")
    _, pp, _ = _degrees(row)
    batch = int(row["micro_batch"])
    shape = (int(row["layers"]), int(row["hidden"]), int(row["heads"]))
    model = gpt2_like(row["model"], *shape, GPT2_VOCAB, num_positions=int(row["seq"]))
    # embedding and head each take the place of a layer, so that stages are even
    layers_per_stage = (int(row["layers"]) + 2) // pp
    layers = (layers_per_stage - 1, *(layers_per_stage for _ in range(pp - 2)), layers_per_stage - 1)
    sample = Sample(batch=batch * 4 * pp, seq=int(row["seq"]), dtype="bf16", attention="unfused")
    plan = Plan(pipeline_parallel=pp, microbatch=batch, layers_per_stage=layers)
    return Job(model=model, sample=sample, plan=plan, precision=MEGATRON)


def _bloom_job(row: Fields) -> Job:
    if not row["layers"] or not row["heads"]:
        raise NotExpressed("layers or heads are not given")
    if not row["value_raw"]:
        raise NotExpressed("ran out of memory: no figure")
    tp, pp, dp = _degrees(row)
    layers, hidden, batch = int(row["layers"]), int(row["hidden"]), int(row["micro_batch"])
    # the vocabulary is not in the row; the stated size tells which of the two they used
    stated = float(row["model"].removeprefix("GPT ").removesuffix("B")) * GIGA
    vocab = min((GPT2_VOCAB, BLOOM_VOCAB), key=lambda v: abs(12 * layers * hidden**2 + v * hidden - stated))
    model = gpt2_like(row["model"], layers, hidden, int(row["heads"]), vocab, num_positions=2048)
    precision = DEEPSPEED_FP16 if row["precision"] == "fp16" else DEEPSPEED_BF16
    plan = Plan(
        tensor_parallel=tp,
        pipeline_parallel=pp,
        data_parallel=dp,
        zero_stage=int(row["zero_stage"]),
        microbatch=batch,
        recompute=("full",),
    )
    dtype = precision.storage
    sample = Sample(batch=batch * dp * 4 * pp, seq=int(row["seq"]), dtype=dtype, attention="unfused")
    return Job(model=model, sample=sample, plan=plan, precision=precision)


def _cut(name: str, layers: int) -> Transformer:
    """A model by the publisher's name, cut to some layers."""
    latent = LatentAttention(query_rank=1536, kv_rank=512, plain_width=128, rotary_width=64, value_width=128)
    if name.startswith("deepseekv2"):
        experts = Experts(num_experts=160, num_chosen=6, width=1536, shared_width=2 * 1536)
        shape = {"hidden": 5120, "ffn_width": 12_288, "vocab": 102_400, "experts": experts}
    elif name.startswith("deepseekv3"):
        experts = Experts(num_experts=256, num_chosen=8, width=2048, shared_width=2048)
        shape = {"hidden": 7168, "ffn_width": 18_432, "vocab": 129_280, "experts": experts}
    else:
        known = {"llama3_70b": "llama3-70b", "llama3_405b": "llama3-405b"}.get(name.split(" ")[0], name)
        architecture = models[known]().architecture
        assert isinstance(architecture, Transformer)
        return replace(architecture, num_layers=layers)
    heads = {"num_heads": 128, "num_kv_heads": 128, "head_width": 128}
    return Transformer(name=name, num_layers=layers, num_dense_layers=1, latent=latent, **shape, **heads)  # type: ignore[arg-type]


def _kind(row: Fields) -> str:
    """What a row's figure counts. TorchTitan logs what is reserved; BLOOM's notes give what the device reports."""
    metric = row.get("metric", "allocated")
    if "max GPU memory" in metric:
        return "device"
    return "reserved" if "reserved" in metric or "torchtitan" in row.get("source", "") else "allocated"


def _priced(
    row_id: str, source: str, what: str, measured_bytes: float, row: Fields, reader: Callable[[Fields], Job]
) -> MemoryRow:
    kind, predicted_bytes, why_not = _kind(row), 0.0, ""
    try:
        predicted_bytes = figure_bytes(reader(row), kind)
    except NotExpressed as reason:
        why_not = str(reason)
    return MemoryRow(
        row=row_id,
        source=source,
        what=what,
        measured_bytes=measured_bytes,
        predicted_bytes=predicted_bytes,
        kind=kind,
        why_not=why_not,
    )


def read_rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    """The whole table."""
    for row in (*h200_rows(), *published_rows()):
        if row.why_not:
            print(f"{row.row:8} {row.what[:52]:52} not expressed: {row.why_not}")
            continue
        ours, theirs = row.predicted_bytes / GIBI, row.measured_bytes / GIBI
        print(
            f"{row.row:8} {row.what[:48]:48} {row.kind:9} {theirs:7.2f} GiB  ours {ours:7.2f}  {row.error_frac:+7.1%}"
        )


if __name__ == "__main__":
    main()
