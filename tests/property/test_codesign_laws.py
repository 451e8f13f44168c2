"""Chip and plan together: pruning loses nothing, and a search that goes on answers as one never stopped."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.hardware.catalog import chips
from dovetail.parallel.plan import Overlap
from dovetail.search.codesign.answers import base_answer, only_plan, separate, thumb_plans, with_reference
from dovetail.search.codesign.joint import SearchBackend, joint_search, local_backend
from dovetail.search.codesign.networks import networks
from dovetail.search.codesign.question import Budget, JointQuestion, places_of, system_space, systems_at
from dovetail.search.codesign.refining import RefinedSystem, refined_system, system_at
from dovetail.search.codesign.rows import Rows, refined_of, score_of
from dovetail.search.codesign.scoring import Scorer, SystemScore
from dovetail.search.codesign.systems import built_systems, system_of
from dovetail.search.metrics import metrics
from tests.codesign_questions import BASES, PLANS, known_to, question, some_values
from tests.property.codesign_systems import ROUNDING, SEARCHED, SEEDS, sampled, wide

# --- the search -------------------------------------------------------------------------------------------------------


def searched(asked: JointQuestion, **more: bool):
    scorer = Scorer(asked)
    return joint_search(scorer, local_backend(scorer), **more)


def a_question(seed: int) -> JointQuestion:
    """A small space of anything, sometimes of two models, and sometimes with limits that bind."""
    rng = Random(seed)
    base, names = rng.choice(BASES), tuple(rng.sample(SEARCHED, rng.choice((1, 1, 2))))
    values = known_to(base, {"stack_gib": (4, 16), **some_values(rng, 3)})
    chip = chips[base]()
    everything = systems_at(system_space(chip, 8, values), _all_places(system_space(chip, 8, values)))
    built = built_systems(chip, everything)
    budget = Budget()
    if rng.random() < 0.6:
        total_w = built.power_w * everything["num_devices"]
        budget = Budget(
            area_mm2=float(np.quantile(built.area_mm2, 0.7)), total_power_w=float(np.quantile(total_w, 0.8))
        )
    return question(
        names,
        values,
        base=base,
        network=rng.choice(sorted(networks.names())),
        metric=rng.choice(metrics.names()),
        budget=budget,
        weights=tuple(rng.choice((1.0, 3.0)) for _ in names),
    )


def _all_places(space):
    return places_of(list(space.points()))


@settings(max_examples=3)
@given(seed=SEEDS)
def test_what_bounds_leave_out_is_never_the_best(seed):
    asked = a_question(seed)
    pruned, every = searched(asked), searched(asked, is_exhaustive=True)
    assert (pruned is None) == (every is None)
    if pruned is None or every is None:
        return
    assert pruned.best.loss == pytest.approx(every.best.loss, rel=ROUNDING)
    assert pruned.bound <= every.best.loss * (1 + ROUNDING)
    for found in (pruned, every):
        census = found.census
        closed = (
            census.num_over_limit,
            census.num_unshardable,
            census.num_out_of_memory,
            census.num_pruned,
            census.num_scored,
        )
        assert sum(closed) == census.num_systems == asked.space.num_points
        assert (found.gap_frac == 0) == (census.num_open == 0)
    assert every.census.num_pruned == 0


@settings(max_examples=2)
@given(case=st.sampled_from(SEARCHED), base=st.sampled_from(BASES), seed=SEEDS)
def test_the_best_endpoint_is_that_of_every_system_scored(case, base, seed):
    """Where everything may hide, so that endpoints matter on every axis."""
    rng = Random(seed)
    values = known_to(base, some_values(rng, 1) | {"core_buffer_kib": rng.choice(((1, 64), (16,), (4, 2048)))})
    values |= {"endpoint": (1, 2, 3), "link_gb_per_s": (rng.choice((5, 25, 300)),), "stack_gib": (16,)}
    plans = replace(PLANS, overlap=(Overlap(tensor=True, expert=True),), zero_stage=(rng.choice((0, 1, 3)),))
    asked = question((case,), values, base=base, metric=rng.choice(metrics.names()), plans=plans)
    pruned, every = searched(asked), searched(asked, is_exhaustive=True)
    assert (pruned is None) == (every is None)
    if pruned is not None and every is not None:
        assert pruned.best.loss == pytest.approx(every.best.loss, rel=ROUNDING)
        assert pruned.bound <= every.best.loss * (1 + ROUNDING)


@settings(max_examples=2)
@given(seed=SEEDS)
def test_both_together_are_never_worse_than_one_after_the_other(seed):
    rng = Random(seed)
    base = rng.choice(BASES)
    names, metric = ("tied",), rng.choice(("throughput", "perf/tdp", "$/token"))  # small enough for either base
    own = system_of(chips[base](), 8)
    values = {name: tuple(sorted({*some, own[name]})) for name, some in some_values(rng, 2, most=2).items()}
    values.pop("num_devices", None)
    values.setdefault("link_gb_per_s", (own["link_gb_per_s"],))  # so that the base is in the space
    asked = question(names, values, base=base, metric=metric)
    found_base = base_answer(asked)
    assert found_base is not None
    asked = with_reference(asked, found_base)
    joint = searched(asked)
    assert joint is not None
    assert joint.best.loss <= 1.0 + ROUNDING  # the base is in the space
    after = separate(asked, found_base)
    for one in (after.plan_then_chip, after.chip_then_plan):
        if one is not None and joint.gap_frac == 0:
            assert joint.best.loss <= one.loss * (1 + ROUNDING)
    # a chip that was chosen by itself is none that a plan of the joint or the base's search was asked about
    [thumb] = thumb_plans(asked, 8)
    assert after.chip_then_plan is not None
    for_thumb = searched(replace(asked, cases=(replace(asked.cases[0], plans=only_plan(thumb, PLANS)),)))
    assert for_thumb is not None
    assert after.chip_then_plan.system == system_at(asked, for_thumb.best.point)
    assert after.chip_then_plan.loss <= for_thumb.best.loss * (1 + ROUNDING)


# --- rows, resuming and workers ---------------------------------------------------------------------------------------


@settings(max_examples=3)
@given(case=st.sampled_from(SEARCHED), base=st.sampled_from(BASES), seed=SEEDS)
def test_a_row_of_a_store_gives_back_what_was_scored_and_refined(case, base, seed):
    scorer = wide(case, base, "torus")
    for score in scorer.score(sampled(scorer, Random(seed), 2), np.inf):
        rows = Rows(scorer.question, scorer.even_plan)
        [row] = rows.scored([score])
        assert score_of(row) == score
        refined = refined_system(scorer, score, np.inf)
        [refined_row] = rows.refined([refined])
        assert refined_of(refined_row) == refined


@settings(max_examples=3)
@given(seed=SEEDS)
def test_a_search_that_goes_on_answers_as_one_that_was_never_stopped(seed):
    asked, rng = a_question(seed), Random(seed)
    scorer = Scorer(asked)
    kept: list[SystemScore] = []
    kept_refined: list[RefinedSystem] = []
    noted = replace(local_backend(scorer), keep=kept.extend, keep_refined=kept_refined.extend)
    whole = joint_search(scorer, noted)
    rows = Rows(asked, scorer.even_plan)
    known = {row.point: score_of(row) for row in rows.scored(kept) if rng.random() < 0.5}
    known_refined = {row.point: refined_of(row) for row in rows.refined(kept_refined) if rng.random() < 0.5}
    new: list[SystemScore] = []
    new_refined: list[RefinedSystem] = []
    again = joint_search(
        scorer,
        SearchBackend(
            score=local_backend(scorer).score,
            refine=local_backend(scorer).refine,
            known=known,
            known_refined=known_refined,
            keep=new.extend,
            keep_refined=new_refined.extend,
        ),
    )
    assert (again is None) == (whole is None)
    if whole is not None and again is not None:
        assert (again.best, again.bound, again.scored, again.census) == (
            whole.best,
            whole.bound,
            whole.scored,
            whole.census,
        )
    # nothing is done twice, and together they are all that a whole run keeps
    assert not {one.point for one in new} & set(known)
    assert {one.point for one in new} | set(known) == {one.point for one in kept}
    assert {one.point for one in new_refined} | set(known_refined) == {one.point for one in kept_refined}
