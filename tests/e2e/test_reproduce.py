"""`dovetail reproduce`: usage that is refused in one line, and tables of papers."""

from __future__ import annotations

import json

import pytest

from dovetail.report.papers.wham import wham_tables
from dovetail.report.table import text_of
from tests.e2e.conftest import ROOT
from tests.e2e.recorded import check_recorded
from tests.e2e.test_reference import keys

WHAM_RUN = ROOT / "benchmarks" / "results" / "wham.json"  # `dovetail reproduce wham --json`
WHAM_PAGE = ROOT / "benchmarks" / "results" / "wham.md"
WHAM_MODEL = "vgg-16"
MOVED_FRAC = 0.01  # of a recorded figure, until the page must be recorded again


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("reproduce", "acee"), "did you mean ace"),
        (("reproduce", "ace", "--figures", "no/such/folder"), "there is no folder"),
        (("reproduce", "ace", "--modern-chips", "--refit"), "--modern-chips is a separate table"),
        (("reproduce", "phase-dp"), "did you mean phaze-dp"),
        (("reproduce", "phaze-dp", "--refit"), "phaze-dp is one table"),
        (("reproduce", "phaze", "--figures", "."), "phaze has tables alone"),
        (("reproduce", "phaze", "--model", "bert-larg"), "did you mean bert-large"),
        (("reproduce", "wham", "--model", "resnet-8"), "did you mean resnet-18"),
        (("reproduce", "wham", "--figures", "docs"), "wham has tables alone"),
        (("reproduce", "ace", "--quick"), "--model and --quick belong to phaze and wham"),
        (("reproduce", "phaze-dp", "--model", "resnet-18"), "--model and --quick belong to phaze and wham"),
    ],
)
def test_wrong_usage_ends_with_one_line(dovetail, words, said):
    ran = dovetail(*words)
    assert ran.returncode == 2
    assert said in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_phaze_placements_are_a_table_and_json(dovetail):
    ran = dovetail("reproduce", "phaze-dp")
    assert ran.returncode == 0
    record = json.loads(dovetail("reproduce", "phaze-dp", "--json").stdout)
    assert record["holds"]
    assert all(case["instance"] in ran.stdout for case in record["cases"])


def test_wham_of_one_model_is_as_it_was_recorded_by_both_mappers(dovetail):
    ran = dovetail("reproduce", "wham", "--model", WHAM_MODEL, "--quick", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    record, recorded = json.loads(ran.stdout), json.loads(WHAM_RUN.read_text(encoding="utf-8"))
    assert {claim["verdict"] for claim in record["claims"]} == {"not comparable"}  # one model of eleven
    for mapped in ("models", "by_paper_mapper"):
        [model] = record[mapped]
        assert model["is_confirmed"]
        [before] = [one for one in recorded[mapped] if one["model"] == WHAM_MODEL]
        moved = f"{mapped} moved from what {WHAM_RUN.name} has; record it again as docs/model/wham.md says"
        for key in ("best", "per_watt", "within_base_limits"):
            assert model[key]["gain"] == pytest.approx(before[key]["gain"], rel=MOVED_FRAC), moved
        assert model["real"]["best"]["gain"] == pytest.approx(before["real"]["best"]["gain"], rel=MOVED_FRAC), moved
        slower = [[one["times_slower"] for one in asked["inference"]] for asked in (model, before)]
        assert slower[0] == pytest.approx(slower[1], rel=MOVED_FRAC), moved


def test_the_page_beside_wham_says_what_its_recorded_run_says(bless):
    record = json.loads(WHAM_RUN.read_text(encoding="utf-8"))
    assert record["holds"]
    assert len(record["models"]) == 11
    assert all(model["every_design"] for mapped in ("models", "by_paper_mapper") for model in record[mapped])
    assert [claim["reported"][-1] for claim in record["claims"]] == [1.23, 12, 8.1, 31, 174]
    assert all(claim["paper_mapper"] and claim["ours"] for claim in record["claims"][:-1])
    page = WHAM_PAGE.read_text(encoding="utf-8")
    head, fence, _ = page.partition("```text\n")
    check_recorded(WHAM_PAGE, f"{head}{fence}{text_of(wham_tables(record))}```\n", bless)
    keyed = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    assert {key for key in keys(record) if f"`{key}`" not in keyed} == set()
