"""TPU v5p pods: a 3-D torus of up to 16 by 20 by 28 chips, wired by optical switches in cubes of 4 by 4 by 4."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._torus import cube_shapes, pod
from dovetail.hardware.clusters._tpu_hosts import V5P_HOST
from dovetail.hardware.clusters.tpu_v4_pod import SMALL_SHAPES

SHAPES = (*SMALL_SHAPES, *cube_shapes(4, (4, 5, 7)))


def tpu_v5p_pod(num_devices: int) -> Cluster:
    in_cubes = num_devices >= 64
    return pod(
        "tpu-v5p-pod",
        "tpu-v5p",
        num_devices,
        shapes=SHAPES,
        wraps=lambda _: in_cubes,
        bandwidth_source="Cloud TPU v5p documentation: 4800 Gb/s over six links, 100 GB/s each one way, two a side",
        slice_source="Cloud TPU v5p documentation: boxes of 4x4x4 cubes, 8960 chips a pod, largest job 6144",
        host=V5P_HOST,
    )


clusters.register("tpu-v5p-pod")(
    ClusterEntry(
        build=tpu_v5p_pod, default_devices=8960, summary="TPU v5p, 3-D torus to 16x20x28, 100 GB/s a link and direction"
    )
)
