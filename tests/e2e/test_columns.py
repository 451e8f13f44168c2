"""Answers can be read in a terminal of 60 columns: nothing is too wide, and nothing is cut."""

from __future__ import annotations

import pytest

from benchmarks.bar_face import ANSWERS, COLUMNS, is_broken, tables

QUICK = sorted(set(ANSWERS) - {"plan", "mine", "validate"})  # these take seconds; `python -m benchmarks.bars face`


@pytest.mark.parametrize("name", QUICK)
def test_an_answer_fits_a_narrow_terminal(name):
    shown = tables(ANSWERS[name]())
    assert not [(table.title, width) for width in (*COLUMNS, 40) for table in shown if is_broken(table, width)]
