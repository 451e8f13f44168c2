"""The tori of the ACE paper: rings of four NPUs in a package, packages on a 2-D torus."""

from __future__ import annotations

from dovetail.errors import InvalidInput
from dovetail.hardware.catalog import chips
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension, Topology
from dovetail.units import GIGA

ACE = "ACE (Rashidi et al., ISCA 2021), recalled and cross-checked by its own identities"
SHAPES = {16: (4, 2, 2), 32: (4, 4, 2), 64: (4, 4, 4), 128: (4, 8, 4)}
BETWEEN = f"{ACE}: one bidirectional ring of 25 GB/s a direction, so 50 GB/s leave an NPU"
LATENCY = f"{ACE}: 500 cycles at 1245 MHz between packages"
SOURCES = (
    ("local.bandwidth", f"{ACE}: two one-way rings of 200 GB/s, so 400 GB/s leave an NPU"),
    ("local.latency", f"{ACE}: 90 cycles at 1245 MHz inside a package"),
    ("vertical.bandwidth", BETWEEN),
    ("vertical.latency", LATENCY),
    ("horizontal.bandwidth", BETWEEN),
    ("horizontal.latency", LATENCY),
    ("num_devices", f"{ACE}: 4x2x2, 4x4x2, 4x4x4 and 4x8x4"),
)


def ace_torus(num_devices: int) -> Cluster:
    """Link efficiency (94 %) is the chip's `link_frac`; the bandwidths here are before it."""
    if num_devices not in SHAPES:
        raise InvalidInput(
            f"ace-torus has {', '.join(map(str, SHAPES))} NPUs; got {num_devices}; try 64", "num_devices"
        )
    chip = chips["ace-npu"]()
    local, vertical, horizontal = SHAPES[num_devices]
    inside = Link(bandwidth_bytes_per_s=400 * GIGA, latency_s=90 / chip.clock_hz)
    between = Link(bandwidth_bytes_per_s=50 * GIGA, latency_s=500 / chip.clock_hz)
    dimensions = (
        Dimension(name="local", kind="ring", num_devices=local, link=inside),
        Dimension(name="vertical", kind="bidirectional-ring", num_devices=vertical, link=between),
        Dimension(name="horizontal", kind="bidirectional-ring", num_devices=horizontal, link=between),
    )
    return Cluster(name="ace-torus", chip=chip, topology=Topology(dimensions=dimensions), sources=SOURCES)


clusters.register("ace-torus")(
    ClusterEntry(
        build=ace_torus,
        default_devices=64,
        summary="ACE paper NPUs, local rings of 4 (400 GB/s), vertical and horizontal rings (50 GB/s)",
    )
)
