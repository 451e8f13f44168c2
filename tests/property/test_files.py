"""Whatever a spec holds, reading it gives a job or one line; never a traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dovetail.errors import DovetailError
from dovetail.files.chip import load_chip
from dovetail.files.entry import opened
from dovetail.files.inline_plan import SHORT_NAMES
from dovetail.files.job import load_spec
from dovetail.files.model import load_model
from dovetail.files.schema import built, checked, shape_of, written_keys
from dovetail.hardware.chip import Chip
from dovetail.parallel.plan import Plan
from dovetail.parallel.recipes import plans
from dovetail.workload.transformer import Transformer

pytestmark = pytest.mark.filterwarnings("error")
MANY = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

words = st.sampled_from(
    ["llama3-8b", "mixtral-8x7b", "resnet-50", "dgx-h100", "ace-torus", "h100-sxm", "ddp", "zero3", "tensor-8",
     "switch", "selective", "bf16", "adam", "80 GiB", "1 TB/s", "1 us", "2 GHz", "nan GB", "-1 GB", "spec.yaml", "./",
     ".", "", "\0"]
)  # fmt: skip
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 100),
    st.sampled_from([2**31, 2**63, 10**30, -(10**30)]),
    st.floats(),
    st.text(max_size=8),
    words,
)
keys = st.one_of(
    st.sampled_from(
        ["workload", "cluster", "plan", "name", "model", "seq", "global_batch", "precision", "devices", "chip",
         "topology", "base", "hbm", "tensor", "rates", "kind", "bandwidth", "latency", "experts", "overlap",
         "calibration", *written_keys(Plan), *SHORT_NAMES, *written_keys(Transformer)]
    ),
    st.text(max_size=5),
)  # fmt: skip
trees = st.recursive(
    scalars, lambda below: st.lists(below, max_size=3) | st.dictionaries(keys, below, max_size=6), max_leaves=12
)
wholes = st.one_of(st.integers(0, 130), st.sampled_from([0, 1, 2, 4, 8, 10**9]))


def outcome(load: Callable[[str], Any], file: Path) -> Any:
    """What was read, or the error; an error is one short line."""
    try:
        return load(str(file))
    except DovetailError as error:
        line = str(error)
    assert line.isprintable(), repr(line)
    assert len(line) < 2000
    return line


def written(tmp_path: Path, value: Any) -> Path:
    file = tmp_path / "spec.yaml"
    file.write_text(yaml.safe_dump(value, allow_unicode=True), encoding="utf-8", errors="replace")
    return file


@MANY
@given(st.binary(max_size=200))
@example(b"\xff\xfe\x00")
def test_any_bytes_are_read_or_refused(tmp_path, data):
    for name in ("spec.yaml", "spec.json"):
        (tmp_path / name).write_bytes(data)
        outcome(load_spec, tmp_path / name)


@MANY
@given(st.text(alphabet=st.sampled_from("ab:{}[]&*!|>-?%@\"'\n\t #,<0.~\\"), max_size=60))
def test_any_text_is_read_or_refused(tmp_path, text):
    for name in ("spec.yaml", "spec.json"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        outcome(load_spec, tmp_path / name)


@MANY
@given(trees)
def test_any_tree_is_read_or_refused(tmp_path, tree):
    outcome(load_spec, written(tmp_path, tree))


@MANY
@given(st.fixed_dictionaries({"workload": trees, "cluster": trees, "plan": trees}))
def test_any_sections_are_read_or_refused(tmp_path, spec):
    outcome(load_spec, written(tmp_path, spec))


@MANY
@given(
    st.sampled_from(["llama3-8b", "mixtral-8x7b", "resnet-50", "dlrm", "t5-large"]),
    st.dictionaries(st.sampled_from([*written_keys(Plan), *SHORT_NAMES, "base"]), scalars | wholes | trees, max_size=5),
)
def test_any_plan_is_read_or_refused(tmp_path, model, plan):
    outcome(
        load_spec, written(tmp_path, {"workload": model, "cluster": {"name": "dgx-h100", "devices": 64}, "plan": plan})
    )


@MANY
@given(
    st.dictionaries(st.sampled_from(sorted(written_keys(Transformer))), wholes | scalars, max_size=5),
    st.none() | st.fixed_dictionaries({"num_experts": wholes, "num_experts_per_token": wholes, "width": wholes}),
    st.none()
    | st.fixed_dictionaries(
        dict.fromkeys(("query_rank", "kv_rank", "nope_width", "rotary_width", "value_width"), wholes)
    ),
)
def test_any_model_is_read_or_refused(tmp_path, fields, experts, latent):
    more = {key: part for key, part in (("experts", experts), ("latent", latent)) if part is not None}
    model = {"base": "llama3-8b"} | fields | more
    outcome(load_spec, written(tmp_path, {"workload": {"model": model}, "cluster": "dgx-h100", "plan": "zero3"}))


@MANY
@given(trees | st.dictionaries(st.sampled_from(sorted(written_keys(Chip))), trees, max_size=4))
def test_any_chip_is_read_or_refused(tmp_path, tree):
    text = {"base": "h100-sxm"} | tree if isinstance(tree, dict) else tree
    outcome(load_chip, written(tmp_path, text))


@MANY
@given(st.dictionaries(st.sampled_from(["model_type", "hidden_size", "num_hidden_layers"]) | keys, trees, max_size=5))
def test_any_configuration_is_read_or_refused(tmp_path, config):
    outcome(load_model, written(tmp_path, {"model_type": "llama"} | config))


def plain_plan(plan: Plan) -> dict[str, Any]:
    fields = {name: getattr(plan, name) for name in written_keys(Plan)}
    listed = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
    overlap = {name: getattr(plan.overlap, name) for name in written_keys(type(plan.overlap))}
    return listed | {"overlap": overlap}


@pytest.mark.parametrize("name", plans.names())
def test_a_plan_written_out_reads_back_as_itself(tmp_path, name):
    entry = opened(written(tmp_path, plain_plan(plans[name].plan)))
    assert built(Plan, checked(entry, shape_of(Plan)), entry) == plans[name].plan
