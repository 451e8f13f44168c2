"""No schedule beats the bound that designs are ruled out by, whatever the model, the metric and the design."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.hardware.catalog import chips
from dovetail.parallel.plan import Plan
from dovetail.search.designs import Limits, design_at, design_space
from dovetail.search.metrics import metrics
from dovetail.search.mining.answers import base_answer, question_of
from dovetail.search.mining.bounds import MANY_LANES, JobBounds
from dovetail.search.mining.score import scored
from dovetail.search.mining.task import Task
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

SPACE = design_space()
WIDE = Limits(area_mm2=5000.0, power_w=5000.0)
ROUNDING = 1e-9
JOBS = (
    ("bert-base", 2, 128, Plan(microbatch=2)),
    ("resnet-18", 8, 1, Plan(microbatch=8)),
    ("mobilenet-v3-large", 4, 1, Plan(microbatch=2)),
    ("gpt2-345m", 4, 256, Plan(pipeline_parallel=2, tensor_parallel=2, microbatch=1)),
)


@cache
def bounded(place, base, metric):
    name, batch, seq, plan = JOBS[place]
    task = Task(workload=Workload(model=models[name](), global_batch=batch, seq=seq), plan=plan)
    chip = chips[base]()
    reference = base_answer([task], chip, metrics[metric])
    question = question_of([task], chip, SPACE, WIDE, metrics[metric], reference)
    return question, JobBounds(question)


@settings(max_examples=10, deadline=None)  # a second and a half each, most of it on convolutions
@given(
    place=st.integers(0, len(JOBS) - 1),
    base=st.sampled_from(("tpuv2-like", "tpuv4-like")),
    metric=st.sampled_from(metrics.names()),
    seed=st.integers(0, 2**20),
)
def test_no_design_is_better_than_its_bound(place, base, metric, seed):
    question, bounds = bounded(place, base, metric)
    rng = Random(seed)
    points = [SPACE.sample(rng) for _ in range(12)]
    for low, one in zip(bounds(points), scored(question, points), strict=True):
        assert low <= one.loss * (1 + ROUNDING)
        assert (one.loss == float("inf")) == (low == float("inf"))


def test_bounds_are_not_idle():
    """A bound of nothing would keep the law above."""
    question, bounds = bounded(0, "tpuv2-like", "throughput")
    rng = Random(7)
    points = [SPACE.sample(rng) for _ in range(40)]
    near = [low / one.loss for low, one in zip(bounds(points), scored(question, points), strict=True) if one.loss < 1e9]
    assert sum(near) / len(near) > 0.5


@settings(deadline=None, max_examples=8)
@given(place=st.integers(0, len(JOBS) - 1), seed=st.integers(0, 10_000), num_in_chunk=st.sampled_from([1, 2, 3, 5]))
def test_a_score_does_not_depend_on_what_is_scored_beside_it(place, seed, num_in_chunk):
    question, _ = bounded(place, "tpuv2-like", "tokens/J")
    rng = Random(seed)
    points = [SPACE.sample(rng) for _ in range(6)]
    chunks = [points[start : start + num_in_chunk] for start in range(0, 6, num_in_chunk)]
    assert [one for chunk in chunks for one in scored(question, chunk)] == scored(question, points)


@pytest.mark.parametrize("metric", metrics.names())
def test_no_design_with_very_many_lanes_is_better_than_its_bound(metric):
    """Attention waits for lanes: beside more than a bound counts on, a design would be ruled out that is the best."""
    space = design_space(sides=(128, 256), lanes=(256, 2048, 4096), counts=(1, 64, 128))
    task = Task(workload=Workload(model=models["llama3-8b"](), global_batch=1, seq=131_072), plan=Plan(microbatch=1))
    chip, wide = chips["nest-tpuv4"](), Limits(area_mm2=1e6, power_w=1e6)
    reference = base_answer([task], chip, metrics[metric])
    question = question_of([task], chip, space, wide, metrics[metric], reference)
    points = list(space.points())
    designs = [design_at(space, point) for point in points]
    assert any(design.num_vector * design.num_lanes > MANY_LANES for design in designs)
    lows = JobBounds(question)(points)
    assert all(low <= one.loss * (1 + ROUNDING) for low, one in zip(lows, scored(question, points), strict=True))
