"""Slices of TPU pods joined by the data-centre network, as multislice training runs on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dovetail.errors import InvalidInput
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters._nodes import checked_count
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension, Topology
from dovetail.units import MICRO

DCN_LATENCY_S = 20 * MICRO
DCN_LATENCY_SOURCE = "estimate: TCP between hosts of one data centre, tens of microseconds; none is published"
MAX_SLICES = 256


def multislice(
    family: str,
    slice_of: Callable[[int], Cluster],
    num_slice: int,
    num_devices: int,
    *,
    dcn_bytes_per_s: float,
    dcn_source: str,
) -> Cluster:
    """Whole slices of `num_slice` chips, each an equal torus, under a fat tree over the NICs of their hosts."""
    checked_count(family, num_devices, MAX_SLICES * num_slice)
    if num_devices > num_slice and num_devices % num_slice:
        below = num_devices // num_slice * num_slice
        rule = f"{family} comes in whole slices of {num_slice} chips"
        raise InvalidInput(f"{rule}; got {num_devices} devices; try {below} or {below + num_slice}", "num_devices")
    one = slice_of(min(num_devices, num_slice))
    if num_devices <= num_slice:
        return replace(one, name=family)
    inner = one.topology.dimensions
    dcn = Dimension(
        name="dcn",
        kind="fat-tree",
        num_devices=num_devices // num_slice,
        link=Link(bandwidth_bytes_per_s=dcn_bytes_per_s, latency_s=DCN_LATENCY_S),
        library=inner[0].library,
        is_network=True,
    )
    return replace(
        one,
        name=family,
        topology=Topology(dimensions=(*inner, dcn)),
        sources=(*one.sources, ("dcn.bandwidth", dcn_source), ("dcn.latency", DCN_LATENCY_SOURCE)),
    )
