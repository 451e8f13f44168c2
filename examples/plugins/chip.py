"""A chip of one's own, and a cluster of it: an H200 whose HBM is a third faster.

dovetail show h200-hbm4 --plugin examples/plugins/chip.py
dovetail simulate --model llama3-8b --cluster hbm4-nodesx64 --plan auto --plugin examples/plugins/chip.py
"""

from __future__ import annotations

from dataclasses import replace

from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import ClusterEntry, clusters
from dovetail.units import TERA

SOURCE = "what if: six stacks of a faster HBM"


@chips.register("h200-hbm4")
def h200_hbm4() -> Chip:
    """Everything but the HBM is the catalogue's H200."""
    base = chips["h200-sxm"]()
    hbm = replace(base.hbm, bandwidth_bytes_per_s=6.4 * TERA)  # what if
    sources = (*(pair for pair in base.sources if pair[0] != "hbm.bandwidth_bytes_per_s"),)
    return replace(
        base, name="h200-hbm4", year=2026, hbm=hbm, sources=(*sources, ("hbm.bandwidth_bytes_per_s", SOURCE))
    )


def hbm4_nodes(num_devices: int) -> Cluster:
    """DGX H200 nodes with the other chip in them."""
    base = clusters["dgx-h200"].build(num_devices)
    return replace(base, name="hbm4-nodes", chip=chips["h200-hbm4"]())


clusters.register("hbm4-nodes")(
    ClusterEntry(build=hbm4_nodes, default_devices=64, summary="the example's chip in DGX H200 nodes")
)
