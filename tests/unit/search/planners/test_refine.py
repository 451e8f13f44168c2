from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from dovetail.evaluate import memory_use
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import RECOMPUTE_POLICIES, Plan
from dovetail.parallel.sharding import shard
from dovetail.search.objectives import objectives
from dovetail.search.planners.plan_space import PlanSpace
from dovetail.search.planners.planner import PlanSearchResult, search_plans
from dovetail.search.planners.refine import Job, balanced_plans
from dovetail.step.step import training_step
from dovetail.units import GIBI
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

POLICIES = ("none", "full")
CODES = tuple(RECOMPUTE_POLICIES.index(policy) for policy in POLICIES)


@cache
def workload(num_layers: int, vocab: int = 32_000, batch: int = 64) -> Workload:
    model = models["llama2-7b"]()
    short = replace(model, architecture=replace(model.architecture, num_layers=num_layers, vocab=vocab))  # type: ignore[type-var]
    return Workload(model=short, global_batch=batch, seq=2048)


def cluster(num_devices: int, hbm_bytes: float) -> Cluster:
    """A100s with as much usable memory as it takes to make a point."""
    made = clusters["dgx-a100"].build(num_devices).with_headroom(0.0)
    hbm = replace(made.chip.hbm, capacity_bytes=hbm_bytes)
    return replace(made, chip=replace(made.chip, hbm=hbm, hbm_visible_frac=1.0))


def job(of: Workload, on: Cluster) -> Job:
    return Job(graph=of.training_graph(), cluster=on, precision=of.precision, policies=CODES)


def search(of: Workload, on: Cluster, space: PlanSpace, objective: str = "time", **more: object) -> PlanSearchResult:
    return search_plans(
        of,
        on,
        space,
        objectives[objective],
        num_best=3,
        cluster_usd=1.0,
        progress=lambda *_: None,
        **more,  # type: ignore[arg-type]
    )


SMALL = PlanSpace(
    recompute=POLICIES, pipeline_parallel=(2,), tensor_parallel=(1, 2), zero_stage=(0, 1), microbatch=(1, 2)
)


def test_what_is_found_is_what_the_plan_takes_and_needs_by_itself():
    of, on = workload(6), cluster(8, 30 * GIBI)
    found = search(of, on, SMALL)
    assert found.best
    for candidate in found.best:
        graph = of.training_graph()
        alone = training_step(graph, candidate.plan, on, of.precision)
        memory = memory_use(shard(graph, candidate.plan), of.precision, on.usable_bytes)
        assert candidate.step_s == pytest.approx(alone.step_s, rel=1e-9)
        assert candidate.energy_j == pytest.approx(alone.energy_j, rel=1e-9)
        assert candidate.need_bytes == pytest.approx(memory.need_bytes, rel=1e-9)
        assert memory.fits


def test_refined_plans_are_never_worse_than_even_ones():
    for hbm_gib in (20, 30, 60):
        of, on = workload(6), cluster(8, hbm_gib * GIBI)
        even, any_ = search(of, on, SMALL, is_even_only=True), search(of, on, SMALL)
        assert bool(any_.best) >= bool(even.best)
        for ours, theirs in zip(any_.best, even.best, strict=False):
            assert ours.score <= theirs.score


def test_a_heavy_head_gets_fewer_layers_beside_it_and_that_is_faster():
    of, on = workload(16, vocab=128_000), cluster(4, 200 * GIBI)
    space = replace(SMALL, tensor_parallel=(1,), pipeline_parallel=(4,), interleave=(1,))
    even, any_ = search(of, on, space, is_even_only=True), search(of, on, space)
    layers = any_.best[0].plan.layers_per_stage
    assert layers[-1] < min(layers[:-1])
    assert any_.best[0].step_s < 0.8 * even.best[0].step_s
    assert any_.gap_frac == 0.0


def test_memory_makes_some_layers_of_early_stages_recompute_and_no_more_than_it_must():
    of = workload(8, batch=32)
    graph, even = of.training_graph(), Plan(pipeline_parallel=2, microbatch=2)
    on = cluster(2, memory_use(shard(graph, even), of.precision, 80 * GIBI).need_bytes - GIBI)
    [found] = balanced_plans(job(of, on), [even])
    plan = found.plan
    assert 0 < sum(plan.recompute_layers) < 8
    less = tuple(max(0, count - 1) for count in plan.recompute_layers)
    fuller = replace(plan, recompute_layers=less)
    assert not memory_use(shard(graph, fuller), of.precision, on.usable_bytes).fits


def test_a_budget_of_none_leaves_a_gap_that_bounds_account_for():
    of, on = workload(6), cluster(8, 30 * GIBI)
    whole, none = search(of, on, SMALL), search(of, on, SMALL, num_refined=0)
    assert whole.gap_frac == 0.0
    assert none.proof.num_refined == 0
    assert none.bound_s <= whole.best[0].step_s  # a true statement about what a larger budget finds
    assert none.best[0].step_s * (1 - none.gap_frac) == pytest.approx(min(none.bound_s, none.best[0].step_s))
    assert none.bound_s < none.best[0].step_s or none.proof.num_open == 0


def test_every_base_plan_is_bounded_away_or_refined_or_left_open():
    for num_refined in (0, 1, 2, 100):
        proof = search(workload(6), cluster(8, 30 * GIBI), SMALL, num_refined=num_refined).proof
        assert proof.num_bases > proof.num_refined
        assert proof.num_closed <= proof.num_refined <= num_refined
        assert proof.num_bases == proof.num_pruned + proof.num_closed + proof.num_open


def test_energy_and_memory_are_asked_of_even_plans_only():
    for objective in ("tokens/J", "headroom"):
        found = search(workload(6), cluster(8, 30 * GIBI), SMALL, objective)
        assert found.proof.is_even_only
        assert found.gap_frac == 0.0
        assert found.bound_s == 0.0  # nothing is said of the time that other plans take
        assert found.tally.num_evaluated == found.tally.num_plans
        assert all(not candidate.plan.layers_per_stage for candidate in found.best)


def test_a_policy_that_is_not_allowed_is_in_no_stage():
    of, on = workload(6), cluster(8, 24 * GIBI)
    found = search(of, on, replace(SMALL, recompute=("full",)))
    assert found.best
    for candidate in found.best:
        assert set(candidate.plan.recompute) == {"full"}
        assert not candidate.plan.recompute_layers


def test_layers_of_several_kinds_are_cut_anew_and_proven():
    model = models["deepseek-v3"]()
    short = replace(model, architecture=replace(model.architecture, num_layers=6, num_dense_layers=2))  # type: ignore[type-var]
    of = Workload(model=short, global_batch=64, seq=1024)
    space = replace(SMALL, expert_parallel=(8, 16), recompute=("none", "full"))
    even, found = (
        search(of, cluster(16, 80 * GIBI), space, is_even_only=True),
        search(of, cluster(16, 80 * GIBI), space),
    )
    assert found.best
    assert found.proof.num_refined > 0
    assert found.gap_frac == 0.0
    assert found.best[0].step_s < even.best[0].step_s
    assert found.best[0].plan.layers_per_stage
