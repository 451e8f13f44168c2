"""All-to-all: every rank sends a part of what it holds to every other."""

from __future__ import annotations

import numpy as np

from dovetail.comm.alphabeta import all_to_all_s
from dovetail.comm.collectives import collectives
from dovetail.hardware.topology import Group
from dovetail.units import Amount


def deduplicated_all_to_all_s(payload_bytes: Amount, group: Group, link_frac: float, num_copies: int) -> Amount:
    """An all-to-all whose payload has `num_copies` of each row, for ranks chosen at random.

    Of the copies for one place of a dimension one is sent, outermost dimension first, and handed out further inside.
    Of n places, n (1 - (1 - 1/n)^copies) are bound for on average. One kernel passes rows on while others still come
    in, so the slowest dimension sets the pace and latencies add up (DeepSeek-AI's DeepEP, 2025: warps that send,
    forward and receive run side by side).
    """
    latency_s, longest_s, num_places = 0.0, np.zeros(()), 1
    for span in reversed(group):
        num_places *= span.num_ranks
        num_sent = num_places * (1.0 - (1.0 - 1.0 / num_places) ** num_copies)
        start_s = all_to_all_s(0.0, span, link_frac)
        moving_s = all_to_all_s(payload_bytes * num_sent / num_copies, span, link_frac) - start_s
        latency_s, longest_s = latency_s + start_s, np.maximum(longest_s, moving_s)
    return latency_s + longest_s[()]


@collectives.register("all-to-all")
def hierarchical_all_to_all_s(payload_bytes: Amount, group: Group, link_frac: float) -> Amount:
    """One all-to-all per dimension, each of the whole payload: a part reaches its column, then its row."""
    return sum(all_to_all_s(payload_bytes, span, link_frac) for span in group)
