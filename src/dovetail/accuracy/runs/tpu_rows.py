"""A row of published steps on TPUs as a job: MaxText's defaults, and the remat policy in the table's words.

Conventions: the global batch is that of all chips, what tensor and expert parallelism leave over is fully sharded data
parallelism, AdamW with fp32 weights and moments, bf16 products. MaxText splits hidden between regions of tensor
parallelism over its ranks (activation_embed), as sequence parallelism splits tokens: the same bytes.
"""

from __future__ import annotations

from dataclasses import replace

from dovetail.accuracy.measurements import shown
from dovetail.accuracy.runs.jobs import PublishedRun
from dovetail.accuracy.runs.row import Row
from dovetail.errors import NotModelled, did_you_mean
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import Overlap, Plan
from dovetail.workload.checkpoint_policies import DEVICE, OFFLOAD, REMAT, TENSORS, canonical, checkpoint_policies
from dovetail.workload.experts import Experts
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.transformer import Transformer

FRAMEWORK = "maxtext"
# fp32 weights are gathered in bf16; their gradients are reduced in bf16, as products leave them, and kept in fp32
PRECISION = Precision(weights="fp32", gradients="bf16", has_master_weights=False, has_persistent_gradients=False)
OVERLAP = Overlap(tensor=True)  # XLA cuts products into steps beside their collectives (collective matmul)
SHORT_TENSORS = {
    "inputs": ("decoder_layer_input",),
    "input": ("decoder_layer_input",),
    "qkv": ("query_proj", "key_proj", "value_proj"),
    "q": ("query_proj",),
    "k": ("key_proj",),
    "v": ("value_proj",),
    "out": ("out_proj",),
    "mlp": ("mlpwi_0", "mlpwi_1", "mlpwo"),
}
PLACE_WORDS = {
    "offloaded": OFFLOAD, "offload": OFFLOAD, "host": OFFLOAD, "kept": DEVICE, "saved": DEVICE, "device": DEVICE,
    "recomputed": REMAT, "remat": REMAT,
}  # fmt: skip


def tpu_run_of(row: Row) -> PublishedRun:
    """The job of a row; `NotModelled` says why there is none."""
    if row.word("precision") and row.word("precision").lower() not in ("bf16", "bfloat16"):
        raise NotModelled(f"precision is {shown(row.word('precision'))}, and only bf16 is read")
    model = model_of(row)
    num_chips, tp, ep = row.count("num_chips"), row.count("tensor_parallel", 1), row.count("expert_parallel", 1)
    num_replicas, batch = num_chips // tp, _global_batch(row)
    if num_chips % tp:
        raise NotModelled(f"tensor_parallel={tp} must divide num_chips={num_chips}")
    if batch % num_replicas:
        raise NotModelled(f"global_batch={batch} is not the same for each of {num_replicas} replicas")
    plan = Plan(
        tensor_parallel=tp,
        sequence_parallel=tp > 1,
        data_parallel=num_replicas,
        expert_parallel=ep,
        expert_tensor_parallel=tp if model.experts is not None else 1,
        zero_stage=3,
        microbatch=batch // num_replicas,
        recompute=(policy_of(row.word("remat")),),
        overlap=OVERLAP,
        framework=FRAMEWORK,
    )
    job = PublishedRun(
        name=row.word("row_id"),
        publisher=row.word("chip"),
        group=row.word("row_id"),
        model=model,
        sample=Sample(batch=batch, seq=row.count("seq"), dtype="bf16", kernels="compiled"),
        precision=PRECISION,
        cluster=_cluster(row),
        plan=plan,
        measured_s=row.number("step_s"),
    )
    if not job.measured_s:
        raise NotModelled("step_s must be above 0")
    return job


def _global_batch(row: Row) -> int:
    if row.count("global_batch"):
        return row.count("global_batch")
    batch = row.number("per_device_batch") * row.count("num_chips")
    if batch != int(batch) or not batch:
        raise NotModelled(f"per_device_batch is {shown(row.word('per_device_batch'))}, not whole over all chips")
    return int(batch)


def _cluster(row: Row) -> Cluster:
    family = f"{row.word('chip').lower()}-pod"
    if family not in clusters:
        known = [name.removesuffix("-pod") for name in clusters.names() if name.startswith("tpu-")]
        raise NotModelled(f"no pod is known of {shown(row.word('chip'))}; known are {', '.join(known)}")
    return clusters[family].build(row.count("num_chips"))


def model_of(row: Row) -> Transformer:
    """The catalogue's model of the row's name and size, or a decoder of the row's own widths as MaxText has it."""
    name = row.word("model").lower()
    for known in models.names():
        if _plain(known) == _plain(name):
            shape = models[known]().architecture
            size = (row.count("layers"), row.count("hidden"), row.count("heads"))
            if isinstance(shape, Transformer) and size == (shape.num_layers, shape.hidden, shape.num_heads):
                return replace(shape, vocab=row.count("vocab", shape.vocab))
    if "deepseek" in name or "kimi" in name:
        raise NotModelled(f"latent attention of {shown(row.word('model'))} is not given in its columns")
    heads, num_experts = row.count("heads"), _count(row, "experts")
    is_gated = row.word("gated").lower() in ("1", "true", "yes")
    experts = None
    if num_experts:
        width = row.count("ffn")
        experts = Experts(num_experts=num_experts, num_experts_per_token=_count(row, "experts_per_token"), width=width)
    return Transformer(
        name=row.word("model"),
        num_layers=row.count("layers"),
        hidden=row.count("hidden"),
        num_heads=heads,
        num_kv_heads=row.count("kv_heads", heads),
        head_width=row.count("head_dim", row.count("hidden") // heads),
        ffn_width=row.count("ffn"),
        vocab=row.count("vocab"),
        activation="silu_mul" if is_gated else "gelu",
        experts=experts,
    )


def _count(row: Row, column: str) -> int:
    """A count that may be none: tables write 0 for it."""
    return row.count(column) if row.number(column) else 0


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(".", "")


def policy_of(policy: str) -> str:
    """The policy that a table calls `policy`: a name of MaxText's, or `custom: inputs,qkv offloaded`."""
    words = policy.strip().lower()
    if words == "full":
        return "nothing_saveable"
    if words == "none" or words in checkpoint_policies:
        return words
    if not words.startswith("custom"):
        known = ("full", "none", "custom", *checkpoint_policies.names())
        raise NotModelled(f"no remat policy is named {shown(policy)}{did_you_mean(words, known)}")
    places: list[str] = []
    waiting: list[str] = []
    for word in words.removeprefix("custom").strip(" :").replace(";", ",").replace("+", ",").split(","):
        *named, last = word.replace("=", " ").split() or [""]
        if last not in PLACE_WORDS:
            named, last = [*named, last], ""
        waiting += [name for name in named if name not in ("and", "are", "is", "to")]
        if last:
            places += [f"{tensor}={PLACE_WORDS[last]}" for name in waiting for tensor in _tensors(name, policy)]
            waiting = []
    if waiting or not places:
        raise NotModelled(f"remat is {shown(policy)}: tensors must be listed as offloaded, kept or recomputed")
    return canonical(",".join(places))


def _tensors(name: str, policy: str) -> tuple[str, ...]:
    if name in SHORT_TENSORS:
        return SHORT_TENSORS[name]
    if name not in TENSORS:
        raise NotModelled(f"remat {shown(policy)} names {name!r}, which is no tensor of MaxText's that is known here")
    return (name,)
