"""The page that a referee reads: what is missed is named, recorded gaps say their file, figures are short."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from dovetail.accuracy.appraisal import NOW, Appraisal, Gap, Machine, Speed, Untried
from dovetail.accuracy.peer_speeds import peers_of
from dovetail.report.appraisal import appraisal_record, gap_table, speed_table, whole_tables
from dovetail.report.table import text_of

JSON_PAGE = Path(__file__).parents[3] / "docs" / "reference" / "json.md"
MACHINE = Machine(num_cores=2, processor="x86_64", python="3.11.7", numpy="2.0.0", date="2026-01-31")


def speed(name: str, per_item_s: float, item: str = "") -> Speed:
    return Speed(operation=name, what=f"the {name}", item=item, per_item_s=per_item_s, num_runs=3, peers=peers_of(name))


def gap(what: str, worst_frac: float, source: str = NOW) -> Gap:
    return Gap(what=what, num=3, num_best=1, mean_frac=worst_frac / 2, worst_frac=worst_frac, source=source)


APPRAISAL = Appraisal(
    machine=MACHINE,
    speeds=(speed("operators", 2e-7, "pairs"), speed("plan-search", 2.0)),
    gaps=(gap("a plan", 0.0), gap("a chip", 0.094, "benchmarks/results/phaze-joint.json"), gap("a trifle", 1e-6)),
    not_measured=(Untried(what="a schedule", why="OR-Tools is not installed"),),
)


def score(median_frac: float, bars=()):
    return {
        "kind": "", "num_rows": 7, "mape_frac": median_frac, "median_frac": median_frac, "p90_frac": 0.2,
        "bars": list(bars),
    }  # fmt: skip


def bar(holds: bool):
    return {"statistic": "MAPE", "limit_frac": 0.08, "measured_frac": 0.05, "holds": holds}


def one_set(name: str, scores, skipped=(), choices=()):
    return {"set": name, "scores": scores, "skipped": list(skipped), "choices": list(choices)}


def choice(statistic: str, measured: float, limit: float, holds: bool):
    return {"kind": "BLOOM's tuning", "statistic": statistic, "measured": measured, "limit": limit, "holds": holds}


def text(*sets, coverage=(), notes=()):
    record = {"sets": list(sets), "coverage": list(coverage), "notes": list(notes)}
    return text_of(whole_tables(record, APPRAISAL))


def affine_lower_bounds_of(page: str) -> list[list[str]]:
    return [line.split() for line in page.splitlines()]


def test_a_set_has_its_rows_those_left_out_its_errors_and_what_is_documented():
    left_out = [{"what": "blank", "num_rows": 3}, {"what": "other", "num_rows": 2}]
    page = text(one_set("gemm", [score(0.05, [bar(True)])], left_out), one_set("free", [score(0.3)]))
    rows = affine_lower_bounds_of(page)
    assert ["gemm", "7", "5", "5.0", "5.0", "20.0", "MAPE", "8", "ok"] in rows
    assert ["free", "7", "30.0", "30.0", "20.0"] in rows
    assert "accuracy: 2 sets, 1 of 1 as documented" in page


def test_a_bar_of_one_kind_that_is_missed_is_a_miss_of_its_set():
    page = text(one_set("attention", [score(0.05, [bar(True)]), {**score(0.1, [bar(False)]), "kind": "backward"}]))
    assert "0 of 1 as documented" in page
    assert "MISSED" in page


def test_missed_choices_and_intervals_are_named_and_kept_ones_counted():
    choices = [choice("Spearman", 0.8, 0.7, True), choice("worst regret", 0.047, 0.03, False)]
    cover = {"left_out": "a row", "covered_frac": 0.5, "least_frac": 0.85, "most_frac": 0.95, "holds": False}
    page = text(one_set("published", [score(0.1)], choices=choices), coverage=[cover])
    assert "choices and intervals: 1 of 3 as documented; missed:" in page
    assert ["BLOOM's", "tuning", "worst", "regret", "4.7", "%", "<=", "3.0", "%"] in affine_lower_bounds_of(page)
    assert [
        "intervals",
        "without",
        "a",
        "row",
        "rows",
        "inside",
        "50.0",
        "%",
        "85",
        "to",
        "95",
        "%",
    ] in affine_lower_bounds_of(page)
    assert "Spearman" not in page


def test_choices_that_all_hold_are_said_in_a_line():
    page = text(one_set("published", [score(0.1)], choices=[choice("Spearman", 0.8, 0.7, True)]))
    assert "choices and intervals: all 1 as documented" in page


def test_sets_that_are_not_here_are_named():
    assert "- published-gemm skipped: not shipped" in text(notes=["published-gemm skipped: not shipped"])


def test_each_tool_stands_beside_ours_with_its_best_figure_and_how_it_is_known():
    rows = affine_lower_bounds_of(text_of((speed_table(APPRAISAL),)))
    assert ["the", "operators", "5.0", "M/s", "6.5", "k/s", "769", "Starlight,", "paper"] in rows
    assert ["7.7/s", "650,000", "Sunstone,", "run"] in rows
    assert ["0.1/s", "50.0", "M", "SCALE-Sim", "3,", "run"] in rows
    assert ["the", "plan-search", "2.0", "s", "1.3", "days", "57,600", "Calculon,", "run"] in rows
    assert "- a schedule: not tried, OR-Tools is not installed" in text_of((speed_table(APPRAISAL),))


def test_slower_than_a_peer_is_said_as_it_is():
    slow = replace(APPRAISAL, speeds=(speed("evaluate", 0.15),))
    assert ["the", "evaluate", "150.0", "ms", "76.9", "ms", "0.5", "SimuMax,", "run"] in affine_lower_bounds_of(
        text_of((speed_table(slow),))
    )


def test_a_gap_says_where_it_is_from_and_nothing_is_rounded_to_none():
    rows = affine_lower_bounds_of(text_of((gap_table(APPRAISAL.gaps),)))
    assert ["a", "plan", "3", "1", "0", "0", "now"] in rows
    assert ["a", "chip", "3", "1", "4.7", "9.4", "phaze-joint"] in rows
    assert ["a", "trifle", "3", "1", "<0.01", "<0.01", "now"] in rows


def test_every_line_is_within_80_columns():
    long = "published_training, microbatch not stated"
    page = text(one_set(long, [score(0.05, [bar(True), {**bar(True), "statistic": "median"}])]))
    assert max(map(len, page.splitlines())) <= 80


def keys(value):
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from keys(item)


@pytest.mark.parametrize("key", sorted(set(keys(appraisal_record(APPRAISAL)))))
def test_every_key_is_documented(key):
    assert re.search(rf"`{key}`", JSON_PAGE.read_text(encoding="utf-8"))
