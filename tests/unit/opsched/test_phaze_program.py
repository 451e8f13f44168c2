"""PHAZE's program read back: every operator right after all that comes before it, by hand."""

from __future__ import annotations

import numpy as np

from dovetail.opsched.phaze import lifted, lowered
from tests.unit.opsched.test_list_schedules import CORE, problem_of


def test_operators_that_wait_for_each_other_follow_each_other():
    problem = problem_of([[(3, CORE)], [(4, CORE)], [(5, CORE)]], [(0, 1), (1, 2)])
    rows, key = lowered(problem)
    found = lifted(problem, key, np.zeros(len(rows.lower)))
    assert found.start_beats.tolist() == [0, 3, 7]
    assert found.makespan_beats == 12


def test_operators_that_the_solution_orders_follow_each_other_and_others_start_at_once():
    problem = problem_of([[(3, CORE)], [(4, CORE)], [(5, CORE)]], [])
    rows, key = lowered(problem)
    values = np.zeros(len(rows.lower))
    values[key.comes_before[1, 0]] = 1.0
    values[key.start[0]] = 4.0
    found = lifted(problem, key, values)
    assert found.start_beats.tolist() == [4, 0, 0]
    assert found.makespan_beats == 7
