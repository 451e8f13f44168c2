"""Seconds of what many plans hand on between stages, and of collectives within their groups."""

from __future__ import annotations

import numpy as np

from dovetail.plan.placements import Placements
from dovetail.plan.plans import Plans
from dovetail.schedule.send_table import by_group, timed
from dovetail.workload.graph import FloatArray, IntArray


def transfer_s(plans: Plans, carried_bytes: FloatArray, places: Placements, link_frac: float) -> FloatArray:
    """One hand-over between stages.

    Tensor ranks that all hold the same send a piece each, over their own port, and gather the pieces on the other
    side (Narayanan et al., SC 2021, section 4.1; DeepSpeed's pipeline does the same).
    """
    pieces = num_pieces(plans)
    piece_s = exchanged_s("point-to-point", carried_bytes / pieces, places, "pipeline", link_frac)
    gathered_bytes = np.where(pieces > 1, carried_bytes, 0.0)
    gather_s = exchanged_s("all-gather", gathered_bytes, places, "tensor", link_frac)
    return piece_s + np.where(piece_s > 0, gather_s, 0.0)


def num_pieces(plans: Plans) -> IntArray:
    """In how many pieces, one a tensor rank, what stages hand on is sent."""
    return np.where(plans.sequence_parallel, 1, plans.tensor_parallel)


def exchanged_s(
    collective: str, whole_bytes: FloatArray, places: Placements, group_name: str, link_frac: float
) -> FloatArray:
    """Seconds of a collective of each plan within its group of that name."""
    total_s = np.zeros(len(whole_bytes))
    for group, chosen in by_group(places.groups, places.group_of[group_name]):
        total_s[chosen] = timed(collective, whole_bytes[chosen], group, link_frac)[0]
    return total_s
