"""Point-to-point: one message from one rank to its neighbour in the group."""

from __future__ import annotations

import numpy as np

from dovetail.hardware.topology import Group
from dovetail.network.collectives import collectives
from dovetail.units import Amount


@collectives.register("point-to-point")
def point_to_point_s(payload_bytes: Amount, group: Group, link_frac: float) -> Amount:
    """Time of one message between neighbours, over the slowest dimension the group reaches into.

    On rings and lines a neighbour is reached over one port, through `stride` links that as many groups share.
    """
    times = [0.0]
    for span in group:
        dimension, link = span.dimension, span.dimension.link
        num_hops = 1
        num_ports = 1
        if dimension.kind in ("ring", "bidirectional-ring", "mesh"):
            num_hops = span.stride
            num_ports = 1 if dimension.kind == "ring" or dimension.num_devices == 2 else 2
        elif dimension.kind == "fully-connected":
            num_ports = max(1, dimension.num_devices - 1)
        rate = link.bandwidth_bytes_per_s * link_frac / num_ports / num_hops / dimension.oversubscription
        times.append(num_hops * link.latency_s + payload_bytes / rate)
    return np.max(np.broadcast_arrays(*times), axis=0)[()]
