"""How many bytes a collective makes one rank send: what links, and their energy, are charged for."""

from __future__ import annotations

from dovetail.comm.events.schedules import Shape
from dovetail.comm.messages import compiled
from dovetail.errors import NotModelled
from dovetail.units import Amount

# The algorithms that send the fewest bytes, and how ranks must lie for that.
_FEWEST: dict[str, tuple[str, Shape]] = {
    "all-gather": ("ring", "one-way"),
    "reduce-scatter": ("ring", "one-way"),
    "all-reduce": ("ring", "one-way"),
    "all-to-all": ("direct", "any"),
}
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
    if collective not in _FEWEST:
        raise NotModelled(f"the volume of {collective!r} is not modelled")
    if num_ranks == 1:
        return 0.0 * payload_bytes
    algorithm, shape = _FEWEST[collective]
    share, whole = compiled(algorithm, collective, num_ranks, shape).moved
    return payload_bytes * share / whole
