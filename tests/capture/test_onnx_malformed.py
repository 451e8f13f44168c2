"""Files that are no model, or a broken one: one clear line each, in bounded time and memory."""

from __future__ import annotations

import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("onnx")

from onnx import ModelProto, TensorProto, helper, load, save_model

from dovetail.errors import DovetailError, InvalidInput, NotModelled
from dovetail.importers.onnx_file import MAX_NODES
from dovetail.importers.onnx_model import recorded_onnx
from dovetail.importers.onnx_slim import KEPT_BYTES, slim
from dovetail.importers.onnx_steps import onnx_operators
from tests.capture import onnx_files
from tests.capture.onnx_files import FLOAT, INT64, File

NUM_MUTANTS = 150
NUM_NODES = 20_000  # of which a reader that looks at all of them for each would take minutes


def refused(path: Path, **sizes: int) -> str:
    """The one line that refuses a file."""
    with pytest.raises(DovetailError) as caught:
        recorded_onnx(path, **sizes)
    line = str(caught.value)
    assert "\n" not in line
    assert len(line) < 1000
    return line


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"not a model at all", "is no ONNX file, or was cut off"),
        (b"\x08\x07", "holds no graph"),
        (b"\xff" * 64, "is no ONNX file, or was cut off"),
        (b"\x1f\x8b\x08\x00", "is a gzip archive"),
        (b"PK\x03\x04", "is a zip archive"),
        (b'{"model": 1}', "is no ONNX file, or was cut off"),
    ],
)
def test_what_is_no_onnx_file_is_refused(tmp_path: Path, content, message):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    assert message in refused(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path):
    assert "cannot read" in refused(tmp_path / "none.onnx")
    assert "cannot read" in refused(tmp_path)


def test_a_zip_named_onnx_is_refused(tmp_path: Path):
    path = tmp_path / "model.onnx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("inner.onnx", "x")
    assert "is a zip archive, not an ONNX file; unpack it first" in refused(path)


@pytest.mark.parametrize("kept_frac", [0.1, 0.5, 0.9, 0.99])
def test_a_file_cut_off_is_refused(tmp_path: Path, kept_frac):
    whole = onnx_files.gpt(tmp_path / "whole.onnx", layers=1).read_bytes()
    path = tmp_path / "cut.onnx"
    path.write_bytes(whole[: int(len(whole) * kept_frac)])
    refused(path, seq=8)


def _cyclic(file: File) -> str:
    x = file.given("x", ["batch", 4])
    file.nodes += [helper.make_node("Add", [x, "b"], ["a"], name="first"), helper.make_node("Relu", ["a"], ["b"])]
    return "b"


def _missing_weight(file: File) -> str:
    return file.add("MatMul", file.given("x", ["batch", 4]), "nowhere")


def _wrong_shapes(file: File) -> str:
    return file.add("MatMul", file.given("x", ["batch", 4]), file.weight("w", 5, 3))


def _huge(file: File) -> str:
    x = file.given("x", ["batch", 2**40, 2**40])
    return file.add("Relu", x)


def _negative(file: File) -> str:
    return file.add("Relu", file.given("x", [-3, 4]))


def _no_shape(file: File) -> str:
    file.inputs.append(helper.make_tensor_value_info("x", FLOAT, None))
    return file.add("Relu", "x")


def _twice(file: File) -> str:
    x = file.given("x", ["batch", 4])
    file.nodes += [helper.make_node("Relu", [x], ["a"]), helper.make_node("Exp", [x], ["a"])]
    return "a"


def _sequence(file: File) -> str:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, [2]))
    file.inputs.append(helper.make_value_info("x", kind))
    return file.add("SequenceAt", "x", file.numbers(0))


def _by_values(file: File) -> str:
    return file.add("Reshape", file.given("x", ["batch", 4]), file.given("shape", [2], INT64))


def _strings(file: File) -> str:
    return file.add("Identity", file.given("x", ["batch"], TensorProto.STRING))


def _short_weight(file: File) -> str:
    weight = helper.make_tensor("w", FLOAT, [4, 4], bytes(64), raw=True)
    weight.raw_data = bytes(20)
    file.weights.append(weight)
    return file.add("MatMul", file.given("x", ["batch", 4]), "w")


def _bad_attribute(file: File) -> str:
    return file.add("Conv", file.given("x", ["batch", 3, 8, 8]), file.weight("w", 4, 3, 3, 3), strides=[0, 0])


def _too_few_inputs(file: File) -> str:
    return file.add("Gemm", file.given("x", ["batch", 4]))


