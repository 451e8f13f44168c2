"""Layers by stage of 1F1B pipelines: the program over the longest way, and bounds by pace, against every cut."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.parallel.plan import Overlap, Plan
from dovetail.search.planners.bounds.pipeline_lower_bounds import pace_slope, pipeline_lower_bound_s
from dovetail.search.planners.cuts.partition_1f1b import partition_1f1b
from dovetail.search.planners.cuts.plan_stages import PlanStages
from dovetail.search.planners.cuts.stage_cuts import StageTable, stage_table
from dovetail.search.planners.cuts.stage_options import StageOptions
from dovetail.step.pipelines import PipelineShape, StageTimes, pipelines
from tests.layer_cuts import splits

ROUNDING = 1e-9
seconds = st.floats(0.1, 2.0)
Steps = dict[tuple[int, ...], float]


def options(forward_s: np.ndarray, backward_s: np.ndarray, counts: np.ndarray, stage: np.ndarray) -> StageOptions:
    num = len(stage)
    nothing = np.zeros(num, dtype=np.int64)
    return StageOptions(
        plan=nothing, stage=stage, counts=counts[:, None], start=nothing, policy=nothing, num_again=nothing,
        need_bytes=np.ones(num), forward_s=forward_s, backward_s=backward_s, weight_s=np.zeros(num),
    )  # fmt: skip


@st.composite
def pipelines_of_stages(draw: st.DrawFn) -> tuple[PlanStages, np.ndarray, np.ndarray, int]:
    """A plan with seconds by stage and layers, infinite where memory does not hold as many, and its layers."""
    num_stages, num_layers = draw(st.integers(2, 4)), draw(st.integers(4, 7))
    each_s, times = draw(seconds), draw(st.lists(seconds, min_size=2 * num_stages, max_size=2 * num_stages))
    layers = np.arange(num_layers + 1)
    extra = np.array(times).reshape(2, num_stages, 1)  # what a stage has beside its layers
    slopes = np.array([each_s, draw(st.floats(1.0, 3.0)) * each_s]).reshape(2, 1, 1)
    ways_s = extra * np.array(draw(st.sampled_from(((0, 0, 0, 1), (1, 0, 0, 1), (1, 1, 1, 1))))[:num_stages])[:, None]
    ways_s = ways_s + slopes * layers
    most = draw(st.lists(st.integers(2, num_layers), min_size=num_stages, max_size=num_stages))
    is_uniform = draw(st.booleans())
    limit = np.array([max(most)] * num_stages if is_uniform else most)
    ways_s[:, (layers > limit[:, None]) | (layers < 1)] = np.inf
    stage, count = (found.ravel() for found in np.nonzero(np.isfinite(ways_s[0])))
    overlap = Overlap(pipeline=draw(st.booleans()))
    plan = Plan(pipeline_parallel=num_stages, microbatch=1, overlap=overlap)
    stages = PlanStages(
        plan=plan,
        options=options(ways_s[0, stage, count], ways_s[1, stage, count], count, stage),
        num_microbatches=num_stages + draw(st.integers(1, 9)),
        transfer_s=draw(st.sampled_from((0.0, 0.0, 0.01, 0.3))),
    )
    return stages, ways_s[0], ways_s[1], num_layers


def every_step_s(stages: PlanStages, forward_s: np.ndarray, backward_s: np.ndarray, num_layers: int) -> Steps:
    """Of all cuts that fit, each pipeline by itself."""
    num_stages, found = stages.plan.pipeline_parallel, Steps()
    for layers in splits(num_layers, num_stages):
        own_s = [way_s[np.arange(num_stages), list(layers)] + stages.paid_s / 2 for way_s in (forward_s, backward_s)]
        if not np.isfinite(own_s).all():
            continue
        times = StageTimes(forward_s=own_s[0], backward_s=own_s[1], transfer_s=stages.lag_s)
        shape = PipelineShape(num_stages=num_stages, num_microbatches=stages.num_microbatches)
        found[layers] = float(pipelines["1f1b"].pipeline_s(times, shape))
    return found


def way_s(layers: tuple[int, ...], stages: PlanStages, forward_s: np.ndarray, backward_s: np.ndarray) -> float:
    """The longest way through one cut that waits on one stage, as the module's docstring has it."""
    p, m = stages.plan.pipeline_parallel, stages.num_microbatches
    f, b = (way[np.arange(p), list(layers)] + stages.paid_s / 2 for way in (forward_s, backward_s))
    t = f + b
    before = np.concatenate([[0.0], np.cumsum(t)])
    handed = 2 * stages.lag_s * np.arange(p)
    first = before[1:] + handed + (p - 1 - np.arange(p)) * np.maximum.accumulate(f)
    last = before[1:] + handed + (p - 1 - np.arange(p)) * np.maximum.accumulate(b)
    ways = [(m - 1 - p + k) * t[k] - before[k] - handed[k] + first[k:].max() + last[k:].max() for k in range(p)]
    return float(max(ways))


@settings(max_examples=75)
@given(given_=pipelines_of_stages(), share=st.floats(0.9, 1.2))
def test_the_least_walk_is_the_least_of_all_cuts_and_never_above_what_a_pipeline_takes(given_, share):
    stages, forward_s, backward_s, num_layers = given_
    assert stages.can_walk
    steps_s = every_step_s(*given_)
    walk = partition_1f1b(forward_s, backward_s, num_layers, stages)
    if not steps_s:
        assert walk.lower_bound_s == np.inf
        assert walk.layers == ()
        return
    ways_s = {layers: way_s(layers, stages, forward_s, backward_s) for layers in steps_s}
    assert walk.lower_bound_s == pytest.approx(min(ways_s.values()), rel=ROUNDING)
    assert ways_s[walk.layers] == pytest.approx(walk.lower_bound_s, rel=ROUNDING)
    for layers, step_s in steps_s.items():
        assert ways_s[layers] <= step_s * (1 + ROUNDING)
        if stages.lag_s == 0.0:
            assert ways_s[layers] == pytest.approx(step_s, rel=ROUNDING)
    below_s = share * min(steps_s.values())
    some = partition_1f1b(forward_s, backward_s, num_layers, stages, below_s)
    assert some.lower_bound_s == pytest.approx(min(walk.lower_bound_s, below_s), rel=ROUNDING)


