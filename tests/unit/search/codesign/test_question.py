"""What a joint search is asked: weights, limits, spaces, and how several models count as one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dovetail.errors import InvalidInput
from dovetail.hardware.catalog import chips
from dovetail.search.codesign.question import Budget, Case, places_of, system_space, systems_at
from dovetail.search.codesign.systems import BY_SIZE, KNOBS, built_systems, system_of
from tests.codesign_questions import PLANS, question, workload

CHIP = chips["tpuv4-like"]()


def built(**changes: float):
    system = system_of(CHIP, 8) | changes
    return built_systems(CHIP, {name: np.array([value]) for name, value in system.items()})


@pytest.mark.parametrize("weight", [0.0, -1.0, math.inf, math.nan])
def test_a_weight_is_positive_and_finite(weight):
    with pytest.raises(InvalidInput, match="the weight of llama2-7b must be positive"):
        Case(workload=workload("dense"), plans=PLANS, weight=weight)


@pytest.mark.parametrize("name", ["area_mm2", "power_w", "total_area_mm2", "total_power_w", "total_usd"])
def test_a_limit_is_positive_and_says_which_it_is(name):
    with pytest.raises(InvalidInput, match=f"the limit {name} must be positive; got 0"):
        Budget(**{name: 0.0})


def test_only_limits_that_are_set_have_shares_and_totals_count_all_devices():
    one = built()
    budget = Budget(power_w=2 * float(one.power_w[0]), total_usd=4 * float(one.price_usd[0]))
    shares = budget.shares(one, np.array([8.0]))
    assert shares.keys() == {"power_w", "total_usd"}
    assert (shares["power_w"][0], shares["total_usd"][0]) == pytest.approx((0.5, 2.0))
    assert budget.excess_frac(one, np.array([8.0]))[0] == pytest.approx(1.0)
    assert budget.excess_frac(one, np.array([4.0]))[0] == 0.0  # at the limit is within it
    assert Budget().excess_frac(one, np.array([1e9]))[0] == 0.0


def test_several_models_count_by_a_weighted_geometric_mean():
    asked = question(("dense", "tied"), {}, weights=(3.0, 1.0))
    assert asked.weights.tolist() == [0.75, 0.25]
    losses = np.array([[1.0, 16.0], [16.0, 1.0]])
    assert asked.combined(losses).tolist() == pytest.approx([2.0, 8.0])
    assert asked.combined(np.array([[1.0], [math.inf]]))[0] == math.inf  # one that does not fit is no system


def test_a_space_has_a_knob_for_all_that_a_system_is():
    space = system_space(CHIP, 8, {"sram_mib": (16, 64), "num_devices": (4, 8)})
    assert tuple(knob.name for knob in space.knobs) == KNOBS
    assert space.num_points == 4
    own = dict(zip(KNOBS, space.values(next(space.points())), strict=True))
    assert own == system_of(CHIP, 8) | {"sram_mib": 16, "num_devices": 4}
    with pytest.raises(InvalidInput, match="no knob is named 'sram'; there are num_tensor"):
        system_space(CHIP, 8, {"sram": (16,)})


def test_points_become_systems_and_none_is_an_empty_table():
    space = system_space(CHIP, 8, {"num_lanes": (16, 64), "num_devices": (4, 8)})
    points = list(space.points())
    systems = systems_at(space, places_of(points))
    for row, point in enumerate(points):
        assert tuple(systems[name][row] for name in KNOBS) == space.values(point)
    assert len(systems_at(space, places_of([]))["num_tensor"]) == 0


def test_a_core_buffer_is_chosen_only_where_cores_have_their_own():
    knobs = {knob.name: knob for knob in system_space(CHIP, 8, {"core_buffer_kib": (16, 64)}).knobs}
    assert list(knobs["core_buffer_kib"].values) == [16, 64]
    shared = chips["tpuv2-like"]()
    with pytest.raises(
        InvalidInput, match=r"tensor cores of tpuv2-like have no buffers of their own.*; choose sram_mib"
    ):
        system_space(shared, 8, {"core_buffer_kib": (16, 64)})
    assert system_space(shared, 8, {"core_buffer_kib": (BY_SIZE,)}) == system_space(shared, 8, {})
