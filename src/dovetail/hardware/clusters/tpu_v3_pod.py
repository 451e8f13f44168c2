"""TPU v3 pods: a 2-D torus of up to 32 by 32 chips."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._torus import pod
from dovetail.hardware.clusters._tpu_hosts import V3_HOST

SHAPES = ((1, 1), (2, 2), (4, 4), (4, 8), (8, 8), (8, 16), (16, 16), (16, 32), (32, 32))


def tpu_v3_pod(num_devices: int) -> Cluster:
    return pod(
        "tpu-v3-pod",
        "tpu-v3",
        num_devices,
        shapes=SHAPES,
        wraps=lambda side: side == 32,
        bandwidth_source="scaling book: four links of 100 GB/s one way, two a side (other source: 82 GB/s)",
        slice_source="Cloud TPU v3 slices v3-8 to v3-2048; estimate: a side closes into a ring only at 32 chips",
        host=V3_HOST,
    )


clusters.register("tpu-v3-pod")(
    ClusterEntry(
        build=tpu_v3_pod, default_devices=1024, summary="TPU v3, 2-D torus to 32x32, 100 GB/s a link and direction"
    )
)
