"""Trn3 UltraServers: 144 Trainium3 on NeuronSwitches, EFA between them."""

from __future__ import annotations

from dovetail.hardware.catalog import chips
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._nodes import GIGABIT, NVLINK_LATENCY_S, filled
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension
from dovetail.units import GIGA, MICRO

SOURCES = (
    (
        "neuronlink.bandwidth",
        "AWS Neuron documentation, Trainium3 architecture page: NeuronLink-v4, 2.56 TB/s both ways a chip",
    ),
    ("neuronlink.latency", "estimate: as an NVLink hop of NCCL tuning model, 1.9 us, software included"),
    ("efa.bandwidth", "estimate: 200 Gb/s of EFA a chip, as of Trn2"),
    ("efa.latency", "estimate: public EFA ping-pong figures of 15 to 20 us"),
    ("num_devices", "AWS, Trn3 UltraServer (December 2025): 144 chips; estimate: 64 of them"),
)
DIMENSIONS = (
    Dimension(
        name="neuronlink",
        kind="switch",
        num_devices=144,
        link=Link(bandwidth_bytes_per_s=1280 * GIGA, latency_s=NVLINK_LATENCY_S),
    ),
    Dimension(
        name="efa",
        kind="fat-tree",
        num_devices=64,
        link=Link(bandwidth_bytes_per_s=200 * GIGABIT, latency_s=15 * MICRO),
        is_network=True,
    ),
)


def trn3_ultraserver(num_devices: int) -> Cluster:
    topology = filled("trn3-ultraserver", num_devices, DIMENSIONS)
    return Cluster(name="trn3-ultraserver", chip=chips["trainium3"](), topology=topology, sources=SOURCES)


clusters.register("trn3-ultraserver")(
    ClusterEntry(
        build=trn3_ultraserver,
        default_devices=144,
        summary="Trainium3, 144 on NeuronSwitches (1280 GB/s), 200 Gb/s of EFA a chip between UltraServers",
    )
)
