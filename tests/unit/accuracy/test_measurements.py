from __future__ import annotations

import numpy as np
import pytest

from dovetail.errors import InvalidInput
from tests.unit.accuracy.tables import table

GOOD = table("m,time_us,what\n1,2.5,a\n3,4,b\n")


def test_a_column_is_read_as_words_numbers_or_counts():
    assert GOOD.words("what") == ["a", "b"]
    assert GOOD.numbers("time_us").tolist() == [2.5, 4.0]
    assert GOOD.counts("m").tolist() == [1, 3]
    assert len(GOOD) == 2
    assert GOOD.has("m", "what")
    assert not GOOD.has("m", "n")


@pytest.mark.parametrize(
    ("cell", "read", "words"),
    [
        ("fast", "numbers", "time_us must be a number; got 'fast' (mine.csv:3)"),
        ("nan", "numbers", "time_us must be a finite number; got 'nan' (mine.csv:3)"),
        ("1e999", "numbers", "time_us must be a finite number; got '1e999' (mine.csv:3)"),
        ("-4", "positive", "time_us must be above 0; got '-4' (mine.csv:3)"),
        ("0", "positive", "time_us must be above 0; got '0' (mine.csv:3)"),
        ("5e-324", "positive", "time_us must be from 1e-30 to 1e+30; got '5e-324' (mine.csv:3)"),
        ("1e300", "positive", "time_us must be from 1e-30 to 1e+30; got '1e300' (mine.csv:3)"),
        ("1.5", "counts", "time_us must be a whole number; got '1.5' (mine.csv:3)"),
        ("0", "counts", "time_us must be from 1 to 1,000,000,000; got '0' (mine.csv:3)"),
        ("1e12", "counts", "time_us must be from 1 to 1,000,000,000; got '1e12' (mine.csv:3)"),
        ("x" * 100, "numbers", "got '" + "x" * 37 + "...'"),
    ],
)
def test_a_bad_cell_is_refused_with_its_line(cell, read, words):
    broken = table(f"m,time_us\n1,2\n3,{cell}\n")
    with pytest.raises(InvalidInput) as refused:
        getattr(broken, read)("time_us")
    assert words in str(refused.value)


def test_a_missing_column_names_those_that_are_there():
    with pytest.raises(InvalidInput, match=r"column n is missing; the columns are m, time_us, what \(mine.csv\)"):
        GOOD.numbers("n")


def test_rows_that_are_left_keep_their_lines():
    left = GOOD.where(np.array([False, True]))
    assert (left.rows, left.lines) == ((("3", "4", "b"),), (3,))


def test_rows_with_a_blank_in_a_needed_column_are_left_out():
    assert table("m,n\n1,\n2,5\n").filled(("m", "n")).words("m") == ["2"]
    assert len(table("m,n\n1,\n2,5\n").filled(("m",))) == 2
