"""Ranks that come late to a collective: all wait for the last of them, and the more there are the later it is."""

from __future__ import annotations

from functools import lru_cache
from statistics import NormalDist

from dovetail.hardware.topology import Group, num_ranks


def last_arrival_s(group: Group, num_taking_part: int = 0) -> float:
    """How much later than the mean the last rank of `group` is expected: Blom's expectation of the normal extreme.

    With `num_taking_part`, that of so many of its ranks.

    The jitter is the largest that its dimensions state; none of the catalogue does, as no measurement says how large.
    """
    jitter_s = max((span.dimension.jitter_s for span in group), default=0.0)
    return jitter_s * latest(num_taking_part or num_ranks(group)) if jitter_s else 0.0


@lru_cache(maxsize=1024)
def latest(num_devices: int) -> float:
    """The expected largest of so many standard normal variates (Blom 1958): 0 of one, 1.42 of 8, 3.24 of 1,024."""
    return NormalDist().inv_cdf((num_devices - 0.375) / (num_devices + 0.25)) if num_devices > 1 else 0.0
