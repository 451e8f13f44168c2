"""The switch adds up and multicasts: every byte leaves and enters a port once.

Source: Graham et al., "SHArP", COM-HPC 2016; NVLink SHARP in NCCL 2.17 and later.
"""

from __future__ import annotations

import numpy as np

from dovetail.comm.events.schedules import Ask, Round, Schedule, algorithms, not_modelled, single

_SHARES = {  # of the payload: up from every rank, down to every rank
    "all-reduce": (1.0, 1.0),
    "reduce-scatter": (1.0, 0.0),
    "all-gather": (0.0, 1.0),
}


@algorithms.register("in-switch")
def in_switch(ask: Ask) -> Schedule:
    """Up to the switch, and down again as the sums come out of it."""
    n, payload_bytes = ask.num_ranks, ask.payload_bytes
    ranks = np.arange(n)
    if ask.collective in ("broadcast", "reduce"):
        root = np.where(ranks == ask.root, ranks, -1)
        up, down = (root, ranks) if ask.collective == "broadcast" else (ranks, root)
        up_bytes = down_bytes = payload_bytes
    elif ask.collective in _SHARES:
        up = down = ranks
        up_share, down_share = _SHARES[ask.collective]
        up_bytes, down_bytes = (payload_bytes * max(share, 1 / n) for share in (up_share, down_share))
    else:
        raise not_modelled(ask, "in-switch")
    sent_on_bytes = min(up_bytes, down_bytes)
    sums = Round(num_bytes=up_bytes, kind="listed", listed=up, place="up", is_reduced=True, sent_on_bytes=sent_on_bytes)
    return ((single(sums), single(Round(num_bytes=down_bytes, kind="listed", listed=down, place="down"))),)
