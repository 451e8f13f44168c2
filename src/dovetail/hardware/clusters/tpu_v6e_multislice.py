"""TPU v6e multislice: whole pods of 256 chips joined by the data-centre network."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._multislice import multislice
from dovetail.hardware.clusters.tpu_v6e_pod import tpu_v6e_pod
from dovetail.units import GIGA

NUM_SLICE = 256


def tpu_v6e_multislice(num_devices: int) -> Cluster:
    return multislice(
        "tpu-v6e-multislice",
        tpu_v6e_pod,
        NUM_SLICE,
        num_devices,
        dcn_bytes_per_s=12.5 * GIGA,
        dcn_source="How to Scale Your Model (TPU chapter), recalled: 12.5 GB/s of DCN egress per v6e chip",
    )


clusters.register("tpu-v6e-multislice")(
    ClusterEntry(
        build=tpu_v6e_multislice,
        default_devices=2 * NUM_SLICE,
        summary="TPU v6e, slices of 16x16 joined by the data-centre network, 12.5 GB/s per chip",
    )
)
