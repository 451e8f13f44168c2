"""Every registered pipeline schedule keeps the contract of `dovetail.step.pipelines.Pipeline`."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from dovetail.parallel.plan import Plan
from dovetail.step.pass_order import Kind
from dovetail.step.pipeline_events import held, played
from dovetail.step.pipelines import Pipeline, PipelineShape, StageTimes, pipelines

SHAPES = [
    PipelineShape(num_stages=stages, num_microbatches=microbatches, interleave=interleave)
    for stages in (1, 2, 3, 4, 6, 8)
    for microbatches in (1, 2, 3, 6, 8, 12, 16, 24, 48)
    for interleave in (1, 2, 3)
]


def shapes_of(pipeline: Pipeline) -> list[PipelineShape]:
    shapes = [
        shape for shape in SHAPES if not pipeline.problem(shape) and (shape.num_stages, shape.interleave) != (1, 2)
    ]
    assert len(shapes) >= 10
    return shapes


@pytest.mark.parametrize("name", pipelines.names())
def test_every_microbatch_passes_every_chunk_once_each_way(name):
    for shape in shapes_of(pipelines[name]):
        order = pipelines[name].order(shape)
        seen = Counter(tuple(row[:3]) for rows in order.devices for row in rows.tolist())
        assert set(seen.values()) == {1}
        done = Counter(chunk for _, chunk, _ in seen)
        counts = Counter((kind, chunk) for kind, chunk, _ in seen)
        for chunk in done:
            wholes, inputs = counts[Kind.BACKWARD, chunk], counts[Kind.INPUT, chunk]
            assert (
                counts[Kind.FORWARD, chunk] == wholes + inputs == shape.num_microbatches // pipelines[name].num_copies
            )
            assert inputs == counts[Kind.WEIGHT, chunk]


@pytest.mark.parametrize("name", pipelines.names())
def test_what_is_held_is_what_the_order_holds(name):
    pipeline = pipelines[name]
    for shape in shapes_of(pipeline):
        for stage, peak in enumerate(held(pipeline.order(shape))):
            assert pipeline.in_flight(stage, shape) == pytest.approx(peak.in_flight), (shape, stage)
            assert pipeline.waiting(stage, shape) == pytest.approx(peak.waiting), (shape, stage)


@pytest.mark.parametrize("name", pipelines.names())
def test_the_plan_places_chunks_where_the_order_runs_them(name):
    for shape in shapes_of(pipelines[name]):
        if shape.num_stages == 1:
            continue
        plan = Plan(pipeline_parallel=shape.num_stages, interleave=int(shape.interleave), schedule=name)
        order = pipelines[name].order(shape)
        ways = order.chunk_devices.reshape(-1, order.route_length)
        assert [set(stages) for stages in plan.chunk_stages] == [set(way) for way in ways.T.tolist()]
        assert plan.num_copies == pipelines[name].num_copies == len(ways)


@pytest.mark.parametrize("name", pipelines.names())
def test_many_plans_at_once_are_what_they_are_one_by_one(name):
    pipeline, rng = pipelines[name], np.random.default_rng(5)
    shapes = [shape for shape in shapes_of(pipeline) if shape.num_stages == 4]
    forward_s = rng.uniform(1, 2, (len(shapes), 4))
    backward_s, transfer_s = 2 * rng.uniform(1, 2, (len(shapes), 4)), rng.uniform(0, 0.1, len(shapes))
    together = pipeline.pipeline_s(
        StageTimes(forward_s=forward_s, backward_s=backward_s, weight_s=backward_s / 2, transfer_s=transfer_s),
        PipelineShape(
            num_stages=4,
            num_microbatches=np.array([shape.num_microbatches for shape in shapes]),
            interleave=np.array([shape.interleave for shape in shapes]),
        ),
    )
    for index, shape in enumerate(shapes):
        ways = {"forward_s": forward_s[index], "backward_s": backward_s[index], "weight_s": backward_s[index] / 2}
        alone = pipeline.pipeline_s(StageTimes(**ways, transfer_s=transfer_s[index]), shape)
        assert together[index] == pytest.approx(float(alone))


@pytest.mark.parametrize("name", pipelines.names())
def test_a_long_step_is_as_long_as_played(name):
    """Microbatches beyond what the closed form looks at make the middle longer, and nothing else."""
    pipeline = pipelines[name]
    shapes = (PipelineShape(num_stages=4, num_microbatches=64, interleave=interleave) for interleave in (1, 2, 3, 4))
    shape = next(shape for shape in shapes if not pipeline.problem(shape))
    order = pipeline.order(shape)
    times = StageTimes(forward_s=np.full(4, 1.0), backward_s=np.full(4, 2.3), weight_s=np.full(4, 0.9))
    assert pipeline.pipeline_s(times, shape) == pytest.approx(played(order, times.chunk_times(order)).pipeline_s)
