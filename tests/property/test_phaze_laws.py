"""PHAZE's stop rule against the loop it stands for."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dovetail.papers.phaze_stop import stopped, stopped_among

AREAS = st.integers(min_value=0, max_value=30)
THROUGHPUTS = st.integers(min_value=0, max_value=6)


def looped(buckets: list[int], throughputs: list[int]) -> tuple[int, int, int]:
    """Chips and buckets looked at, and the best throughput: bucket by bucket, as the released code goes about it."""
    best: list[int] = []
    seen: list[int] = []
    for bucket in sorted(set(buckets), reverse=True):
        here = [throughput for at, throughput in zip(buckets, throughputs, strict=True) if at == bucket]
        seen += here
        best.append(max(here))
        last = best[-5:]
        if len(last) == 5 and all(earlier >= later for earlier, later in pairwise(last)):
            break
    return len(seen), len(best), max(seen)


@given(st.lists(st.tuples(AREAS, THROUGHPUTS), min_size=1, max_size=60))
def test_the_stop_rule_looks_at_what_the_loop_looks_at(chips):
    buckets, throughputs = [list(column) for column in zip(*chips, strict=True)]
    areas_mm2, rates = np.array(buckets) * 0.01 + 0.005, np.array(throughputs, dtype=np.float64)
    found = stopped(areas_mm2, rates)
    assert (found.num_chips, found.num_buckets, rates[found.best_row]) == looped(buckets, throughputs)


@given(st.lists(THROUGHPUTS, min_size=1, max_size=30, unique=True))
def test_a_rise_all_the_way_down_is_followed_to_the_end(throughputs):
    rising = np.array(sorted(throughputs), dtype=np.float64)
    found = stopped(np.arange(len(rising), 0, -1, dtype=np.float64), rising)
    assert (found.num_chips, found.best_row) == (len(rising), len(rising) - 1)


@given(st.integers(min_value=1, max_value=700), st.integers(min_value=0, max_value=2**32 - 1))
def test_asking_for_some_throughputs_gives_the_same_answer_as_all(num_chips, seed):
    rng = np.random.default_rng(seed)
    areas_mm2, rates = rng.integers(1, 300, num_chips) * 0.01 + 0.005, rng.random(num_chips)
    assert stopped_among(areas_mm2, lambda rows: rates[rows]) == stopped(areas_mm2, rates)
