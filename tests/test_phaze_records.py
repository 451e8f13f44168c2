"""Recorded joint searches and placements of PHAZE's models: the page shows them, and joint ones are never worse."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

from benchmarks.phaze_records import HEAD, PAIRS, records, table
from dovetail.report.papers.phaze import phaze_tables
from dovetail.report.table import text_of
from tests.e2e.recorded import check_recorded

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "benchmarks" / "results" / "phaze.md"
PLACEMENTS = ROOT / "benchmarks" / "results" / "phaze.json"
NUM_FIRST, NUM_TERMS, NUM_NEST = 2, 2, 2  # tables of claims, of placements, of NEST's system


def test_the_page_shows_the_recorded_table(bless):
    head, first, rest = PAGE.read_text(encoding="utf-8").partition(f"| {HEAD[0]} |")
    _, gap, tail = rest.partition("\n\n")
    check_recorded(PAGE, f"{head}{table(records())}\n{tail}" if first and gap else "no table", bless)


def test_the_page_shows_the_recorded_placements(bless):
    record = json.loads(PLACEMENTS.read_text(encoding="utf-8"))
    assert record["holds"]
    tables = tuple(replace(table, notes=()) for table in phaze_tables(record) if table.rows)
    claimed, placed, nest = tables[:NUM_FIRST], tables[NUM_FIRST : NUM_FIRST + NUM_TERMS], tables[-NUM_NEST:]
    first = (phaze_tables(record)[0], *claimed[1:])  # with its notes: they are the verdicts
    shown = iter(map(text_of, (first, placed, nest)))
    page = PAGE.read_text(encoding="utf-8")
    renewed = re.sub(
        r"^```text\n.*?^```$", lambda _: f"```text\n{next(shown)}```", page, flags=re.MULTILINE | re.DOTALL
    )
    check_recorded(PAGE, renewed, bless)


def test_chip_and_plan_together_are_never_worse_than_one_after_the_other():
    known = records()
    assert set(known) <= set(PAIRS)
    for row in known.values():
        assert min(row["gain_over_plan_then_chip"], row["gain_over_chip_then_plan"]) >= 1 - 1e-9
        assert row["num_scored"] <= row["num_systems"] == 3 * 29_360  # PHAZE: chips by HBM


def test_a_gap_is_left_exactly_where_systems_are_open():
    for row in records().values():
        assert (row["gap_frac"] > 0) == (row["num_open"] > 0)
