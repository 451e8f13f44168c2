"""A search for a chip: exact is exhaustive's answer, what is known is not scored again, the best come first."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from random import Random

import numpy as np
import pytest

from dovetail.hardware.catalog import chips
from dovetail.search.algorithms import Algorithm, Scored, algorithms, blind
from dovetail.search.designs import Limits, design_space
from dovetail.search.metrics import metrics
from dovetail.search.mining import miner
from dovetail.search.mining.answers import (
    base_answer,
    best_answers,
    hand_tuned,
    nothing_inside,
    question_of,
    question_over_base,
)
from dovetail.search.mining.bounds import JobBounds
from dovetail.search.mining.choice import stage_job
from dovetail.search.mining.identity import question_facts
from dovetail.search.mining.miner import Standing, mined
from dovetail.search.mining.score import figure_names, scored
from dovetail.search.mining.task import whole_batch
from dovetail.search.space import Point
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

BASE = chips["tpuv2-like"]()
SPACE = design_space(sides=(32, 128), lanes=(64, 256), counts=(1, 4, 16))
LIMITS = Limits(area_mm2=606.68, power_w=280.0)


@cache
def task(name="resnet-18", batch=4):
    model = models[name]()
    return whole_batch(Workload(model=model, global_batch=batch, seq=model.seq))


@cache
def question(metric="throughput", names=("resnet-18",)):
    tasks = [task(name) for name in names]
    reference = base_answer(tasks, BASE, metrics[metric])
    return question_of(tasks, BASE, SPACE, LIMITS, metrics[metric], reference)


@cache
def everything(metric="throughput", names=("resnet-18",)):
    """What every design of the space comes to: what searches are held against."""
    return scored(question(metric, names), list(SPACE.points()))


def found_by(name, about=None, known=None, num_most=10_000, keep=lambda _: None, watch=lambda _: None, seed=1):
    return mined(
        about or question(),
        algorithms[name],
        Random(seed),
        num_most=num_most,
        known=known or {},
        keep=keep,
        watch=watch,
    )


@pytest.mark.parametrize("metric", metrics.names())
def test_exact_finds_what_scheduling_every_design_finds(metric):
    about = question(metric)
    best = min(everything(metric), key=lambda one: (one.loss, one.point))
    found = found_by("exact", about)
    assert found.best.loss == best.loss
    assert found.is_proven
    assert found.gap_frac == 0.0
    assert found.num_points == SPACE.num_points
    assert found.num_over_limit == sum(math.isinf(one.loss) for one in everything(metric))
    assert found.num_scheduled < SPACE.num_points - found.num_over_limit
    counts = (found.num_scheduled, found.num_pruned, found.num_over_limit, found.num_open)
    assert sum(counts) == SPACE.num_points


def test_exact_over_several_models_is_exhaustive_too():
    names = ("resnet-18", "mobilenet-v3-large")
    found = found_by("exact", question("throughput", names))
    assert found.best.loss == min(one.loss for one in everything("throughput", names))


@pytest.mark.parametrize("name", [n for n, algorithm in algorithms.items() if not algorithm.extra])
def test_designs_come_best_first_each_once_and_with_a_gap_that_holds(name):
    found = found_by(name, known={one.point: one for one in everything()}, num_most=40)
    losses = [one.loss for one in found.found]
    assert losses == sorted(losses)
    assert len({one.point for one in found.found}) == len(losses)
    best = min(one.loss for one in everything())
    assert found.bound <= best <= found.best.loss
    assert found.num_evaluated <= 40
    assert [one.loss for one in found.improvements] == sorted((one.loss for one in found.improvements), reverse=True)


@pytest.mark.parametrize("name", ["exact", "critical-path", "genetic", "anneal"])
def test_what_is_known_is_not_scored_again_and_the_answer_is_the_same(name, monkeypatch):
    kept: list[Scored] = []
    asked_for: list[Point] = []
    table = {one.point: one for one in everything()}

    def watched(_, points):
        asked_for.extend(points)
        return [table[point] for point in points]

    monkeypatch.setattr(miner, "scored", watched)
    whole = found_by(name, num_most=60, keep=kept.extend)
    assert {one.point for one in kept} >= {one.point for one in whole.found}
    assert set(asked_for) >= {one.point for one in kept}
    asked_for.clear()
    half = {one.point: one for one in kept[: len(kept) // 2]}
    assert found_by(name, known=half, num_most=60) == whole
    assert not set(asked_for) & set(half)
    asked_for.clear()
    assert found_by(name, known={one.point: one for one in kept}, num_most=60) == whole
    assert asked_for == []


def test_the_bound_rises_to_the_best_as_exact_goes_on():
    seen: list[Standing] = []
    found = found_by("exact", watch=seen.append)
    assert [now.bound for now in seen] == sorted(now.bound for now in seen)
    assert seen[-1].bound == seen[-1].loss == found.best.loss
    assert seen[-1].num_open == 0


def test_a_search_that_goes_round_in_circles_ends():
    def circle(space, _):
        while True:
            yield [(0, 0, 0, 0, 0)]

    going = Algorithm(search=blind(circle), summary="the same again")
    found = mined(question(), going, Random(1), num_most=9, known={}, keep=lambda _: None, watch=lambda _: None)
    assert found is not None
    assert found.num_evaluated == 1


def test_where_every_design_is_beyond_a_limit_nothing_is_found_and_the_least_is_told():
    tight = replace(question(), limits=Limits(area_mm2=100.0, power_w=280.0))
    assert found_by("exact", tight) is None
    nothing = nothing_inside(tight)
    assert nothing is not None
    assert nothing.least_area_mm2 > 100.0
    assert nothing_inside(question()) is None
    roomy = replace(question(), limits=Limits(area_mm2=nothing.least_area_mm2, power_w=nothing.least_power_w))
    assert nothing_inside(roomy) is None


def test_the_best_answer_says_what_the_search_scored():
    found = found_by("exact")
    reference = base_answer([task()], BASE, metrics["throughput"])
    answers = best_answers(question(), [one.point for one in found.found[:5]])
    assert [answer.loss(reference) for answer in answers] == pytest.approx([one.loss for one in found.found[:5]])
    assert all(answer.keeps(LIMITS) for answer in answers)


def test_the_base_is_a_rival_that_the_best_gains_over_as_over_the_base():
    [own] = [one for one in hand_tuned([task()], metrics["throughput"]) if one.name == BASE.name]
    reference = base_answer([task()], BASE, metrics["throughput"])
    assert own.answer.loss(reference) == 1.0
    assert own.fits


def test_a_question_is_known_by_everything_its_answers_follow_from():
    facts = question_facts(question(), "throughput")
    assert facts == question_facts(question(), "throughput")
    others = (
        replace(question(), limits=Limits(area_mm2=606.0, power_w=280.0)),
        replace(question(), space=design_space(sides=(32,))),
        replace(question(), base=replace(BASE, clock_hz=BASE.clock_hz * 1.001)),
        replace(question(), jobs=(task(batch=8).job(BASE),)),
        question("throughput", ("mobilenet-v3-large",)),
    )
    for other in others:
        assert question_facts(other, "throughput") != facts
    assert question_facts(question(), "perf/tdp") != facts


def test_a_question_tells_the_batch_and_the_plan_that_its_jobs_are_of():
    [job] = question_facts(question(), "throughput", (task(),))["jobs"]
    assert job["batch"] == task().workload.global_batch
    assert job["plan"] == {"microbatch": job["batch"]}
    assert not job["is_stage"]
    two = replace(task(), plan=replace(task().plan, pipeline_parallel=2))
    whole = two.job(BASE)
    for one, is_stage in ((whole, False), (stage_job(whole, whole.stages[0]), True)):
        [told] = question_facts(replace(question(), jobs=(one,)), "throughput", (two,))["jobs"]
        assert told["is_stage"] is is_stage


def test_a_score_has_the_figures_that_its_names_say():
    for names in (("resnet-18",), ("resnet-18", "mobilenet-v3-large")):
        asked = question("throughput", names)
        one = next(one for one in scored(asked, list(SPACE.points())) if one.loss < math.inf)
        figures = dict(zip(figure_names(asked), one.also, strict=True))
        [answer] = best_answers(asked, [one.point])
        assert (figures["power_w"], figures["area_mm2"]) == pytest.approx((answer.power_w, answer.area_mm2))
        steps = ["step_s"] if len(names) == 1 else [f"step_s of {name}" for name in names]
        assert [figures[name] for name in steps] == pytest.approx([job.step_s for job in answer.jobs])


def test_a_question_and_its_reference_are_the_same_asked_at_once():
    at_once, reference = question_over_base((task(),), BASE, SPACE, LIMITS, metrics["throughput"])
    assert question_facts(at_once, "throughput") == question_facts(question(), "throughput")
    assert reference == base_answer([task()], BASE, metrics["throughput"])


def test_bounds_do_not_depend_on_what_else_is_asked():
    points = list(SPACE.points())
    bounds = JobBounds(question())
    np.testing.assert_array_equal(bounds(points)[::7], bounds(points[::7]))
