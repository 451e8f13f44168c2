"""All-gather: every rank ends with all parts."""

from __future__ import annotations

from dovetail.comm.alphabeta import gather_s
from dovetail.comm.collectives import collectives
from dovetail.hardware.topology import Group
from dovetail.units import Amount


@collectives.register("all-gather")
def all_gather_s(payload_bytes: Amount, group: Group, link_frac: float) -> Amount:
    """Time until every rank holds the whole receive buffer: outermost dimension first, where shards are smallest."""
    time_s, held_bytes = 0.0, payload_bytes
    for span in group:  # innermost last in time, and it moves the most: walk from the whole down
        time_s += gather_s(held_bytes, span, link_frac)
        held_bytes = held_bytes / span.num_ranks
    return time_s
