"""All-to-all: every rank sends a part of what it holds to every other."""

from __future__ import annotations

from dovetail.comm.alphabeta import all_to_all_s
from dovetail.comm.collectives import collectives
from dovetail.hardware.topology import Group
from dovetail.units import Amount


@collectives.register("all-to-all")
def hierarchical_all_to_all_s(payload_bytes: Amount, group: Group, link_frac: float) -> Amount:
    """One all-to-all per dimension, each of the whole payload: a part reaches its column, then its row."""
    return sum(all_to_all_s(payload_bytes, span, link_frac) for span in group)
