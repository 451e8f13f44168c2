"""PHAZE's four golden placements: the same optimum, and the same time for its experts' cut."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.api.reproduced_papers import placed_instance
from dovetail.files.phaze_dp import load_instance, load_recorded, shipped_instances
from dovetail.papers.phaze_dp import PhazeDpStudy, phaze_dp_study
from dovetail.report.papers.phaze_dp import phaze_dp_record, phaze_dp_tables
from dovetail.report.table import text_of
from tests.e2e.conftest import ROOT
from tests.e2e.test_reference import keys

INSTANCES = shipped_instances()


@pytest.fixture(scope="module")
def study():
    recorded = {name: load_recorded(file) for name, file in INSTANCES.items()}
    return phaze_dp_study(recorded, lambda name: placed_instance(INSTANCES[name]))


def test_there_are_four_instances():
    assert sorted(INSTANCES) == ["bert_1024", "gpt3_1024", "gpt3_1024_48", "gpt3_1024_norec"]


@pytest.mark.parametrize("name", INSTANCES)
def test_our_optimum_is_the_recorded_one(study, name):
    [case] = [case for case in study.cases if case.name == name]
    assert case.ours.batch_s == pytest.approx(case.recorded.batch_s, abs=1e-9, rel=0)
    assert case.ours.expert_batch_s == pytest.approx(case.recorded.expert_batch_s, abs=1e-9, rel=0)
    assert case.is_same_partition
    assert case.holds


def test_a_wrong_optimum_does_not_hold(study):
    case = study.cases[0]
    wrong = replace(case, ours=replace(case.ours, batch_s=case.ours.batch_s + 1e-6))
    assert not wrong.holds
    assert not PhazeDpStudy(cases=(*study.cases[1:], wrong)).holds
    assert not PhazeDpStudy(cases=()).holds


def test_the_table_says_every_instance_and_fits_on_a_screen(study):
    text = text_of(phaze_dp_tables(phaze_dp_record(study)))
    assert all(name in text for name in INSTANCES)
    assert max(map(len, text.splitlines())) <= 80
    assert "MISSED" not in text


def test_every_key_of_its_json_is_documented(study):
    page = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    assert {key for key in keys(phaze_dp_record(study)) if f"`{key}`" not in page} == set()


def test_repeated_layers_are_read_as_runs():
    [variant] = load_instance(INSTANCES["bert_1024"]).problem.variants
    assert [run.num_layers for run in variant.runs] == [1, 24]
