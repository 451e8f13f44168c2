"""Which part of a cluster each stage of a plan is on: every stage lies whole within one part."""

from __future__ import annotations

from dataclasses import replace

from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.mixed import AnyCluster, MixedCluster
from dovetail.hardware.topology import Topology
from dovetail.plan.placement import Placement, placement
from dovetail.plan.plan import Plan


def stages_by_part(plan: Plan, cluster: MixedCluster) -> tuple[int, ...]:
    """How many stages fill each part; raises `InvalidInput` where that is no whole number.

    All stages have the same degrees, as frameworks want it, and no device is left over.
    """
    size = plan.num_devices // plan.pipeline_parallel
    for index, part in enumerate(cluster.parts):
        if part.num_devices % size:
            told = f"a stage takes tensor x context x data = {size} devices, and part {index} has {part.num_devices}"
            raise InvalidInput(f"{told}; use degrees whose product divides the devices of every part", "data_parallel")
    return tuple(part.num_devices // size for part in cluster.parts)


def on_parts(plan: Plan, cluster: AnyCluster) -> Plan:
    """`plan` with the part of every stage: as it says, or in the order of the parts. Raises where it cannot be so."""
    if isinstance(cluster, Cluster):
        if any(plan.stage_parts):
            parts = ", ".join(map(str, plan.stage_parts))
            told = f"stage_parts={parts} names parts, and {cluster.name} is of equal devices"
            raise InvalidInput(f"{told}; leave stage_parts out, or give the cluster parts", "stage_parts")
        return replace(plan, stage_parts=()) if plan.stage_parts else plan
    if plan.schedule == "dualpipe":
        told = "dualpipe, which has every chunk on two stages, is not modelled for clusters of several parts"
        raise NotModelled(f"{told}; use another schedule", "schedule")
    if plan.offload_optimizer or plan.offload_activations_frac:
        raise NotModelled("offload is not modelled for clusters of several parts; leave it out", "offload_optimizer")
    wanted = stages_by_part(plan, cluster)
    found = plan.stage_parts or tuple(part for part, count in enumerate(wanted) for _ in range(count))
    _check(found, wanted, plan)
    return replace(plan, stage_parts=found)


def _check(stage_parts: tuple[int, ...], wanted: tuple[int, ...], plan: Plan) -> None:
    last = len(wanted) - 1
    if not 0 <= min(stage_parts) <= max(stage_parts) <= last:
        wrong = next(part for part in stage_parts if not 0 <= part <= last)
        raise InvalidInput(f"stage_parts names part {wrong}, and the cluster has parts 0 to {last}", "stage_parts")
    for part, count in enumerate(wanted):
        if stage_parts.count(part) != count:
            size = plan.num_devices // plan.pipeline_parallel
            told = f"stage_parts puts {stage_parts.count(part)} stages of {size} devices on part {part}"
            raise InvalidInput(f"{told}, whose devices are those of {count}; name it {count} times", "stage_parts")


def part_placement(plan: Plan, num_stages: int, topology: Topology) -> Placement:
    """Where `num_stages` of the stages of `plan` lie on a part with `topology`, which they fill."""
    there = replace(
        plan,
        pipeline_parallel=num_stages,
        interleave=1,
        schedule="1f1b",
        stage_parts=(),
        layers_per_stage=(),
        recompute=plan.recompute[:1],
        recompute_layers=plan.recompute_layers[:1],
    )
    return placement(there, topology)


def part_placements(plan: Plan, cluster: AnyCluster) -> tuple[Placement, ...]:
    """Where the groups of a plan lie on each part."""
    if isinstance(cluster, Cluster):
        return (placement(plan, cluster.topology),)
    counts = stages_by_part(plan, cluster)
    return tuple(part_placement(plan, count, part.topology) for count, part in zip(counts, cluster.parts, strict=True))


def usable_by_stage(plan: Plan, cluster: AnyCluster) -> tuple[float, ...]:
    """HBM that a plan may take of a device of each stage."""
    if isinstance(cluster, Cluster):
        return (cluster.usable_bytes,) * plan.pipeline_parallel
    return tuple(cluster.parts[part].usable_bytes for part in plan.stage_parts)


def part_of_stage(plan: Plan, cluster: AnyCluster, stage: int) -> Cluster:
    """The equal devices that a stage is on; `plan` must say on which part, if there are several."""
    return cluster if isinstance(cluster, Cluster) else cluster.parts[plan.stage_parts[stage]]
