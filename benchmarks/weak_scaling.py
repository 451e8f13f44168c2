"""Weak scaling from 1,024 to 1,048,576 H100: what a step takes, and what of it latency and bandwidth are.

`python -m benchmarks.weak_scaling` prints the table of docs/model/network.md. Work per device stays the same. Nodes of
8 stand in pods of 1,024 devices with full bisection, one 400 Gb/s port a device, and pods on a spine at 4:1. What
latency costs is what a step would gain without any; bandwidth likewise. Stragglers are devices whose clocks differ by
1.7 %, as measured: all wait for the slowest. Jitter of when ranks come to a collective is 0, as no measurement says how
large it is, or as given: `python -m benchmarks.weak_scaling 20us`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

from dovetail.hardware.catalog import chips
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.hardware.topology import Dimension, Topology
from dovetail.parallel.plan import Plan, columns_of
from dovetail.step.step import step_times
from dovetail.units import PERCENT, format_s, quantity
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

COUNTS = tuple(1024 * 4**power for power in range(6))
POD, NODE = 1024, 8
OVERSUBSCRIPTION = 4.0
FREE = 1e9  # style: a ratio, so large that nothing is left
SAMPLES_PER_REPLICA = 32  # of the Megatron-style plan, one a microbatch
TENSOR, PIPELINE = 8, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A model and how it is placed on so many devices."""

    name: str
    model: str
    plan: Callable[[int], Plan]
    global_batch: Callable[[int], int]
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A step on so many devices; shares are of its time."""

    num_devices: int
    step_s: float
    latency_frac: float
    bandwidth_frac: float
    straggler_frac: float


JOBS = (
    Job(
        name="ZeRO-3 over all devices, llama3-8b",
        model="llama3-8b",
        plan=lambda count: Plan(data_parallel=count, zero_stage=3, recompute=("full",)),
        global_batch=lambda count: 2 * count,
        seq=8192,
    ),
    Job(
        name="tp 8 in each node, ZeRO-3 over nodes, llama3-8b",
        model="llama3-8b",
        plan=lambda count: Plan(
            tensor_parallel=TENSOR,
            sequence_parallel=True,
            data_parallel=count // TENSOR,
            zero_stage=3,
            microbatch=TENSOR,  # as many samples on a device as without
            recompute=("full",),
        ),
        global_batch=lambda count: 2 * count,
        seq=8192,
    ),
    Job(
        name="tp 8, pp 8, ZeRO-1, llama3-70b",
        model="llama3-70b",
        plan=lambda count: Plan(
            tensor_parallel=TENSOR,
            sequence_parallel=True,
            pipeline_parallel=PIPELINE,
            data_parallel=count // (TENSOR * PIPELINE),
            zero_stage=1,
            recompute=("selective",),
        ),
        global_batch=lambda count: SAMPLES_PER_REPLICA * count // (TENSOR * PIPELINE),
        seq=8192,
    ),
)


def cluster_of(num_devices: int) -> Cluster:
    node, pod = clusters["dgx-h100"].build(POD).topology.dimensions
    dimensions: tuple[Dimension, ...] = (node, replace(pod, name="pod", num_devices=POD // NODE))
    if num_devices > POD:
        spine = replace(pod, name="spine", num_devices=num_devices // POD, oversubscription=OVERSUBSCRIPTION)
        dimensions = (*dimensions, spine)
    return Cluster(name="pods", chip=chips["h100-sxm"](), topology=Topology(dimensions=dimensions), sources=())


def point(job: Job, num_devices: int, jitter_s: float = 0.0) -> Point:
    cluster, plan = cluster_of(num_devices), job.plan(num_devices)
    workload = Workload(model=models[job.model](), global_batch=job.global_batch(num_devices), seq=job.seq)
    graph = workload.training_graph()

    def step_s(bandwidth_ratio: float, pace_ratio: float, *, has_stragglers: bool = True) -> float:
        topology = cluster.topology.with_links_scaled(bandwidth_ratio, pace_ratio)
        chip = cluster.chip
        if has_stragglers:
            topology = topology.with_jitter(jitter_s)
        else:
            chip = replace(chip, calibration=replace(chip.calibration, clock_spread_frac=0.0))
        changed = replace(cluster, chip=chip, topology=topology)
        return float(step_times(graph, columns_of([plan]), changed, workload.precision).step_s[0])

    whole_s = step_s(1.0, 1.0)
    return Point(
        num_devices=num_devices,
        step_s=whole_s,
        latency_frac=1 - step_s(1.0, FREE) / whole_s,
        bandwidth_frac=1 - step_s(FREE, 1.0) / whole_s,
        straggler_frac=1 - step_s(1.0, 1.0, has_stragglers=False) / whole_s,
    )


def points(job: Job, jitter_s: float = 0.0) -> tuple[Point, ...]:
    return tuple(point(job, count, jitter_s) for count in COUNTS)


def main(jitter: str = "0 s") -> None:
    for job in JOBS:
        print(f"{job.name}\n{'devices':>12} {'step':>12} {'latency %':>10} {'bandwidth %':>12} {'stragglers %':>13}")
        for one in points(job, quantity(jitter, "s")):
            shares = f"{one.latency_frac * PERCENT:10.1f} {one.bandwidth_frac * PERCENT:12.1f}"
            shares += f" {one.straggler_frac * PERCENT:13.1f}"
            print(f"{one.num_devices:12,} {format_s(one.step_s):>12} {shares}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
