"""Neighbour to neighbour: the fewest bytes past every port, in n-1 steps; both ways round where links go both ways.

Source: Patarasuk & Yuan, JPDC 2009.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.comm.events.schedules import (
    GATHERS,
    ROOTED,
    Ask,
    Lane,
    Level,
    Round,
    Schedule,
    algorithms,
    from_broadcast,
    from_gather,
    listed,
    not_modelled,
    single,
)  # fmt: skip


@algorithms.register("ring")
def ring(ask: Ask) -> Schedule:
    """Round the ring, or along the line and back; on a switch, round a ring of ranks one way."""
    goes_round = ask.shape != "line" or ask.num_ranks <= 2
    if ask.collective in GATHERS:
        return _round_gathers(ask) if goes_round else from_gather(ask, _line_gathers(ask))
    if ask.collective in ROOTED:
        return (
            tuple(_round_chain(ask, o) for o in _offsets(ask)) if goes_round else from_broadcast(ask, _line_chains(ask))
        )
    if ask.collective == "all-to-all":
        return _all_to_all(ask)
    raise not_modelled(ask, "ring")


def _offsets(ask: Ask) -> tuple[int, ...]:
    return (1, -1) if ask.shape in ("two-way", "line") and ask.num_ranks > 2 else (1,)


def _along(num_ranks: int, offset: int, first: int, last: int) -> list[tuple[int, int]]:
    """Neighbour pairs of a line seen from its beginning (or its end): senders first..last-1."""
    if offset > 0:
        return [(r, r + 1) for r in range(first, last)]
    return [(num_ranks - 1 - r, num_ranks - 2 - r) for r in range(first, last)]


def _round_gathers(ask: Ask) -> Schedule:
    """Sums and parts both travel with the links: a one-way ring has no way back."""
    n, offsets = ask.num_ranks, _offsets(ask)
    part = ask.payload_bytes / n / len(offsets)
    lanes = []
    for offset in offsets:
        gather = single(Round(num_bytes=part, offset=offset), repeat=n - 1)
        scatter = single(Round(num_bytes=part, offset=offset, is_reduced=True), repeat=n - 1)
        lanes.append({"all-gather": (gather,), "reduce-scatter": (scatter,), "all-reduce": (scatter, gather)})
    return tuple(lane[ask.collective] for lane in lanes)


def _line_gathers(ask: Ask) -> list[Lane]:
    n, part = ask.num_ranks, ask.payload_bytes / ask.num_ranks
    return [tuple(single(listed(n, _along(n, o, k, n - 1), part)) for k in range(n - 1)) for o in _offsets(ask)]


def _round_chain(ask: Ask, offset: int) -> Lane:
    """A chain from the root, or to it; chunks keep its links busy."""
    n, part = ask.num_ranks, ask.payload_bytes / len(_offsets(ask))
    is_sum = ask.collective == "reduce"
    first = ask.root + offset if is_sum else ask.root
    pairs = [((first + offset * k) % n, (first + offset * (k + 1)) % n) for k in range(n - 1)]
    return tuple(single(replace(listed(n, [pair], part), is_reduced=is_sum)) for pair in pairs)


def _line_chains(ask: Ask) -> list[Lane]:
    n, root, payload_bytes = ask.num_ranks, ask.root, ask.payload_bytes
    right = tuple(single(listed(n, [(r, r + 1)], payload_bytes)) for r in range(root, n - 1))
    left = tuple(single(listed(n, [(r, r - 1)], payload_bytes)) for r in range(root, 0, -1))
    return [lane for lane in (right, left) if lane]


def _all_to_all(ask: Ask) -> Schedule:
    """Parts handed on from neighbour to neighbour, each the shorter way where there are two."""
    n, part, offsets = ask.num_ranks, ask.payload_bytes / ask.num_ranks, _offsets(ask)
    if ask.shape == "line" and n > 2:
        return tuple(tuple(_line_step(n, offset, k, part) for k in range(n - 1)) for offset in offsets)
    if len(offsets) == 1:
        return (tuple(single(Round(num_bytes=part * (n - k), offset=1)) for k in range(1, n)),)
    reach = n // 2
    half = 0.5 if n % 2 == 0 else 1.0  # opposite ranks send half of their part each way
    return tuple(
        tuple(single(Round(num_bytes=part * (reach - k + half), offset=offset)) for k in range(1, reach + 1))
        for offset in offsets
    )


def _line_step(n: int, offset: int, k: int, part_bytes: float) -> Level:
    round_ = listed(n, _along(n, offset, k, n - 1), 0.0)
    ranks = np.arange(n)
    beyond = (n - 1 - ranks if offset > 0 else ranks).astype(np.float64)
    return single(Round(num_bytes=part_bytes * beyond, kind="listed", listed=round_.listed))
