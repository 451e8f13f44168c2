"""Paths of pipelines bound every pipeline of their shape, and the diagram over stages bounds every cut."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.parallel.plan import Plan, columns_of
from dovetail.search.planners import refine
from dovetail.search.planners.cuts import path_diagram
from dovetail.search.planners.cuts.path_diagram import Edges, along_paths_s, diagram, paths_of
from dovetail.search.planners.cuts.plan_stages import PlanStages
from dovetail.search.planners.cuts.stage_options import StageOptions
from dovetail.search.planners.refine import Job, base_plans, refined
from dovetail.units import GIBI
from tests.property.test_mix_laws import ALTERNATING, CODES, LayerPattern, cluster, every_plan, workload

SHAPES = (("1f1b", 1), ("1f1b", 2), ("1f1b", 3), ("gpipe", 1))


@st.composite
def stages_of(draw: st.DrawFn) -> tuple[PlanStages, int]:
    """Three options for each of some stages, with transfers beside compute or not; and a seed."""
    schedule, interleave = draw(st.sampled_from(SHAPES))
    num_stages, seed = draw(st.integers(2, 4)), draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    num = 3 * num_stages
    plan = Plan(pipeline_parallel=num_stages, interleave=interleave, schedule=schedule)
    ints = np.zeros(num, dtype=np.int64)
    options = StageOptions(
        plan=ints,
        stage=np.repeat(np.arange(num_stages), 3),
        counts=np.tile([[interleave], [interleave + 1], [interleave + 2]], (num_stages, 1)),
        start=ints,
        policy=ints,
        num_again=ints,
        need_bytes=np.ones(num),
        forward_s=rng.uniform(0.5, 1.5, num),
        backward_s=rng.uniform(1.0, 3.0, num),
        weight_s=np.zeros(num),
    )
    num_microbatches = num_stages * draw(st.integers(1, 4))
    transfer_s = draw(st.sampled_from((0.0, 0.05)))
    return PlanStages(plan=plan, options=options, num_microbatches=num_microbatches, transfer_s=transfer_s), seed


def all_cuts(stages: PlanStages) -> np.ndarray:
    num_stages = stages.plan.pipeline_parallel
    return np.array(list(product(*(range(3 * stage, 3 * stage + 3) for stage in range(num_stages)))))


@settings(max_examples=60, deadline=None)
@given(stages_of())
def test_no_pipeline_is_shorter_than_any_path_of_its_shape(drawn: tuple[PlanStages, int]):
    stages, _ = drawn
    cuts = all_cuts(stages)
    paths = np.concatenate([paths_of(stages, cut, has_slow=True) for cut in cuts[::5]])
    assert len(paths)
    along_s = along_paths_s(stages, paths)[cuts].sum(axis=1)  # cuts by paths
    assert (along_s <= stages.steps_s(cuts)[:, None] * (1 + 1e-12)).all()
    nearest = [path for cut in cuts[::5] for path in paths_of(stages, cut)]
    if len(nearest) == len(cuts[::5]):  # each cut's own path is as long as its pipeline, but for how far it was moved
        own_s = np.diagonal(along_paths_s(stages, np.array(nearest))[cuts[::5]].sum(axis=1))
        assert own_s == pytest.approx(stages.steps_s(cuts[::5]), rel=1e-3)


def edges_of(stages: PlanStages, num_layers: int) -> list[Edges]:
    """Ways to hold so many layers in all: states are layers so far."""
    options, states, steps = stages.options, [0], []
    num_stages = stages.plan.pipeline_parallel
    for stage in range(num_stages):
        found = [
            (place, so_far + int(options.counts[row, 0]), row)
            for place, so_far in enumerate(states)
            for row in range(3 * stage, 3 * stage + 3)
            if stage < num_stages - 1 or so_far + options.counts[row, 0] == num_layers
        ]
        states = sorted({end for _, end, _ in found})
        start, end, row = zip(*found, strict=True)
        steps.append(Edges(start=np.array(start), end=np.array([states.index(one) for one in end]), row=np.array(row)))
    return steps


@settings(max_examples=60, deadline=None)
@given(stages_of(), st.sampled_from((1, 2, 1_000)), st.booleans())
def test_no_cut_is_below_the_diagram_and_with_room_it_is_exact(
    drawn: tuple[PlanStages, int], width: int, has_once: bool
):
    stages, seed = drawn
    cuts = all_cuts(stages)
    held = stages.options.counts[cuts, 0].sum(axis=1)
    num_layers = int(held.min() + held.max()) // 2
    cuts = cuts[held == num_layers]
    paths = np.unique(np.concatenate([paths_of(stages, cut, has_slow=True) for cut in cuts]), axis=0)
    along_s = along_paths_s(stages, paths)
    once_s = np.random.default_rng(seed).uniform(0, 5, len(along_s)) if has_once else np.zeros(len(along_s))
    bounds_s = along_s[cuts].sum(axis=1).max(axis=1) + once_s[cuts].max(axis=1)
    before = path_diagram.WIDTH
    path_diagram.WIDTH = width
    try:
        found = diagram(edges_of(stages, num_layers), along_s, paths, once_s, np.inf)
        none = diagram(edges_of(stages, num_layers), along_s, paths, once_s, 0.5 * bounds_s.min())
    finally:
        path_diagram.WIDTH = before
    assert found.lower_bound_s <= bounds_s.min() * (1 + 1e-12)
    if width == 1_000:
        assert found.lower_bound_s == pytest.approx(bounds_s.min(), rel=1e-12)
    assert (cuts == found.cuts[0]).all(axis=1).any()
    assert none.lower_bound_s <= 0.5 * bounds_s.min()


@pytest.mark.parametrize("width", [2, 1_000])
@pytest.mark.parametrize(
    ("num_layers", "num_dense", "pattern", "num_stages", "interleave"),
    [(5, 2, (), 2, 1), (4, 2, (), 3, 1), (5, 1, (), 2, 2), (5, 0, ALTERNATING, 2, 1)],
)
def test_cuts_closed_by_paths_are_the_best_of_all(
    num_layers: int,
    num_dense: int,
    pattern: LayerPattern,
    num_stages: int,
    interleave: int,
    width: int,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(refine, "FEW_LISTED", -1)
    monkeypatch.setattr(path_diagram, "WIDTH", width)
    of, base = (
        workload(num_layers, num_dense, pattern),
        Plan(pipeline_parallel=num_stages, interleave=interleave, microbatch=2),
    )
    plans = every_plan(num_layers, num_dense, base, pattern)
    needs = sorted({need for _, need in plans})
    for hbm_bytes in (80 * GIBI, needs[len(needs) // 2]):
        on = cluster(num_stages, hbm_bytes)
        job = Job(graph=of.training_graph(), cluster=on, precision=of.precision, policies=CODES)
        best_s = min(step_s for step_s, need in plans if need <= on.usable_bytes)
        found = refined(job, base_plans(job, columns_of([base]), np.inf), best_s * 1.2, num_most=1)
        assert found.bound_s <= best_s * (1 + 1e-9)
        if width == 1_000:
            assert found.best_s == pytest.approx(best_s, rel=1e-9)
            assert (found.num_closed, found.num_open) == (1, 0)
