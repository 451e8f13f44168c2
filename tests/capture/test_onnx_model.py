"""ONNX files in neutral words: what is trained, what is folded, and the same steps at every size."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper

from dovetail.capture.onnx_model import recorded_onnx
from dovetail.errors import InvalidInput, NotModelled
from dovetail.workload.recorded.record import Recorded, Recording, Source
from dovetail.workload.recorded.words import DTYPES, WORDS
from tests.capture import onnx_files
from tests.capture.onnx_files import FLOAT, INT64, File


def words(recording: Recording) -> Counter[str]:
    return Counter(step.word for step in recording.steps)


def num_parameters(recording: Recording) -> int:
    return sum(tensor.num_elements for tensor in recording.tensors if tensor.source is Source.PARAMETER)


def parameters(recording: Recording) -> dict[str, tuple[int, ...]]:
    return {tensor.name: tensor.shape for tensor in recording.tensors if tensor.source is Source.PARAMETER}


def product_flop(recording: Recording) -> int:
    """Twice the multiplications of every product, from shapes alone."""
    total = 0
    for step in recording.steps:
        if step.word in ("linear", "matmul"):
            left, out = (recording.tensors[number].shape for number in (step.inputs[0], step.outputs[0]))
            total += 2 * prod(out) * left[-1]
        if step.word == "convolution":
            weight, out = (recording.tensors[number].shape for number in (step.inputs[1], step.outputs[0]))
            total += 2 * prod(out) * prod(weight[1:])
    return total


def assert_well_formed(recorded: Recorded) -> None:
    """What a reader may count on: the same steps at all sizes, words and dtypes that exist, values made before use."""
    base = recorded.base
    for other in (recorded.other_batch, recorded.other_seq):
        assert [(step.word, step.inputs, step.outputs) for step in other.steps] == [
            (step.word, step.inputs, step.outputs) for step in base.steps
        ]
        assert num_parameters(other) == num_parameters(base)
    made: set[int] = set()
    for step in base.steps:
        assert step.word in WORDS
        assert all(base.tensors[number].source is not Source.STEP or number in made for number in step.inputs), step
        assert not made & set(step.outputs)
        made.update(step.outputs)
    assert {tensor.dtype for tensor in base.tensors} <= set(DTYPES)
    for step in base.steps:
        if step.word == "view" and len(step.outputs) == 1 and step.op in ("Reshape", "Transpose", "Flatten"):
            before, after = (base.tensors[number].num_elements for number in (step.inputs[0], step.outputs[0]))
            assert before == after


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
    with pytest.raises(InvalidInput, match=r"leaves dim 1 of its input 'x' open \(seq\); say its size with seq"):
        recorded_onnx(onnx_files.transformer_block(tmp_path / "block.onnx"))


def test_positions_of_pictures_are_refused(tmp_path: Path):
    with pytest.raises(InvalidInput, match="leave seq=8 out"):
        recorded_onnx(onnx_files.convolutions(tmp_path / "cnn.onnx"), seq=8)


# --- what is trained ----------------------------------------------------------------------------------------------


def recorded_file(file: File, path: Path, *outputs: str, seq: int = 0) -> Recorded:
    recorded = recorded_onnx(file.save(path, *outputs), seq=seq)
    assert_well_formed(recorded)
    return recorded


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


# --- operators ----------------------------------------------------------------------------------------------------


def test_shape_chains_and_constants_leave_no_steps(tmp_path: Path):
    file = File()
    x = file.given("x", ["batch", 8])
    scale = file.add("Sqrt", file.add("Cast", file.add("Gather", file.add("Shape", x), file.numbers(1)), to=FLOAT))
    recorded = recorded_file(file, tmp_path / "f.onnx", file.add("Div", x, scale))
    assert [(step.word, len(step.inputs)) for step in recorded.base.steps] == [("div", 1)]


def test_what_no_output_needs_is_left_out(tmp_path: Path):
    file = File()
    x = file.given("x", ["batch", 8])
    file.add("Exp", x)
    assert words(recorded_file(file, tmp_path / "f.onnx", file.add("Relu", x)).base) == {"relu": 1}


@pytest.mark.parametrize(
    ("equation", "left", "right", "flop"),
    [
        ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5), 2 * 2 * 3 * 4 * 6 * 5),
        ("bqd,dhk->bqhk", (2, 4, 8), (8, 3, 5), 2 * 2 * 4 * 8 * 15),
    ],
)
def test_einsum_is_a_product_between_views(tmp_path: Path, equation, left, right, flop):
    file = File()
    made = file.add(
        "Einsum",
        file.given("x", ["batch", *left[1:]]),
        file.given("y", [right[0] if right[0] != 2 else "batch", *right[1:]]),
        equation=equation,
    )
    recorded = recorded_file(file, tmp_path / "f.onnx", made)
    assert words(recorded.base)["matmul"] == 1
    assert product_flop(recorded.base) == flop
    last = recorded.base.tensors[recorded.base.steps[-1].outputs[0]]
    assert last.num_elements * 2 * (left[-1] if equation[0:2] == "bh" else 8) == flop


def test_the_operators_of_onnx_runtime_are_read(tmp_path: Path):
    file = File(microsoft=True)
    x = file.given("x", ["batch", "seq", 32])
    packed = file.weight("qkv", 32, 96), file.weight("qkv.b", 96)
    mixed = file.add("Attention", x, *packed, domain="com.microsoft", num_heads=4, unidirectional=1)
    norm = (file.weight("scale", 32), file.weight("shift", 32))
    x = file.add("SkipLayerNormalization", x, mixed, *norm, domain="com.microsoft")
    hidden = file.add(
        "FastGelu", file.add("MatMul", x, file.weight("w", 32, 64)), file.weight("b", 64), domain="com.microsoft"
    )
    recorded = recorded_file(file, tmp_path / "f.onnx", hidden, seq=8)
    found = words(recorded.base)
    assert {word: found[word] for word in ("linear", "attention", "add", "layernorm", "gelu")} == {
        "linear": 2, "attention": 1, "add": 1, "layernorm": 1, "gelu": 1,
    }  # fmt: skip
    [attention] = [step for step in recorded.base.steps if step.word == "attention"]
    assert [recorded.base.tensors[number].shape for number in attention.inputs] == [(2, 4, 8, 8)] * 3
    assert attention.attribute("is_causal", False) is True
    assert num_parameters(recorded.base) == 32 * 96 + 96 + 64 + 32 * 64 + 64


def test_grouped_queries_are_rotated_and_attended(tmp_path: Path):
    file = File(microsoft=True)
    query, key, value = (file.given(name, ["batch", "seq", width]) for name, width in (("q", 32), ("k", 16), ("v", 16)))
    lengths, total = file.given("lengths", ["batch"], TensorProto.INT32), file.given("total", [], TensorProto.INT32)
    tables = file.weight("cos", 64, 4), file.weight("sin", 64, 4)
    made = file.add(
        "GroupQueryAttention", query, key, value, "", "", lengths, total, *tables, outputs=3,
        domain="com.microsoft", num_heads=4, kv_num_heads=2, do_rotary=1,
    )  # fmt: skip
    recorded = recorded_file(file, tmp_path / "f.onnx", made, seq=8)
    [attention] = [step for step in recorded.base.steps if step.word == "attention"]
    assert [recorded.base.tensors[number].shape for number in attention.inputs] == [
        (2, 4, 8, 8),
        (2, 2, 8, 8),
        (2, 2, 8, 8),
    ]
    assert words(recorded.base)["mul"] == 4
    assert num_parameters(recorded.base) == 0


def test_a_local_response_is_squares_a_window_a_power_and_a_quotient(tmp_path: Path):
    file = File()
    made = file.add("LRN", file.given("x", ["batch", 8, 6, 6]), size=5)
    recorded = recorded_file(file, tmp_path / "f.onnx", made)
    assert [step.word for step in recorded.base.steps] == ["pow", "avgpool", "pow", "div"]


@pytest.mark.parametrize("rank", [3, 4])
def test_attention_of_onnx_itself_is_read(tmp_path: Path, rank):
    file = File(opset=23)
    dims: list[int | str] = ["batch", "seq", 32] if rank == 3 else ["batch", 4, 8, 8]
    attributes: dict[str, Any] = {"q_num_heads": 4, "kv_num_heads": 4} if rank == 3 else {}
    made = file.add("Attention", *(file.given(name, dims) for name in "qkv"), is_causal=1, **attributes)
    recorded = recorded_file(file, tmp_path / "f.onnx", made, seq=8 if rank == 3 else 0)
    [attention] = [step for step in recorded.base.steps if step.word == "attention"]
    assert [recorded.base.tensors[number].shape for number in attention.inputs] == [(2, 4, 8, 8)] * 3


def test_a_weight_that_is_turned_on_the_way_is_read_as_it_is_stored(tmp_path: Path):
    """As exporters write linear layers where they fold no constants."""
    file = File()
    turned = file.add("Transpose", file.weight("w", 16, 8), perm=[1, 0])
    x = file.add("MatMul", file.given("x", ["batch", 8]), turned)
    made = file.add("Add", x, file.weight("b", 16))
    [step] = recorded_file(file, tmp_path / "f.onnx", made).base.steps
    assert (step.word, len(step.inputs), step.attribute("turned", False)) == ("linear", 3, True)


def test_a_turned_weight_that_no_product_reads_is_seen_turned(tmp_path: Path):
    file = File()
    turned = file.add("Transpose", file.weight("w", 16, 8), perm=[1, 0])
    recorded = recorded_file(file, tmp_path / "f.onnx", file.add("Add", file.given("x", ["batch", 8, 16]), turned))
    assert [step.word for step in recorded.base.steps] == ["view", "add"]
    assert parameters(recorded.base) == {"w": (16, 8)}


@pytest.mark.parametrize(("ratio", "word"), [(0.0, "view"), (0.1, "dropout")])
def test_dropout_of_nothing_is_none(tmp_path: Path, ratio, word):
    file = File()
    made = file.add("Dropout", file.given("x", ["batch", 8]), file.number(ratio))
    assert [step.word for step in recorded_file(file, tmp_path / "f.onnx", made).base.steps] == [word]


def test_bfloat16_is_read_where_the_opset_has_no_such_operator(tmp_path: Path):
    file = File(opset=17)
    weight = helper.make_tensor("w", TensorProto.BFLOAT16, [4, 3, 3, 3], bytes(2 * 4 * 3 * 9), raw=True)
    file.weights.append(weight)
    made = file.add("Conv", file.given("x", ["batch", 3, 8, 8], TensorProto.BFLOAT16), "w")
    recorded = recorded_file(file, tmp_path / "f.onnx", made)
    assert {tensor.dtype for tensor in recorded.base.tensors} == {"bf16"}


# --- what is not modelled -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["NonZero", "Det", "GRU", "MyOwn"])
def test_an_operator_nobody_mapped_is_named_with_the_way_to_add_it(tmp_path: Path, op):
    file = File()
    made = file.add(op, file.given("x", ["batch", 4, 4]))
    with pytest.raises(
        NotModelled, match=rf"node '{op}_1' \({op}\) on \[2, 4, 4\] .*@onnx_operators.register\(\"{op}\"\)"
    ):
        recorded_onnx(file.save(tmp_path / "f.onnx", made))


def test_quantised_and_branching_graphs_say_what_they_are(tmp_path: Path):
    file = File()
    scale = file.weight("scale", 1)
    made = file.add("DequantizeLinear", file.given("x", ["batch", 4], TensorProto.INT8), scale)
    with pytest.raises(NotModelled, match="it is quantised, for inference"):
        recorded_onnx(file.save(tmp_path / "f.onnx", made))


def test_a_plugin_adds_an_operator(tmp_path: Path, monkeypatch):
    from dovetail.capture.onnx_steps import onnx_operators, onnx_shapes

    file = File()
    file.opsets.append(helper.make_opsetid("my.domain", 1))
    made = file.add("Scale", file.given("x", ["batch", 8]), domain="my.domain")
    path = file.save(tmp_path / "f.onnx", made)
    with pytest.raises(NotModelled, match=r"my\.domain\.Scale"):
        recorded_onnx(path)
    monkeypatch.setattr(onnx_operators, "_entries", dict(onnx_operators._entries))
    monkeypatch.setattr(onnx_shapes, "_entries", dict(onnx_shapes._entries))
    onnx_shapes.register("my.domain.Scale")(lambda call: [(call[0].shape, call[0].elem_type)])
    onnx_operators.register("my.domain.Scale")(lambda call, steps: steps.write("mul", call.inputs, call.outputs))
    assert [step.word for step in recorded_onnx(path).base.steps] == ["mul"]


@pytest.mark.parametrize(
    ("shapes", "word", "message"),
    [
        (lambda _: 3, "mul", "must give a list of (shape, type of elements), one for each output; got 3"),
        (lambda call: [(call[0].shape, 1)], "mull", "no step is called 'mull'; did you mean mul"),
        (lambda _: [((-1, 8), 1)], "mul", "sizes must not be negative"),
    ],
)
def test_a_plugin_that_gives_something_else_is_told(tmp_path: Path, monkeypatch, shapes, word, message):
    from dovetail.capture.onnx_steps import onnx_operators, onnx_shapes

    file = File()
    file.opsets.append(helper.make_opsetid("my.domain", 1))
    path = file.save(tmp_path / "f.onnx", file.add("Scale", file.given("x", ["batch", 8]), domain="my.domain"))
    for registry in (onnx_operators, onnx_shapes):
        assert "my.domain.Scale" not in registry
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    onnx_shapes.register("my.domain.Scale")(shapes)
    onnx_operators.register("my.domain.Scale")(lambda call, steps: steps.write(word, call.inputs, call.outputs))
    with pytest.raises(InvalidInput, match=re.escape(message)):
        recorded_onnx(path)


def test_double_precision_and_caches_are_refused(tmp_path: Path):
    file = File()
    made = file.add("Relu", file.given("x", ["batch", 8], TensorProto.DOUBLE))
    with pytest.raises(NotModelled, match="double"):
        recorded_onnx(file.save(tmp_path / "f.onnx", made))
    file = File()
    made = file.add("Relu", file.given("keys", ["batch", 4, "past_sequence_length", 8]))
    with pytest.raises(InvalidInput, match="holds earlier positions"):
        recorded_onnx(file.save(tmp_path / "f.onnx", made), seq=4)


def test_a_compressed_file_is_named(tmp_path: Path):
    path = tmp_path / "model.onnx"
    path.write_bytes(gzip.compress(onnx_files.mlp(tmp_path / "mlp.onnx").read_bytes()))
    with pytest.raises(InvalidInput, match="is a gzip archive, not an ONNX file; unpack it first"):
        recorded_onnx(path)
