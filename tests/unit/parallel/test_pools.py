from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.clusters import clusters
from dovetail.hardware.heterogeneous import HeterogeneousCluster
from dovetail.hardware.link import Link
from dovetail.parallel.layout import runs_of
from dovetail.parallel.plan import Plan
from dovetail.parallel.pools import (
    framework_of,
    on_pools,
    pool_of_stage,
    pool_placements,
    stages_by_pool,
    usable_by_stage,
)
from dovetail.units import GIGA
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

H100, A100 = clusters["dgx-h100"].build(32), clusters["dgx-a100"].build(16)
MIXED = HeterogeneousCluster(name="mixed", pools=(H100, A100), between=Link(bandwidth_bytes_per_s=GIGA, latency_s=0.0))
PLAN = Plan(tensor_parallel=8, pipeline_parallel=6, data_parallel=1)


def test_stages_fill_the_pools_in_their_order_unless_the_plan_says_otherwise():
    assert stages_by_pool(PLAN, MIXED) == (4, 2)
    assert on_pools(PLAN, MIXED).stage_pools == (0, 0, 0, 0, 1, 1)
    turned = replace(PLAN, stage_pools=(1, 1, 0, 0, 0, 0))
    assert on_pools(turned, MIXED) == turned


def test_memory_and_chip_of_a_stage_are_those_of_its_pool():
    plan = on_pools(replace(PLAN, stage_pools=(1, 0, 0, 0, 0, 1)), MIXED)
    assert pool_of_stage(plan, MIXED, 5) is A100
    assert pool_of_stage(plan, H100, 5) is H100
    assert usable_by_stage(plan, MIXED) == (A100.usable_bytes, *(H100.usable_bytes,) * 4, A100.usable_bytes)


def test_groups_lie_within_each_pool():
    first, second = pool_placements(on_pools(PLAN, MIXED), MIXED)
    assert [span.num_ranks for span in first.pipeline] == [4]
    assert [span.num_ranks for span in second.pipeline] == [2]
    assert [span.dimension.num_devices for span in first.tensor] == [8]


def test_runs_end_where_the_pool_or_a_neighbours_pool_changes():
    model = models["llama3-70b"]()
    graph = Workload(model=model, global_batch=64, seq=2048).training_graph()
    layers = (14, 14, 14, 14, 12, 12)
    runs = runs_of(graph, replace(PLAN, layers_per_stage=layers, stage_pools=(0, 0, 0, 0, 1, 1)))
    assert [run.pool for run in runs] == [0, 0, 0, 1, 1]
    assert [run.first_stage for run in runs] == [0, 1, 3, 4, 5]
    assert [run.pool for run in runs_of(graph, PLAN)] == [0] * len(runs_of(graph, PLAN))


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        (
            replace(PLAN, stage_pools=(0, 0, 0, 1, 1, 1)),
            "3 stages of 8 devices",
        ),
        (replace(PLAN, stage_pools=(0, 0, 0, 0, 1, 2)), " 2, .* 0 to 1"),
        (replace(PLAN, stage_pools=(0, 0, 0, 0, 1, -1)), " -1, .* 0 to 1"),
        (Plan(tensor_parallel=8, pipeline_parallel=2, data_parallel=3), "= 24 devices, .* 32"),
    ],
)
def test_what_does_not_fill_the_pools_is_refused(plan: Plan, told: str):
    with pytest.raises(InvalidInput, match=told):
        on_pools(plan, MIXED)


def test_pools_are_refused_where_all_devices_are_equal():
    assert on_pools(replace(PLAN, stage_pools=(0,) * 6), H100) == PLAN
    with pytest.raises(InvalidInput, match="dgx-h100"):
        on_pools(replace(PLAN, stage_pools=(0, 0, 0, 0, 0, 1)), H100)


def test_a_pool_a_stage_is_named():
    with pytest.raises(InvalidInput, match=r"has 2 values and must have .*: 6"):
        replace(PLAN, stage_pools=(0, 1))


@pytest.mark.parametrize("change", [{"schedule": "dualpipe"}, {"offload_optimizer": True}])
def test_what_is_not_modelled_on_pools_says_so(change):
    with pytest.raises(NotModelled, match="not modelled"):
        on_pools(replace(PLAN, **change), MIXED)


def test_a_plan_that_names_no_framework_has_that_of_its_chips():
    tpus, gpus = clusters["tpu-v4-pod"].build(64), clusters["dgx-h100"].build(8)
    assert (framework_of(tpus), framework_of(gpus)) == ("maxtext", "plain")
    assert on_pools(Plan(data_parallel=64), tpus).framework == "maxtext"
    assert on_pools(Plan(data_parallel=8), gpus).framework == "plain"
    assert on_pools(Plan(data_parallel=64, framework="torchtitan"), tpus).framework == "torchtitan"
