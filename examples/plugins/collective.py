"""A collective of one's own: every rank sends its halo to both of its neighbours, as a cut image or grid does.

    dovetail network halo --size 16MiB --topology "bidirectional-ring:8@50GB/s,1us" --engine closed \\
        --plugin examples/plugins/collective.py
    dovetail network halo --size 16MiB --topology "bidirectional-ring:8@50GB/s,1us" --algorithm both-ways \\
        --plugin examples/plugins/collective.py
"""

from __future__ import annotations

from dovetail.comm.collectives import collectives
from dovetail.comm.events.schedules import Ask, Level, Round, Schedule, algorithms, not_modelled
from dovetail.errors import NotModelled
from dovetail.hardware.topology import Group
from dovetail.units import Amount


@collectives.register("halo")
def halo_s(payload_bytes: Amount, group: Group, link_frac: float) -> Amount:
    """Time until every rank holds what both neighbours sent it, `payload_bytes` each.

    Round a ring each has a port to itself, and through a switch they share one: two payloads at a rank's full rate.
    Where all are joined, each has one link of many.
    """
    if len(group) > 1:
        raise NotModelled("a halo is exchanged along one dimension; name it with --dims")
    if not group:
        return 0.0 * payload_bytes
    [span] = group
    dimension, num_shares = span.dimension, min(span.num_ranks - 1, 2)
    if dimension.kind == "fully-connected":
        num_shares = dimension.num_devices - 1
    elif dimension.kind not in ("bidirectional-ring", "switch", "fat-tree"):
        raise NotModelled(f"a halo goes both ways and round; nothing is written for a {dimension.kind}")
    rate = dimension.link.bandwidth_bytes_per_s * link_frac / dimension.oversubscription
    return dimension.link.latency_s + num_shares * payload_bytes / rate


@algorithms.register("both-ways")
def both_ways(ask: Ask) -> Schedule:
    """Who sends to whom, for the events engine: one level of a message to the right and one to the left."""
    if ask.collective != "halo":
        raise not_modelled(ask, "both-ways")
    sides = (1,) if ask.num_ranks == 2 else (1, -1)
    return ((Level(rounds=tuple(Round(num_bytes=ask.payload_bytes, offset=side) for side in sides)),),)
