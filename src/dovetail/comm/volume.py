"""How many bytes a collective makes one rank send: what links, and their energy, are charged for."""

from __future__ import annotations

from dovetail.errors import NotModelled
from dovetail.units import Amount

_SHARES_SENT = {"all-gather": 1.0, "reduce-scatter": 1.0, "all-to-all": 1.0, "all-reduce": 2.0}
_SCATTERED = ("all-reduce", "reduce-scatter")
_SWITCHED = (*_SCATTERED, "all-gather")  # what switches add or multicast


def sent_bytes(collective: str, payload_bytes: Amount, num_ranks: int, *, is_in_switch: bool = False) -> Amount:
    """Bytes one rank sends in `collective` over `num_ranks` ranks, by the algorithm that sends the fewest.

    Where switches add, an all-reduce and a reduce-scatter send the payload once, and an all-gather a rank's own part.
    """
    if is_in_switch and collective in _SWITCHED:
        return payload_bytes if collective in _SCATTERED else payload_bytes / num_ranks
    if collective == "point-to-point":
        return payload_bytes
    if collective not in _SHARES_SENT:
        raise NotModelled(f"the volume of {collective!r} is not modelled")
    return _SHARES_SENT[collective] * payload_bytes * (num_ranks - 1) / num_ranks
