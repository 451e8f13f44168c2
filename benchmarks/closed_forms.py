"""Korthikanti et al. 2022 (arXiv:2205.05198): memory of their four models by their closed forms, and by ours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.parallel.block_memory import kept_bytes
from dovetail.parallel.plan import Plan
from dovetail.parallel.sharding import shard
from dovetail.step.pipelines import PipelineShape, pipelines
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph
from dovetail.workload.transformer import Transformer

TENSOR = 8
# model, microbatch, pipeline stages, interleave: their table 3
MODELS = (("megatron-22b", 4, 1, 1), ("megatron-175b", 1, 8, 3), ("megatron-530b", 1, 35, 3), ("megatron-1t", 1, 64, 1))
MODES = (("none", False), ("none", True), ("selective", False), ("selective", True), ("full", False))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedForm:
    """Bytes on a device of the first stage, layers only, by the paper and by us."""

    model: str
    mode: str
    what: str
    paper_bytes: float
    our_bytes: float

    @property
    def error_frac(self) -> float:
        return self.our_bytes / self.paper_bytes - 1.0


def closed_forms() -> Iterator[ClosedForm]:
    """Activations in every recompute mode, and weights with optimizer, for all four models."""
    for name, batch, stages, interleave in MODELS:
        for recompute, is_sequence in MODES:
            mode = recompute + (" + sequence" if is_sequence else "")
            yield from _rows(name, batch, stages, interleave, recompute, is_sequence, mode)


def _rows(
    name: str, batch: int, stages: int, interleave: int, recompute: str, is_sequence: bool, mode: str
) -> Iterator[ClosedForm]:
    model = models[name]().architecture
    assert isinstance(model, Transformer)
    plan = Plan(
        tensor_parallel=TENSOR,
        sequence_parallel=is_sequence,
        pipeline_parallel=stages,
        interleave=interleave,
        microbatch=batch,
        recompute=(recompute,),
    )
    sample = Sample(batch=batch * 2 * stages, seq=2048, dtype="bf16", attention="unfused")
    cut = shard(training_graph(model.forward(sample), Precision()), plan)
    shape = PipelineShape(num_stages=stages, num_microbatches=cut.num_microbatches, interleave=interleave)
    in_flight = pipelines["interleaved" if interleave > 1 else "1f1b"].in_flight(0, shape)
    layers, layer = next(one for one in cut.held(0) if one[1].is_layer)
    precision = Precision()
    state_bytes = precision.weight_bytes + precision.gradient_bytes + precision.optimizer_bytes
    yield ClosedForm(
        model=name,
        mode=mode,
        what="weights+optimizer",
        paper_bytes=18 * 12 * model.num_layers * model.hidden**2 / (TENSOR * stages),
        our_bytes=state_bytes * layers.count * layer.num_parameters,
    )
    yield ClosedForm(
        model=name,
        mode=mode,
        what="activations",
        paper_bytes=_paper_activation_bytes(model, batch, stages, interleave, recompute, is_sequence),
        our_bytes=float(in_flight * layers.count * kept_bytes(layer, recompute)),
    )


def _paper_activation_bytes(
    model: Transformer, batch: int, stages: int, interleave: int, recompute: str, is_sequence: bool
) -> float:
    """Their table 2 a layer, times layers held on the first stage: L, or L(1 + (p-1)/(p v)) when interleaved."""
    s, b, h, a, t = 2048, batch, model.hidden, model.num_heads, TENSOR
    scores = 0.0 if recompute == "selective" else 5 * a * s / h
    per_layer = {
        "full": 2.0,
        "none": (34 + scores) / t if is_sequence else 10 + (24 + scores) / t,
        "selective": 34 / t if is_sequence else 10 + 24 / t,
    }[recompute]
    held = model.num_layers * (1 + (stages - 1) / (stages * interleave) if interleave > 1 else 1)
    return s * b * h * per_layer * held
