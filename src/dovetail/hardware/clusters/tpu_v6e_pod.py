"""TPU v6e pods: a 2-D torus of 16 by 16 chips and its slices."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._torus import pod
from dovetail.hardware.clusters._tpu_hosts import V6E_HOST
from dovetail.hardware.clusters.tpu_v5e_pod import SHAPES


def tpu_v6e_pod(num_devices: int) -> Cluster:
    return pod(
        "tpu-v6e-pod",
        "tpu-v6e",
        num_devices,
        shapes=SHAPES,
        wraps=lambda side: side == 16,
        bandwidth_source="Cloud TPU v6e documentation: 800 GB/s both ways a chip over four links, two a side",
        slice_source="Cloud TPU v6e slices; a side closes into a ring only at its full 16 chips (scaling book)",
        host=V6E_HOST,
    )


clusters.register("tpu-v6e-pod")(
    ClusterEntry(
        build=tpu_v6e_pod, default_devices=256, summary="TPU v6e, 2-D torus of 16x16, 100 GB/s a link and direction"
    )
)
