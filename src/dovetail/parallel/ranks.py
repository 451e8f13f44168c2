"""Which devices of a cluster hold which stage: devices are counted through `axis_order`, the innermost axis first."""

from __future__ import annotations

import math

from dovetail.hardware.heterogeneous import AnyCluster, HeterogeneousCluster
from dovetail.parallel.plan import Plan
from dovetail.parallel.pools import stages_by_pool


def stage_of(plan: Plan, cluster: AnyCluster, device: int) -> int:
    """The stage that `device` is of; on several pools, whose devices follow each other, `plan` must say the pools."""
    assert 0 <= device < cluster.num_devices, device
    inside = _inside(plan)
    if not isinstance(cluster, HeterogeneousCluster):
        return device // inside % plan.pipeline_parallel
    counts = stages_by_pool(plan, cluster)
    for pool, (equal, count) in enumerate(zip(cluster.pools, counts, strict=True)):
        if device < equal.num_devices:
            stages = [stage for stage, stage_pool in enumerate(plan.stage_pools) if stage_pool == pool]
            return stages[device // inside % count]
        device -= equal.num_devices
    raise AssertionError(device)


def first_device(plan: Plan, cluster: AnyCluster, stage: int) -> int:
    """The first of the devices of `stage`."""
    inside = _inside(plan)
    if not isinstance(cluster, HeterogeneousCluster):
        return stage * inside
    pool = plan.stage_pools[stage]
    before = sum(equal.num_devices for equal in cluster.pools[:pool])
    return before + plan.stage_pools[:stage].count(pool) * inside


def _inside(plan: Plan) -> int:
    """Devices from one stage to the next."""
    return math.prod(plan.degree(axis) for axis in plan.axis_order[: plan.axis_order.index("pp")])
