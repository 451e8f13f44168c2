"""How likely plans fit rests on measured runs: the spread is theirs, and it covers runs that were left out."""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import fmean, pstdev

import pytest

from benchmarks.memory_rows import h200_rows, published_rows
from dovetail.accuracy.memory_margin import (
    EVIDENCE,
    FIT_PROBABILITY,
    check_probability,
    fit_probability,
    memory_spread,
    spread_of_all,
)
from dovetail.errors import InvalidInput
from dovetail.parallel.frameworks import frameworks

NOT_REFUSED = {"M0231"}  # 62 GiB by our count, where a run of 68 GiB by theirs ran: out of memory for another reason


@pytest.fixture(scope="module")
def rows():
    return (*published_rows(), *h200_rows())


def errors_by_publisher(rows) -> dict[str, list[float]]:
    found = defaultdict(list)
    for row in rows:
        if row.is_measured:
            found[row.source.split()[0]].append(math.log(row.measured_bytes / row.predicted_bytes))
    return found


def test_the_evidence_is_what_the_shipped_rows_come_to(rows):
    found = errors_by_publisher(rows)
    for one in EVIDENCE:
        if one.publisher == "hf_steps":  # its table is not shipped; python -m benchmarks.bars frameworks reads it
            continue
        errors = found.pop(one.publisher)
        assert one.num_rows == len(errors)
        assert one.mean == pytest.approx(fmean(errors), abs=1e-4)
        assert one.sd == pytest.approx(pstdev(errors), abs=1e-4)
    assert not found


def test_the_interval_covers_publishers_that_are_left_out(rows):
    num_covered = num_all = 0
    for publisher, errors in errors_by_publisher(rows).items():
        low, high = spread_of_all(tuple(one for one in EVIDENCE if one.publisher != publisher)).interval_frac(0.9)
        num_covered += sum(low <= math.exp(error) <= high for error in errors)
        num_all += len(errors)
    assert 0.85 <= num_covered / num_all <= 0.95


def test_runs_that_failed_are_refused_and_few_that_ran(rows):
    framework_of = {one.publisher: one.frameworks[0] for one in EVIDENCE if one.frameworks}
    decisions = [row for row in rows if row.is_decision]

    def is_refused(row) -> bool:
        framework = framework_of.get(row.source.split()[0], "plain")
        return fit_probability(row.need_bytes, row.limit_bytes, framework) < FIT_PROBABILITY

    assert {row.row for row in decisions if not row.has_run and not is_refused(row)} <= NOT_REFUSED
    ran = [row for row in decisions if row.has_run]
    assert sum(map(is_refused, ran)) / len(ran) <= 0.03


def test_a_framework_without_runs_of_its_own_is_no_surer_than_all_together():
    everyone = spread_of_all()
    for name in frameworks.names():
        spread = memory_spread(name)
        assert spread.num_rows > 0 or (spread.mean, spread.sd) == pytest.approx((everyone.mean, everyone.sd))


@pytest.mark.parametrize("framework", frameworks.names())
@pytest.mark.parametrize("probability", [0.5, 0.9, 0.95, 0.99])
def test_headroom_and_probability_are_two_ways_to_say_one_thing(framework, probability):
    spread = memory_spread(framework)
    headroom_frac = spread.headroom_frac(probability)
    assert spread.fit_probability(1.0 - headroom_frac, 1.0) >= probability - 1e-9
    assert spread.fit_probability(1.0, 1.0) < spread.fit_probability(0.9, 1.0) < spread.fit_probability(0.8, 1.0)


def test_a_probability_that_means_nothing_is_refused():
    assert check_probability(0.95) == 0.95
    with pytest.raises(InvalidInput, match=r"from 0\.5 to 0\.999; got 1"):
        check_probability(1.0)
