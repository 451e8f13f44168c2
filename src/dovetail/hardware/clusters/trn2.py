"""Trn2 instances: 16 Trainium2 chips on a 4 by 4 torus, 3.2 Tb/s of EFA an instance."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._nodes import GIGABIT
from dovetail.hardware.clusters._trainium import side, trainium_cluster
from dovetail.units import GIGA

NEURONLINK = (
    "AWS Trn2: NeuronLink-v3, 1024 GB/s a chip inside the instance (third party), taken as both ways, two links a side"
)
SOURCES = (
    ("x.bandwidth", NEURONLINK),
    ("y.bandwidth", NEURONLINK),
    ("efa.bandwidth", "AWS Trn2: 3.2 Tb/s of EFA a trn2.48xlarge of 16 chips"),
)
SIDES = (side("x", 4, 256 * GIGA), side("y", 4, 256 * GIGA))


def trn2(num_devices: int) -> Cluster:
    return trainium_cluster(
        "trn2", "trainium2", num_devices, sides=SIDES, efa_bytes_per_s=3200 * GIGABIT / 16, sources=SOURCES
    )


clusters.register("trn2")(
    ClusterEntry(
        build=trn2, default_devices=64, summary="Trainium2, 16 on a 4x4 torus (256 GB/s a side), 200 Gb/s of EFA a chip"
    )
)
