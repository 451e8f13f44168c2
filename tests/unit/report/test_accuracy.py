from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from dovetail.accuracy.bars import Bar
from dovetail.accuracy.compared import Compared, score
from dovetail.accuracy.validation import Judged, Scored, ScoredSet, Validation
from dovetail.report.accuracy import accuracy_tables, amount, bar_label, validation_record, verdict
from dovetail.report.accuracy_page import accuracy_page
from dovetail.report.scatter import scatter_svg
from dovetail.report.table import text_of


def scored_set(name: str, unit: str, pairs, bar: Bar | None = None, skipped=()) -> ScoredSet:
    rows = tuple(
        Compared(set=name, kind="k", what=f"row {i}", measured=m, predicted=p, unit=unit)
        for i, (m, p) in enumerate(pairs)
    )
    found = score(rows, 1)
    judged = () if bar is None else (Judged(bar=bar, measured_frac=bar.measured_frac(found), holds=bar.holds(found)),)
    whole = Scored(kind="", score=found, judged=judged)
    return ScoredSet(name=name, chip="h200-sxm", unit=unit, rows=rows, scored=(whole,), skipped=skipped)


FIVE = Bar(promise="p", statistic="MAPE", limit_frac=0.05)
GOOD = scored_set("fine", "s", [(1e-3, 1.01e-3), (1e-5, 0.99e-5)], FIVE)
BAD = scored_set("a<b>", "s", [(1e-3, 2e-3)], FIVE, skipped=(("rows with a blank cell", 1),))
CYCLES = scored_set("arrays", "cycles", [(100.0, 100.0), (9e6, 9e6)])
FOUND = Validation(sets=(GOOD, BAD, CYCLES), notes=("x: not compared",))


def test_a_table_shows_each_set_with_its_bar_and_what_was_left_out():
    text = text_of(accuracy_tables(validation_record(FOUND)))
    assert "fine       2    1.0     1.0    1.0    +0.0  MAPE 5  ok\n" in text
    assert "a<b>       1  100.0   100.0  100.0  +100.0  MAPE 5  MISSED\n" in text
    assert "- a<b>: 1 row with a blank cell" in text
    assert "- x: not compared" in text
    assert "+100 %    1.0 ms     2.0 ms  a<b>: k row 0" in text
    assert "arrays: k" not in text  # nothing is worst where all are equal
    assert max(len(line) for line in text.splitlines()) <= 80


def test_without_any_bar_there_is_no_column_for_them():
    text = text_of(accuracy_tables(validation_record(Validation(sets=(CYCLES,)))))
    assert "bias\n" in text
    assert "bar" not in text


def test_the_record_is_json_and_says_whether_all_bars_hold():
    record = json.loads(json.dumps(validation_record(FOUND), allow_nan=False))
    assert record["holds"] is False
    assert [one["set"] for one in record["sets"]] == ["fine", "a<b>", "arrays"]
    assert record["sets"][1]["scores"][0]["bars"][0]["measured_frac"] == 1.0
    assert validation_record(Validation(sets=(GOOD,)))["holds"] is True


def test_bars_are_said_briefly():
    bars = [{"statistic": "median", "limit_frac": 0.06, "holds": True}, {"statistic": "p90", "limit_frac": 0.15}]
    assert bar_label(bars) == "med 6 p90 15"
    assert bar_label([{"statistic": "worst", "limit_frac": 0.0}]) == "equal"
    assert verdict([]) == ""


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [(2e-5, "s", "20.0 us"), (687.7, "w", "688 W"), (12.345, "mm2", "12.3 mm2"), (1539.0, "cycles", "1,539 cycles")],
)
def test_amounts_are_said_in_their_unit(value, unit, words):
    assert amount(value, unit) == words


def test_the_page_has_limits_of_validity_beside_the_tables():
    page = accuracy_page(validation_record(FOUND), is_whole=True)
    assert page.startswith("# Accuracy, every table\n")
    assert "| fine | h200-sxm | 2 | 1.0 | 1.0 | 1.0 | +0.0 | MAPE 5 | ok |\n" in page
    assert "| a<b> | k | row 0 | 1.0 ms | 2.0 ms | +100.0 |\n" in page
    assert "## Where these figures hold, and where they do not" in page
    assert "- x: not compared\n" in page


def test_the_picture_is_well_formed_and_has_every_row_set_and_unit():
    svg = scatter_svg(FOUND.sets)
    root = ElementTree.fromstring(svg)
    dots = [node for node in root.iter("{http://www.w3.org/2000/svg}circle") if node.get("r") != "5"]
    assert len(dots) == 5
    words = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "a<b>, 1: 100.0 %" in words
    for label in ("measured time (s)", "predicted time (s)", "measured cycles", "within 10 %", "1 ms"):
        assert label in words
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")  # asks nothing of any server


def test_nothing_to_draw_is_still_a_picture():
    ElementTree.fromstring(scatter_svg(()))
