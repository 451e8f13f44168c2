"""Figures of a cluster changed one at a time."""

from __future__ import annotations

import pytest

from dovetail.errors import InvalidInput
from dovetail.hardware.altered import altered, figures_of
from dovetail.hardware.clusters import clusters

CLUSTER = clusters["dgx-h100"].build(16)


@pytest.mark.parametrize("key", [figure.key for figure in figures_of(CLUSTER, "bf16")])
def test_a_figure_is_as_many_times_its_own_as_was_asked_and_no_other_moves_unless_it_says_so(key):
    before = {figure.key: figure.value for figure in figures_of(CLUSTER, "bf16")}
    after = {figure.key: figure.value for figure in figures_of(altered(CLUSTER, {key: 2.0}, "bf16"), "bf16")}
    assert after[key] == pytest.approx(2 * before[key])
    moved = {name for name in before if after[name] != pytest.approx(before[name])}
    assert moved == ({key, "peak"} if key == "clock" else {key})


def test_nothing_changed_is_the_same_cluster():
    assert altered(CLUSTER, {}, "bf16") == CLUSTER
    assert altered(CLUSTER, {"peak": 1.0}, "bf16") == CLUSTER


@pytest.mark.parametrize("times", [{"no-such": 2.0}, {"peak": 5.0}, {"peak": 0.1}, {"peak": float("nan")}])
def test_what_is_no_figure_or_goes_too_far_is_refused(times):
    with pytest.raises(InvalidInput):
        altered(CLUSTER, times, "bf16")
