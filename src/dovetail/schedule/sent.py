"""What the collectives of a block come to, forward and backward, and how they are added to its work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.cost.op_cost import LIMITS
from dovetail.schedule.send_table import WAYS, Senders, Sends, overlaps
from dovetail.schedule.work import COMM_AXES
from dovetail.schedule.work_columns import COMPUTE, HOST, NUM_ROWS, ROWS
from dovetail.workload.graph import FloatArray, Phase

_IS_IN_WAY = tuple(np.array([phase in phases for phase in Phase]) for phases in WAYS)
_TP, _EP = COMM_AXES.index("tp"), COMM_AXES.index("ep")
_LAUNCH = LIMITS.index("launch")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sent:
    """What one direction of a block sends in all, amounts senders by policies.

    `rows` are seconds and bytes with the row of work they are; `num_calls` the host makes, and `waited_frac` says how
    often over its seconds are waited for.
    """

    rows: tuple[tuple[int, FloatArray], ...]
    num_calls: FloatArray
    waited_frac: FloatArray


def sent_ways(sends: Sends, senders: Senders) -> tuple[Sent, ...]:
    """What `sends` come to, forward and backward."""
    return tuple(_sent(sends.at(is_in_way[sends.phase]), senders) for is_in_way in _IS_IN_WAY)


def _sent(sends: Sends, senders: Senders) -> Sent:
    runs = sends.runs.astype(np.float64)
    beside_s = np.where(overlaps(sends, senders), sends.time_s, 0.0)
    waiting_s = sends.time_s - beside_s
    rows = []
    for axis in sorted(set(sends.axis.tolist())):
        own = sends.axis == axis
        rows.append((ROWS["beside_s"][axis], beside_s[:, own] @ runs[own]))
        rows.append((ROWS["waiting_s"][axis], waiting_s[:, own] @ runs[own]))
    rows.append((ROWS["sent_bytes"][0], sends.sent_bytes @ runs))
    return Sent(rows=tuple(rows), num_calls=sends.num_calls @ runs, waited_frac=_waited_frac(sends, senders)[:, None])


def add_communication(work: FloatArray, sent: Sequence[Sent], host_s: float) -> None:
    """Adds to `work`, ways by its rows by senders by policies, what is sent; the host calls each in `host_s`."""
    for way, some in zip(work, sent, strict=True):
        for row, amount in some.rows:
            way[row] = amount
        way[HOST] += host_s * some.num_calls
        waited_s = way[HOST] * some.waited_frac
        way[COMPUTE] += waited_s
        way[HOST][waited_s > 0] = 0.0
        if len(way) == NUM_ROWS:
            way[ROWS["limits_s"][_LAUNCH]] += waited_s


def _waited_frac(sends: Sends, senders: Senders) -> FloatArray:
    """How often over the host's seconds are waited for because nothing runs beside them.

    Each where each launch is waited for. Tensor ranks then meet at every collective, and the last one's host sets the
    pace: of n waits that are spread as exponentials are, the longest is their mean times 1 + 1/2 + ... + 1/n. A host
    that must see how rows were routed before it goes on is waited for in those blocks.
    """
    is_sent = sends.time_s > 0
    most = np.where(is_sent & (sends.axis == _TP), sends.num_ranks, 1).max(axis=1, initial=1)
    meeting = np.cumsum(1.0 / np.arange(1, most.max() + 1))[most - 1]
    is_routed = np.any(is_sent & (sends.axis == _EP), axis=1)
    is_seen = is_routed & ~senders.may_overlap["routing"]
    return np.where(senders.may_overlap["host"], np.where(is_seen, 1.0, 0.0), meeting)
