"""PHAZE's system: its TPU v4 chips on one flat link, used for every kind of parallelism."""

from __future__ import annotations

from dovetail.hardware.catalog import chips
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._nodes import checked_count
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension, Topology

PHAZE = "PHAZE, released code (MIT, commit fed7cde)"
NUM_MOST = 4096
SOURCES = (
    ("flat.bandwidth", f"{PHAZE}: 4 GiB/s between any two devices"),
    ("flat.latency", f"{PHAZE}: none is modelled"),
    ("num_devices", f"{PHAZE}: 1024; its placement also runs for 4096, the most we have seen"),
)


def phaze_flat_1024(num_devices: int) -> Cluster:
    checked_count("phaze-flat-1024", num_devices, NUM_MOST)
    chip = chips["phaze-tpuv4"]()
    link = Link(bandwidth_bytes_per_s=chip.interconnect_bytes_per_s, latency_s=0.0)
    flat = Dimension(name="flat", kind="switch", num_devices=num_devices, link=link)
    return Cluster(name="phaze-flat-1024", chip=chip, topology=Topology(dimensions=(flat,)), sources=SOURCES)


clusters.register("phaze-flat-1024")(
    ClusterEntry(build=phaze_flat_1024, default_devices=1024, summary="PHAZE's TPU v4 chips on one flat 4 GiB/s switch")
)
