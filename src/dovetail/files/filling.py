"""Data parallelism left out: what fills the cluster, or the degree that keeps it from being filled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from dovetail.errors import InvalidInput
from dovetail.plan.check import check_plan
from dovetail.plan.plan import Plan
from dovetail.workload.graph import Graph

DEGREES = ("tensor_parallel", "context_parallel", "pipeline_parallel")


def filling(plan: Plan, graph: Graph, num_devices: int) -> Plan:
    """`plan` with as many copies as `num_devices` hold; raises at the degree to blame where that is no whole number."""
    rest = plan.num_devices
    if num_devices % rest == 0:
        return replace(plan, data_parallel=num_devices // rest)
    _check_shape(plan, graph)
    field = _to_blame(plan, num_devices)
    degree = int(getattr(plan, field))
    tries = [str(other) for other in _near(plan, field, graph, num_devices)]
    way_out = f"; try {' or '.join(tries)}" if tries else ""
    if num_devices % degree:
        rule = f"{field}={degree} must divide the cluster's {num_devices} devices"
    else:
        degrees = " x ".join(str(getattr(plan, name)) for name in DEGREES)
        rule = f"tensor x context x pipeline = {degrees} = {rest} must divide the cluster's {num_devices} devices"
        way_out = way_out.replace("try ", f"try {field}=", 1)
    raise InvalidInput(f"{rule}{way_out}", field)


def _check_shape(plan: Plan, graph: Graph) -> None:
    """What the model has to say of the degrees, whatever the cluster: heads that do not divide are told first."""
    alone = replace(plan, expert_parallel=1, microbatch=1, interleave=1, layers_per_stage=())
    check_plan(alone, graph, alone.num_devices)


def _to_blame(plan: Plan, num_devices: int) -> str:
    """The degree that does not divide the devices by itself, or the largest where only their product does not."""
    return max(DEGREES, key=lambda field: (num_devices % getattr(plan, field) != 0, getattr(plan, field)))


def _near(plan: Plan, field: str, graph: Graph, num_devices: int) -> Iterator[int]:
    """Degrees next below and above that fill the cluster and suit the model; none where another degree is wrong too."""
    degree = int(getattr(plan, field))
    room, left = divmod(num_devices, plan.num_devices // degree)
    if left:
        return
    for others in (range(min(degree - 1, room), 0, -1), range(degree + 1, room + 1)):
        suiting = (other for other in others if room % other == 0 and _suits(plan, field, other, graph))
        yield from islice(suiting, 1)


def _suits(plan: Plan, field: str, degree: int, graph: Graph) -> bool:
    is_cut = field == "tensor_parallel" and plan.expert_tensor_parallel > 1
    experts = degree if is_cut else plan.expert_tensor_parallel
    changed: dict[str, Any] = {field: degree, "expert_tensor_parallel": experts}
    plain = replace(plan, interleave=1, layers_per_stage=(), recompute=("none",))
    try:
        _check_shape(replace(plain, **changed), graph)
    except InvalidInput:
        return False
    return True
