"""Designs by stage are never worse than one for all, and more designs to choose from are never worse than fewer."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.hardware.catalog import chips
from dovetail.hardware.clusters.template_torus import template_torus
from dovetail.hardware.template import Design
from dovetail.plan.plan import Plan
from dovetail.search.designs import Limits, design_at, design_space, silicon_of
from dovetail.search.metrics import metrics
from dovetail.search.mining.choice import common, mosaic, stage_kinds
from dovetail.search.mining.load import job_of
from dovetail.search.mining.score import Question
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

BASE = chips["tpuv2-like"]()
LIMITS = Limits(area_mm2=606.68, power_w=280.0)
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


def some_designs(seed: int, num: int) -> list[Design]:
    rng = Random(seed)
    found: list[Design] = []
    while len(found) < num:
        design = design_at(SPACE, SPACE.sample(rng))
        if silicon_of(BASE, [design]).excess_frac(LIMITS)[0] == 0 and design not in found:
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
