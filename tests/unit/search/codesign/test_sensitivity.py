"""What binds the best system, what more would buy, and how far a common system is behind each model's own best."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dovetail.search.codesign.answers import SystemAnswer, answer_of
from dovetail.search.codesign.budget_sensitivity import BudgetSensitivity, limits_of
from dovetail.search.codesign.joint import joint_search, local_backend, places_at
from dovetail.search.codesign.per_model_best import per_model_best
from dovetail.search.codesign.question import Budget
from dovetail.search.codesign.scoring import Scorer, SystemScore
from dovetail.search.codesign.sensitivity import sensitivity_of
from dovetail.search.codesign.system_bounds import Bounds
from dovetail.search.codesign.systems import KNOBS
from dovetail.units import GIBI
from tests.codesign_questions import PLANS, question

VALUES = {"num_tensor": (1, 4, 16), "num_cols": (64, 256), "stack_gib": (4, 16)}
WHOLE = replace(PLANS, pipeline_parallel=(1,))  # without stages, so that nothing is uneven


@cache
def solved(budget: Budget) -> tuple[Scorer, SystemAnswer]:
    scorer = Scorer(question(("dense",), VALUES, budget=budget, plans=WHOLE))
    found = joint_search(scorer, local_backend(scorer))
    assert found is not None
    return scorer, answer_of(scorer.question, found.best)


@cache
def area_limited() -> tuple[Scorer, SystemAnswer]:
    """Nine tenths of the area that the best takes without a limit, and a power far above it."""
    _, best = solved(Budget())
    return solved(Budget(area_mm2=0.9 * best.area_mm2, power_w=10 * best.power_w))


@cache
def every_score() -> tuple[list[SystemScore], Bounds]:
    scorer, _ = solved(Budget())
    space = scorer.question.space
    return scorer.score(list(space.points()), math.inf), scorer.bounds(
        places_at(scorer.question, np.arange(space.num_points))
    )


def best_loss(area_mm2: float) -> float:
    """The least loss of systems of at most this area, every one scored."""
    scores, bounds = every_score()
    return min(score.loss for score, area in zip(scores, bounds.area_mm2, strict=True) if area <= area_mm2)


def limit(name: str) -> BudgetSensitivity:
    [one] = [one for one in sensitivity_of(*area_limited()).limits if one.name == name]
    return one


def test_a_limit_that_keeps_the_best_away_binds_and_one_far_off_does_not():
    assert limit("area_mm2").is_binding
    assert not limit("power_w").is_binding
    assert limit("power_w").raised is None
    assert limit("power_w").gain_frac_per_unit == 0


def test_without_a_binding_limit_the_best_is_that_of_a_search_without_it():
    _, best = area_limited()
    free = limit("area_mm2").free
    assert free is not None
    assert free.gain_frac == pytest.approx(best.loss / best_loss(math.inf) - 1, rel=1e-9)
    assert limit("area_mm2").is_complete


def test_raised_to_the_first_better_system_a_limit_allows_it_and_a_little_less_allows_nothing():
    _, best = area_limited()
    one = limit("area_mm2")
    assert one.raised is not None
    assert one.limit < one.raised.taken <= 1.25 * one.limit
    assert best_loss(one.raised.taken * (1 + 1e-9)) < best.loss
    assert best_loss(one.raised.taken * (1 - 1e-9)) == pytest.approx(best.loss)
    assert one.gain_frac_per_unit == one.raised.gain_frac / (one.raised.taken - one.limit)


def test_without_limits_only_resources_are_asked_about():
    found = sensitivity_of(*solved(Budget()))
    assert found.limits == ()
    assert {one.name for one in found.resources} == {
        "tensor rate", "vector rate", "HBM bandwidth", "SRAM bandwidth", "links", "HBM capacity",
    }  # fmt: skip
    gains = [one.gain_frac for one in found.resources]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 0
    assert all(gain <= 0.1 + 1e-9 for gain, one in zip(gains, found.resources, strict=True) if one.unit != "bytes")


def test_more_memory_buys_the_plan_that_just_does_not_fit():
    roomy = Scorer(question(("dense",), {"hbm_stacks": (1,), "stack_gib": (500,)}, plans=WHOLE))
    [best] = roomy.score([(0,) * len(KNOBS)], math.inf)
    need_bytes = roomy.plan_set(0, 300.0, 8, 1).need_bytes[best.cases[0].plan]
    base = roomy.question.base
    capacity_bytes = 0.93 * need_bytes / (base.usable_bytes / base.hbm.capacity_bytes)
    scorer = Scorer(question(("dense",), {"hbm_stacks": (1,), "stack_gib": (capacity_bytes / GIBI,)}, plans=WHOLE))
    found = joint_search(scorer, local_backend(scorer))
    assert found is not None
    resources = sensitivity_of(scorer, answer_of(scorer.question, found.best)).resources
    [memory] = [one for one in resources if one.name == "HBM capacity"]
    assert memory.more == pytest.approx(0.1 * memory.amount)
    assert memory.gain_frac == pytest.approx(found.best.loss / best.loss - 1, rel=1e-9)
    assert memory.gain_frac > 0


@cache
def held_by_two() -> tuple[Scorer, SystemAnswer]:
    """Nine tenths of both the area and the power that the best takes without a limit, and money enough for anything."""
    _, best = solved(Budget())
    return solved(Budget(area_mm2=0.9 * best.area_mm2, power_w=0.9 * best.power_w, total_usd=1e9))


def test_limits_that_bind_only_together_are_named_with_what_they_keep_away():
    scorer, best = held_by_two()
    limits, (scores, bounds) = scorer.question.budget, every_score()
    beyond_area, beyond_power = bounds.area_mm2 > limits.area_mm2, bounds.power_w > limits.power_w
    losses = np.array([score.loss for score in scores])
    is_better = losses < best.loss * (1 - 1e-9)
    assert not (is_better & (beyond_area ^ beyond_power)).any()  # so neither binds alone
    assert (is_better & beyond_area & beyond_power).any()
    found = sensitivity_of(scorer, best)
    assert [one.is_binding for one in found.limits] == [False, False, False]
    assert found.together is not None
    assert found.without_limits is not None
    assert (found.together.names, found.together.is_complete) == (("area_mm2", "power_w"), True)
    assert found.together.gain_frac == pytest.approx(best.loss / losses.min() - 1, rel=1e-9)
    assert found.without_limits.gain_frac == found.together.gain_frac
    assert found.without_limits.names == ("area_mm2", "power_w", "total_usd")
    assert found.without_limits.broken == ("area_mm2", "power_w")


def test_where_one_limit_binds_alone_no_set_is_named_and_all_lifted_gain_at_least_as_much():
    found = sensitivity_of(*area_limited())
    free = limit("area_mm2").free
    assert found.together is None
    assert found.without_limits is not None
    assert free is not None
    assert found.without_limits.gain_frac >= free.gain_frac


def test_limits_that_keep_nothing_away_leave_nothing_to_say():
    _, best = solved(Budget())
    roomy = solved(Budget(area_mm2=10 * best.area_mm2, power_w=10 * best.power_w))
    found = sensitivity_of(*roomy)
    assert (found.without_limits, found.together) == (None, None)


def test_limits_are_those_that_are_set():
    assert limits_of(Budget(power_w=300.0, total_usd=1e6)) == {"power_w": 300.0, "total_usd": 1e6}


def test_each_model_is_at_most_as_good_on_a_common_system_as_on_its_own_best():
    names, limits = ("dense", "tied"), Budget(area_mm2=600.0)
    scorer = Scorer(question(names, VALUES, budget=limits, plans=WHOLE))
    found = joint_search(scorer, local_backend(scorer))
    assert found is not None
    common, bests = answer_of(scorer.question, found.best), per_model_best(scorer)
    assert len(bests) == 2
    for index, own in enumerate(bests):
        assert own.cases[0].loss <= common.cases[index].loss * (1 + 1e-9)
        alone = Scorer(question((names[index],), VALUES, budget=limits, plans=WHOLE))
        searched = joint_search(alone, local_backend(alone))
        assert searched is not None
        assert own.loss == pytest.approx(searched.best.loss, rel=1e-12)
