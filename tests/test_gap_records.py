"""The gaps that ship are those of the results that benchmarks keep."""

from __future__ import annotations

from benchmarks.bar import REPOSITORY
from benchmarks.gaps import recorded_gaps, text_of
from dovetail.files.gaps import load_gaps
from dovetail.files.measurements import shipped_folder


def test_the_table_that_ships_is_what_the_results_say_today():
    shipped = shipped_folder("gaps.csv").read_text(encoding="utf-8")
    assert shipped == text_of(recorded_gaps()), "run python -m benchmarks.gaps"


def test_a_gap_names_a_file_that_is_there_and_is_no_less_than_nothing():
    for gap in load_gaps():
        assert (REPOSITORY / gap.source).is_file()
        assert 0 <= gap.mean_frac <= gap.worst_frac < 1
        assert 0 <= gap.num_best <= gap.num
