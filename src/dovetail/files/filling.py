"""Data parallelism left out: what fills the cluster, or the degree that keeps it from being filled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from dovetail.errors import InvalidInput
from dovetail.parallel.check import check_plan
from dovetail.parallel.plan import Plan
from dovetail.workload.graph import Graph

DEGREES = ("tensor_parallel", "context_parallel", "pipeline_parallel")


def filling(plan: Plan, graph: Graph, num_by_pool: tuple[int, ...]) -> Plan:
    """`plan` with as many copies as the cluster holds; raises at the degree to blame where that is no whole number.

    `num_by_pool` are devices of the pools of a cluster, one or more; each must be filled by whole stages.
    """
    rest, num_devices = plan.num_devices, sum(num_by_pool)
    if num_devices % rest == 0:
        return replace(plan, data_parallel=num_devices // rest)
    _check_shape(plan, graph)
    field = _to_blame(plan, num_devices)
    degree = int(getattr(plan, field))
    if num_devices % degree:
        rule = f"{field}={degree} must divide the cluster's {num_devices} devices"
        tries = [str(other) for other in _near(plan, field, graph, num_by_pool)]
    else:
        degrees = " x ".join(str(getattr(plan, name)) for name in DEGREES)
        rule = f"tensor x context x pipeline = {degrees} = {rest} must divide the cluster's {num_devices} devices"
        by_field = ([f"{name}={other}" for other in _near(plan, name, graph, num_by_pool)] for name in _tried(field))
        tries = next((some for some in by_field if some), [])
        tries = tries[:1] + [one.partition("=")[2] for one in tries[1:]]
    way_out = f"; try {' or '.join(tries)}" if tries else ""
    raise InvalidInput(f"{rule}{way_out}", field)


def check_fills(plan: Plan, num_by_pool: tuple[int, ...]) -> None:
    """Raises where `plan` takes more or fewer devices than there are in several pools, and says how many would do."""
    num_devices, rest = sum(num_by_pool), plan.num_devices // plan.data_parallel
    if len(num_by_pool) == 1 or plan.num_devices == num_devices:
        return
    copies, left = divmod(num_devices, rest)
    size = copies * rest // plan.pipeline_parallel
    way_out = f"; try data_parallel={copies}" if not left and not any(pool % size for pool in num_by_pool) else ""
    degrees = f"{plan.tensor_parallel} x {plan.context_parallel} x {plan.pipeline_parallel} x {plan.data_parallel}"
    message = f"tensor x context x pipeline x data = {degrees} = {plan.num_devices} must equal the cluster's"
    raise InvalidInput(f"{message} {num_devices} devices{way_out}", "data_parallel")


def _tried(field: str) -> tuple[str, ...]:
    """Degrees that may be changed where only their product is wrong, the one to blame first."""
    return (field, *(other for other in DEGREES if other != field))


def _check_shape(plan: Plan, graph: Graph) -> None:
    """Checks the degrees against the model, whatever the cluster: heads that do not divide are reported first."""
    alone = replace(plan, expert_parallel=1, microbatch=1, interleave=1, layers_per_stage=())
    check_plan(alone, graph, alone.num_devices)


def _to_blame(plan: Plan, num_devices: int) -> str:
    """The degree that does not divide the devices by itself, or the largest where only their product does not."""
    return max(DEGREES, key=lambda field: (num_devices % getattr(plan, field) != 0, getattr(plan, field)))


def _near(plan: Plan, field: str, graph: Graph, num_by_pool: tuple[int, ...]) -> Iterator[int]:
    """Degrees next below and above that fill the cluster and suit the model; none where another degree is wrong too."""
    degree = int(getattr(plan, field))
    room, left = divmod(sum(num_by_pool), plan.num_devices // degree)
    if left:
        return
    for others in (range(min(degree - 1, room), 0, -1), range(degree + 1, room + 1)):
        suiting = (other for other in others if room % other == 0 and _suits(plan, field, other, graph, num_by_pool))
        yield from islice(suiting, 1)


def _suits(plan: Plan, field: str, degree: int, graph: Graph, num_by_pool: tuple[int, ...]) -> bool:
    is_cut = field == "tensor_parallel" and plan.expert_tensor_parallel > 1
    experts = degree if is_cut else plan.expert_tensor_parallel
    changed: dict[str, Any] = {field: degree, "expert_tensor_parallel": experts}
    plain = replace(plan, interleave=1, layers_per_stage=(), recompute=("none",), recompute_layers=(), stage_pools=())
    whole = replace(plain, **changed)
    copies, size = sum(num_by_pool) // whole.num_devices, sum(num_by_pool) // whole.pipeline_parallel
    if graph.batch % (copies * plan.microbatch) or any(pool % size for pool in num_by_pool if len(num_by_pool) > 1):
        return False
    try:
        _check_shape(replace(plain, **changed), graph)
    except InvalidInput:
        return False
    return True
