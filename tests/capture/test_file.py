"""Model files: what is written is read back, and what anybody else wrote is read or refused in one line."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dovetail as dv
from dovetail.errors import DovetailError, InvalidInput
from dovetail.files.captured import captured_model, captured_text, read_captured, write_captured
from dovetail.files.job import load_spec
from dovetail.files.job_text import workload_entries
from dovetail.files.model import load_model
from dovetail.files.uploaded import uploaded_model
from dovetail.workload.graph import Axis
from dovetail.workload.layers import Sample
from dovetail.workload.model import Model
from dovetail.workload.recorded.captured import NO_SIDE, BlockOperator, Captured, Limit, Stretch
from dovetail.workload.recorded.sizes import Size
from dovetail.workload.workload import Workload
from tests.torch_models import BUILDS

ROWS = (Size(1, 1, 1), int(Axis.DATA | Axis.CONTEXT))
WIDTH, INNER = 64, 256


def product(place: int, inner: int, cols: int, axes: tuple[int, int]) -> BlockOperator:
    sides = (NO_SIDE, ROWS, (Size(cols), axes[1]), (Size(inner), axes[0]), NO_SIDE)
    return BlockOperator(kind="linear", name=f"w{place}", inputs=(place,), extents=sides, weight=inner * cols)


TOY = Captured(
    name="toy",
    tool="torch 0.0",
    stretches=(
        Stretch(
            name="layers",
            parts=(
                product(0, WIDTH, INNER, (0, int(Axis.TENSOR))),
                BlockOperator(
                    kind="vector",
                    name="gelu",
                    inputs=(1,),
                    operator="gelu",
                    extents=(NO_SIDE, ROWS, (Size(INNER), int(Axis.TENSOR)), NO_SIDE, NO_SIDE),
                ),
                product(2, INNER, WIDTH, (int(Axis.TENSOR), 0)),
            ),
            input_rows=ROWS,
            input_cols=(Size(WIDTH), 0),
            carried=Size(WIDTH, 1, 1),
            repeat=3,
        ),
    ),
    limits=(Limit(axis=int(Axis.TENSOR), label="width", size=Size(INNER)),),
    num_kv_heads=1,
    batch=2,
    seq=128,
    is_any_length=True,
    num_steps=9,
    notes=("a note",),
)
WHOLE: dict[str, Any] = json.loads(captured_text(TOY))


def refusal(tmp_path: Path, whole: Any) -> str:
    file = tmp_path / "model.json"
    file.write_text(json.dumps(whole), encoding="utf-8")
    with pytest.raises(DovetailError) as caught:
        load_model(str(file))
    line = str(caught.value)
    assert "\n" not in line
    return line.replace(str(tmp_path), "").replace("(/", "(")


def changed(path: str, value: Any) -> Any:
    """The text of a good file with `value` at a dotted path."""
    whole = copy.deepcopy(WHOLE)
    *before, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    inside: Any = whole
    for key in before:
        inside = inside[key]
    inside[last] = value
    return whole


def test_what_is_written_is_read_back(tmp_path):
    write_captured(TOY, tmp_path / "toy.json")
    assert read_captured(tmp_path / "toy.json") == TOY


@pytest.mark.parametrize("name", ["resnet-18", "gnmt", "dlrm", "vit-l-16"])
def test_what_was_captured_is_read_back(tmp_path, name):
    module, inputs = BUILDS[name]()
    found = dv.capture(module, inputs, name=name)
    found.save(tmp_path / "model.json")
    assert read_captured(tmp_path / "model.json") == found.captured


def test_what_is_as_by_default_is_left_out():
    [stretch] = WHOLE["captured"]["stretches"]
    assert "stride" not in stretch["parts"][0]
    assert "is_layer" not in stretch
    assert stretch["input_cols"] == [{"count": WIDTH}, 0]


def test_a_file_is_a_model_wherever_a_model_is_taken(tmp_path):
    write_captured(TOY, tmp_path / "toy.json")
    model = load_model(str(tmp_path / "toy.json"))
    assert model == captured_model(TOY)
    assert (model.name, model.seq, model.notes) == ("toy", 128, ("a note",))
    (tmp_path / "spec.yaml").write_text(
        "workload: {model: toy.json, global_batch: 64}\ncluster: h100x8\nplan: {dp: 4, tp: 2}\n"
    )
    job = load_spec(str(tmp_path / "spec.yaml"))
    assert job.workload.model == model
    assert job.plan.tensor_parallel == 2


def test_a_spec_that_is_written_holds_the_whole_model(tmp_path):
    """As `codesign --spec-file` writes it."""
    workload = Workload(model=captured_model(TOY), global_batch=64, seq=128)
    words = {"workload": workload_entries(workload), "cluster": "h100x8", "plan": {"dp": 8}}
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(words))
    assert load_spec(str(tmp_path / "spec.yaml")).workload == workload


def test_an_upload_is_read_as_a_file_is():
    assert uploaded_model(captured_text(TOY), "toy.json") == captured_model(TOY)


def test_its_graph_follows_batch_and_length():
    graph = captured_model(TOY).forward(Sample(batch=4, seq=256, dtype="bf16"))
    assert graph.num_parameters == TOY.num_parameters == 3 * 2 * WIDTH * INNER
    assert graph.blocks[0].repeat == 3
    assert set(graph.blocks[0].ops.extents[1:, 1]) == {4 * 256}


def test_a_length_that_shapes_do_not_follow_is_refused():
    fixed = captured_model(replace(TOY, is_any_length=False))
    with pytest.raises(InvalidInput, match="captured at seq=128"):
        fixed.forward(Sample(batch=4, seq=256, dtype="bf16"))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("format", "other", "the format of a model file is 'dovetail-captured-model' (model.json: format)"),
        ("version", 2, "this Dovetail reads version 1 of model files"),
        ("version", True, "this Dovetail reads version 1 of model files"),
        (
            "pickle",
            "x",
            "a model file has the keys format, version, dovetail, captured and no other (model.json: pickle)",
        ),
        ("captured", [], "must be a mapping; got a list of 0 (model.json: captured)"),
        ("captured", {}, "name is missing (model.json: captured)"),
        ("captured.nme", "x", "there is no key of this name here; did you mean name? (model.json: captured.nme)"),
        ("captured.name", 3, "must be text; got 3 (model.json: captured.name)"),
        ("captured.name", "", "a model has a name (model.json: captured.name)"),
        ("captured.name", "x" * 5000, "has at most 2,000 characters; got 5,000 (model.json: captured.name)"),
        ("captured.seq", 0, "must be from 1 to 1,000,000,000,000,000; got 0 (model.json: captured.seq)"),
        ("captured.seq", 1.5, "must be a whole number; got 1.5 (model.json: captured.seq)"),
        ("captured.seq", True, "must be a whole number; got true (model.json: captured.seq)"),
        ("captured.seq", 10**30, "must be within 9,223,372,036,854,775,807; got"),
        ("captured.is_any_length", 1, "must be true or false; got 1 (model.json: captured.is_any_length)"),
        ("captured.notes", "x", "must be a list; got 'x' (model.json: captured.notes)"),
        ("captured.stretches", [], "a model has a stretch at least (model.json: captured.stretches)"),
        (
            "captured.stretches.0.repeat",
            0,
            "must be from 1 to 10,000; got 0 (model.json: captured.stretches[0].repeat)",
        ),
        ("captured.stretches.0.carried", {"count": 1, "num_seq": 10**9}, "must be from -6 to 6; got 1,000,000,000"),
        ("captured.stretches.0.carried", {"count": 1, "per": 0}, "must be from 1 to"),
        ("captured.stretches.0.input_rows", [{"count": 1}], "must be a list of 2; got 1"),
        ("captured.stretches.0.parts.0.kind", "liner", "did you mean linear?"),
        ("captured.stretches.0.parts.1.operator", "gulu", "operator 'gulu' is not modelled; did you mean gelu?"),
        ("captured.stretches.0.parts.0.inputs", [1], "].inputs"),
        ("captured.stretches.0.parts.0.inputs", [-1], "].inputs"),
        ("captured.stretches.0.parts.0.inputs", [], "the file was changed or cut"),
        ("captured.stretches.0.parts.0.extents", [], "5 extents; got 0"),
        ("captured.stretches.0.parts.0.weight", -1, "must be from 0 to"),
        (
            "captured.limits.0.axis",
            3,
            "a limit is of one of the axes 2, 4, 8, 32, 64, 2048; got 3 (model.json: captured.limits[0].axis)",
        ),
        ("captured.limits.0.axis", 16, "a limit is of one of the axes "),
        ("captured.stretches.0.parts.0.extents.1", [{"count": 0}, 0], "must be from 1 to"),
        ("captured.limits.0.axis", 1 << 40, "there are no such axes"),
    ],
)
def test_a_part_that_is_wrong_is_refused_at_its_place(tmp_path, path, value, message):
    line = refusal(tmp_path, changed(path, value))
    assert message in line
    assert f"(model.json: {path.split('.')[0]}" in line


def test_a_file_that_is_cut_is_refused(tmp_path):
    text = captured_text(TOY)
    (tmp_path / "cut.json").write_text(text[: len(text) // 2], encoding="utf-8")
    with pytest.raises(InvalidInput, match="cannot read this as JSON"):
        load_model(str(tmp_path / "cut.json"))


def test_a_model_that_no_file_could_be_read_of_is_not_written():
    [stretch] = TOY.stretches
    many = tuple(replace(stretch.parts[0], name=f"w{place}", inputs=(place,)) for place in range(8000))
    with pytest.raises(InvalidInput, match=r"a model file holds at most 200,000 values; toy would have 2\d\d,\d\d\d"):
        captured_text(replace(TOY, stretches=(replace(stretch, parts=many),)))


def test_a_name_that_does_not_end_as_model_files_do_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"a model file ends in \.json; got 'toy.pt'"):
        write_captured(TOY, tmp_path / "toy.pt")


junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 70),
    st.sampled_from([2**31, 2**62, 2**63, 10**30, -(10**30)]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(["linear", "vector", "attention", "loss", "exchange", "gelu", "gather", "convolution"]),
    st.lists(st.integers(-1, 9), max_size=3),
    st.dictionaries(st.sampled_from(["count", "per", "num_batch", "is"]), st.integers(-1, 9), max_size=3),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            found += places(item, (*path, key))
    return found


def outcome(file: Path) -> Model | str:
    """What was read, or why not."""
    try:
        return load_model(str(file))
    except DovetailError as error:
        return str(error)


PLACES = places(WHOLE)
MANY = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@MANY
@given(st.lists(st.tuples(st.sampled_from(PLACES), junk), min_size=1, max_size=3), st.booleans())
def test_whatever_a_file_holds_it_is_read_or_refused_in_one_line(tmp_path, changes, is_dropped):
    whole = copy.deepcopy(WHOLE)
    for path, value in changes:
        inside: Any = whole
        try:
            for key in path[:-1]:
                inside = inside[key]
            if is_dropped:
                del inside[path[-1]]
            else:
                inside[path[-1]] = value
        except (KeyError, IndexError, TypeError):  # an earlier change took it away
            continue
    file = tmp_path / "any.json"
    file.write_text(json.dumps(whole), encoding="utf-8")
    model = outcome(file)
    if isinstance(model, str):
        assert "\n" not in model
        assert len(model) < 1000
        return
    graph = model.forward(Sample(batch=1, seq=model.seq, dtype="bf16"))
    assert all(np.isfinite(block.ops.flop).all() for block in graph.blocks)
