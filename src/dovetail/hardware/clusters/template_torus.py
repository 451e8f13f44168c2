"""Template chips in a two-dimensional torus: where designs on paper are put to train large models."""

from __future__ import annotations

from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters._torus import ICI_LATENCY_S, ICI_LATENCY_SOURCE, torus

LEAST_WRAPPED = 3  # a side of two has one link between its chips


def template_torus(chip: Chip, num_devices: int) -> Cluster:
    """The most nearly square torus of `num_devices`, whose four links share what the chip sends."""
    short = max(side for side in range(1, int(num_devices**0.5) + 1) if num_devices % side == 0)
    topology = torus(
        (num_devices // short, short),
        chip.interconnect_bytes_per_s / 4,
        ICI_LATENCY_S,
        lambda side: side >= LEAST_WRAPPED,
    )
    return Cluster(
        name=f"{num_devices} x {chip.name} in a torus",
        chip=chip,
        topology=topology,
        sources=(("topology", "two-dimensional torus, as TPU v2 pods"), ("latency", ICI_LATENCY_SOURCE)),
    )
