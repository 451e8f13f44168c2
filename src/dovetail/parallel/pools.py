"""Which pool of a cluster each stage of a plan is on (a stage is never split between pools), and its usable memory.

Usable memory is what PyTorch sees less the headroom: `usable_by_stage`, by `hardware.chip` `usable_bytes`.
"""

from __future__ import annotations

from dataclasses import replace

from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.families import PAPER, PLAIN, families
from dovetail.hardware.heterogeneous import AnyCluster, HeterogeneousCluster, chips_of
from dovetail.hardware.topology import Topology
from dovetail.parallel.placement import Placement, placement
from dovetail.parallel.plan import Plan


def stages_by_pool(plan: Plan, cluster: HeterogeneousCluster) -> tuple[int, ...]:
    """How many stages fill each pool; raises `InvalidInput` where that is no whole number.

    All stages have the same degrees, as frameworks want it, and no device is left over.
    """
    size = plan.num_devices // plan.pipeline_parallel
    for index, pool in enumerate(cluster.pools):
        if pool.num_devices % size:
            message = f"a stage takes tensor x context x data = {size} devices, and pool {index} has {pool.num_devices}"
            raise InvalidInput(
                f"{message}; use degrees whose product divides the devices of every pool", "data_parallel"
            )
    return tuple(pool.num_devices // size for pool in cluster.pools)


def framework_of(cluster: AnyCluster) -> str:
    """The framework that trains on a cluster where a plan names none: that of its family of chips."""
    found = {families[chip.calibration.family or PAPER].framework for chip in chips_of(cluster)}
    return found.pop() if len(found) == 1 else PLAIN


def on_pools(plan: Plan, cluster: AnyCluster) -> Plan:
    """`plan` with the pool of every stage: as `stage_pools` says, or in the order of the pools.

    And by the framework of the cluster's chips, where it names none.
    """
    if plan.framework == PLAIN != framework_of(cluster):
        plan = replace(plan, framework=framework_of(cluster))
    if isinstance(cluster, Cluster):
        if any(plan.stage_pools):
            pools = ", ".join(map(str, plan.stage_pools))
            message = f"stage_pools={pools} names pools, and {cluster.name} is of equal devices"
            raise InvalidInput(f"{message}; leave stage_pools out, or give the cluster pools", "stage_pools")
        return replace(plan, stage_pools=()) if plan.stage_pools else plan
    if plan.schedule == "dualpipe":
        message = "dualpipe, which has every chunk on two stages, is not modelled for clusters of several pools"
        raise NotModelled(f"{message}; use another schedule", "schedule")
    if plan.offload_optimizer or plan.offloads_activations:
        raise NotModelled("offload is not modelled for clusters of several pools; leave it out", "offload_optimizer")
    wanted = stages_by_pool(plan, cluster)
    stage_pools = plan.stage_pools or tuple(pool for pool, count in enumerate(wanted) for _ in range(count))
    _check(stage_pools, wanted, plan)
    return replace(plan, stage_pools=stage_pools)


def _check(stage_pools: tuple[int, ...], wanted: tuple[int, ...], plan: Plan) -> None:
    last = len(wanted) - 1
    if not 0 <= min(stage_pools) <= max(stage_pools) <= last:
        wrong = next(pool for pool in stage_pools if not 0 <= pool <= last)
        raise InvalidInput(f"stage_pools names pool {wrong}, and the cluster has pools 0 to {last}", "stage_pools")
    for pool, count in enumerate(wanted):
        if stage_pools.count(pool) != count:
            size = plan.num_devices // plan.pipeline_parallel
            message = f"stage_pools puts {stage_pools.count(pool)} stages of {size} devices on pool {pool}"
            raise InvalidInput(f"{message}, whose devices are those of {count}; name it {count} times", "stage_pools")


def pool_placement(plan: Plan, num_stages: int, topology: Topology) -> Placement:
    """Placement of `num_stages` of the stages of `plan` on a pool with `topology`, which they fill."""
    plan_on_pool = replace(
        plan,
        pipeline_parallel=num_stages,
        interleave=1,
        schedule="1f1b",
        stage_pools=(),
        layers_per_stage=(),
        recompute=plan.recompute[:1],
        recompute_layers=plan.recompute_layers[:1],
    )
    return placement(plan_on_pool, topology)


def pool_placements(plan: Plan, cluster: AnyCluster) -> tuple[Placement, ...]:
    """The placement of `plan` on each pool; raises `InvalidInput` where its axes do not nest there."""
    if isinstance(cluster, Cluster):
        return (placement(plan, cluster.topology),)
    counts = stages_by_pool(plan, cluster)
    return tuple(pool_placement(plan, count, pool.topology) for count, pool in zip(counts, cluster.pools, strict=True))


def usable_by_stage(plan: Plan, cluster: AnyCluster) -> tuple[float, ...]:
    """HBM that a plan may use on a device of each stage: what is visible, less the headroom."""
    if isinstance(cluster, Cluster):
        return (cluster.usable_bytes,) * plan.pipeline_parallel
    return tuple(cluster.pools[pool].usable_bytes for pool in plan.stage_pools)


def pool_of_stage(plan: Plan, cluster: AnyCluster, stage: int) -> Cluster:
    """The equal devices that a stage is on; `plan` must say on which pool, if there are several."""
    return cluster if isinstance(cluster, Cluster) else cluster.pools[plan.stage_pools[stage]]
