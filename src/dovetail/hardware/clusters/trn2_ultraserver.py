"""Trn2 UltraServers: four instances whose equal chips are joined in rings, 64 chips in all."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._nodes import GIGABIT
from dovetail.hardware.clusters._trainium import side, trainium_cluster
from dovetail.hardware.clusters.trn2 import SIDES as INSTANCE_SIDES
from dovetail.hardware.clusters.trn2 import SOURCES as INSTANCE_SOURCES
from dovetail.units import GIGA

RING = "AWS Trn2 UltraServer: 256 GB/s a chip between instances (third party), taken as both ways, a ring of four"


def trn2_ultraserver(num_devices: int) -> Cluster:
    return trainium_cluster(
        "trn2-ultraserver",
        "trainium2",
        num_devices,
        sides=(*INSTANCE_SIDES, side("z", 4, 128 * GIGA)),
        efa_bytes_per_s=12800 * GIGABIT / 64,
        sources=(*INSTANCE_SOURCES, ("z.bandwidth", RING)),
    )


clusters.register("trn2-ultraserver")(
    ClusterEntry(
        build=trn2_ultraserver,
        default_devices=64,
        summary="Trainium2, 64 on a 4x4x4 torus (256 GB/s a side, 128 GB/s between instances), 200 Gb/s of EFA a chip",
    )
)
