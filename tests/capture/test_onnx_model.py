"""ONNX files in neutral words: what is trained, what is folded, and the same steps at every size."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("onnx")


from dovetail.errors import InvalidInput
from dovetail.importers.onnx_model import recorded_onnx
from tests.capture import onnx_files
from tests.capture.onnx_files import FLOAT, INT64, File
from tests.capture.onnx_recordings import (
    assert_well_formed,
    num_parameters,
    parameters,
    product_flop,
    recorded_file,
    words,
)

# --- models -------------------------------------------------------------------------------------------------------


def test_a_perceptron_is_two_linear_layers(tmp_path: Path):
    recorded = recorded_onnx(onnx_files.mlp(tmp_path / "mlp.onnx"), batch=8)
    assert_well_formed(recorded)
    assert [step.word for step in recorded.base.steps] == ["linear", "relu", "linear"]
    assert [step.attribute("turned", False) for step in recorded.base.steps] == [True, False, False]
    assert num_parameters(recorded.base) == 64 * 128 + 128 + 128 * 10 + 10
    assert (recorded.batch, recorded.second_batch, recorded.seq, recorded.second_seq) == (8, 9, 1, 1)
    assert recorded.other_seq is recorded.base
    assert product_flop(recorded.base) == 2 * 8 * (64 * 128 + 128 * 10)
    assert recorded.tool.startswith("onnx ")


def test_a_block_written_out_keeps_its_biases_with_its_products(tmp_path: Path):
    recorded = recorded_onnx(onnx_files.transformer_block(tmp_path / "block.onnx"), batch=2, seq=16)
    assert_well_formed(recorded)
    found = words(recorded.base)
    assert (found["linear"], found["matmul"], found["softmax"]) == (6, 2, 1)
    assert all(len(step.inputs) == 3 for step in recorded.base.steps if step.word == "linear")
    assert num_parameters(recorded.base) == 12 * 64**2 + 9 * 64 + 4 * 64
    assert product_flop(recorded.base) == 2 * 2 * 16 * (12 * 64**2 + 2 * 16 * 64)
    assert product_flop(recorded.other_batch) * 2 == product_flop(recorded.base) * 3


def test_a_decoder_has_the_parameters_and_products_of_its_formula(tmp_path: Path):
    layers, width, vocab, positions, seq = 4, 64, 100, 32, 32
    recorded = recorded_onnx(onnx_files.gpt(tmp_path / "gpt.onnx"), batch=2, seq=seq)
    assert_well_formed(recorded)
    of_layers = layers * (12 * width**2 + 13 * width)
    assert num_parameters(recorded.base) == vocab * width + positions * width + of_layers + 2 * width
    per_token = 2 * (layers * 12 * width**2 + vocab * width) + 4 * layers * seq * width
    assert product_flop(recorded.base) == 2 * seq * per_token
    found = words(recorded.base)
    assert found["embedding"] == 2
    assert found["triangle"] == 1  # the mask of causal attention is still to be seen
    assert (recorded.seq, recorded.second_seq) == (32, 16)


def test_the_table_of_words_and_the_head_on_it_are_one_parameter(tmp_path: Path):
    recorded = recorded_onnx(onnx_files.gpt(tmp_path / "gpt.onnx", layers=1), seq=8)
    assert list(parameters(recorded.base)).count("wte") == 1


def test_convolutions_leave_running_statistics_out(tmp_path: Path):
    recorded = recorded_onnx(onnx_files.convolutions(tmp_path / "cnn.onnx"), batch=4)
    assert_well_formed(recorded)
    found = words(recorded.base)
    assert (found["convolution"], found["batchnorm"], found["maxpool"], found["avgpool"]) == (4, 4, 1, 1)
    weights = 16 * 3 * 49 + 32 * 16 * 9 + 32 * 32 * 9 + 32 * 16 + 2 * (16 + 3 * 32) + 32 * 10 + 10
    assert num_parameters(recorded.base) == weights
    stem = recorded.base.steps[0]
    assert stem.attribute("stride", ()) == (2, 2)
    assert stem.attribute("padding", ()) == (3, 3)


@pytest.mark.parametrize("directions", [1, 2])
def test_an_lstm_has_the_weights_of_each_direction_apart(tmp_path: Path, directions):
    recorded = recorded_onnx(onnx_files.recurrent(tmp_path / "lstm.onnx", directions), batch=2, seq=6)
    assert_well_formed(recorded)
    [step] = [step for step in recorded.base.steps if step.word == "lstm"]
    shapes = [recorded.base.tensors[number].shape for number in step.inputs]
    assert shapes == [(6, 2, 24), *[(64, 24), (64, 16)] * directions, *[(64,)] * (2 * directions)]
    assert dict(step.attributes) == {"batch_first": False, "directions": directions, "hidden": 16, "layers": 1}
    assert num_parameters(recorded.base) == directions * (64 * 24 + 64 * 16 + 128)


# --- frozen sizes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 3, 4])
def test_a_frozen_batch_is_replaced_in_the_constants_that_hold_it(tmp_path: Path, batch):
    file = File()
    x = file.given("x", [batch, 6, 32])
    apart = file.add("Transpose", file.add("Reshape", x, file.numbers(batch, 6, 4, 8)), perm=[0, 2, 1, 3])
    flat = file.add("Reshape", apart, file.numbers(batch * 4, 6, 8))
    joined = file.add("Reshape", file.add("MatMul", flat, file.weight("w", 8, 8)), file.numbers(batch, -1, 32))
    recorded = recorded_onnx(file.save(tmp_path / "frozen.onnx", joined), batch=7)
    assert_well_formed(recorded)
    shapes = [recorded.base.tensors[step.outputs[0]].shape for step in recorded.base.steps]
    assert shapes == [(7, 6, 4, 8), (7, 4, 6, 8), (28, 6, 8), (28, 6, 8), (7, 6, 32)]


def test_a_frozen_file_that_cannot_run_at_another_batch_says_so(tmp_path: Path):
    file = File()
    state = file.weight("state", 3, 8)
    made = file.add("Concat", file.given("x", [3, 8]), state, axis=1)
    with pytest.raises(InvalidInput, match=r"frozen at batch 3 and cannot run at batch 4.*dynamic axes"):
        recorded_onnx(file.save(tmp_path / "frozen.onnx", made))


def test_a_file_frozen_at_its_positions_is_recorded_at_those_alone(tmp_path: Path):
    file = File()
    looked_up = file.add("Gather", file.weight("table", 50, 8), file.given("ids", ["batch", 12], INT64))
    made = file.add("Add", looked_up, file.weight("places", 12, 8))
    recorded = recorded_onnx(file.save(tmp_path / "frozen.onnx", made))
    assert (recorded.seq, recorded.second_seq) == (12, 12)
    assert recorded.other_seq is recorded.base
    assert set(parameters(recorded.base)) == {"table", "places"}


def test_free_positions_must_be_said(tmp_path: Path):
    with pytest.raises(InvalidInput, match=r"leaves dim 1 of its input 'x' open \(seq\); set its size with seq"):
        recorded_onnx(onnx_files.transformer_block(tmp_path / "block.onnx"))


def test_positions_of_pictures_are_refused(tmp_path: Path):
    with pytest.raises(InvalidInput, match="leave seq=8 out"):
        recorded_onnx(onnx_files.convolutions(tmp_path / "cnn.onnx"), seq=8)


# --- what is trained ----------------------------------------------------------------------------------------------


def test_a_mask_added_before_a_softmax_is_a_constant_and_a_bias_is_not(tmp_path: Path):
    file = File()
    x = file.given("x", ["batch", 4, 8, 8])
    biased = file.add("Add", x, file.weight("bias", 8))
    scores = file.add("Softmax", file.add("Add", biased, file.weight("mask", 1, 1, 8, 8)), axis=-1)
    assert set(parameters(recorded_file(file, tmp_path / "f.onnx", scores).base)) == {"bias"}


def test_tables_of_rotations_are_constants_and_tables_of_words_are_not(tmp_path: Path):
    file = File()
    ids = file.given("ids", ["batch", "seq"], INT64)
    x = file.add("MatMul", file.add("Gather", file.weight("words", 50, 8), ids), file.weight("queries", 8, 8))
    cosines = file.add("Gather", file.weight("cosines", 64, 8), ids)
    made = file.add("Mul", x, cosines)
    assert set(parameters(recorded_file(file, tmp_path / "f.onnx", made, seq=8).base)) == {"words", "queries"}


def test_two_lookups_that_multiply_each_other_are_both_trained(tmp_path: Path):
    file = File()
    users = file.add("Gather", file.weight("users", 50, 8), file.given("user", ["batch"], INT64))
    items = file.add("Gather", file.weight("items", 60, 8), file.given("item", ["batch"], INT64))
    recorded = recorded_file(file, tmp_path / "f.onnx", file.add("Mul", users, items))
    assert set(parameters(recorded.base)) == {"users", "items"}


def test_frequencies_that_meet_no_activation_are_constants(tmp_path: Path):
    file = File()
    ids = file.given("ids", ["batch", "seq"], INT64)
    places = file.add("Unsqueeze", file.add("Cast", ids, to=FLOAT), file.numbers(2))
    angles = file.add("MatMul", places, file.weight("frequencies", 1, 8))
    x = file.add("MatMul", file.add("Gather", file.weight("words", 50, 8), ids), file.weight("queries", 8, 8))
    made = file.add("Mul", x, file.add("Cos", angles))
    assert set(parameters(recorded_file(file, tmp_path / "f.onnx", made, seq=8).base)) == {"words", "queries"}


def test_a_vector_that_two_norms_share_counts_once_for_each(tmp_path: Path):
    file = File()
    ones, zeros = file.weight("ones", 8), file.weight("zeros", 8)
    x = file.add("LayerNormalization", file.given("x", ["batch", 8]), ones, zeros)
    made = file.add("LayerNormalization", x, ones, zeros)
    recorded = recorded_file(file, tmp_path / "f.onnx", made)
    assert set(parameters(recorded.base)) == {"ones", "zeros", "ones#2", "zeros#2"}


def test_scales_and_class_tokens_are_trained_and_lone_numbers_are_not(tmp_path: Path):
    file = File()
    x = file.given("x", ["batch", 4, 8])
    batch = file.add("Shape", x, end=1)
    shape = file.add("Concat", batch, file.numbers(1, 8), axis=0)
    token = file.add("Expand", file.weight("token", 1, 1, 8), shape)
    joined = file.add("Concat", token, x, axis=1)
    made = file.add("Mul", file.add("Mul", joined, file.weight("gamma", 8)), file.weight("number", 1))
    assert set(parameters(recorded_file(file, tmp_path / "f.onnx", made).base)) == {"token", "gamma"}