def table_of(stages: PlanStages, num_layers: int, asked: tuple[int, int]) -> StageTable:
    return stage_table(stages, asked, num_layers)


@settings(max_examples=75)
@given(given_=pipelines_of_stages(), once=st.floats(0.0, 1.0), share=st.floats(0.5, 1.5))
def test_lows_by_pace_are_never_above_any_cut_that_keeps_the_pace(given_, once, share):
    stages, forward_s, backward_s, num_layers = given_
    steps_s = every_step_s(*given_)
    most = int(stages.options.num_layers.max())
    table = table_of(stages, num_layers, (1, most))
    best_s = share * min(steps_s.values(), default=1.0)
    per_step_s = once * stages.options.num_layers  # a stage with more layers exchanges more
    lows = table.lower_bounds_s(best_s, 0.0, lambda: per_step_s)
    time_s = forward_s + backward_s
    num_stages = len(time_s)
    for layers, step_s in steps_s.items():
        pace_s = max(time_s[stage, held] for stage, held in enumerate(layers))
        rows = table.rows_of(np.array(layers))
        whole_s = step_s + per_step_s[rows].max()
        own = [lower_bound_s for bound_s, lower_bound_s in lows.bounds_by_pace if bound_s >= pace_s * (1 - ROUNDING)]
        assert own, "no pace covers this cut"
        assert min(own) <= whole_s * (1 + ROUNDING)
        assert lows.least_s <= whole_s * (1 + ROUNDING)
        if whole_s < best_s * (1 - ROUNDING):
            assert lows.pace_below_s(best_s) >= pace_s * (1 - ROUNDING)
    assert lows.cuts.shape[1] == num_stages
    for rows in lows.cuts:
        assert tuple(stages.options.num_layers[rows].tolist()) in steps_s  # proposals are cuts that fit


@settings(max_examples=30)
@given(given_=pipelines_of_stages(), most=st.integers(2, 6))
def test_lows_hold_too_where_fewer_layers_were_asked_about_than_a_stage_may_hold(given_, most):
    stages, _, _, num_layers = given_
    steps_s = every_step_s(*given_)
    asked_about = np.flatnonzero(stages.options.num_layers <= most)
    fewer = PlanStages(
        plan=stages.plan,
        options=stages.options.at(asked_about),
        num_microbatches=stages.num_microbatches,
        transfer_s=stages.transfer_s,
    )
    held = [
        int(stages.options.num_layers[stages.options.stage == s].max()) for s in range(stages.plan.pipeline_parallel)
    ]
    if min(held) < most or most >= num_layers:
        return  # what is not asked about must be what all stages could hold more of
    lows = table_of(fewer, num_layers, (1, most)).lower_bounds_s(0.0, 0.0, lambda: np.zeros(len(asked_about)))
    assert lows.least_s <= min(steps_s.values(), default=np.inf) * (1 + ROUNDING)


def test_the_cut_of_the_least_walk_is_found_among_many():
    """A first stage with an embedding and a last one with a head: the program finds what listing all cuts finds."""
    num_stages, num_layers = 4, 12
    layers = np.arange(num_layers + 1)
    extra = np.array([0.7, 0.0, 0.0, 2.3])[:, None]
    forward_s, backward_s = layers * 1.0 + extra, layers * 2.0 + 2 * extra
    forward_s[:, 0] = backward_s[:, 0] = np.inf
    stage, count = (found.ravel() for found in np.nonzero(np.isfinite(forward_s)))
    stages = PlanStages(
        plan=Plan(pipeline_parallel=num_stages, microbatch=1),
        options=options(forward_s[stage, count], backward_s[stage, count], count, stage),
        num_microbatches=16,
        transfer_s=0.0,
    )
    steps_s = every_step_s(stages, forward_s, backward_s, num_layers)
    assert len(steps_s) == sum(1 for cut in product(range(1, 10), repeat=4) if sum(cut) == num_layers)
    walk = partition_1f1b(forward_s, backward_s, num_layers, stages)
    assert walk.lower_bound_s == pytest.approx(min(steps_s.values()), rel=ROUNDING)
    assert steps_s[walk.layers] == pytest.approx(min(steps_s.values()), rel=ROUNDING)
    assert walk.layers != (3, 3, 3, 3)  # an even cut is not the best here


@pytest.mark.parametrize("name", ["1f1b", "gpipe", "zb-h1"])
@settings(max_examples=30)
@given(p=st.integers(2, 6), m=st.integers(1, 20), total=seconds, more=st.floats(1.0, 4.0), again=st.floats(0.0, 2.0))
def test_a_slower_stage_makes_a_pipeline_longer_by_no_less_than_its_slope(name, p, m, total, more, again):
    """Exchanges hide behind the slowest stage: a bound may take that off only where the pipeline grows by as much."""
    shape = PipelineShape(num_stages=p, num_microbatches=m)
    first_s = more * total / p
    lower_bounds_s = pipeline_lower_bound_s(
        name, np.full(2, total), np.array([first_s, first_s + again]), np.zeros(2), shape
    )
    assert lower_bounds_s[1] - lower_bounds_s[0] >= float(pace_slope(name, shape)) * again - ROUNDING
