"""Trn1 instances: 16 Trainium chips on a 4 by 4 torus, 800 Gb/s of EFA an instance."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._nodes import GIGABIT
from dovetail.hardware.clusters._trainium import side, trainium_cluster
from dovetail.units import GIGA

NEURONLINK = "AWS Neuron documentation: NeuronLink-v2, 384 GB/s a chip both ways over four links, two a side"
SOURCES = (
    ("x.bandwidth", NEURONLINK),
    ("y.bandwidth", NEURONLINK),
    ("efa.bandwidth", "AWS Trn1 documentation: 800 Gb/s a trn1.32xlarge of 16 chips (1600 Gb/s for trn1n)"),
)
SIDES = (side("x", 4, 96 * GIGA), side("y", 4, 96 * GIGA))


def trn1(num_devices: int) -> Cluster:
    return trainium_cluster(
        "trn1", "trainium1", num_devices, sides=SIDES, efa_bytes_per_s=800 * GIGABIT / 16, sources=SOURCES
    )


clusters.register("trn1")(
    ClusterEntry(
        build=trn1, default_devices=512, summary="Trainium, 16 on a 4x4 torus (96 GB/s a side), 50 Gb/s of EFA a chip"
    )
)
