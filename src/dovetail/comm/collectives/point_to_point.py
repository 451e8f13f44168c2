"""Point-to-point: one message from one rank to its neighbour in the group."""

from __future__ import annotations

import numpy as np

from dovetail.comm.alphabeta import are_opposite, neighbour_route, route_of
from dovetail.comm.collectives import collectives
from dovetail.hardware.topology import Group
from dovetail.units import Amount


@collectives.register("point-to-point")
def point_to_point_s(payload_bytes: Amount, group: Group, link_frac: float) -> Amount:
    """Time of one message between neighbours, over the slowest dimension the group reaches into.

    On rings and lines a neighbour is reached over one port, through `stride` links that as many groups share; of
    devices half a ring apart every second takes the other way round.
    """
    times = [0.0]
    for span in group:
        dimension, link = span.dimension, span.dimension.link
        num_ports = 1
        if dimension.kind in ("bidirectional-ring", "mesh"):
            num_ports = 1 if dimension.num_devices == 2 else 2
        elif dimension.kind == "fully-connected":
            num_ports = max(1, dimension.num_devices - 1)
        route = route_of(span) if are_opposite(span) else neighbour_route(span)
        rate = link.bandwidth_bytes_per_s * link_frac / num_ports / route.num_sharing / dimension.oversubscription
        time_s = link.latency_s + payload_bytes / rate
        if route.num_hops > 1:
            time_s = time_s + route.relayed_s(payload_bytes / rate / route.num_sharing, link.latency_s)
        times.append(time_s)
    return np.max(np.broadcast_arrays(*times), axis=0)[()]
