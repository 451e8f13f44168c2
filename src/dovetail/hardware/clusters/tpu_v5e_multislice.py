"""TPU v5e multislice: whole pods of 256 chips joined by the data-centre network."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._multislice import multislice
from dovetail.hardware.clusters.tpu_v5e_pod import tpu_v5e_pod
from dovetail.units import GIGA

NUM_SLICE = 256


def tpu_v5e_multislice(num_devices: int) -> Cluster:
    return multislice(
        "tpu-v5e-multislice",
        tpu_v5e_pod,
        NUM_SLICE,
        num_devices,
        dcn_bytes_per_s=3.125 * GIGA,
        dcn_source="How to Scale Your Model (TPU chapter), recalled: 3.125 GB/s of DCN egress per v5e chip",
    )


clusters.register("tpu-v5e-multislice")(
    ClusterEntry(
        build=tpu_v5e_multislice,
        default_devices=2 * NUM_SLICE,
        summary="TPU v5e, slices of 16x16 joined by the data-centre network, 3.125 GB/s per chip",
    )
)
