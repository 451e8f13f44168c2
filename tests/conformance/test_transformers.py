"""Every transformer of the catalogue: its parameters, its work and its gradients are all there, and once."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import product

import numpy as np
import pytest

from dovetail.workload.graph import Block, Graph, Phase
from dovetail.workload.kernel_sets import kernel_sets
from dovetail.workload.layer_types import layer_types
from dovetail.workload.layers import Sample
from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.operators import OPERATORS, Unit, code_of
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph
from dovetail.workload.transformer import Transformer

NAMES = [
    name
    for name, model in zip(models.names(), models.each(lambda _, build: build()), strict=True)
    if isinstance(model.architecture, Transformer)
]
ROUNDED_TOLERANCE = 0.005
FLOP_TOLERANCE = 0.01
WEIGHTED_KINDS = ("linear", "expert_linear", "embedding")  # those whose weight gradient is a row of its own


def transformer_of(model: Model) -> Transformer:
    assert isinstance(model.architecture, Transformer)
    return model.architecture


@cache
def training_step(name: str) -> Graph:
    model = models[name]()
    forward = model.forward(Sample(batch=2, seq=min(model.seq, 2048), dtype="bf16"))
    return training_graph(forward, Precision())


def training_blocks(name: str) -> tuple[Block, ...]:
    return training_step(name).blocks


def half_unit_in_the_last_place(published: float) -> float:
    """Half of what the last digit of a rounded figure is worth: 0.05e9 for 1.7e9."""
    digits = str(round(published))
    return 0.5 * 10.0 ** (len(digits) - len(digits.rstrip("0")))


def attention_parameters(shape: Transformer) -> float:
    """Weights of the projections around one attention, by the formulas of the papers."""
    h, a = shape.hidden, shape.num_heads
    if shape.latent is None:
        return h * shape.head_width * (2 * a + 2 * shape.num_kv_heads)
    part = shape.latent
    key_width = part.nope_width + part.rotary_width
    queries = part.query_rank * (h + a * key_width) if part.query_rank else h * a * key_width
    down = h * (part.kv_rank + part.rotary_width)
    return queries + down + part.kv_rank * a * (part.nope_width + part.value_width) + a * part.value_width * h


def feed_forward_parameters(shape: Transformer, width: int) -> float:
    return (3 if shape.activation.endswith("_mul") else 2) * shape.hidden * width


def matmul_parameters_per_token(shape: Transformer) -> float:
    """Weights that multiply each token: active experts only, no table look-ups, no norms, no biases."""
    num_stacks_layers = shape.num_layers + shape.num_encoder_layers
    attentions = num_stacks_layers + (shape.num_layers if shape.num_encoder_layers else 0)
    total = attentions * attention_parameters(shape)
    if shape.experts is None:
        total += num_stacks_layers * feed_forward_parameters(shape, shape.ffn_width)
    else:
        experts = shape.experts
        width = experts.num_experts_per_token * experts.width + experts.shared_width
        sparse = feed_forward_parameters(shape, width) + shape.hidden * experts.num_experts
        total += shape.num_expert_layers * sparse
        total += (shape.num_layers - shape.num_expert_layers) * feed_forward_parameters(shape, shape.ffn_width)
    if shape.head == "mlm":
        total += shape.hidden**2
    if shape.embedding_width:
        return total + shape.embedding_width * (2 * shape.hidden + shape.vocab)
    return total + shape.hidden * shape.vocab


def attention_flop_per_token(shape: Transformer, seq: int) -> float:
    """12 x layers x width x seq, with the width that keys and values have on average; of a window, its part of that."""
    num_attentions: float = shape.num_layers + shape.num_encoder_layers
    num_attentions += shape.num_layers if shape.num_encoder_layers else 0
    if shape.window:
        period = [name for name, count in shape.layer_types or (("sliding_attention", 1),) for _ in range(count)]
        windows = [layer_types[name]().replaces.get("window", shape.window) or seq for name in period]
        seen = [min(windows[layer % len(period)], seq) / seq for layer in range(shape.num_layers)]
        num_attentions = sum(frac * (2 - frac) for frac in seen)
    width = shape.num_heads * (shape.heads.key_width + shape.heads.value_width) / 2
    return 12 * num_attentions * width * seq


@pytest.mark.parametrize("name", NAMES)
def test_a_model_goes_by_its_registered_name_and_says_its_source(name):
    model = models[name]()
    assert model.name == name
    assert model.sample == "tokens"
    assert model.source
    assert model.published_parameters > 0


@pytest.mark.parametrize("name", NAMES)
def test_the_parameter_count_is_the_published_one(name):
    model = models[name]()
    num_parameters = model.forward(Sample(batch=1, seq=64, dtype="bf16")).num_parameters
    if model.is_exact:
        off_by = num_parameters - model.published_parameters
        assert off_by == 0, f"{name}: {off_by:+,.0f} parameters; biases, norms, positions and is_tied all show"
    else:
        assert num_parameters != model.published_parameters, f"{name}: the count is exact, so set is_exact: true"
        off_by = abs(num_parameters - model.published_parameters)
        rounding = half_unit_in_the_last_place(model.published_parameters)
        assert off_by <= max(ROUNDED_TOLERANCE * model.published_parameters, rounding)


@pytest.mark.parametrize("name", NAMES)
def test_training_takes_six_flop_a_weight_and_token_and_attention_beside(name):
    shape, graph = transformer_of(models[name]()), training_step(name)
    expected = 6 * matmul_parameters_per_token(shape) + attention_flop_per_token(shape, graph.tokens_per_sample)
    assert graph.model_flop / graph.num_tokens == pytest.approx(expected, rel=FLOP_TOLERANCE)


@pytest.mark.parametrize("name", NAMES)
def test_a_step_has_all_five_phases(name):
    phases = {int(phase) for block in training_blocks(name) for phase in block.ops.phase}
    assert phases == {int(phase) for phase in Phase}


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_belongs_to_one_row_and_has_one_gradient(name):
    """Products and tables have a weight-gradient row and a bias row; a norm's gradient comes with its input's."""
    for block in training_blocks(name):
        names = Counter(block.ops.names)
        for row in np.flatnonzero(block.ops.weight_elements):
            label, kind = block.ops.names[row], OPERATORS[block.ops.kind[row]].name
            assert names[label] == 1, f"two rows of {block.name} are named {label}"
            assert names[f"{label}:dw"] == (1 if kind in WEIGHTED_KINDS else 0), (block.name, label)
            if kind not in WEIGHTED_KINDS:
                assert names[f"{label}:dx"] == 1, (block.name, label)
            if block.ops.bias_elements[row] and kind != "embedding":
                assert names[f"{label}:db"] == 1, (block.name, label)


@pytest.mark.parametrize("name", NAMES)
def test_every_forward_row_but_inputs_has_a_gradient(name):
    for block in training_blocks(name):
        ops = block.ops
        gradients = Counter(label.rpartition(":")[0] for label, b in zip(ops.names, ops.is_backward, strict=True) if b)
        forward = Counter(
            label
            for label, kind, phase in zip(ops.names, ops.kind, ops.phase, strict=True)
            if phase == Phase.FORWARD and has_gradient(int(kind))
        )
        missing = {label for label, count in forward.items() if gradients[label] < count}
        assert not missing, (block.name, missing)


def has_gradient(kind: int) -> bool:
    """Not the name of a tensor, nor an exchange of statistics that no gradient flows through."""
    operator = OPERATORS[kind]
    return operator.unit != Unit.NONE and not (operator.unit == Unit.NETWORK and not operator.conjugate)


@pytest.mark.parametrize("name", NAMES)
def test_the_update_touches_every_parameter_once(name):
    for block in training_blocks(name):
        updates = (block.ops.phase == Phase.UPDATE) & ~block.ops.is_tied
        updated = int(block.ops.extents[updates].prod(axis=1).sum())
        assert updated == block.num_parameters, block.name


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_only_name_a_tensor_or_exchange_one_do_no_work(name):
    for block in training_blocks(name):
        idle = (block.ops.unit == Unit.NONE) | (block.ops.unit == Unit.NETWORK)
        work = block.ops.flop + block.ops.read_bytes + block.ops.write_bytes
        assert not work[idle].any(), block.name
        assert (work[~idle & (block.ops.kind != code_of("fused_cross_entropy"))] > 0).all(), block.name


@pytest.mark.parametrize("name", NAMES)
def test_kernels_change_neither_parameters_nor_model_flop(name):
    model, seq = models[name](), 256
    plain = training_graph(model.forward(Sample(batch=1, seq=seq, dtype="bf16")), Precision())
    for kernels, attention in product(kernel_sets.names(), ("flash", "unfused")):
        sample = Sample(batch=1, seq=seq, dtype="bf16", kernels=kernels, attention=attention)
        other = training_graph(model.forward(sample), Precision())
        assert other.num_parameters == plain.num_parameters, (kernels, attention)
        assert other.model_flop == pytest.approx(plain.model_flop), (kernels, attention)
