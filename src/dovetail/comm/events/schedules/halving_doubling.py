"""Recursive halving and doubling: log2(n) steps; Bruck's shifts where the ranks are no power of two.

Sources: Thakur, Rabenseifner & Gropp, IJHPCA 2005; Bruck et al., IEEE TPDS 1997.
"""

from __future__ import annotations

from typing import Literal

from dovetail.comm.events.schedules import (
    GATHERS,
    ROOTED,
    Ask,
    Lane,
    Round,
    Schedule,
    algorithms,
    from_broadcast,
    from_gather,
    listed,
    not_modelled,
    single,
)  # fmt: skip


@algorithms.register("halving-doubling")
def halving_doubling(ask: Ask) -> Schedule:
    """ceil(log2 n) steps each way, and the same (n-1)/n of the payload as a ring."""
    if ask.collective in GATHERS:
        return from_gather(ask, [_gather(ask)])
    if ask.collective in ROOTED:
        return from_broadcast(ask, [_binomial(ask)])
    if ask.collective == "all-to-all":
        return (_bruck(ask),)
    raise not_modelled(ask, "halving-doubling")


def _num_steps(n: int) -> int:
    return (n - 1).bit_length()


def _is_power_of_two(n: int) -> bool:
    return n & (n - 1) == 0


def _gather(ask: Ask) -> Lane:
    """Doubling: far and small first, near and large last."""
    n, part = ask.num_ranks, ask.payload_bytes / ask.num_ranks
    steps = range(_num_steps(n))
    if _is_power_of_two(n):
        return tuple(single(Round(num_bytes=part * 2**i, kind="xor", offset=n >> (i + 1))) for i in steps)
    return tuple(single(Round(num_bytes=part * min(2**i, n - 2**i), offset=-(2**i))) for i in steps)


def _binomial(ask: Ask) -> Lane:
    n, root = ask.num_ranks, ask.root
    return tuple(
        single(
            listed(n, [((root + r) % n, (root + r + 2**i) % n) for r in range(min(2**i, n - 2**i))], ask.payload_bytes)
        )
        for i in range(_num_steps(n))
    )


def _bruck(ask: Ask) -> Lane:
    """Step i moves the parts whose distance has bit i set: fewer messages, log2(n)/2 times the bytes."""
    n, part = ask.num_ranks, ask.payload_bytes / ask.num_ranks
    counts = [sum(1 for distance in range(1, n) if distance >> i & 1) for i in range(_num_steps(n))]
    kind: Literal["xor", "shift"] = "xor" if _is_power_of_two(n) else "shift"
    return tuple(single(Round(num_bytes=part * count, kind=kind, offset=2**i)) for i, count in enumerate(counts))
