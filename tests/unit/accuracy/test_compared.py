from __future__ import annotations

import pytest

from dovetail.accuracy.bars import BARS, STATISTICS, Bar, bars_of
from dovetail.accuracy.compared import Compared, score
from dovetail.errors import InvalidInput


def row(measured: float, predicted: float, what: str = "") -> Compared:
    return Compared(set="s", kind="k", what=what, measured=measured, predicted=predicted, unit="s")


def test_the_error_is_above_zero_where_we_say_more_than_was_measured():
    assert row(2.0, 3.0).error_frac == 0.5
    assert row(2.0, 1.0).error_frac == -0.5


def test_a_score_has_mean_median_p90_bias_and_the_worst_rows_first():
    rows = [row(1.0, 1.0 + error, str(error)) for error in (0.1, -0.2, 0.3, 0.4, -0.5)]
    found = score(rows, num_worst=2)
    assert found.num_rows == 5
    assert found.mape_frac == pytest.approx(0.3)
    assert found.median_frac == pytest.approx(0.3)
    assert found.p90_frac == pytest.approx(0.46)
    assert found.worst_frac == pytest.approx(0.5)
    assert found.bias_frac == pytest.approx(0.02)
    assert [one.what for one in found.worst] == ["-0.5", "0.4"]


def test_no_rows_have_no_score():
    with pytest.raises(InvalidInput, match="at least one row"):
        score([])


def test_a_bar_holds_up_to_its_limit_and_not_beyond():
    bar = Bar(promise="p", statistic="MAPE", limit_frac=0.1)
    assert bar.holds(score([row(1.0, 1.1)]))
    assert not bar.holds(score([row(1.0, 1.11)]))
    assert Bar(promise="p", statistic="worst", limit_frac=0.0).holds(score([row(7.0, 7.0)]))
    assert not Bar(promise="p", statistic="worst", limit_frac=0.0).holds(score([row(7.0, 7.0000001)]))


def test_every_documented_bar_is_of_a_known_statistic_and_said_once():
    assert {bar.statistic for bar in BARS} <= set(STATISTICS)
    assert len({(bar.promise, bar.kind, bar.statistic) for bar in BARS}) == len(BARS)
    assert [(bar.statistic, bar.limit_frac) for bar in bars_of("tpu gemm")] == [("MAPE", 0.13)]
    assert bars_of("") == ()
