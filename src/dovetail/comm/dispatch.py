"""Rows to the devices of their experts: how many bytes go over each dimension of a group, and how long that takes."""

from __future__ import annotations

import numpy as np

from dovetail.comm.alphabeta import all_to_all_s
from dovetail.hardware.topology import Group
from dovetail.units import Amount
from dovetail.workload.routing import ExpertChoice, places_reached


def copies_sent(group: Group, choice: ExpertChoice | None, num_copies: int) -> list[float]:
    """Copies of a token that go over each dimension of `group`, outermost first, one to each place it is bound for.

    Where a choice is not known, a token's `num_copies` are bound for places at random.
    """
    found, num_places = [], 1
    for span in reversed(group):
        num_places *= span.num_ranks
        if choice is None:
            found.append(num_places * (1.0 - (1.0 - 1.0 / num_places) ** num_copies))
        else:
            found.append(places_reached(choice, num_places))
    return found


def deduplicated_dispatch_s(
    payload_bytes: Amount, group: Group, link_frac: float, choice: ExpertChoice | None, num_copies: int
) -> Amount:
    """An all-to-all whose payload has `num_copies` of each row, of which one goes to each place.

    Of the copies for one place of a dimension one is sent, outermost dimension first, and handed out further inside.
    One kernel passes rows on while others still come in, so the slowest dimension sets the pace and latencies add up
    (DeepSeek-AI's DeepEP, 2025: warps that send, forward and receive run side by side).
    """
    latency_s, longest_s = 0.0, np.zeros(())
    for span, num_sent in zip(reversed(group), copies_sent(group, choice, num_copies), strict=True):
        start_s = all_to_all_s(0.0, span, link_frac)
        moving_s = all_to_all_s(payload_bytes * num_sent / num_copies, span, link_frac) - start_s
        latency_s, longest_s = latency_s + start_s, np.maximum(longest_s, moving_s)
    return latency_s + longest_s[()]


def deduplicated_bytes(payload_bytes: Amount, group: Group, choice: ExpertChoice | None, num_copies: int) -> Amount:
    """Bytes that a rank sends in it, over all dimensions: what stays at home in one of them is not sent over it."""
    sent = zip(reversed(group), copies_sent(group, choice, num_copies), strict=True)
    return payload_bytes * sum(count / num_copies * (1.0 - 1.0 / span.num_ranks) for span, count in sent)
