"""All-reduce: every rank ends with the sum."""

from __future__ import annotations

from dovetail.comm.collectives import collectives
from dovetail.comm.collectives.all_gather import all_gather_s
from dovetail.comm.collectives.reduce_scatter import reduce_scatter_s
from dovetail.hardware.topology import Group
from dovetail.units import Amount


@collectives.register("all-reduce")
def all_reduce_s(payload_bytes: Amount, group: Group, link_frac: float) -> Amount:
    """Reduce-scatter, then all-gather, dimension by dimension: 2(n-1)/n of the payload past every rank."""
    return reduce_scatter_s(payload_bytes, group, link_frac) + all_gather_s(payload_bytes, group, link_frac)
