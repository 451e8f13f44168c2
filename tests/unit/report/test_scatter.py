from __future__ import annotations

import pytest

from dovetail.report.scatter import _tick


@pytest.mark.parametrize(
    ("value", "words"), [(0.05, "0.05"), (0.5, "0.5"), (1.0, "1"), (2000.0, "2,000"), (1_000_000.0, "1e6")]
)
def test_a_mark_says_its_value_below_one_too(value, words):
    assert _tick(value, "times") == words
