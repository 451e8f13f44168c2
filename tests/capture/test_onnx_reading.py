"""How operators of an ONNX file are read, and which are refused."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper

from dovetail.errors import InvalidInput, NotModelled
from dovetail.importers.onnx_model import recorded_onnx
from tests.capture import onnx_files
from tests.capture.onnx_files import FLOAT, File
from tests.capture.onnx_recordings import (
    num_parameters,
    parameters,
    product_flop,
    recorded_file,
    words,
)

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
    from dovetail.importers.onnx_steps import onnx_operators, onnx_shapes

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
    from dovetail.importers.onnx_steps import onnx_operators, onnx_shapes

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
    with pytest.raises(InvalidInput, match="keys"):
        recorded_onnx(file.save(tmp_path / "f.onnx", made), seq=4)


def test_a_compressed_file_is_named(tmp_path: Path):
    path = tmp_path / "model.onnx"
    path.write_bytes(gzip.compress(onnx_files.mlp(tmp_path / "mlp.onnx").read_bytes()))
    with pytest.raises(InvalidInput, match="is a gzip archive, not an ONNX file; unpack it first"):
        recorded_onnx(path)
