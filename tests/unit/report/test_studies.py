"""Rows of studies as columns, and what a list says of them."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from dovetail.errors import InvalidInput
from dovetail.report.studies import question_label, studies_table, studies_tables, study_record, study_tables
from dovetail.report.study_rows import row_cells, row_columns
from dovetail.report.table import WIDTH, text_of
from dovetail.search.algorithms import Scored
from dovetail.search.study import StudyRecord


def study(space=None, figures=("power_w",), **facts):
    inputs = {"space": space or {"num_tensor": [1, 2]}, **facts}
    return StudyRecord(
        key="0123456789abcdef", kind="mine", model_version="0.1.0+abc", is_current=True, inputs=inputs,
        figure_names=figures, started="2026-01-02T03:04:05Z", written="2026-01-02T03:04:06Z", num_rows=1,
    )  # fmt: skip


def test_columns_are_those_of_all_studies_with_the_widest_type():
    one, other = study({"a": [1, 2], "b": [1, 2]}), study({"a": [1.5], "b": ["x"], "c": [True]}, ("step_s",))
    columns = row_columns([one, other])
    assert {name: columns[name] for name in "abc"} == {"a": float, "b": str, "c": str}
    assert list(columns)[14:] == ["a", "b", "c", "loss", "excess_frac", "power_w", "step_s", "bottleneck", "plan"]


def test_a_study_leaves_empty_what_others_have():
    one, other = study({"a": [10, 20]}), study({"c": [5]}, ("step_s",))
    columns = row_columns([one, other])
    cells = dict(zip(columns, row_cells(one, columns)(Scored(point=(1,), loss=0.5, also=(9.0,))), strict=True))
    assert (cells["a"], cells["power_w"], cells["loss"]) == (20, 9.0, 0.5)
    assert (cells["c"], cells["step_s"]) == (None, None)


ASKED = {
    "jobs": [{"name": "a", "batch": 8, "num_devices": 2, "plan": {"microbatch": 4}}], "base": {"name": "tpu"},
    "metric": "throughput", "loss_unit": "s a token", "reference_losses": [0.25],
    "limits": {"area_mm2": 606.68, "power_w": math.inf},
}  # fmt: skip


def test_rows_say_what_they_were_asked_by():
    one, other = study(**ASKED), study({"c": [5]}, budget={"total_usd": 9e5})
    columns = row_columns([one, other])
    cells = dict(zip(columns, row_cells(one, columns)(Scored(point=(1,), loss=0.5, also=(9.0,))), strict=True))
    told = {"metric": "throughput", "base": "tpu", "batch": "8", "loss_unit": "s a token", "reference_losses": "0.25"}
    assert {name: cells[name] for name in told} == told
    assert (cells["limit_area_mm2"], cells["limit_total_usd"], cells["plan"]) == (606.68, None, '{"microbatch": 4}')
    assert "limit_power_w" not in columns
    own = row_cells(one, columns)(Scored(point=(1,), loss=0.5, plan="its own"))
    assert dict(zip(columns, own, strict=True))["plan"] == "its own"


def test_questions_that_differ_in_batch_or_limits_alone_are_told_apart():
    one = study(**ASKED)
    assert question_label(one) == "a by throughput on tpu, batch 8, 2 devices, within 606.68 mm2"
    stage = study(jobs=[{"name": "a", "is_stage": True}])
    assert question_label(stage) == "a, one kind of stage"
    both = study(budget={"power_w": 280.0, "total_usd": 900000.0})
    assert question_label(both) == "within 280 W and 900000 USD in all"


def test_a_study_is_shown_with_every_digit_of_its_limits_and_with_units():
    shown, best = study_tables(study(**ASKED), (Scored(point=(1,), loss=0.5, also=(205.116,)),))
    assert ("limits", "area_mm2 606.68, power_w inf") in shown.rows
    assert ("reference_losses", "0.25 s a token") in shown.rows
    assert best.rows == (("2", "0.5", "205.12"),)


def test_a_row_beyond_a_limit_has_neither_loss_nor_figures():
    one = study()
    columns = row_columns([one])
    row = Scored(point=(0,), loss=math.inf, excess_frac=0.25)
    cells = dict(zip(columns, row_cells(one, columns)(row), strict=True))
    assert (cells["loss"], cells["power_w"], cells["excess_frac"]) == (None, None, 0.25)


def test_a_study_without_knobs_shows_its_points_as_they_are():
    one = replace(study(), inputs={})
    columns = row_columns([one])
    cells = dict(zip(columns, row_cells(one, columns)(Scored(point=(3, 1), loss=1.0)), strict=True))
    assert cells["point"] == "3 1"


def test_two_columns_of_one_name_are_refused():
    with pytest.raises(InvalidInput, match="two columns would be named"):
        row_columns([study({"power_w": [1]})])


def test_a_question_is_put_in_words_from_what_it_says():
    assert question_label(study()) == ""
    said = study(jobs=[{"name": "a"}, {"name": "b"}], base={"name": "tpu"}, metric="throughput")
    assert question_label(said) == "a + b by throughput on tpu"
    assert question_label(study(cases=[{"name": "a"}])) == "a"


def test_a_store_without_studies_and_a_study_without_rows_are_told():
    assert studies_table([], "a.db").title == "0 studies in a.db"
    assert studies_table([(study(), ())], "a.db").rows[0][3] == "-"
    assert len(study_tables(study(), ())) == 1


CODESIGN = {
    "cases": [
        {"name": "gpt2-345m", "batch": 64, "seq": 256, "plans": {"zero_stage": [1]}, "weight": 2.0},
        {"name": "bert-large", "batch": 32, "seq": 128, "plans": {"zero_stage": [1]}, "weight": 1.0},
    ],
    "base": {"name": "tpuv4-like"}, "metric": "throughput", "network": "torus", "rule": "chip", "exhaustive": True,
    "budget": {"total_power_w": 4000.0},
}  # fmt: skip
FIGURES = (
    "low",
    "area_mm2",
    "power_w",
    "price_usd",
    "_plan of gpt2-345m",
    "step_s of gpt2-345m",
    "step_s of bert-large",
)


def joint_study():
    space = {"num_tensor": [2, 4], "num_devices": [8, 16]}
    return replace(study(space, FIGURES, **CODESIGN), kind="codesign, one by one, uneven plans")


def test_what_a_joint_search_was_asked_is_told_with_devices_lengths_and_whether_all_was_scored():
    told = question_label(joint_study())
    assert told == (
        "gpt2-345m + bert-large by throughput on tpuv4-like, batch 64 + 32, seq 256 + 128, 8 or 16 devices, torus,"
        " space chip, every system scored, within 4000 W in all"
    )


def test_a_list_of_studies_cuts_nothing_on_a_narrow_screen():
    found = [(joint_study(), (Scored(point=(0, 1), loss=0.25, also=(0.2, 5, 6, 7, 2, 1, 1)),))]
    text = text_of(studies_tables(found, "a.db"))
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "..." not in text
    assert "codesign, one by one, uneven plans" in text
    assert "2026-01-02 03:04" in text
    assert len(studies_tables([], "a.db")) == 1


def test_rows_of_a_joint_search_say_what_a_front_needs_and_no_number_of_ours():
    one = joint_study()
    columns = row_columns([one])
    row = Scored(point=(1, 0), loss=0.5, also=(0.4, 500.0, 200.0, 900.0, 2.0, 0.1, 0.2), plan='[{"zero_stage": 1}, {}]')
    cells = dict(zip(columns, row_cells(one, columns)(row), strict=True))
    assert (cells["area_mm2"], cells["power_w"], cells["price_usd"]) == (500.0, 200.0, 900.0)
    assert (cells["step_s of gpt2-345m"], cells["step_s of bert-large"]) == (0.1, 0.2)
    assert (cells["num_tensor"], cells["num_devices"]) == (4, 8)
    assert (cells["seq"], cells["weights"], cells["network"], cells["rule"]) == (
        "256 + 128",
        "2.0 + 1.0",
        "torus",
        "chip",
    )
    assert json.loads(cells["plan_space"]) == [{"zero_stage": [1]}, {"zero_stage": [1]}]
    assert json.loads(cells["plan"]) == [{"zero_stage": 1}, {}]
    assert not [name for name in columns if name.startswith(("plan of", "_"))]
    assert list(study_record(one, (row,))["best"]["figures"]) == [name for name in FIGURES if name[0] != "_"]


def test_a_row_has_its_own_network_where_that_is_a_knob_and_its_study_s_where_a_program_gave_one():
    def networks_of(values, named):
        space = {"network": values, "num_devices": [8]}
        one = study(space, FIGURES, **{**CODESIGN, "network": named})
        columns = row_columns([joint_study(), one])  # one of an older study without that knob
        rows = (Scored(point=(place, 0), loss=0.5, also=()) for place in range(len(values)))
        return [dict(zip(columns, row_cells(one, columns)(row), strict=True))["network"] for row in rows]

    assert networks_of(["torus", "switch"], "torus,switch") == ["torus", "switch"]
    assert networks_of(["given"], "flat") == ["flat"]
    with pytest.raises(InvalidInput, match="two columns would be named 'seq'"):
        row_columns([study({"seq": [128, 256]}, FIGURES, **CODESIGN)])


def test_the_best_rows_with_many_figures_are_readable_on_a_narrow_screen():
    rows = tuple(Scored(point=(1, 0), loss=0.5, also=(0.4, 500.0, 200.0, 900.0, 2.0, 0.1, 0.2)) for _ in range(3))
    _, *tables = study_tables(joint_study(), rows)
    text = text_of(tuple(tables))
    assert "..." not in text
    assert max(map(len, text.splitlines())) <= WIDTH
    for name in FIGURES:
        assert (name in text) == (name[0] != "_")
