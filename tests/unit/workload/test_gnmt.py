from __future__ import annotations

import numpy as np
import pytest

from dovetail.errors import InvalidInput
from dovetail.workload.graph import Block, Graph, Phase
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.recurrent import RecurrentTranslator
from dovetail.workload.training import training_graph

BATCH, SEQ, HIDDEN = 4, 50, 1024
# MLPerf's GNMT v2. An LSTM layer has 4 gates x hidden x (input + hidden) weights and two biases a gate.
LAYER_PARAMETERS = {
    "embedding": 33_095_680,
    "encoder_1": 2 * 8_396_800,
    "encoder_2": 12_591_104,
    "encoder_3": 8_396_800,
    "decoder_1": 8_396_800 + 2 * HIDDEN**2 + HIDDEN + HIDDEN + 1,  # and query, key, score vector, bias and norm
    "decoder_2": 12_591_104,
    "decoder_3": 12_591_104,
    "head": 33_128_000,
}


def forward_graph(seq: int = SEQ) -> Graph:
    return models["gnmt"]().forward(Sample(batch=BATCH, seq=seq, dtype="fp16"))


def block_named(name: str) -> Block:
    return next(block for block in forward_graph().blocks if block.name == name)


def test_every_layer_has_the_parameters_of_the_reference():
    assert {block.name: block.num_parameters for block in forward_graph().blocks} == LAYER_PARAMETERS
    assert forward_graph().num_parameters == 160_671_297


def test_there_are_four_layers_on_each_side():
    repeats = {block.name: block.repeat for block in forward_graph().blocks if block.is_layer}
    assert repeats == {"encoder_1": 1, "encoder_2": 1, "encoder_3": 2, "decoder_1": 1, "decoder_2": 1, "decoder_3": 2}


def test_inputs_of_all_steps_are_one_product_and_hidden_states_one_product_a_step():
    ops = block_named("encoder_2").ops
    assert ops.extents[ops.names.index("lstm_input")].tolist() == [1, BATCH * SEQ, 4 * HIDDEN, 2 * HIDDEN, 1]
    assert ops.extents[ops.names.index("lstm_recurrent")].tolist() == [SEQ, BATCH, 4 * HIDDEN, HIDDEN, 1]


def test_products_of_a_layer_do_one_multiply_for_each_weight_and_position():
    ops = block_named("encoder_2").ops
    assert ops.model_flop.sum() / 2 == BATCH * SEQ * (12_591_104 - 8 * HIDDEN)


def test_recurrent_weights_are_distinct_once_and_touched_every_step():
    ops = block_named("encoder_3").ops
    row = ops.names.index("lstm_recurrent")
    b, m, _, k, _ = ops.extents[row]
    weight_bytes = 2 * ops.weight_elements[row]
    assert ops.distinct_frac[row, 1] == pytest.approx(1 / SEQ)
    assert ops.read_bytes[row] == pytest.approx(2 * b * m * k + weight_bytes)


def test_gradients_of_a_recurrent_product_are_as_much_work_each_and_sum_into_one_weight():
    step = training_graph(forward_graph(), Precision(compute="fp16"))
    ops = next(block.ops for block in step.blocks if block.name == "encoder_3")
    forward, again, dx, dw = (ops.names.index(f"lstm_recurrent{end}") for end in ("", ":again", ":dx", ":dw"))
    assert ops.flop[forward] == ops.flop[again] == ops.flop[dx] == ops.flop[dw]
    assert ops.output_elements[dx] == BATCH * SEQ * HIDDEN
    assert ops.output_elements[dw] == pytest.approx(4 * HIDDEN * HIDDEN)
    assert ops.phase[dw] == Phase.WEIGHT_GRAD


def test_training_does_exactly_three_times_the_forward_work():
    forward = forward_graph()
    assert training_graph(forward, Precision()).model_flop == pytest.approx(3 * forward.model_flop)


def test_hidden_and_cell_states_are_both_kept():
    ops = block_named("encoder_3").ops
    cell = ops.names.index("lstm_cell")
    assert ops.need[cell]
    assert ops.output_elements[cell] == 2 * BATCH * SEQ * HIDDEN


def test_attention_compares_every_pair_of_positions():
    ops = block_named("decoder_1").ops
    pairs = BATCH * SEQ * SEQ
    assert ops.output_elements[ops.names.index("sum")] == pairs * HIDDEN
    assert ops.output_elements[ops.names.index("softmax")] == pairs
    assert ops.output_elements[ops.names.index("context")] == BATCH * SEQ * HIDDEN
    assert set(np.array(ops.names)[ops.is_core]) == {"sum", "tanh", "score", "softmax", "context"}


def test_both_languages_share_one_embedding():
    ops = block_named("decoder_1").ops
    row = ops.names.index("target_embedding")
    assert ops.is_tied[row]
    assert ops.weight_elements[row] == LAYER_PARAMETERS["embedding"]


def test_decoder_layers_hand_on_what_was_attended_to():
    carried = {block.name: block.boundary_activation_elements // (BATCH * SEQ) for block in forward_graph().blocks}
    assert carried["encoder_1"] == carried["decoder_1"] == carried["decoder_2"] == 2 * HIDDEN
    assert carried["embedding"] == carried["encoder_2"] == carried["encoder_3"] == HIDDEN


def test_a_longer_sentence_is_more_work_of_the_same_model():
    short, long = forward_graph(25), forward_graph(50)
    assert long.num_parameters == short.num_parameters
    assert long.tokens_per_sample == 50
    assert long.model_flop > 2 * short.model_flop  # attention grows with the square


def test_a_stack_too_short_for_a_residual_is_refused():
    with pytest.raises(InvalidInput, match="num_decoder_layers must be at least 3"):
        RecurrentTranslator(name="x", hidden=8, vocab=16, num_encoder_layers=4, num_decoder_layers=2)
