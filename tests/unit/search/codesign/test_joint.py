"""The joint search: what it keeps, tells and answers; and searches one after the other beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from dovetail.errors import InvalidInput, NotModelled
from dovetail.search.codesign.answers import answer_of, base_answer, gain_frac, only_plan, separate, with_reference
from dovetail.search.codesign.joint import CHUNK, Hands, Standing, joint_search, own_hands
from dovetail.search.codesign.question import Budget
from dovetail.search.codesign.scoring import Scorer, SystemScore
from dovetail.search.codesign.tasks import refine_task, score_task, scorer_of
from dovetail.search.space import Point
from tests.codesign_questions import PLANS, question

VALUES = {"num_tensor": (1, 2, 8), "num_lanes": (64, 128), "sram_mib": (32, 128)}
WHOLE = replace(PLANS, pipeline_parallel=(1,), recompute=("none",))  # nothing to refine


def searched(asked, **more):
    scorer = Scorer(asked)
    return joint_search(scorer, own_hands(scorer), **more)


def test_a_search_is_told_as_it_goes_and_ends_with_nothing_left():
    asked = question(("tied",), VALUES)
    scorer = Scorer(asked)
    told: list[Standing] = []
    kept: list[SystemScore] = []
    found = joint_search(scorer, replace(own_hands(scorer), watch=told.append, keep=kept.extend))
    assert found is not None
    assert found.gap_frac == 0
    assert {one.phase for one in told} == {"systems", "uneven plans"}
    losses = [one.loss for one in told]
    assert losses == sorted(losses, reverse=True)
    assert all(one.bound <= one.loss for one in told)
    assert told[-1].num_open == 0
    assert len(kept) == found.census.num_scored == len(found.scored)
    assert [score.loss for score in found.scored] == sorted(score.loss for score in found.scored)


def test_chunks_are_the_same_whatever_is_known_and_scored_whole():
    asked = question(("tied",), {**VALUES, "clock_mhz": (700, 1050), "num_cols": (64, 128, 256)}, plans=WHOLE)
    scorer = Scorer(asked)
    first: list[SystemScore] = []
    whole = joint_search(scorer, replace(own_hands(scorer), keep=first.extend), is_exhaustive=True)
    assert len(first) == asked.space.num_points > 2 * CHUNK
    known = {score.point: score for score in first[: CHUNK + 3]}
    tasks: list[tuple[Sequence[Point], float]] = []

    def score(some):
        tasks.extend(some)
        return own_hands(scorer).score(some)

    kept: list[SystemScore] = []
    again = joint_search(
        scorer, Hands(score=score, refine=own_hands(scorer).refine, known=known, keep=kept.extend), is_exhaustive=True
    )
    assert [len(points) for points, _ in tasks] == [CHUNK, len(first) - 2 * CHUNK]
    assert kept == first[CHUNK + 3 :]
    assert whole is not None
    assert again is not None
    assert (again.best, again.scored) == (whole.best, whole.scored)


def test_limits_that_no_system_keeps_leave_no_answer_and_so_does_memory():
    assert searched(question(("tied",), VALUES, budget=Budget(area_mm2=1.0))) is None
    tiny = {"hbm_stacks": (1,), "stack_gib": (1,)}
    assert searched(question(("dense",), tiny, plans=replace(PLANS, tensor_parallel=(1,)))) is None


def test_the_best_keeps_every_limit():
    free = searched(question(("tied",), VALUES))
    assert free is not None
    asked = question(("tied",), VALUES)
    wide = answer_of(asked, free.best)
    tight = question(("tied",), VALUES, budget=Budget(area_mm2=0.9 * wide.area_mm2, total_usd=8 * wide.price_usd))
    found = searched(tight)
    assert found is not None
    best = answer_of(tight, found.best)
    assert best.area_mm2 <= 0.9 * wide.area_mm2
    assert found.best.loss >= free.best.loss
    assert found.census.num_beyond > 0


def test_plans_that_no_number_of_devices_can_have_are_refused_and_offload_is_not_modelled():
    asked = question(("tied",), {"num_devices": (7,)}, plans=replace(PLANS, pipeline_parallel=(3,)))
    with pytest.raises(InvalidInput, match="no plan of the space cuts gpt2-345m for 7 devices of this network"):
        searched(asked)
    with pytest.raises(NotModelled, match="searched without offload"):
        searched(question(("tied",), {}, plans=replace(PLANS, offload_optimizer=(False, True))))


def test_one_search_after_the_other_is_of_the_plans_devices():
    asked = question(("tied",), {**VALUES, "num_devices": (4, 8)})
    base = base_answer(asked)
    assert base is not None
    assert base.num_devices == 8
    asked = with_reference(asked, base)
    after, joint = separate(asked, base), searched(asked)
    assert after.plan_then_chip is not None
    assert after.chip_then_plan is not None
    assert joint is not None
    assert after.plan_then_chip.num_devices == 8
    assert joint.best.loss <= after.chip_then_plan.loss * (1 + 1e-9) <= after.plan_then_chip.loss * (1 + 2e-9)
    space = only_plan(base.cases[0], PLANS)
    assert space.recompute == PLANS.recompute  # by stage, so not part of what is fixed
    assert space.data_parallel == (base.cases[0].plan.data_parallel,)


def test_a_base_that_cannot_run_a_model_is_no_answer_and_losses_are_then_over_nothing():
    asked = question(("dense",), {"stack_gib": (16,)}, base="tpuv2-like", plans=replace(PLANS, tensor_parallel=(1,)))
    tight = replace(asked, base=replace(asked.base, hbm=replace(asked.base.hbm, capacity_bytes=2.0**30)))
    small = question(("dense",), {"stack_gib": (1,), "hbm_stacks": (1,)}, plans=replace(PLANS, tensor_parallel=(1,)))
    assert base_answer(small) is None
    assert with_reference(tight, None).reference_losses == (1.0,)


def test_twice_as_good_is_a_gain_of_one():
    asked = question(("tied", "dense"), {}, weights=(1.0, 3.0))
    found = searched(asked)
    assert found is not None
    best = answer_of(asked, found.best)
    worse = replace(best, cases=tuple(replace(case, loss=2 * case.loss) for case in best.cases))
    assert gain_frac(best, worse, (1.0, 3.0)) == pytest.approx(1.0)
    one = replace(best, cases=(replace(best.cases[0], loss=16 * best.cases[0].loss), best.cases[1]))
    assert gain_frac(best, one, (1.0, 3.0)) == pytest.approx(1.0)  # 16 to the fourth root is 2


def test_a_worker_makes_its_scorer_once_for_a_question():
    asked, other = question(("tied",), VALUES), question(("tied",), VALUES)
    scorer = scorer_of(asked)
    assert scorer_of(asked) is scorer
    point = next(asked.space.points())
    [score] = score_task(asked, ([point], math.inf))
    assert [score] == scorer.score([point], math.inf)
    refined = refine_task(asked, (score, math.inf))
    assert refined.loss <= score.loss
    assert scorer_of(other) is not scorer
