"""Every rank to every rank at once: one latency; ports and links decide how long the rest takes."""

from __future__ import annotations

from dovetail.comm.events.schedules import (
    GATHERS,
    ROOTED,
    Ask,
    Level,
    Repeated,
    Schedule,
    algorithms,
    from_broadcast,
    from_gather,
    listed,
    not_modelled,
)  # fmt: skip


@algorithms.register("direct")
def direct(ask: Ask) -> Schedule:
    """n-1 messages a rank, the k-th to the k-th next rank, so that no two of a round meet at a port."""
    n, part = ask.num_ranks, ask.payload_bytes / ask.num_ranks
    if ask.collective in ROOTED:
        pairs = [(ask.root, (ask.root + k) % n) for k in range(1, n)]
        level = Level(rounds=tuple(listed(n, [pair], ask.payload_bytes) for pair in pairs))
        return from_broadcast(ask, [(level,)])
    if ask.collective not in (*GATHERS, "all-to-all"):
        raise not_modelled(ask, "direct")
    exchange = Level(rounds=Repeated(num_bytes=part, num_rounds=n - 1))
    return ((exchange,),) if ask.collective == "all-to-all" else from_gather(ask, [(exchange,)])
