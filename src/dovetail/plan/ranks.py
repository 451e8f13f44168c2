"""Which devices of a cluster hold which stage: devices are counted through `axis_order`, the innermost axis first."""

from __future__ import annotations

import math

from dovetail.hardware.mixed import AnyCluster, MixedCluster
from dovetail.plan.parts import stages_by_part
from dovetail.plan.plan import Plan


def stage_of(plan: Plan, cluster: AnyCluster, device: int) -> int:
    """The stage that `device` is of; on several parts, whose devices follow each other, `plan` must say the parts."""
    assert 0 <= device < cluster.num_devices, device
    inside = _inside(plan)
    if not isinstance(cluster, MixedCluster):
        return device // inside % plan.pipeline_parallel
    counts = stages_by_part(plan, cluster)
    for part, (equal, count) in enumerate(zip(cluster.parts, counts, strict=True)):
        if device < equal.num_devices:
            own = [stage for stage, there in enumerate(plan.stage_parts) if there == part]
            return own[device // inside % count]
        device -= equal.num_devices
    raise AssertionError(device)


def first_device(plan: Plan, cluster: AnyCluster, stage: int) -> int:
    """The first of the devices of `stage`."""
    inside = _inside(plan)
    if not isinstance(cluster, MixedCluster):
        return stage * inside
    part = plan.stage_parts[stage]
    before = sum(equal.num_devices for equal in cluster.parts[:part])
    return before + plan.stage_parts[:stage].count(part) * inside


def _inside(plan: Plan) -> int:
    """Devices from one stage to the next."""
    return math.prod(plan.degree(axis) for axis in plan.axis_order[: plan.axis_order.index("pp")])
