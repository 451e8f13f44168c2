"""All-reduce: every rank ends with the sum."""

from __future__ import annotations

from dovetail.comm.alphabeta import gather_s
from dovetail.comm.collectives import collectives
from dovetail.comm.collectives.all_gather import all_gather_s
from dovetail.comm.collectives.reduce_scatter import reduce_scatter_s
from dovetail.hardware.topology import Group, num_ranks
from dovetail.units import Amount


@collectives.register("all-reduce")
def all_reduce_s(payload_bytes: Amount, group: Group, link_frac: float) -> Amount:
    """Reduce-scatter, then all-gather, dimension by dimension: 2(n-1)/n of the payload past every rank.

    Where the switches of the outermost dimension add, sums come back while others still go up: one payload past every
    rank, and not two.
    """
    if group and group[-1].dimension.is_reducing:
        *inner, outer = group
        inside, held_bytes = tuple(inner), payload_bytes / num_ranks(tuple(inner))
        both_s = reduce_scatter_s(payload_bytes, inside, link_frac) + all_gather_s(payload_bytes, inside, link_frac)
        return both_s + gather_s(held_bytes, outer, link_frac, "all-reduce")
    return reduce_scatter_s(payload_bytes, group, link_frac) + all_gather_s(payload_bytes, group, link_frac)