def _bad_axis(file: File) -> str:
    return file.add("Softmax", file.given("x", ["batch", 4]), axis=7)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (_cyclic, "runs in a circle through node 'first' (Add)"),
        (_missing_weight, "reads 'nowhere', which is no input, weight or output of a node"),
        (_wrong_shapes, "(MatMul) cannot run on [2, 4], [5, 3]"),
        (_huge, "more than 2^53 elements"),
        (_negative, "dim 0 of the input 'x' must be at least 1; got -3"),
        (_no_shape, "the input 'x' has no shape"),
        (_twice, "two things are named 'a'"),
        (_sequence, "is a sequence type; only tensors are modelled"),
        (_by_values, "depends on values that only a run would tell"),
        (_strings, "string"),
        (_short_weight, "holds numbers that do not fill it"),
        (_bad_attribute, "(Conv)"),
        (_too_few_inputs, "(Gemm)"),
        (_bad_axis, "(Softmax)"),
    ],
)
def test_a_broken_graph_is_refused_in_one_line(tmp_path: Path, build: Callable[[File], str], message):
    file = File()
    assert message in refused(file.save(tmp_path / "broken.onnx", build(file)))


def _lstm_of_many_directions(file: File) -> str:
    file.weights.append(TensorProto(name="w", data_type=FLOAT, dims=[2**33, 64, 24]))
    return file.add("LSTM", file.given("x", [5, "batch", 24]), "w", file.weight("r", 1, 64, 16), hidden_size=16)


def _wrong_groups(file: File) -> str:
    return file.add("Conv", file.given("x", ["batch", 6, 8, 8]), file.weight("w", 4, 6, 3, 3), group=2)


def _no_heads(file: File) -> str:
    file.opsets.append(helper.make_opsetid("com.microsoft", 1))
    packed = file.weight("w", 32, 96)
    return file.add("Attention", file.given("x", ["batch", 8, 32]), packed, domain="com.microsoft")


def _heads_that_do_not_divide(file: File) -> str:
    file.opsets.append(helper.make_opsetid("com.microsoft", 1))
    packed = file.weight("w", 32, 96)
    return file.add("Attention", file.given("x", ["batch", 8, 32]), packed, domain="com.microsoft", num_heads=5)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (_lstm_of_many_directions, "(LSTM): its input 1 must be [1, 64, 24]; got [8589934592, 64, 24]"),
        (_wrong_groups, "in 2 groups: the channels do not fit"),
        (_no_heads, "num_heads must be at least 1; got 0"),
        (_heads_that_do_not_divide, "divides [2, 8, 32] by 5 heads, which does not go"),
    ],
)
def test_what_onnx_does_not_check_is_checked_here(tmp_path: Path, build: Callable[[File], str], message):
    file = File()
    assert message in refused(file.save(tmp_path / "broken.onnx", build(file)))


@pytest.mark.parametrize(
    ("opset", "message"),
    [(99, "is of opset 99, and the installed onnx knows up to"), (9, "is of opset 9, and 11 is the oldest")],
)
def test_opsets_that_are_not_known_are_refused(tmp_path: Path, opset, message):
    file = File(opset)
    assert message in refused(file.save(tmp_path / "f.onnx", file.add("Relu", file.given("x", ["batch", 4]))))


def test_a_function_that_calls_itself_is_refused_and_one_that_does_not_is_written_out(tmp_path: Path):
    for inner, word in (("Twice", ""), ("Relu", "relu")):
        file = File()
        file.opsets.append(helper.make_opsetid("own", 1))
        model = file.model(file.add("Twice", file.given("x", ["batch", 4]), domain="own"))
        domain = "own" if inner == "Twice" else ""
        body = [helper.make_node(inner, ["a"], ["b"], domain=domain), helper.make_node("Relu", ["b"], ["c"])]
        model.functions.append(helper.make_function("own", "Twice", ["a"], ["c"], body, list(model.opset_import)))
        save_model(model, str(tmp_path / "f.onnx"))
        if word:
            assert [step.word for step in recorded_onnx(tmp_path / "f.onnx").base.steps] == [word, word]
        else:
            assert "the function Twice calls itself" in refused(tmp_path / "f.onnx")


def test_functions_that_double_forty_times_are_refused_before_they_are_written_out(tmp_path: Path):
    file = File()
    file.opsets.append(helper.make_opsetid("own", 1))
    model = file.model(file.add("F0", file.given("x", ["batch", 4]), domain="own"))
    for level in range(40):
        inner, domain = (f"F{level + 1}", "own") if level < 39 else ("Relu", "")
        body = [
            helper.make_node(inner, ["a"], ["b"], domain=domain),
            helper.make_node(inner, ["b"], ["c"], domain=domain),
        ]
        model.functions.append(helper.make_function("own", f"F{level}", ["a"], ["c"], body, list(model.opset_import)))
    save_model(model, str(tmp_path / "f.onnx"))
    assert f"at most {MAX_NODES:,}" in refused(tmp_path / "f.onnx")


