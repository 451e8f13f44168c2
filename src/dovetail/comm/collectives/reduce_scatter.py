"""Reduce-scatter: every rank ends with its part of the sum."""

from __future__ import annotations

from dovetail.comm.collectives import collectives
from dovetail.comm.collectives.all_gather import all_gather_s
from dovetail.hardware.topology import Group
from dovetail.units import Amount


@collectives.register("reduce-scatter")
def reduce_scatter_s(payload_bytes: Amount, group: Group, link_frac: float) -> Amount:
    """The mirror of an all-gather: the same bytes in the opposite direction. Adding up is taken to be free."""
    return all_gather_s(payload_bytes, group, link_frac)
