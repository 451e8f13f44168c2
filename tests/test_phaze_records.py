"""Recorded joint searches of PHAZE's models: the page shows them, and none is worse than one search after the other."""

from __future__ import annotations

from pathlib import Path

from benchmarks.phaze_records import HEAD, PAIRS, records, table
from tests.e2e.recorded import check_recorded

PAGE = Path(__file__).resolve().parent.parent / "docs" / "model" / "phaze.md"


def test_the_page_shows_the_recorded_table(bless):
    head, first, rest = PAGE.read_text(encoding="utf-8").partition(f"| {HEAD[0]} |")
    _, gap, tail = rest.partition("\n\n")
    check_recorded(PAGE, f"{head}{table(records())}\n{tail}" if first and gap else "no table", bless)


def test_chip_and_plan_together_are_never_worse_than_one_after_the_other():
    known = records()
    assert set(known) <= set(PAIRS)
    for row in known.values():
        assert min(row["gain_over_plan_then_chip"], row["gain_over_chip_then_plan"]) >= 1 - 1e-9
        assert row["num_scored"] <= row["num_systems"] == 3 * 29_360  # PHAZE: chips by HBM


def test_a_gap_is_left_exactly_where_systems_are_open():
    for row in records().values():
        assert (row["gap_frac"] > 0) == (row["num_open"] > 0)