def test_weights_that_lie_elsewhere_need_not_be_there(tmp_path: Path):
    model = load(str(onnx_files.gpt(tmp_path / "whole.onnx", layers=1)))
    expected = recorded_onnx(tmp_path / "whole.onnx", seq=8)
    save_model(model, str(tmp_path / "apart.onnx"), save_as_external_data=True, location="data.bin", size_threshold=64)
    assert recorded_onnx(tmp_path / "apart.onnx", seq=8) == expected
    (tmp_path / "data.bin").unlink()
    assert recorded_onnx(tmp_path / "apart.onnx", seq=8) == expected


def test_large_weights_are_left_out_and_all_else_is_kept(tmp_path: Path):
    file = File()
    made = file.add("MatMul", file.given("x", ["batch", 512]), file.weight("w", 512, 512))
    whole = file.save(tmp_path / "f.onnx", made).read_bytes()
    smaller, starts = slim(memoryview(whole))
    assert whole[starts["w"] : starts["w"] + 512 * 512 * 4] == bytes(512 * 512 * 4)
    assert len(whole) > 512 * 512 * 4 > KEPT_BYTES > len(smaller)
    (tmp_path / "slim.onnx").write_bytes(smaller)
    assert recorded_onnx(tmp_path / "slim.onnx") == recorded_onnx(tmp_path / "f.onnx")


@pytest.mark.slow
def test_a_long_line_of_nodes_is_read(tmp_path: Path):
    file = File()
    x = file.given("x", ["batch", 4])
    for _ in range(NUM_NODES):
        x = file.add("Relu", x)
    assert len(recorded_onnx(file.save(tmp_path / "f.onnx", x)).base.steps) == NUM_NODES


def test_mutants_of_a_model_are_read_or_refused_in_one_line(tmp_path: Path):
    """Bytes flipped, cut out and put twice, anywhere: never another error than ours."""
    rng = random.Random(9)
    sources = [
        (onnx_files.gpt(tmp_path / "a.onnx", layers=1, width=8, heads=2, vocab=11, positions=8).read_bytes(), 8),
        (onnx_files.convolutions(tmp_path / "b.onnx").read_bytes(), 0),
    ]
    path = tmp_path / "mutant.onnx"
    lines: list[str] = []
    for _ in range(NUM_MUTANTS):
        content, seq = rng.choice(sources)
        data = bytearray(content)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(data))
            choice = rng.randrange(3)
            if choice == 0:
                data[at] = rng.randrange(256)
            elif choice == 1:
                del data[at : at + rng.randint(1, 16)]
            else:
                data[at:at] = data[at : at + rng.randint(1, 16)]
        path.write_bytes(data)
        try:
            recorded_onnx(path, seq=seq)
        except (InvalidInput, NotModelled) as error:
            lines.append(str(error))
    assert NUM_MUTANTS > len(lines) > 0
    assert not [line for line in lines if "\n" in line]


def _rewired(model: ModelProto, rng: random.Random) -> None:
    """One thing of a graph changed for another that a file may hold."""
    node, weight = rng.choice(model.graph.node), rng.choice(model.graph.initializer)
    sizes = [0, 1, 2, 5, 64, 2**33, -1]
    choice = rng.randrange(5)
    if choice == 0:
        node.domain, _, node.op_type = rng.choice(onnx_operators.names()).rpartition(".")
    elif choice == 1 and node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice(
            [name for other in model.graph.node for name in other.input]
        )
    elif choice == 2 and weight.dims:
        weight.dims[rng.randrange(len(weight.dims))] = rng.choice(sizes)
    elif choice == 3 and node.input:
        del node.input[rng.randrange(len(node.input)) :]
    else:
        name = rng.choice(("axis", "axes", "group", "perm", "hidden_size", "num_heads", "strides", "pads", "to"))
        node.attribute.append(helper.make_attribute(name, rng.choice([*sizes, [0, 1], [1, 1], [-1]])))


def test_rewired_models_are_read_or_refused_in_one_line(tmp_path: Path):
    rng = random.Random(10)
    sources = [
        (load(str(onnx_files.gpt(tmp_path / "a.onnx", layers=1, width=8, heads=2, vocab=11, positions=8))), 8),
        (load(str(onnx_files.convolutions(tmp_path / "b.onnx"))), 0),
        (load(str(onnx_files.recurrent(tmp_path / "c.onnx", directions=2))), 6),
    ]
    lines: list[str] = []
    for _ in range(NUM_MUTANTS):
        source, seq = rng.choice(sources)
        model = ModelProto()
        model.CopyFrom(source)
        _rewired(model, rng)
        (tmp_path / "mutant.onnx").write_bytes(model.SerializeToString())
        try:
            recorded_onnx(tmp_path / "mutant.onnx", seq=seq)
        except (InvalidInput, NotModelled) as error:
            lines.append(str(error))
    assert NUM_MUTANTS > len(lines) > 0
    assert not [line for line in lines if "\n" in line]
