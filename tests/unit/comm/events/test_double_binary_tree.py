"""Two trees over the same ranks. Source: Sanders, Speck & Traeff, Parallel Computing 2009, section 3."""

from __future__ import annotations

from collections import Counter

import pytest

from dovetail.comm.events.schedules import Ask
from dovetail.comm.events.schedules.double_binary_tree import _depths_of, _trees

SIZES = (2, 3, 4, 5, 6, 7, 8, 12, 16, 31, 32, 33, 64)


def trees(num_ranks: int, collective: str = "all-reduce") -> list[dict[int, int]]:
    return _trees(Ask(collective=collective, payload_bytes=1.0, num_ranks=num_ranks))


@pytest.mark.parametrize("num_ranks", SIZES)
def test_a_tree_is_binary_spans_all_ranks_and_is_as_deep_as_one_must_be(num_ranks: int) -> None:
    for tree in trees(num_ranks):
        assert sorted(tree) == list(range(num_ranks))
        assert list(tree.values()).count(-1) == 1
        assert max(Counter(tree.values()).values()) <= 2
        assert len(_depths_of(tree)) == num_ranks.bit_length() - 1  # floor(log2 n): no binary tree of n is flatter


@pytest.mark.parametrize("num_ranks", [size for size in SIZES if size % 2 == 0])
def test_no_rank_is_inner_in_both_trees_of_an_even_number(num_ranks: int) -> None:
    """So that each sends one payload in all: half of it in either tree, to two children."""
    inner = [{parent for parent in tree.values() if parent >= 0} for tree in trees(num_ranks)]
    assert not inner[0] & inner[1]
