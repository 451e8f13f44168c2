"""Point-to-point: one message from one rank to its neighbour in the group."""

from __future__ import annotations

from dovetail.hardware.topology import Group
from dovetail.network.collectives import collectives


@collectives.register("point-to-point")
def point_to_point_s(payload_bytes: float, group: Group, link_frac: float) -> float:
    """Time of one message between neighbours, over the outermost dimension the group reaches into.

    Most neighbours of a pipeline meet there when the axis spans several dimensions, and the slowest sets the pace.
    A ring's neighbour is reached over one port, here half of the device's.
    """
    if not group:
        return 0.0
    times = []
    for span in group:
        link = span.dimension.link
        num_ports = 2 if span.dimension.kind in ("bidirectional-ring", "mesh") else 1
        if span.dimension.kind == "fully-connected":
            num_ports = max(1, span.dimension.num_devices - 1)
        rate = link.bandwidth_bytes_per_s * link_frac / num_ports / span.dimension.oversubscription
        times.append(link.latency_s + payload_bytes / rate)
    return max(times)
