"""The joint search: what it keeps, tells and answers; and searches one after the other beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from dovetail.errors import NotModelled
from dovetail.hardware.catalog import chips
from dovetail.search.codesign.answers import (
    answer_of,
    base_answer,
    gain_frac,
    only_plan,
    separate,
    thumb_plan,
    with_reference,
)
from dovetail.search.codesign.joint import CHUNK, SearchBackend, Standing, joint_search, local_backend
from dovetail.search.codesign.question import Budget, places_of
from dovetail.search.codesign.scoring import Scorer, SystemScore
from dovetail.search.codesign.systems import system_of
from dovetail.search.codesign.tasks import refine_task, score_task, scorer_of
from dovetail.search.metrics import metrics
from dovetail.search.space import Point
from tests.codesign_questions import PLANS, question

VALUES = {"num_tensor": (1, 2, 8), "num_lanes": (64, 128), "sram_mib": (32, 128)}
WHOLE = replace(PLANS, pipeline_parallel=(1,), recompute=("none",))  # nothing to refine


def searched(asked, **more):
    scorer = Scorer(asked)
    return joint_search(scorer, local_backend(scorer), **more)


def test_a_search_is_told_as_it_goes_and_ends_with_nothing_left():
    asked = question(("tied",), VALUES)
    scorer = Scorer(asked)
    told: list[Standing] = []
    kept: list[SystemScore] = []
    found = joint_search(scorer, replace(local_backend(scorer), watch=told.append, keep=kept.extend))
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
    whole = joint_search(scorer, replace(local_backend(scorer), keep=first.extend), is_exhaustive=True)
    assert len(first) == asked.space.num_points > 2 * CHUNK
    known = {score.point: score for score in first[: CHUNK + 3]}
    tasks: list[tuple[Sequence[Point], float]] = []

    def score(some):
        tasks.extend(some)
        return local_backend(scorer).score(some)

    kept: list[SystemScore] = []
    again = joint_search(
        scorer,
        SearchBackend(score=score, refine=local_backend(scorer).refine, known=known, keep=kept.extend),
        is_exhaustive=True,
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
    assert found.census.num_over_limit > 0


def test_devices_that_no_plan_cuts_are_counted_and_the_search_goes_on_without_them():
    plans = replace(PLANS, pipeline_parallel=(1, 2))
    with_seven = question(("tied",), {**VALUES, "num_devices": (4, 7)}, plans=plans)
    found, without = searched(with_seven), searched(question(("tied",), {**VALUES, "num_devices": (4,)}, plans=plans))
    assert found is not None
    assert without is not None
    census = found.census
    assert (census.num_unshardable, census.num_systems) == (12, 24)
    assert (
        census.num_unshardable + census.num_out_of_memory + census.num_pruned + census.num_scored == census.num_systems
    )
    assert (found.best, found.bound) == (without.best, without.bound)
    every = searched(with_seven, is_exhaustive=True)
    assert every is not None
    assert (every.census.num_unshardable, every.census.num_scored) == (12, 12)
    assert every.best.loss == pytest.approx(found.best.loss)
    base = base_answer(with_seven)
    assert base is not None
    assert base.num_devices == 4  # the most that plans cut


def test_devices_that_no_plan_cuts_alone_leave_no_answer():
    asked = question(("tied",), {"num_devices": (7,)}, plans=replace(PLANS, pipeline_parallel=(3,)))
    assert searched(asked) is None
    assert base_answer(asked) is None


def test_one_model_that_is_not_cut_rules_a_system_out_for_all():
    plans = replace(PLANS, tensor_parallel=(1,), pipeline_parallel=(1, 2, 5))  # of 5 layers and of 4, 16 samples
    scorer = Scorer(question(("tied", "experts"), {"num_devices": (4, 5)}, plans=plans))
    points = list(scorer.question.space.points())
    assert [[one.model for one in scorer.unshardable_at(point)] for point in points] == [[], ["mixtral-8x7b"]]
    lower_bounds, counts = scorer.lower_bounds(places_of(points))
    assert np.isinf(lower_bounds).tolist() == [False, True]
    assert counts.tolist() == [2, 0, 1, 0]
    assert np.isinf([score.loss for score in scorer.score(points, math.inf)]).tolist() == [False, True]


def test_offload_is_not_modelled():
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
    assert after.chip_then_plan.num_devices == 8
    assert joint.best.loss <= min(after.chip_then_plan.loss, after.plan_then_chip.loss) * (1 + 1e-9)
    space = only_plan(base.cases[0].plan, PLANS)
    assert space.recompute == PLANS.recompute  # by stage, so not part of what is fixed
    assert space.data_parallel == (base.cases[0].plan.data_parallel,)


def test_the_base_is_the_catalogue_chip_whatever_the_space_fixes_or_allows():
    fixed = {"num_tensor": (16,), "num_vector": (8,), "sram_mib": (32,), "clock_mhz": (700,), "endpoint": (3,)}
    asked = question(("tied",), fixed, budget=Budget(area_mm2=1.0))
    base = base_answer(asked)
    assert base is not None
    own = system_of(chips["tpuv4-like"](), 8)
    assert base.system == own | {"link_gb_per_s": 300.0}  # of one speed: the network that all are compared on
    chosen = base_answer(replace(asked, space=question(("tied",), {**fixed, "link_gb_per_s": (50, 300)}).space))
    assert chosen is not None
    assert chosen.system == own  # links that may be chosen are a choice too


def test_a_plan_by_rule_of_thumb_cuts_no_more_than_memory_asks_for():
    asked = question(("dense",), {})
    plan_set = Scorer(asked).plan_set(0, 300.0, 8, 1)
    roomy = thumb_plan(plan_set, math.inf)
    whole = (roomy.tensor_parallel, roomy.pipeline_parallel, roomy.microbatch, roomy.recompute)
    assert whole == (1, 1, 1, ("none",))
    need_bytes = plan_set.need_bytes
    kept = (plan_set.plans.tensor_parallel * plan_set.plans.pipeline_parallel == 1) & (plan_set.plans.microbatch == 1)
    of_policy = {int(plan_set.plans.recompute[row]): float(need_bytes[row]) for row in np.flatnonzero(kept)}
    tighter = thumb_plan(plan_set, max(of_policy.values()) * (1 - 1e-9))
    assert (tighter.tensor_parallel, tighter.pipeline_parallel, tighter.recompute) == (1, 1, ("full",))
    cut = thumb_plan(plan_set, min(of_policy.values()) * (1 - 1e-9))
    assert cut.tensor_parallel * cut.pipeline_parallel == 2
    least = thumb_plan(plan_set, 1.0)  # nothing fits evenly: what needs least
    row = int(np.argmin(need_bytes))
    assert least == plan_set.plans.plan(row)


def test_even_stages_alone_are_searched_where_they_are_asked_for():
    plans = replace(PLANS, tensor_parallel=(1,), pipeline_parallel=(4,), recompute=("none", "full"))
    free = question(("dense",), VALUES, plans=plans)  # of six layers: no cut into four is even in its seconds
    asked = replace(free, cases=(replace(free.cases[0], is_even_only=True),))
    any_stages, even = searched(free), searched(asked)
    assert any_stages is not None
    assert even is not None
    assert any_stages.best.cases[0].plan.layers_per_stage  # uneven is better here
    plan = even.best.cases[0].plan
    assert (plan.layers_per_stage, len(set(plan.recompute))) == ((), 1)
    assert even.best.loss > any_stages.best.loss
    every = searched(asked, is_exhaustive=True)
    assert every is not None
    assert (every.best.loss, even.gap_frac) == (pytest.approx(even.best.loss), 0.0)


@pytest.mark.parametrize("metric", metrics.names())
def test_even_plans_alone_are_closed_by_every_metric(metric):
    asked = question(("tied",), VALUES, metric=metric)
    found = searched(replace(asked, cases=(replace(asked.cases[0], is_even_only=True),)))
    assert found is not None
    assert (found.gap_frac, found.census.num_open) == (0.0, 0)
    scorer = Scorer(asked)
    best = min(score.loss for score in scorer.score(list(asked.space.points()), math.inf))
    assert found.best.loss == pytest.approx(best, rel=1e-12)


def test_a_base_that_cannot_run_a_model_is_no_answer_and_losses_are_then_over_nothing():
    plans = replace(PLANS, tensor_parallel=(1,), pipeline_parallel=(1,))
    asked = question(("dense",), {"stack_gib": (16,)}, base="tpuv2-like", plans=plans)
    tight = replace(asked, base=replace(asked.base, hbm=replace(asked.base.hbm, capacity_bytes=4 * 2.0**30)))
    assert base_answer(tight) is None  # though all that may be chosen fits
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


def test_networks_of_other_links_share_their_plans_and_score_as_each_does_alone():
    links = (5, 50, 300)
    asked = question(("tied",), {"link_gb_per_s": links, "endpoint": (1, 2)})
    together = Scorer(asked)
    points = list(asked.space.points())
    scores = {score.point: score for score in together.score(points, math.inf)}
    first, other = together.plan_set(0, 5.0, 8, 1), together.plan_set(0, 300.0, 8, 2)
    assert first.plans is other.plans
    assert first.cluster != other.cluster
    knobs = [knob.name for knob in asked.space.knobs]
    for point in points:
        values = dict(zip(knobs, asked.space.values(point), strict=True))
        alone = question(("tied",), {name: (values[name],) for name in ("link_gb_per_s", "endpoint")})
        [own] = Scorer(alone).score(list(alone.space.points()), math.inf)
        assert (own.loss, own.low) == pytest.approx((scores[point].loss, scores[point].low), rel=1e-12)
    smaller = first.elsewhere(asked.network(asked.base, 4))
    assert smaller is None  # of another shape


def test_what_is_proven_of_larger_memories_goes_for_smaller_ones():
    values = {"num_tensor": (4, 8), "sram_mib": (32, 64, 128), "stack_gib": (8, 16, 24), "num_devices": (8,)}
    plans = replace(PLANS, tensor_parallel=(1,), pipeline_parallel=(4,))
    asked = question(("dense",), values, plans=plans)
    found, every = searched(asked), searched(asked, is_exhaustive=True)
    assert found is not None
    assert every is not None
    assert (found.best.loss, found.best.point) == (every.best.loss, every.best.point)
    assert found.gap_frac == every.gap_frac == 0.0
    assert found.census.num_refined < every.census.num_refined
