"""Facts of a study are what a study has, or it is said which are not."""

from __future__ import annotations

import json

import pytest

from dovetail.store.shapes import MalformedRow, check_count, check_texts, figure_names_of, inputs_of

GOOD = {
    "jobs": [{"name": "bert", "batch": 8, "num_devices": 2, "plans": {}}],
    "base": {"name": "tpuv2-like"},
    "space": [["rows", [4, 8]], ["endpoint", ["sm", "dma"]]],
    "limits": {"area_mm2": 600.0, "power_w": float("inf")},
    "metric": "throughput",
    "reference_losses": [1.0],
    "anything": [None],
}


def test_knobs_are_a_mapping_in_their_order():
    found = inputs_of(json.dumps(GOOD))
    assert found["space"] == {"rows": [4, 8], "endpoint": ["sm", "dma"]}
    assert found | {"space": GOOD["space"]} == GOOD
    assert inputs_of("{}") == {}
    assert figure_names_of('["power_w"]') == ("power_w",)


@pytest.mark.parametrize(
    "changes",
    [
        {"space": {"rows": [4]}},
        {"space": [["rows", []]]},
        {"space": [["rows", [4]], ["rows", [8]]]},
        {"space": [["rows", [[4]]]]},
        {"space": [["rows", [float("nan")]]]},
        {"space": [[1, [4]]]},
        {"space": ["rows"]},
        {"space": None},
        {"jobs": {"name": "bert"}},
        {"jobs": [{"batch": 8}]},
        {"jobs": ["bert"]},
        {"jobs": [{"name": "bert", "num_devices": "2"}]},
        {"cases": [{"name": "bert", "plans": 3}]},
        {"limits": [600]},
        {"budget": {"area_mm2": "600"}},
        {"budget": {"area_mm2": float("nan")}},
        {"budget": {"area_mm2": 10**400}},
        {"space": [["rows", [-(10**400)]]]},
        {"reference_losses": 1.0},
        {"reference_losses": ["1"]},
        {"metric": 3},
        {"network": None},
        {"base": 3},
    ],
)
def test_inputs_that_no_study_has_are_named(changes):
    with pytest.raises(MalformedRow, match=f"{next(iter(changes))}|its space"):
        inputs_of(json.dumps(GOOD | changes))


@pytest.mark.parametrize("text", ["[]", "3", "null", "{", "[" * 100_000, b"{}", None, 3.5, '{"a": ' * 100_000])
def test_inputs_that_are_no_mapping_are_refused(text):
    with pytest.raises(MalformedRow, match="inputs"):
        inputs_of(text)


@pytest.mark.parametrize("text", ["{}", "[1]", '["a", "a"]', "x", None, b"[]"])
def test_figure_names_that_are_none_are_refused(text):
    with pytest.raises(MalformedRow, match="figure names"):
        figure_names_of(text)


def test_columns_of_another_type_are_refused():
    check_texts(kind="mine")
    check_count(0)
    with pytest.raises(MalformedRow, match="its kind must be text"):
        check_texts(kind=b"mine")
    for count in (-1, 1.5, "3", None):
        with pytest.raises(MalformedRow, match="must be a count"):
            check_count(count)
