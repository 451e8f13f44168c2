from __future__ import annotations

import pytest

from tests.golden_files import check_golden, differences, golden_text


def test_the_text_is_sorted_and_free_of_last_bit_noise():
    assert golden_text({"b": 0.1 + 0.2, "a": (1, "x")}) == golden_text({"a": [1, "x"], "b": 0.3})


def test_a_value_that_is_not_finite_cannot_be_golden():
    with pytest.raises(ValueError, match="not JSON compliant"):
        golden_text({"step_s": float("inf")})


def test_differences_say_where_and_by_how_much():
    old = {"step_s": 2.0, "stages": [{"peak_bytes": 8}, {"peak_bytes": 8}], "gone": 1}
    new = {"step_s": 2.1, "stages": [{"peak_bytes": 8}, {"peak_bytes": 6}], "fresh": True}
    assert differences(old, new) == [
        "fresh: is new, True",
        "gone: was 1, is gone",
        "stages[1].peak_bytes: was 8, is 6 (-25.000%)",
        "step_s: was 2.0, is 2.1 (+5.000%)",
    ]


def test_one_and_true_are_different_and_so_are_lists_of_other_lengths():
    assert differences({"x": 1}, {"x": True}) == ["x: was 1, is True"]
    assert differences([1], [1, 2]) == ["value: was [1], is [1, 2]"]


def test_blessing_writes_what_the_next_comparison_accepts(tmp_path):
    file = tmp_path / "golden" / "x.json"
    with pytest.raises(AssertionError, match="run `make bless`"):
        check_golden(file, {"step_s": 1.5}, bless=False)
    check_golden(file, {"step_s": 1.5}, bless=True)
    check_golden(file, {"step_s": 1.5}, bless=False)
    with pytest.raises(AssertionError, match=r"step_s: was 1\.5, is 3\.0 \(\+100"):
        check_golden(file, {"step_s": 3.0}, bless=False)
