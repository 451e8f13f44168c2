"""Pareto fronts: what bounds leave out is no loss, whatever the axes, the limits and the models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.search.codesign.dominance import Ranked, beaten, front_of, open_to, sorted_rows
from dovetail.search.codesign.joint import places_at
from dovetail.search.codesign.pareto import checked_axes, local_backend, pareto_front
from dovetail.search.codesign.question import Budget, systems_at
from dovetail.search.codesign.scoring import Scorer
from dovetail.search.codesign.systems import built_systems
from dovetail.search.space import Point
from tests.codesign_questions import BASES, question, some_values

AXES = ("throughput", "area", "power", "cost", "energy")


def ranked(rows: list[tuple[int, ...]]) -> Ranked:
    return Ranked(number=np.arange(len(rows)), figures=np.array(rows, dtype=np.float32).T)


def beats(one: Sequence[Any], other: Sequence[Any], *, is_first: bool) -> bool:
    no_worse = all(a <= b for a, b in zip(one, other, strict=True))
    return no_worse and (one != other or is_first)


@settings(max_examples=100)
@given(st.integers(2, 5).flatmap(lambda k: st.lists(st.tuples(*[st.integers(1, 6)] * k), min_size=1, max_size=60)))
def test_a_front_has_exactly_those_that_no_other_beats_and_the_first_of_equal_ones(rows):
    systems = ranked(rows)
    systems = systems.at(sorted_rows(systems))
    expected = {
        place
        for place, own in enumerate(rows)
        if not any(beats(other, own, is_first=i < place) for i, other in enumerate(rows) if i != place)
    }
    assert set(systems.number[front_of(systems)].tolist()) == expected


@settings(max_examples=100)
@given(
    st.integers(2, 5).flatmap(
        lambda k: st.tuples(*[st.lists(st.tuples(*[st.integers(1, 9)] * k), min_size=1, max_size=60)] * 2)
    )
)
def test_a_table_and_pairs_leave_the_same_systems_open(both):
    systems, others = (ranked(rows) for rows in both)
    systems = systems.at(sorted_rows(systems))
    front = Ranked(number=others.number + 1000, figures=others.figures)
    assert (open_to(systems, front) == ~beaten(systems, front)).all()


@settings(max_examples=7, deadline=None)
@given(
    case=st.sampled_from(["dense", "tied", "experts"]),
    base=st.sampled_from(BASES),
    axes=st.lists(st.sampled_from(AXES), min_size=2, max_size=5, unique=True),
    seed=st.integers(0, 2**20),
    is_limited=st.booleans(),
)
def test_a_front_by_bounds_is_that_of_every_system_scored(case, base, axes, seed, is_limited):
    values = some_values(Random(seed), 3)
    asked = question((case,), values, base=base, budget=Budget(area_mm2=700.0) if is_limited else Budget())
    same_front(Scorer(asked), checked_axes(axes))


def test_a_front_of_two_models_weighs_both():
    values = {"num_tensor": (1, 4), "num_cols": (64, 256), "stack_gib": (1, 2, 16)}
    asked = question(("dense", "tied"), values, weights=(1.0, 3.0))
    same_front(Scorer(asked), checked_axes(AXES))


def same_front(scorer: Scorer, axes: tuple[str, ...]) -> None:
    """Fails unless bounds leave the front of all systems within the limits, and counts add up."""
    found = pareto_front(scorer.question, local_backend(scorer), axes)
    points, figures = every_figure(scorer, axes)
    expected = {
        points[place]
        for place, own in enumerate(figures)
        if not any(beats(other, own, is_first=i < place) for i, other in enumerate(figures) if i != place)
    }
    assert {one.score.point for one in found.systems} == expected
    census = found.census
    parts = (
        census.num_over_limit
        + census.num_unshardable
        + census.num_out_of_memory
        + census.num_pruned
        + census.num_scored
    )
    assert parts == census.num_systems == scorer.question.space.num_points


def every_figure(scorer: Scorer, axes: tuple[str, ...]) -> tuple[list[Point], list[tuple[np.float32, ...]]]:
    """Points within the limits that some plan fits, in their order, with figures as a front compares them."""
    asked = scorer.question
    systems = systems_at(asked.space, places_at(asked, np.arange(asked.space.num_points)))
    built, num = built_systems(asked.base, systems), systems["num_devices"]
    inside = np.flatnonzero(asked.budget.excess_frac(built, num) == 0)
    every = list(asked.space.points())
    scores = scorer.score([every[place] for place in inside], math.inf) if len(inside) else []
    points, figures = [], []
    for place, score in zip(inside.tolist(), scores, strict=True):
        energy_j = asked.mean(np.array([[case.energy_j] for case in score.cases]))[0]
        own = {
            "throughput": score.loss,
            "area": (num * built.area_mm2)[place],
            "power": (num * built.power_w)[place],
            "cost": (num * built.price_usd)[place],
            "energy": energy_j,
        }
        if math.isfinite(score.loss):
            points.append(score.point)
            figures.append(tuple(np.float32(own[axis]) for axis in axes))
    return points, figures
