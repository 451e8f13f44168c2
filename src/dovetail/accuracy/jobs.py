"""Rows of layer and step tables as what ran: a model, its samples, and the conventions of eager PyTorch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dovetail.errors import DovetailError, NotModelled
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension, Topology
from dovetail.parallel.plan import Plan
from dovetail.step.plan_table import lone_work
from dovetail.step.step import training_step
from dovetail.step.work import StageWork
from dovetail.units import GIGA
from dovetail.workload.gpt2 import gpt2_like
from dovetail.workload.graph import Graph
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph
from dovetail.workload.transformer import Transformer

# torch on one device: everything in bf16, gradients freed at each step
PURE_BF16 = Precision(
    gradients="bf16", moments="bf16", loss="bf16", has_master_weights=False, has_persistent_gradients=False
)
# hidden, heads, vocabulary of the measured GPTs
GPT_SHAPES = {
    "gpt2-345m": (1024, 16, 50_304),
    "gpt2-1.5b": (1600, 25, 50_304),
    "gpt-2.5b": (1920, 20, 51_200),
    "gpt-8.3b": (3072, 24, 51_200),
}
GPT_POSITIONS = 1024
_KERNELS = {"eager": "eager", "compile": "compiled", "compiled": "compiled", "fused": "fused"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a row ran."""

    model: Transformer
    sample: Sample
    plan: Plan
    precision: Precision


def kernels_of(mode: str) -> str:
    """Our word for how a table says operators were run."""
    if mode not in _KERNELS:
        raise NotModelled(f"mode {mode[:40]!r} is not modelled; known are {', '.join(_KERNELS)}")
    return _KERNELS[mode]


def step_job(*, model: str, layers: int, batch: int, seq: int, is_recomputed: bool, mode: str) -> Job:
    """A whole training step of a model cut to `layers` layers."""
    return Job(
        model=_cut(model, layers, seq),
        sample=Sample(batch=batch, seq=seq, dtype="bf16", kernels=kernels_of(mode)),
        plan=Plan(microbatch=batch, recompute=("full" if is_recomputed else "none",)),
        precision=PURE_BF16,
    )


def _cut(name: str, layers: int, seq: int) -> Transformer:
    """A model by name with some of its layers; the measured GPTs have an output projection of their own."""
    if name in GPT_SHAPES:
        hidden, heads, vocab = GPT_SHAPES[name]
        shape = gpt2_like(name, layers, hidden, heads, vocab, num_positions=max(GPT_POSITIONS, seq))
        return replace(shape, has_dropout=False, has_attention_dropout=False, is_tied=False)
    if name not in models:
        raise NotModelled(f"model {name[:40]!r} is in no catalogue")
    architecture = models[name]().architecture
    if not isinstance(architecture, Transformer):
        raise NotModelled(f"model {name[:40]!r} is not a transformer")
    return replace(architecture, num_layers=layers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One decoder or encoder layer: what a row of a layer table says of it."""

    tensor: int
    batch: int
    seq: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_width: int
    is_gated: bool
    is_causal: bool
    mode: str


def layer_model(layer: Layer) -> Transformer:
    """A model of one such layer: Llama's kind where the feed-forward is gated, GPT's otherwise, without dropout."""
    shape = models["llama3-8b" if layer.is_gated else "megatron-22b"]().architecture
    assert isinstance(shape, Transformer)
    return replace(
        shape,
        num_layers=1,
        hidden=layer.hidden,
        num_heads=layer.heads,
        num_kv_heads=layer.kv_heads,
        head_width=layer.head_width,
        ffn_width=layer.ffn,
        is_causal=layer.is_causal,
        num_positions=0,
        has_dropout=False,
        has_attention_dropout=False,
    )


def layer_graph(layer: Layer, precision: Precision = PURE_BF16) -> Graph:
    """The layer alone, without embedding and head."""
    sample = Sample(batch=layer.batch, seq=layer.seq, dtype="bf16", kernels=kernels_of(layer.mode))
    graph = training_graph(layer_model(layer).forward(sample), precision)
    return graph.with_blocks(tuple(block for block in graph.blocks if block.is_layer))


def layer_plan(layer: Layer) -> Plan:
    return Plan(tensor_parallel=layer.tensor, microbatch=layer.batch)


def layer_work(graph: Graph, layer: Layer, chip: Chip) -> StageWork:
    """Forward and backward of a rank's part of a layer on `chip`, which waits for no other rank."""
    return lone_work(graph, layer_plan(layer), chip, PURE_BF16)


def step_s(graph: Graph, plan: Plan, chip: Chip) -> float:
    """One whole training step on one device."""
    return float(training_step(graph, plan, alone(chip), PURE_BF16).step_s)


def job_graph(job: Job) -> Graph:
    return training_graph(job.model.forward(job.sample), job.precision)


def alone(chip: Chip) -> Cluster:
    """One device of a chip; its link is never used."""
    link = Link(bandwidth_bytes_per_s=GIGA, latency_s=0.0)
    dimension = Dimension(name="alone", kind="switch", num_devices=1, link=link)
    return Cluster(name=f"{chip.name}-alone", chip=chip, topology=Topology(dimensions=(dimension,)), sources=())


def why_not(error: DovetailError) -> str:
    """The words for rows that cannot be expressed."""
    return f"rows not expressed: {error.message}"
