"""TPU v5e pods: a 2-D torus of 16 by 16 chips and its slices."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._torus import pod
from dovetail.hardware.clusters._tpu_hosts import V5E_HOST

SHAPES = ((1, 1), (2, 2), (2, 4), (4, 4), (4, 8), (8, 8), (8, 16), (16, 16))


def tpu_v5e_pod(num_devices: int) -> Cluster:
    return pod(
        "tpu-v5e-pod",
        "tpu-v5e",
        num_devices,
        shapes=SHAPES,
        wraps=lambda side: side == 16,
        bandwidth_source="Cloud TPU v5e documentation: 400 GB/s both ways a chip over four links, two a side",
        slice_source="Cloud TPU v5e slices; a side closes into a ring only at its full 16 chips (scaling book)",
        host=V5E_HOST,
    )


clusters.register("tpu-v5e-pod")(
    ClusterEntry(
        build=tpu_v5e_pod, default_devices=256, summary="TPU v5e, 2-D torus of 16x16, 50 GB/s a link and direction"
    )
)
