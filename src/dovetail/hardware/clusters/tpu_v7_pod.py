"""TPU v7 pods (TPU7x, Ironwood): a 3-D torus of up to 9,216 chips, in cubes of 4 by 4 by 4 as the v5p's."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._torus import cube_shapes, pod
from dovetail.hardware.clusters._tpu_hosts import V7_HOST
from dovetail.hardware.clusters.tpu_v4_pod import SMALL_SHAPES

SHAPES = (*SMALL_SHAPES, *cube_shapes(4, (4, 4, 9)))


def tpu_v7_pod(num_devices: int) -> Cluster:
    in_cubes = num_devices >= 64
    return pod(
        "tpu-v7-pod",
        "tpu-v7",
        num_devices,
        shapes=SHAPES,
        wraps=lambda _: in_cubes,
        bandwidth_source="Cloud TPU7x documentation: 1200 GB/s both ways per chip; six links of 100 GB/s each one way",
        slice_source="Cloud TPU7x documentation: 9216 chips a pod, slices of 4x4x4 cubes; estimate: 16x16x36 of all",
        host=V7_HOST,
    )


clusters.register("tpu-v7-pod")(
    ClusterEntry(
        build=tpu_v7_pod, default_devices=9216, summary="TPU v7, 3-D torus to 16x16x36, 100 GB/s a link and direction"
    )
)
