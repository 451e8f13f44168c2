"""Which devices hold which stage, counted through the axes by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from dovetail.hardware.clusters import clusters
from dovetail.hardware.heterogeneous import HeterogeneousCluster
from dovetail.hardware.link import Link
from dovetail.parallel.plan import Plan
from dovetail.parallel.ranks import first_device, stage_of
from dovetail.units import GIGA

H100, A100 = clusters["dgx-h100"].build(32), clusters["dgx-a100"].build(16)
MIXED = HeterogeneousCluster(name="mixed", pools=(H100, A100), between=Link(bandwidth_bytes_per_s=GIGA, latency_s=0.0))
PLAN = Plan(tensor_parallel=4, pipeline_parallel=4, data_parallel=2)


def test_stages_follow_one_another_once_all_axes_inside_are_through():
    """tp 4, then dp 2, then pp: every eight devices are a stage; pp before dp: every four, and then again."""
    inner = replace(PLAN, axis_order=("tp", "cp", "dp", "pp"))
    assert [stage_of(inner, H100, device) for device in range(32)] == [device // 8 for device in range(32)]
    outer = replace(PLAN, axis_order=("tp", "cp", "pp", "dp"))
    assert [stage_of(outer, H100, device) for device in range(32)] == [device // 4 % 4 for device in range(32)]


def test_on_several_parts_each_holds_the_stages_the_plan_gives_it():
    """Six stages of eight devices: three on the first 24 of 32 H100s would not fill them, four do."""
    plan = Plan(tensor_parallel=8, pipeline_parallel=6, data_parallel=1, stage_pools=(0, 1, 0, 0, 1, 0))
    own = {0: [0, 2, 3, 5], 1: [1, 4]}
    for device in range(48):
        part, inside = (0, device) if device < 32 else (1, device - 32)
        assert stage_of(plan, MIXED, device) == own[part][inside // 8]
    assert Counter(stage_of(plan, MIXED, device) for device in range(48)) == dict.fromkeys(range(6), 8)


@pytest.mark.parametrize(
    ("plan", "cluster"),
    [
        (PLAN, H100),
        (replace(PLAN, axis_order=("tp", "cp", "pp", "dp")), H100),
        (Plan(tensor_parallel=8, pipeline_parallel=6, data_parallel=1, stage_pools=(1, 0, 0, 1, 0, 0)), MIXED),
    ],
    ids=["inner", "outer", "parts"],
)
def test_the_first_device_of_a_stage_is_the_least_that_holds_it(plan, cluster):
    for stage in range(plan.pipeline_parallel):
        held = [device for device in range(cluster.num_devices) if stage_of(plan, cluster, device) == stage]
        assert first_device(plan, cluster, stage) == min(held)
