"""NEST's system: its TPU v4 chips of 64 GB, eight on a switch, nodes on a fat tree with one 100 GB/s uplink each."""

from __future__ import annotations

from dovetail.hardware.catalog import chips
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._nodes import filled
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension
from dovetail.units import GIGA, MICRO

NEST = "NEST, released code (commit e8f1e6c)"
NUM_NODE = 8
NUM_MOST = 4096
NODE_BYTES_PER_S, UPLINK_BYTES_PER_S = 900 * GIGA, 100 * GIGA
NODE_LATENCY_S, TREE_LATENCY_S = 0.1 * MICRO, 0.5 * MICRO
SOURCES = (
    ("node.bandwidth", f"{NEST}: 900 GB/s, the link of a device to the switch of its node"),
    ("node.latency", f"{NEST}: 0.0001 ms a hop, as it hands it to its network simulator"),
    (
        "tree.bandwidth",
        f"{NEST}: one link of 100 GB/s from a node to its rack's switch and one of 400 GB/s from a rack of 4 nodes to"
        " the top, so that both tiers leave each of the 8 devices of a node 12.5 GB/s: one non-blocking tree",
    ),
    ("tree.latency", f"{NEST}: 0.0002 and 0.0003 ms, the hops to a rack's switch and to the top"),
    ("num_devices", f"{NEST}: 64 to 1024 in racks of 32; more is ours"),
)


def nest_fat_tree(num_devices: int) -> Cluster:
    uplink = Link(bandwidth_bytes_per_s=UPLINK_BYTES_PER_S / NUM_NODE, latency_s=TREE_LATENCY_S)
    dimensions = (
        Dimension(
            name="node",
            kind="switch",
            num_devices=NUM_NODE,
            link=Link(bandwidth_bytes_per_s=NODE_BYTES_PER_S, latency_s=NODE_LATENCY_S),
        ),
        Dimension(name="tree", kind="fat-tree", num_devices=NUM_MOST // NUM_NODE, link=uplink),
    )
    return Cluster(
        name="nest-fat-tree",
        chip=chips["nest-tpuv4"](),
        topology=filled("nest-fat-tree", num_devices, dimensions),
        sources=SOURCES,
    )


clusters.register("nest-fat-tree")(
    ClusterEntry(
        build=nest_fat_tree,
        default_devices=1024,
        summary="NEST's TPU v4 of 64 GB, 8 a node (900 GB/s), 100 GB/s per node into a non-blocking tree",
    )
)
