"""Models of very many layers: how many are cut into stages, and that tables in pieces say the same."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.clusters import clusters
from dovetail.hardware.heterogeneous import HeterogeneousCluster
from dovetail.hardware.link import Link
from dovetail.search.codesign.plan_sets import plan_set
from dovetail.search.objectives import objectives
from dovetail.search.planners import pools
from dovetail.search.planners.bounds import stage_paces
from dovetail.search.planners.cuts.stage_options import MOST_LAYERS
from dovetail.search.planners.plan_space import PlanSpace
from dovetail.search.planners.planner import PlanSearchResult, search_plans
from dovetail.units import GIGA, MICRO
from dovetail.workload.models import models
from dovetail.workload.shape_rules import MAX_LAYERS
from dovetail.workload.workload import Workload

SPACE = PlanSpace(
    recompute=("none", "full"), pipeline_parallel=(2, 4), tensor_parallel=(1, 2), zero_stage=(1,), microbatch=(1, 2)
)
POOL = HeterogeneousCluster(
    name="pool",
    pools=(clusters["dgx-h100"].build(8), clusters["dgx-a100"].build(8)),
    between=Link(bandwidth_bytes_per_s=20 * GIGA, latency_s=8 * MICRO),
)


@cache
def workload(num_layers: int) -> Workload:
    model = models["gpt2-345m"]()
    deep = replace(model, architecture=replace(model.architecture, num_layers=num_layers))  # type: ignore[type-var]
    return Workload(model=deep, global_batch=64, seq=1024)


def on_one(num_layers: int, *, space: PlanSpace = SPACE, is_even_only: bool = False) -> PlanSearchResult:
    return search_plans(
        workload(num_layers),
        clusters["dgx-a100"].build(8),
        space,
        objectives["time"],
        num_best=3,
        cluster_usd=1.0,
        progress=lambda *_: None,
        is_even_only=is_even_only,
    )


def on_pool(num_layers: int) -> PlanSearchResult:
    return pools.search_plans_on_pools(
        workload(num_layers),
        POOL,
        SPACE,
        objectives["time"],
        num_best=3,
        cluster_usd=1.0,
        progress=lambda *_: None,
    )


def test_a_model_has_no_more_layers_than_any_could():
    with pytest.raises(InvalidInput, match=r"num_layers must be at most 10,000; got 10,001"):
        workload(MAX_LAYERS + 1)


def test_too_many_layers_to_be_cut_are_refused_with_the_way_out():
    with pytest.raises(
        NotModelled, match=r"up to 1,000 layers; .* has 1,001; keep stages even, with dovetail plan --forbid uneven"
    ):
        on_one(MOST_LAYERS + 1)
    with pytest.raises(NotModelled, match=r"has 1,001; write a plan and simulate it"):
        on_pool(MOST_LAYERS + 1)


def test_one_stage_is_not_cut():
    found = on_one(MOST_LAYERS + 1, space=replace(SPACE, pipeline_parallel=(1,)))
    assert found.tally.num_plans > 0


def test_even_stages_may_hold_as_many_layers_as_a_model_may_have():
    found = on_one(MAX_LAYERS, is_even_only=True)
    assert found.tally.num_plans > 0


@pytest.mark.parametrize(
    ("module", "name", "search"),
    [(pools, "OPTIONS_AT_ONCE", lambda: on_pool(6)), (stage_paces, "TABLE_ELEMENTS", lambda: on_one(26))],
)
def test_plans_looked_at_one_at_a_time_are_the_same(module, name, search, monkeypatch):
    many = search()
    monkeypatch.setattr(module, name, 1)
    one = search()
    assert many.best
    assert [replace(each, energy_j=0.0) for each in one.best] == [replace(each, energy_j=0.0) for each in many.best]
    energies_j = [
        each.energy_j for each in many.best
    ]  # sums over tables of other widths round their last bit otherwise
    assert [each.energy_j for each in one.best] == pytest.approx(energies_j, rel=1e-12)
    assert one.bound_s == many.bound_s


def test_chip_and_plan_together_are_not_searched_for_more_layers_than_stages_are_cut_of():
    with pytest.raises(NotModelled, match=r"has 1,001; take a model of fewer"):
        plan_set(workload(MOST_LAYERS + 1), clusters["dgx-a100"].build(8), SPACE)
