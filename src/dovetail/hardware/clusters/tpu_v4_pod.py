"""TPU v4 pods: a 3-D torus of up to 16 by 16 by 16 chips, wired by optical switches in cubes of 4 by 4 by 4."""

from __future__ import annotations

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.clusters._torus import cube_shapes, pod
from dovetail.hardware.clusters._tpu_hosts import V4_HOST

SMALL_SHAPES = ((1, 1, 1), (1, 2, 2), (2, 2, 2), (2, 2, 4), (2, 4, 4))
SHAPES = (*SMALL_SHAPES, *cube_shapes(4, (4, 4, 4)))


def tpu_v4_pod(num_devices: int) -> Cluster:
    in_cubes = num_devices >= 64  # the optical switches close only whole cubes
    return pod(
        "tpu-v4-pod",
        "tpu-v4",
        num_devices,
        shapes=SHAPES,
        wraps=lambda _: in_cubes,
        bandwidth_source="scaling book, TPU chapter: six links of 45 GB/s one way, two a side",
        slice_source="Cloud TPU v4 documentation: no wrap-around below a cube of 4x4x4, boxes of cubes above",
        host=V4_HOST,
    )


clusters.register("tpu-v4-pod")(
    ClusterEntry(
        build=tpu_v4_pod, default_devices=4096, summary="TPU v4, 3-D torus to 16x16x16, 45 GB/s a link and direction"
    )
)
