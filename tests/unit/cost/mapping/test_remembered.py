"""What was computed is given again for equal arguments, and for no others; it cannot be written into."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from dovetail.cost.mapping import remembered as own
from dovetail.cost.mapping.remembered import remembered
from dovetail.workload.graph import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Of either side."""

    a: FloatArray
    b: FloatArray


ASKED = Columns(a=np.array([1.0, 2.0]), b=np.array([3.0, 4.0]))


@pytest.fixture
def counted():
    calls = []

    @remembered
    def summed(columns: Columns, scale: float) -> Columns:
        calls.append(columns)
        return Columns(a=columns.a * scale, b=columns.a + columns.b)

    return summed, calls


def test_equal_arguments_are_answered_once_and_others_anew(counted):
    summed, calls = counted
    first = summed(ASKED, 2.0)
    assert summed(replace(ASKED, a=ASKED.a.copy()), 2.0) is first
    assert len(calls) == 1
    for other in ((ASKED, 3.0), (replace(ASKED, b=ASKED.a), 2.0), (Columns(a=ASKED.b, b=ASKED.a), 2.0)):
        assert summed(*other).a.tolist() == (other[0].a * other[1]).tolist()
    assert len(calls) == 4


def test_nobody_writes_into_an_answer(counted):
    with pytest.raises(ValueError, match="read-only"):
        counted[0](ASKED, 2.0).a[0] = 7.0


def test_what_grows_too_large_is_forgotten(counted, monkeypatch):
    summed, calls = counted
    monkeypatch.setattr(own, "MOST_BYTES", 2.5 * 32)  # of two answers
    for scale in (1.0, 2.0, 1.0, 3.0, 3.0, 1.0):
        summed(ASKED, scale)
    assert len(calls) == 4  # of 1, 2, 3, and of 1 once more
    monkeypatch.setattr(own, "MOST_BYTES", 16)
    summed(ASKED, 5.0)
    summed(ASKED, 5.0)
    assert len(calls) == 6
