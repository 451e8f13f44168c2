"""The longest path for every pairing of tensor and vector cores, against a walk of each pairing by itself."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from dovetail.opsched.problem import dag_of
from dovetail.search.mining.paths import direct_successors, longest_path_s


def random_dag(rng, num, chance):
    edges = [(a, b) for b in range(num) for a in range(b) if rng.random() < chance]
    return dag_of(num, np.array([a for a, _ in edges], int), np.array([b for _, b in edges], int))


def walked_s(dag, own_s):
    behind = np.zeros(len(own_s))
    for i in dag.order[::-1]:
        after = dag.edge_to[dag.edge_start[i] : dag.edge_start[i + 1]]
        behind[i] = own_s[i] + behind[after].max(initial=0.0)
    return behind.max(initial=0.0)


@pytest.mark.parametrize("seed", range(8))
def test_the_longest_path_is_that_of_each_pairing(seed):
    rng = Random(seed)
    num = rng.randint(1, 24)
    dag = random_dag(rng, num, rng.choice((0.05, 0.2, 0.6)))
    draws = np.random.default_rng(seed)
    is_tensor = draws.random(num) < 0.5
    tensor_s = np.where(is_tensor[:, None], draws.random((num, 4)), 0.0)
    vector_s = np.where(is_tensor[:, None], 0.0, draws.random((num, 3)))
    found_s = longest_path_s(dag, tensor_s, vector_s)
    assert found_s.shape == (4, 3)
    for column in range(4):
        for row in range(3):
            own_s = tensor_s[:, column] + vector_s[:, row]
            assert found_s[column, row] == pytest.approx(walked_s(dag, own_s))


def test_successors_that_another_path_leads_to_are_left_out():
    dag = dag_of(4, np.array([0, 0, 1, 0, 2]), np.array([1, 2, 2, 3, 3]))
    assert direct_successors(dag) == [[1], [2], [3], []]


def test_two_ways_that_do_not_meet_are_both_kept():
    dag = dag_of(3, np.array([0, 0]), np.array([1, 2]))
    assert direct_successors(dag) == [[1, 2], [], []]
