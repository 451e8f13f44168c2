"""Layers by stage, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.search.planners.least_pace import Cut, least_pace_s, least_sum


def cut_best(num_units, table_s, min_units=1):
    """The least pace of one plan and the units of its stages; nothing where it does not fit."""
    table_s = np.array([table_s], dtype=float)
    cut = Cut(num_units=np.array([num_units]), is_stage=np.ones(table_s.shape[:2], dtype=bool), min_units=min_units)
    pace_s = least_pace_s(cut, table_s)
    if not np.isfinite(pace_s[0]):
        return None
    num_most = (table_s[:, :, 1:] <= pace_s[:, None, None]).sum(axis=2)
    return pace_s[0], least_sum(cut, table_s, num_most, np.array([True]))[0].tolist()


def stage(unit_s, fixed_s=0.0, most=40):
    """Seconds of a stage with 0 to 40 units, of which memory holds `most`."""
    return [fixed_s + n * unit_s if n <= most else np.inf for n in range(41)]


def test_alike_stages_share_evenly():
    assert cut_best(12, [stage(2)] * 4) == (6, [3, 3, 3, 3])


def test_a_head_of_one_units_time_takes_one_unit_from_the_last_stage():
    assert cut_best(11, [*[stage(2)] * 3, stage(2, fixed_s=2)]) == (6, [3, 3, 3, 2])


def test_a_slow_chip_holds_fewer_units():
    assert cut_best(10, [stage(4), stage(2), stage(2), stage(2)]) == (6, [1, 3, 3, 3])


def test_one_stage_may_take_nearly_everything():
    assert cut_best(40, [stage(90), stage(1), stage(90), stage(90)]) == (90, [1, 37, 1, 1])


def test_units_go_where_they_take_least_at_the_same_pace():
    """At a pace of 6 the stages hold 3 and 6 units, one more than there are: it leaves the one where a unit is 2 s."""
    assert cut_best(8, [stage(2), stage(1)]) == (6, [2, 6])


def test_what_memory_does_not_hold_goes_elsewhere():
    assert cut_best(11, [stage(2, most=2), *[stage(2)] * 3]) == (6, [2, 3, 3, 3])


@pytest.mark.parametrize(("min_units", "fits"), [(0, True), (1, False)])
def test_fewer_units_than_stages_do_not_fit_unless_stages_may_be_empty(min_units, fits):
    assert (cut_best(3, [stage(2)] * 4, min_units) is not None) == fits


def test_memory_that_holds_too_little_does_not_fit():
    assert cut_best(12, [stage(2, most=2)] * 4) is None
