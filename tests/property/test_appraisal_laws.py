from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dovetail.accuracy.appraisal import Speed, gap_over
from dovetail.accuracy.peer_speeds import PeerSpeed

GAPS = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20)
TIMES_S = st.floats(1e-9, 1e5)


@given(GAPS)
def test_a_mean_gap_is_between_nothing_and_the_worst_and_the_order_of_answers_does_not_matter(gaps):
    found = gap_over("it", gaps, "now")
    assert 0.0 <= found.mean_frac <= found.worst_frac * (1 + 1e-9)
    assert 0 <= found.num_best <= found.num == len(gaps)
    turned = gap_over("it", gaps[::-1], "now")
    assert (turned.worst_frac, turned.num_best) == (found.worst_frac, found.num_best)


@given(TIMES_S, TIMES_S)
def test_who_takes_twice_as_long_is_half_as_fast_beside_others(ours_s, other_s):
    peer = PeerSpeed(operation="it", peer="other", least_s=other_s, most_s=other_s, source="run: so long")
    once, twice = (
        Speed(operation="it", what="it", item="", per_item_s=per_item_s, num_runs=1, peers=(peer,)).ratio_to(peer)
        for per_item_s in (ours_s, 2 * ours_s)
    )
    assert once == 2 * twice
