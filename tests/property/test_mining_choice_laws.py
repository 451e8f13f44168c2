"""Designs by stage are never worse than one for all, and more designs to choose from are never worse than fewer.

Nor is a pool of area and power worse than limits on every die; and a step is what the pipeline played out takes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import InvalidInput
from dovetail.hardware.catalog import chips
from dovetail.hardware.clusters.template_torus import template_torus
from dovetail.hardware.template import Design
from dovetail.parallel.plan import Plan
from dovetail.search.designs import Limits, design_at, design_space, mined_chips, silicon_of
from dovetail.search.metrics import metrics
from dovetail.search.mining.choice import common, mixed_figures, mosaic, pooled, stage_kinds
from dovetail.search.mining.load import Load, TrainingJob, job_of
from dovetail.search.mining.score import Question, stage_times, step_s
from dovetail.step.pipeline_events import played
from dovetail.step.pipelines import PipelineShape, StageTimes, pipelines
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

BASE = chips["tpuv2-like"]()
LIMITS = Limits(area_mm2=606.68, power_w=280.0)
WIDE = Limits(area_mm2=900.0, power_w=420.0)
SPACE = design_space(sides=(16, 64, 256), lanes=(16, 128), counts=(1, 4, 16))


@cache
def job():
    workload = Workload(model=models["gpt2-345m"](), global_batch=8, seq=128)
    plan = Plan(pipeline_parallel=4, tensor_parallel=2)
    return job_of("gpt2", workload, plan, template_torus(BASE, 8))


def question(metric: str) -> Question:
    return Question(
        jobs=(job(),), base=BASE, space=SPACE, limits=LIMITS, metric=metrics[metric], reference_losses=(1.0,)
    )


def some_designs(seed: int, num: int, limits: Limits = LIMITS) -> list[Design]:
    rng = Random(seed)
    found: list[Design] = []
    while len(found) < num:
        design = design_at(SPACE, SPACE.sample(rng))
        if silicon_of(BASE, [design]).excess_frac(limits)[0] == 0 and design not in found:
            found.append(design)
    return found


def test_the_middle_stages_of_a_pipeline_are_one_kind():
    assert stage_kinds(job()) == ((0,), (1, 2), (3,))


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(metrics.names()))
def test_a_mosaic_is_never_worse_than_the_best_common_design(seed, metric):
    asked, designs = question(metric), some_designs(seed, 4)
    assert mosaic(asked, [designs] * 3).loss <= common(asked, designs).loss * (1 + 1e-12)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(metrics.names()))
def test_one_design_a_stage_is_never_better_than_several(seed, metric):
    asked, designs = question(metric), some_designs(seed, 6)
    few = [designs[place : place + 1] for place in range(3)]
    many = [designs[place : place + 1] + designs[3:] for place in range(3)]
    assert mosaic(asked, many).loss <= mosaic(asked, few).loss * (1 + 1e-12)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1000))
def test_a_mosaic_of_one_design_is_that_design_for_all(seed):
    asked, [design] = question("throughput"), some_designs(seed, 1)
    found = mosaic(asked, [[design]] * 3)
    assert found.designs == (design,) * 4
    assert found.loss == pytest.approx(common(asked, [design]).loss, rel=1e-12)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(metrics.names()))
def test_a_pool_is_never_worse_than_a_mosaic_and_keeps_the_limits_on_the_mean(seed, metric):
    asked, designs = question(metric), some_designs(seed, 4)
    tops = [designs, some_designs(seed + 1, 4, WIDE)]
    found, each = pooled(asked, tops), mosaic(asked, tops)
    assert found.loss <= each.loss * (1 + 1e-12)
    assert found.mean_area_mm2 <= LIMITS.area_mm2 * (1 + 1e-9)
    assert found.mean_power_w <= LIMITS.power_w * (1 + 1e-9)
    for stage in each.stages:
        assert stage.area_mm2 <= LIMITS.area_mm2
        assert stage.power_w <= LIMITS.power_w


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(metrics.names()))
def test_what_is_left_out_of_the_combinations_is_never_missed(seed, metric):
    asked, designs = question(metric), some_designs(seed, 4)
    kinds = stage_kinds(asked.jobs[0])
    rows = np.array(np.meshgrid(*[range(4)] * len(kinds))).reshape(len(kinds), -1).T
    of_stage = np.empty(4, dtype=np.int64)
    for kind, stages in enumerate(kinds):
        of_stage[list(stages)] = kind
    silicon = silicon_of(BASE, designs)
    times = stage_times(asked.jobs[0], mined_chips(BASE, designs, silicon))
    losses = asked.metric.loss(mixed_figures(asked.jobs[0], times, silicon, rows[:, of_stage]))
    assert mosaic(asked, [designs]).loss == pytest.approx(losses.min(), rel=1e-9)


@st.composite
def pipelines_of_unlike_stages(draw):
    num_stages, num_microbatches = draw(st.integers(1, 8)), draw(st.integers(1, 16))
    floats = st.lists(st.floats(0.05, 1.0), min_size=num_stages, max_size=num_stages)
    loads = tuple(Load(passes=(), updates=(), per_step_s=0.0, forward_frac=share) for share in draw(floats))
    made = TrainingJob(name="", stages=loads, num_microbatches=num_microbatches, num_devices=num_stages, num_samples=1)
    return made, np.array([draw(floats)])


@settings(max_examples=50, deadline=None)
@given(pipelines_of_unlike_stages())
def test_a_step_of_unlike_stages_is_the_schedule_played_out(drawn):
    made, pass_s = drawn
    order = pipelines["1f1b"].order(PipelineShape(num_stages=made.num_stages, num_microbatches=made.num_microbatches))
    forward_s = pass_s[0] * [stage.forward_frac for stage in made.stages]
    times = StageTimes(forward_s=forward_s, backward_s=pass_s[0] - forward_s)
    taken_s = step_s(made, pass_s, np.zeros_like(pass_s))[0]
    assert taken_s == pytest.approx(played(order, times.chunk_times(order)).pipeline_s, rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(pipelines_of_unlike_stages(), st.integers(0, 7), st.floats(1.0, 3.0))
def test_a_step_is_never_shorter_where_a_stage_takes_longer(drawn, place, factor):
    """Without this, bounds on stages would be none on the step."""
    made, pass_s = drawn
    slower_s = pass_s.copy()
    slower_s[0, place % made.num_stages] *= factor
    nothing = np.zeros_like(pass_s)
    assert step_s(made, slower_s, nothing)[0] >= step_s(made, pass_s, nothing)[0] * (1 - 1e-12)


def test_more_lists_than_kinds_and_limits_that_nothing_keeps():
    asked, designs = question("throughput"), some_designs(1, 2)
    assert mosaic(asked, [designs] * 5).loss == mosaic(asked, [designs]).loss
    tight = replace(asked, limits=Limits(area_mm2=10.0, power_w=10.0))
    for choose in (mosaic, pooled):
        with pytest.raises(InvalidInput, match="no designs keep the limits"):
            choose(tight, [designs])
