"""Image, recurrent and recommender models keep their published size and work, and can be trained whole."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from dovetail.errors import InvalidInput
from dovetail.units import GIGA
from dovetail.workload.graph import Block, Graph, Phase
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.operators import OPERATORS, Unit, code_of
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph

BATCH = 8

# parameters and GMAC of one image: torchvision's tables, whose GFLOPS column counts multiply-accumulates
IMAGE_MODELS = {
    "resnet-18": (11_689_512, 1.814),
    "resnet-50": (25_557_032, 4.089),
    "resnext-101-32x8d": (88_791_336, 16.41),
    "vgg-16": (138_357_544, 15.47),
    "inception-v3": (27_161_264, 5.71),
    "mobilenet-v3-large": (5_483_032, 0.217),
    "vit-l-16": (304_326_632, 61.55),
}
MODELS = (*IMAGE_MODELS, "gnmt", "dlrm")


def forward_graph(name: str, batch: int = BATCH) -> Graph:
    model = models[name]()
    return model.forward(Sample(batch=batch, seq=model.seq, dtype="bf16"))


def trained_graph(name: str) -> Graph:
    return training_graph(forward_graph(name), Precision())


def first_layer_flop(graph: Graph) -> float:
    """Forward FLOP of the products that read data."""
    ops = graph.blocks[0].ops
    assert graph.blocks[0].is_input_data
    readers = ops.edge_to[ops.edge_start[0] : ops.edge_start[1]]
    return float(ops.model_flop[readers].sum())


def gradient_names(block: Block) -> Counter[str]:
    """What the backward rows of a forward block must be called."""
    ops, names = block.ops, Counter[str]()
    from_data = set(ops.edge_to[ops.edge_start[0] : ops.edge_start[1]].tolist()) if block.is_input_data else set()
    for row, name in enumerate(ops.names):
        operator = OPERATORS[ops.kind[row]]
        is_table = operator.name in ("embedding", "embedding_bag")
        if operator.unit == Unit.NONE:
            continue
        if not is_table and not (operator.unit == Unit.TENSOR and row in from_data):
            names[f"{name}:dx"] += 1
        if is_table or (operator.unit == Unit.TENSOR and operator.name != "attention"):
            names[f"{name}:dw"] += 1
        if operator.name in ("gather", "context_gather"):
            names[f"{name}:dw"] += 1
        if ops.bias_elements[row]:
            names[f"{name}:db"] += 1
    return names


@pytest.mark.parametrize("name", IMAGE_MODELS)
def test_an_image_model_has_its_published_parameters_to_the_last_one(name):
    published_parameters, _ = IMAGE_MODELS[name]
    model = models[name]()
    assert model.is_exact
    assert model.published_parameters == published_parameters
    assert forward_graph(name).num_parameters == published_parameters


@pytest.mark.parametrize("name", IMAGE_MODELS)
def test_an_image_model_does_its_published_work_for_one_image(name):
    _, giga_macs = IMAGE_MODELS[name]
    assert forward_graph(name, batch=1).model_flop / 2 == pytest.approx(giga_macs * GIGA, rel=0.01)


@pytest.mark.parametrize("name", MODELS)
def test_the_catalogue_entry_agrees_with_its_graph(name):
    model, graph = models[name](), forward_graph(name)
    assert model.name == graph.model == name
    assert graph.num_parameters == model.published_parameters
    assert graph.tokens_per_sample == model.seq
    assert "arXiv" in model.source


@pytest.mark.parametrize("name", [name for name in MODELS if name != "gnmt"])
def test_a_sequence_length_for_a_sample_without_positions_is_refused(name):
    with pytest.raises(InvalidInput, match=f"{name} reads .* so seq must be 1; got 128"):
        models[name]().forward(Sample(batch=BATCH, seq=128, dtype="bf16"))


@pytest.mark.parametrize("name", MODELS)
def test_work_and_what_is_carried_grow_with_the_batch_and_parameters_do_not(name):
    once, twice = forward_graph(name), forward_graph(name, batch=2 * BATCH)
    assert twice.model_flop == pytest.approx(2 * once.model_flop)
    assert twice.num_parameters == once.num_parameters
    found = [block.boundary_activation_elements for block in twice.blocks]
    assert found == [2 * block.boundary_activation_elements for block in once.blocks]


@pytest.mark.parametrize("name", MODELS)
def test_training_does_three_times_the_forward_work_less_the_gradient_of_the_data(name):
    forward = forward_graph(name)
    expected_flop = 3 * forward.model_flop - first_layer_flop(forward)
    assert trained_graph(name).model_flop == pytest.approx(expected_flop, rel=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_every_row_has_its_gradient_rows(name):
    for before, after in zip(forward_graph(name).blocks, trained_graph(name).blocks, strict=True):
        backward = after.ops.where(after.ops.is_backward)
        assert Counter(backward.names) == gradient_names(before), before.name


@pytest.mark.parametrize("name", MODELS)
def test_a_step_has_all_five_phases(name):
    blocks = trained_graph(name).blocks
    phases = {Phase(int(phase)) for block in blocks for phase in block.ops.phase}
    assert phases == set(Phase)
    assert all(Phase.RECOMPUTE in block.ops.phase for block in blocks if block.is_layer)


@pytest.mark.parametrize("name", MODELS)
def test_updates_over_all_blocks_cover_every_parameter_that_has_a_gradient_once(name):
    num_updated = 0
    for block in trained_graph(name).blocks:
        ops = block.ops
        updates = (ops.phase == Phase.UPDATE) & ~ops.is_tied
        num_updated += block.repeat * int(ops.extents[updates].prod(axis=1).sum())
    # of DLRM's tables only rows that were looked up: 8 samples x 64 tables x 64 columns
    num_idle = 64 * 64 * (1_000_000 - 8) if name == "dlrm" else 0
    assert num_updated == forward_graph(name).num_parameters - num_idle


@pytest.mark.parametrize("name", MODELS)
def test_stem_and_head_are_no_layers_and_blocks_have_names_of_their_own(name):
    blocks = forward_graph(name).blocks
    assert [block.is_layer for block in blocks] == [False, *[True] * (len(blocks) - 2), False]
    assert len({block.name for block in blocks}) == len(blocks)
    assert [block.is_input_data for block in blocks] == [True, *[False] * (len(blocks) - 1)]


@pytest.mark.parametrize("name", [name for name in IMAGE_MODELS if name != "vit-l-16"])
def test_each_block_hands_on_what_the_next_one_reads(name):
    blocks = forward_graph(name).blocks
    for block, following in pairwise(blocks):
        assert block.boundary_activation_elements == following.ops.output_elements[0]
        if block.repeat > 1:
            assert block.boundary_activation_elements == block.ops.output_elements[0]


@pytest.mark.parametrize("name", MODELS)
def test_every_product_holds_as_many_weights_as_its_extents_say(name):
    for block in forward_graph(name).blocks:
        ops = block.ops
        rows = np.flatnonzero((ops.unit == Unit.TENSOR) & (ops.weight_elements > 0))
        b, _, n, k, _ = ops.extents[rows].T
        steps = np.where(ops.kind[rows] == code_of("recurrent_linear"), b, 1)
        assert (ops.weight_elements[rows] * steps == b * n * k).all(), block.name
