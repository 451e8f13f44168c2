"""Fronts of systems: axes, what is remembered, and what is told on the way."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from dovetail.errors import InvalidInput
from dovetail.search.codesign import dominance
from dovetail.search.codesign.dominance import Ranked, beaten, front_of, open_to, sorted_rows
from dovetail.search.codesign.pareto import (
    DEFAULT_AXES,
    FrontStanding,
    checked_axes,
    local_backend,
    metric_of,
    pareto_front,
)
from dovetail.search.codesign.question import Budget
from dovetail.search.codesign.scoring import Scorer, SystemScore
from tests.codesign_questions import PLANS, question

AXES = ("throughput", "area", "cost")
VALUES = {"num_tensor": (1, 2, 4, 16), "num_cols": (64, 128, 256), "stack_gib": (2, 4, 16)}


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("throughput", "volume"), "no axis is named 'volume'"),
        (("throughput",), "two axes or more, each once; got throughput"),
        ((), "two axes or more, each once; got none"),
        (("area", "area"), "each once; got area,area"),
        (("throughput", "perf/tdp", "area"), "best by one metric; got throughput,perf/tdp,area"),
    ],
)
def test_axes_that_make_no_front_are_refused(names, words):
    with pytest.raises(InvalidInput, match=words):
        checked_axes(names)


def test_axes_are_in_one_order_with_what_is_bounded_first():
    assert checked_axes(("cost", "energy", "tokens/J", "area")) == ("tokens/J", "energy", "area", "cost")
    assert metric_of(("tokens/J", "area")) == "tokens/J"
    assert metric_of(("area", "cost")) == "throughput"


def test_a_table_of_few_cells_settles_less_and_the_answer_is_the_same():
    rng = np.random.default_rng(7)
    systems = Ranked(number=np.arange(4000), figures=rng.random((4, 4000), dtype=np.float32))
    systems = systems.at(sorted_rows(systems))
    front = systems.at(front_of(systems))
    others = Ranked(number=np.arange(4000, 6000), figures=rng.random((4, 2000), dtype=np.float32))
    others = others.at(sorted_rows(others))
    with patch.object(dominance, "CELLS", 64):
        few = front_of(systems), open_to(others, front)
    assert (few[0] == front_of(systems)).all()
    assert (few[1] == open_to(others, front)).all()
    assert (few[1] == ~beaten(others, front)).all()


def test_what_is_remembered_is_not_scored_again():
    scorer = Scorer(question(("dense",), VALUES))
    hands = local_backend(scorer)
    kept: list[SystemScore] = []
    first = pareto_front(scorer.question, replace(hands, keep=kept.extend), AXES)
    assert len(kept) == first.census.num_scored

    def refuse(tasks):
        assert list(tasks) == []
        return iter(())

    known = {score.point: score for score in kept}
    again = pareto_front(scorer.question, replace(hands, known=known, score=refuse), AXES)
    assert again.systems == first.systems
    assert again.census == first.census


def test_the_best_by_the_first_axis_comes_first_and_no_other_is_as_good_on_all():
    scorer = Scorer(question(("dense",), VALUES))
    found = pareto_front(scorer.question, local_backend(scorer), AXES)
    losses = [one.score.loss for one in found.systems]
    assert losses == sorted(losses)
    assert len({one.score.point for one in found.systems}) == len(found.systems)


def test_the_front_is_told_of_as_it_grows():
    told: list[FrontStanding] = []
    scorer = Scorer(question(("dense",), VALUES))
    found = pareto_front(scorer.question, replace(local_backend(scorer), watch=told.append), AXES)
    assert told[-1].num_open == 0
    assert told[-1].num_front == len(found.systems)
    assert told[-1].num_scored == found.census.num_scored


def test_where_nothing_is_within_the_limits_the_front_is_empty():
    scorer = Scorer(question(("dense",), VALUES, budget=Budget(area_mm2=1.0)))
    found = pareto_front(scorer.question, local_backend(scorer), AXES)
    assert found.systems == ()
    assert found.census.num_over_limit == found.census.num_systems == 36


def test_energy_says_how_tight_its_bound_is():
    scorer = Scorer(question(("dense",), VALUES))
    found = pareto_front(scorer.question, local_backend(scorer), checked_axes(("throughput", "energy")))
    assert 0 < found.energy_bound_frac <= 1


def test_devices_that_no_plan_cuts_are_counted_and_leave_the_front_as_it_is():
    whole = replace(PLANS, pipeline_parallel=(1, 2))
    values = {"num_tensor": (1, 2, 8), "num_lanes": (64, 128)}
    fronts = []
    for devices in ((4,), (4, 7)):
        asked = question(("tied",), {**values, "num_devices": devices}, plans=whole)
        fronts.append(pareto_front(asked, local_backend(Scorer(asked)), DEFAULT_AXES))
    assert [found.census.num_unshardable for found in fronts] == [0, 6]
    assert [one.score.loss for one in fronts[0].systems] == [one.score.loss for one in fronts[1].systems]
