"""Rows of a store that are no scores of systems: refused with the way out, wherever what is wrong shows."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from dovetail.errors import InvalidInput
from dovetail.search.algorithms import Scored
from dovetail.search.codesign.rows import TAKEN, score_names, score_of
from dovetail.search.codesign.scoring import CasePlan, Scorer
from tests.codesign_questions import question

ASKED = question(("tied",), {"num_tensor": (2, 8), "num_lanes": (64, 128), "num_devices": (4,)})


def row(plan: float) -> Scored:
    """Of one case; its bound, what a device takes, and then the figures of the case."""
    figures = [1.0] * len(score_names(ASKED.cases))
    figures[1 + len(TAKEN) + [field.name for field in fields(CasePlan)].index("plan")] = plan
    return Scored(point=(0,), loss=1.0, also=tuple(figures))


def test_a_row_of_a_plan_or_of_none_that_fits_is_read():
    assert [score_of(row(plan)).cases[0].plan for plan in (3.0, -1.0)] == [3, -1]


@pytest.mark.parametrize("plan", [-2.0, 0.5, 1e200, float("inf"), float("nan")])
def test_what_is_no_number_of_a_plan_is_refused(plan):
    with pytest.raises(InvalidInput, match=r"holds no score of a system; put back a copy of the store"):
        score_of(row(plan))


@pytest.mark.parametrize("number", [-1, 10**9, 10**30])
def test_a_plan_beyond_those_of_the_space_is_refused(number):
    scorer = Scorer(ASKED)
    [score, *_] = scorer.score([tuple(0 for _ in ASKED.space.knobs)], np.inf)
    assert scorer.even_plan(0, score.point, score.cases[0].plan).num_devices == 4
    with pytest.raises(InvalidInput, match=r"the plan of a row must be one of .*; put back a copy of the store"):
        scorer.even_plan(0, score.point, number)
