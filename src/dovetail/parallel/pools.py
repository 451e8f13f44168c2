"""Which part of a cluster each stage of a plan is on (a stage is never split between parts), and its usable memory.

Usable memory is what PyTorch sees less the headroom: `usable_by_stage`, by `hardware.chip` `usable_bytes`.
"""

from __future__ import annotations

from dataclasses import replace

from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.heterogeneous import AnyCluster, HeterogeneousCluster
from dovetail.hardware.topology import Topology
from dovetail.parallel.placement import Placement, placement
from dovetail.parallel.plan import Plan


def stages_by_pool(plan: Plan, cluster: HeterogeneousCluster) -> tuple[int, ...]:
    """How many stages fill each part; raises `InvalidInput` where that is no whole number.

    All stages have the same degrees, as frameworks want it, and no device is left over.
    """
    size = plan.num_devices // plan.pipeline_parallel
    for index, part in enumerate(cluster.parts):
        if part.num_devices % size:
            message = f"a stage takes tensor x context x data = {size} devices, and part {index} has {part.num_devices}"
            raise InvalidInput(
                f"{message}; use degrees whose product divides the devices of every part", "data_parallel"
            )
    return tuple(part.num_devices // size for part in cluster.parts)


def on_pools(plan: Plan, cluster: AnyCluster) -> Plan:
    """`plan` with the part of every stage: as `stage_pools` says, or in the order of the parts."""
    if isinstance(cluster, Cluster):
        if any(plan.stage_pools):
            parts = ", ".join(map(str, plan.stage_pools))
            message = f"stage_pools={parts} names parts, and {cluster.name} is of equal devices"
            raise InvalidInput(f"{message}; leave stage_pools out, or give the cluster parts", "stage_pools")
        return replace(plan, stage_pools=()) if plan.stage_pools else plan
    if plan.schedule == "dualpipe":
        message = "dualpipe, which has every chunk on two stages, is not modelled for clusters of several parts"
        raise NotModelled(f"{message}; use another schedule", "schedule")
    if plan.offload_optimizer or plan.offload_activations_frac:
        raise NotModelled("offload is not modelled for clusters of several parts; leave it out", "offload_optimizer")
    wanted = stages_by_pool(plan, cluster)
    stage_pools = plan.stage_pools or tuple(part for part, count in enumerate(wanted) for _ in range(count))
    _check(stage_pools, wanted, plan)
    return replace(plan, stage_pools=stage_pools)


def _check(stage_pools: tuple[int, ...], wanted: tuple[int, ...], plan: Plan) -> None:
    last = len(wanted) - 1
    if not 0 <= min(stage_pools) <= max(stage_pools) <= last:
        wrong = next(part for part in stage_pools if not 0 <= part <= last)
        raise InvalidInput(f"stage_pools names part {wrong}, and the cluster has parts 0 to {last}", "stage_pools")
    for part, count in enumerate(wanted):
        if stage_pools.count(part) != count:
            size = plan.num_devices // plan.pipeline_parallel
            message = f"stage_pools puts {stage_pools.count(part)} stages of {size} devices on part {part}"
            raise InvalidInput(f"{message}, whose devices are those of {count}; name it {count} times", "stage_pools")


def pool_placement(plan: Plan, num_stages: int, topology: Topology) -> Placement:
    """Placement of `num_stages` of the stages of `plan` on a part with `topology`, which they fill."""
    plan_on_part = replace(
        plan,
        pipeline_parallel=num_stages,
        interleave=1,
        schedule="1f1b",
        stage_pools=(),
        layers_per_stage=(),
        recompute=plan.recompute[:1],
        recompute_layers=plan.recompute_layers[:1],
    )
    return placement(plan_on_part, topology)


def pool_placements(plan: Plan, cluster: AnyCluster) -> tuple[Placement, ...]:
    """The placement of `plan` on each part; raises `InvalidInput` where its axes do not nest there."""
    if isinstance(cluster, Cluster):
        return (placement(plan, cluster.topology),)
    counts = stages_by_pool(plan, cluster)
    return tuple(pool_placement(plan, count, part.topology) for count, part in zip(counts, cluster.parts, strict=True))


def usable_by_stage(plan: Plan, cluster: AnyCluster) -> tuple[float, ...]:
    """HBM that a plan may use on a device of each stage: what is visible, less the headroom."""
    if isinstance(cluster, Cluster):
        return (cluster.usable_bytes,) * plan.pipeline_parallel
    return tuple(cluster.parts[part].usable_bytes for part in plan.stage_pools)


def pool_of_stage(plan: Plan, cluster: AnyCluster, stage: int) -> Cluster:
    """The equal devices that a stage is on; `plan` must say on which part, if there are several."""
    return cluster if isinstance(cluster, Cluster) else cluster.parts[plan.stage_pools[stage]]
