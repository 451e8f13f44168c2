"""The RoCE cluster that trained Llama 3 405B: Grand Teton nodes, pods of 3072 GPUs, eight pods."""

from __future__ import annotations

import math

from dovetail.errors import InvalidInput
from dovetail.hardware.catalog import chips
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._nodes import (
    GIGABIT,
    NVLINK_LATENCY_S,
    NVLINK_LATENCY_SOURCE,
    ROCE_LATENCY_S,
    ROCE_LATENCY_SOURCE,
    checked_count,
    filled,
)
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension, Topology
from dovetail.units import GIGA, MICRO

PAPER = "Llama 3 paper (Meta, 2024), section 3.3.1"
NUM_NODE, NUM_POD, NUM_PODS = 8, 3072, 8
LIBRARY = "nccl-h100"
SOURCES = (
    ("nvlink.bandwidth", f"{PAPER}: eight H100 a server on NVLink; 450 GB/s each way (H100 datasheet)"),
    ("nvlink.latency", NVLINK_LATENCY_SOURCE),
    ("pod.bandwidth", f"{PAPER}: 400 Gb/s RoCE a GPU, full bisection inside a pod"),
    ("pod.latency", ROCE_LATENCY_SOURCE),
    ("spine.bandwidth", f"{PAPER}: 400 Gb/s RoCE a GPU into the pod"),
    ("spine.oversubscription", f"{PAPER}: 1:7 between pods at the aggregation layer"),
    ("spine.latency", f"{ROCE_LATENCY_SOURCE}; two more switches between pods"),
    ("num_devices", f"{PAPER}: 3072 GPUs a pod, eight pods, 24576 in all; a job is spread evenly over its pods"),
)


def pods_of(num_devices: int) -> int:
    """Fewest pods that hold the job in equal shares of whole nodes: 16384 takes all eight, 2048 in each."""
    for num_pods in range(math.ceil(num_devices / NUM_POD), NUM_PODS + 1):
        if num_devices % (num_pods * NUM_NODE) == 0:
            return num_pods
    below = num_devices // (NUM_NODE * NUM_PODS) * NUM_NODE * NUM_PODS
    raise InvalidInput(
        f"a job beyond one pod of {NUM_POD} splits evenly over at most {NUM_PODS} pods in nodes of {NUM_NODE}; "
        f"got {num_devices}; try {below} or {below + NUM_NODE * NUM_PODS}",
        "num_devices",
    )


def topology(num_devices: int) -> Topology:
    """A node, a pod, and the oversubscribed spine, as far as the job reaches."""
    roce = Link(bandwidth_bytes_per_s=400 * GIGABIT, latency_s=ROCE_LATENCY_S)
    nvlink = Dimension(
        name="nvlink",
        kind="switch",
        num_devices=NUM_NODE,
        link=Link(bandwidth_bytes_per_s=450 * GIGA, latency_s=NVLINK_LATENCY_S),
        library=LIBRARY,
    )
    pod = Dimension(
        name="pod", kind="fat-tree", num_devices=NUM_POD // NUM_NODE, link=roce, library=LIBRARY, is_network=True
    )
    if num_devices <= NUM_POD:
        return filled("llama3-grandteton", num_devices, (nvlink, pod))
    num_pods = pods_of(num_devices)
    within = filled("llama3-grandteton", num_devices // num_pods, (nvlink, pod))
    spine = Dimension(
        name="spine",
        kind="fat-tree",
        num_devices=num_pods,
        link=Link(bandwidth_bytes_per_s=400 * GIGABIT, latency_s=ROCE_LATENCY_S + 1 * MICRO),
        oversubscription=7.0,
        library=LIBRARY,
        is_network=True,
    )
    return Topology(dimensions=(*within.dimensions, spine))


def llama3_grandteton(num_devices: int) -> Cluster:
    checked_count("llama3-grandteton", num_devices, NUM_POD * NUM_PODS)
    return Cluster(name="llama3-grandteton", chip=chips["h100-sxm"](), topology=topology(num_devices), sources=SOURCES)


clusters.register("llama3-grandteton")(
    ClusterEntry(
        build=llama3_grandteton,
        default_devices=16384,
        summary="H100 SXM, RoCE 400 Gb/s per GPU, pods of 3072 with full bisection, 1:7 between eight pods",
    )
)
