"""Answers can be read in a terminal of 60 columns: nothing is too wide, and nothing is cut."""

from __future__ import annotations

import pytest

from benchmarks.bar_face import ANSWERS, COLUMNS, is_broken, tables

QUICK = sorted(set(ANSWERS) - {"plan", "mine", "validate"})  # these take seconds; `python -m benchmarks.bars face`


@pytest.mark.parametrize("width", [*COLUMNS, 40])
@pytest.mark.parametrize("name", QUICK)
def test_an_answer_fits_a_narrow_terminal(name, width):
    assert not [table.title for table in tables(ANSWERS[name]()) if is_broken(table, width)]
