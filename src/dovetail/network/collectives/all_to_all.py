"""All-to-all: every rank sends a part of what it holds to every other."""

from __future__ import annotations

from dovetail.hardware.topology import Group
from dovetail.network.alphabeta import all_to_all_s
from dovetail.network.collectives import collectives


@collectives.register("all-to-all")
def hierarchical_all_to_all_s(payload_bytes: float, group: Group, link_frac: float) -> float:
    """One exchange a dimension, each over the whole payload, so that a part reaches its column then its row."""
    return sum(all_to_all_s(payload_bytes, span, link_frac) for span in group)
