"""Black boxes over systems: what they are told, what is kept of it, and what they never are."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import replace
from random import Random

import pytest

from dovetail.search.algorithms import algorithms
from dovetail.search.codesign.answers import answer_of
from dovetail.search.codesign.black_box import black_box, may_fit
from dovetail.search.codesign.joint import SearchBackend, Standing, joint_search, local_backend
from dovetail.search.codesign.question import Budget
from dovetail.search.codesign.refining import RefinedSystem
from dovetail.search.codesign.scoring import Scorer, SystemScore
from tests.codesign_questions import PLANS, question

VALUES = {"num_tensor": (1, 2, 8), "num_lanes": (64, 128), "sram_mib": (32, 128), "num_devices": (4, 7)}
BOXES = [name for name, algorithm in algorithms.items() if not algorithm.is_exact]
WHOLE = replace(PLANS, pipeline_parallel=(1, 2))
SCORER = Scorer(question(("tied",), VALUES, plans=WHOLE))  # 24 points, half of them cut by no plan


def found_by(name: str, num_most: int, hands: SearchBackend | None = None, *, scorer: Scorer = SCORER, seed: int = 3):
    if algorithms[name].extra and importlib.util.find_spec("optuna") is None:
        pytest.skip("needs Optuna")
    return black_box(scorer, hands or local_backend(scorer), algorithms[name], Random(seed), num_most=num_most)


@pytest.mark.parametrize("name", BOXES)
def test_a_black_box_is_never_better_than_the_proven_best_nor_worse_than_its_first_system(name):
    proven = joint_search(SCORER, local_backend(SCORER))
    assert proven is not None
    assert proven.gap_frac == 0
    kept: list[SystemScore] = []
    found = found_by(name, 12, replace(local_backend(SCORER), keep=kept.extend))
    assert found is not None
    assert proven.best.loss * (1 - 1e-9) <= found.best.loss <= kept[0].loss
    assert found.bound <= proven.best.loss * (1 + 1e-9)  # a bound of all systems, whoever searches
    census = found.census
    counted = (
        census.num_over_limit,
        census.num_unshardable,
        census.num_out_of_memory,
        census.num_pruned,
        census.num_scored,
    )
    assert sum(counted) + census.num_unvisited == census.num_systems == 24
    assert census.num_unshardable == 12
    assert 0 < census.num_scored == len(kept) <= 12


@pytest.mark.parametrize("name", BOXES)
def test_the_same_seed_finds_the_same(name):
    one, other = found_by(name, 8), found_by(name, 8)
    assert (one.best, one.scored, one.bound, one.census) == (other.best, other.scored, other.bound, other.census)


def test_every_system_is_scored_by_itself_so_that_what_is_known_changes_nothing():
    kept: list[SystemScore] = []
    refined: list[RefinedSystem] = []
    tasks: list[int] = []

    def score(some):
        tasks.extend(len(points) for points, _ in some)
        return local_backend(SCORER).score(some)

    whole = found_by("random", 20, replace(local_backend(SCORER), keep=kept.extend, keep_refined=refined.extend))
    assert [one.point for one in refined] == [whole.best.point]
    for num_known in (0, 3, len(kept)):
        known = {one.point: one for one in kept[:num_known]}
        again = found_by("random", 20, replace(local_backend(SCORER), score=score, known=known))
        assert (again.best, again.scored, again.census) == (whole.best, whole.scored, whole.census)
    assert set(tasks) == {1}
    assert len(tasks) == len(kept) + len(kept) - 3


def test_all_points_looked_at_are_as_good_as_a_proof():
    told: list[Standing] = []
    found = found_by("grid", 24, replace(local_backend(SCORER), watch=told.append))
    proven = joint_search(SCORER, local_backend(SCORER))
    assert proven is not None
    assert found.scored[0].loss == pytest.approx(min(score.loss for score in proven.scored))
    assert (found.census.num_unvisited, found.census.num_scored) == (0, 12)
    losses = [one.loss for one in told]
    assert losses == sorted(losses, reverse=True)
    assert told[-1].num_open == 0


def test_limits_are_kept_and_what_lies_beyond_is_not_scored():
    free = found_by("grid", 24)
    limit_mm2 = 0.9 * answer_of(SCORER.question, free.best).area_mm2
    asked = question(("tied",), VALUES, plans=WHOLE, budget=Budget(area_mm2=limit_mm2))
    found = found_by("anneal", 24, scorer=Scorer(asked))
    assert found.census.num_over_limit > 0
    assert found.best.loss >= free.best.loss
    assert answer_of(asked, found.best).area_mm2 <= limit_mm2
    assert all(math.isfinite(score.low) for score in found.scored)


def test_nothing_is_found_where_nothing_may_fit():
    nowhere = Scorer(question(("tied",), VALUES, plans=WHOLE, budget=Budget(area_mm2=1.0)))
    assert found_by("random", 24, scorer=nowhere) is None
    assert not may_fit(nowhere)
    assert may_fit(SCORER)
