from __future__ import annotations

import pytest

from dovetail.accuracy.appraisal import GAP_COLUMNS, NOW, Gap, Speed, gap_over, gaps_of
from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.peer_speeds import PEER_SPEEDS, PeerSpeed, peers_of


def speed(per_item_s: float) -> Speed:
    return Speed(
        operation="plans", what="plans", item="plans", per_item_s=per_item_s, num_runs=3, peers=peers_of("plans")
    )


def test_a_peer_takes_as_many_times_as_long_as_its_best_is_over_ours():
    slow = PeerSpeed(operation="it", peer="slow", least_s=2.0, most_s=8.0, source="run: 2 to 8 s")
    assert speed(0.5).ratio_to(slow) == 4.0
    assert speed(4.0).ratio_to(slow) == 0.5


def test_a_recorded_rate_is_kept_as_seconds_of_one_the_fastest_first():
    [calculon] = peers_of("plans")
    assert (1 / calculon.most_s, 1 / calculon.least_s) == pytest.approx((115, 158))
    assert calculon.how == "run"


def test_every_peer_has_a_time_and_says_where_it_is_from():
    for peer in PEER_SPEEDS:
        assert 0 < peer.least_s <= peer.most_s, peer
        assert peer.how in ("run", "paper"), peer
        assert len(peer.source) > 10, peer


def test_a_gap_over_several_answers_has_their_mean_and_worst_and_counts_the_best():
    found = gap_over("plans", [0.0, 0.02, 1e-12, 0.04], NOW)
    assert found == Gap(what="plans", num=4, num_best=2, mean_frac=found.mean_frac, worst_frac=0.04, source=NOW)
    assert found.mean_frac == pytest.approx(0.015)


def test_recorded_gaps_are_read_from_their_table():
    row = ("plans", "3", "1", "0.01", "0.02", "results.json")
    table = Measurements(name="gaps", shown="gaps.csv", columns=GAP_COLUMNS, rows=(row,), lines=(2,))
    [gap] = gaps_of(table)
    assert gap == Gap(what="plans", num=3, num_best=1, mean_frac=0.01, worst_frac=0.02, source="results.json")
