"""ACE's tables: T1 to T3 to the last digit, T4 and utilisation within five percent; and what lies beyond."""

from __future__ import annotations

import json

import pytest

from dovetail.api import reproduced
from dovetail.cli import main
from dovetail.papers.ace import ace_study
from dovetail.papers.beyond import beyond
from dovetail.papers.check import Check
from dovetail.report.papers.ace import ace_record, ace_tables
from dovetail.report.papers.ace_figures import ace_figures
from dovetail.report.papers.beyond import beyond_record, beyond_tables
from dovetail.report.plain import versioned
from dovetail.report.table import text_of
from tests.e2e.conftest import ROOT
from tests.e2e.test_reference import keys
from tests.once import computed_once


@pytest.fixture(scope="module")
def study():
    return computed_once("ace-study", ace_study)


@pytest.fixture(scope="module")
def found():
    return computed_once("beyond", beyond)


def test_every_number_that_must_meet_the_papers_does(study):
    assert [check.what for check in study.checks if not check.holds] == []
    assert len(study.checks) == 36


def test_t4_runs_the_ace_whose_knee_t3_shows(study):
    """Dealt otherwise, or not at all, the same scales give other times: partitions and FSMs are at work."""
    for one in study.trained:
        for other in (one.by_link, one.pooled):
            assert [cell.of("ACE").iteration_s for cell in other.cells] != [
                cell.of("ACE").iteration_s for cell in one.scaled.cells
            ]
            for cell, swept in zip(other.cells, one.scaled.cells, strict=True):
                assert cell.of("CommOpt") == swept.of("CommOpt")


def test_ideal_is_never_beaten_and_exposed_time_is_never_negative(study):
    for one in study.trained:
        for cell in one.scaled.cells:
            assert min(it.iteration_s for _, it in cell.iterations) == cell.of("Ideal").iteration_s
            assert all(it.exposed_s > -1e-12 and it.utilisation_frac <= 1 + 1e-9 for _, it in cell.iterations)


def test_utilisation_over_time_adds_up_to_the_bytes_sent(study):
    for one in study.trained:
        for cell in one.scaled.cells:
            for _, it in cell.iterations:
                mean = sum(it.profile_frac) / len(it.profile_frac)
                assert mean == pytest.approx(it.sent_bytes / (it.iteration_s * it.link_bytes_per_s), rel=1e-6)


def test_area_is_near_the_papers_and_power_within_a_tenth(study):
    assert study.area_mm2 == pytest.approx(5.3, rel=0.01)
    assert study.power_w == pytest.approx(4.3, rel=0.1)


def test_the_tables_say_every_check_and_fit_on_a_screen(study):
    text = text_of(ace_tables(ace_record(study)))
    assert all(check.what in text for check in study.checks)
    assert max(map(len, text.splitlines())) <= 80
    assert "MISSED" not in text


def test_every_key_of_its_json_is_documented(study):
    page = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    assert {key for key in keys(ace_record(study)) if f"`{key}`" not in page} == set()


def test_there_is_a_figure_for_every_sweep_and_workload(study):
    figures = ace_figures(ace_record(study))
    assert len(figures) == 9
    assert all(picture.startswith("<svg") and picture.endswith("</svg>\n") for picture in figures.values())


def test_dynamic_arbitration_beats_the_best_static_split_for_every_job(found):
    for one in found:
        times = {(name, how): seconds for name, how, seconds in one.arbitrated}
        for name in ("SM ring", "ACE"):
            assert times[name, "dynamic"] <= times[name, "static"] * (1 + 1e-9)
            assert times[name, "dynamic"] <= times[name, "priority"] * (1 + 1e-9)


def test_no_mechanism_beats_ideal_nor_one_that_sends_like_the_sm_ring_a_free_one(found):
    for one in found:
        for name, iteration in one.iterations:
            assert iteration.iteration_s >= one.ideal_s * (1 - 1e-9)
            if name in ("SM ring", "copy engine", "ACE"):
                assert iteration.iteration_s >= one.free_s * (1 - 1e-9)


def test_the_table_beyond_has_all_jobs_and_says_where_the_endpoint_matters(found):
    text = text_of(beyond_tables(beyond_record(found)))
    assert len(found) == 13
    assert {one.system for one in found} == {"ACE NPU", "H100", "Trainium2"}
    assert "The endpoint matters" in text
    assert max(map(len, text.splitlines())) <= 80


# The command on what is computed above already: what it shows, writes and ends with.


def said(capsys, *words: str) -> str:
    assert main(["reproduce", "ace", *words]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    return str(shown.out)


def test_the_command_shows_the_study_as_tables_json_and_figures(study, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(reproduced, "ace_study", lambda **_: study)
    assert said(capsys) == text_of(ace_tables(ace_record(study)))
    record = json.loads(said(capsys, "--figures", str(tmp_path), "--json"))
    assert record["holds"]
    assert record == json.loads(json.dumps(versioned(ace_record(study))))
    assert {file.name for file in tmp_path.iterdir()} == set(ace_figures(ace_record(study)))


def test_beyond_is_json_for_programs(found, monkeypatch, capsys):
    monkeypatch.setattr(reproduced, "beyond", lambda: found)
    record = json.loads(said(capsys, "--modern-chips", "--json"))
    assert {"resnet-50", "gnmt", "dlrm"} < {row["workload"] for row in record["rows"]}
    assert record["verdict"]
    assert said(capsys, "--modern-chips") == text_of(beyond_tables(beyond_record(found)))
    page = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    assert {key for key in keys(record) if f"`{key}`" not in page} == set()


def test_a_check_that_is_off_by_a_digit_or_a_share_fails():
    assert not Check(what="x", ours=3.39, paper=3.38).holds
    assert not Check(what="x", ours=1.6, paper=1.44, within_frac=0.05).holds
    assert not Check(what="x", ours=287, paper=288, is_floor=True).holds
