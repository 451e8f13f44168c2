"""Context parallelism without a gather: keys and values round a ring, or heads dealt out all to all; costs and sends.

Round a ring, a device attends to one part of the keys while the next part comes from its neighbour. Every part takes as
long: positions are dealt out in pairs from both ends of the sequence, so that a causal mask leaves each device half of
every part (zigzag; Brandon et al. 2023, arXiv:2311.09431, has another order to the same end). Dealt out, a device has
all positions of some heads: queries, keys and values go there and outputs come back, four all-to-alls a pass (Jacobs
et al. 2023, arXiv:2309.14509).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dovetail.hardware.topology import num_ranks
from dovetail.plan.exchange import MEANINGS
from dovetail.plan.plan import CONTEXT_EXCHANGES
from dovetail.plan.sharding import BlockRows
from dovetail.schedule.send_table import Exchanging, Senders, Sends, by_group, timed
from dovetail.schedule.work import COMM_AXES
from dovetail.schedule.work_columns import ROWS
from dovetail.workload.graph import Axis, BoolArray, FloatArray, IntArray, M, N, Ops, Phase, V
from dovetail.workload.operators import DTYPE_BYTES, SIDE_BYTES_PER_ELEMENT, code_of

_RING, _DEALT = (CONTEXT_EXCHANGES.index(name) for name in ("ring", "all-to-all"))
_EXCHANGES = tuple(code_of(kind) for kind, meaning in MEANINGS.items() if meaning.axis == "cp")
NUM_DEALT = 4  # queries, keys, values and outputs, each by an all-to-all of its own


def walk_parts(columns: FloatArray, local: Ops, num_parts: IntArray, costed: Callable[[Ops], FloatArray]) -> None:
    """Makes of the cost of attention over one part of the keys that over `num_parts` of each cut, and of adding them.

    `columns` are as in COSTS by `local`, cut after cut, by chips where there are many; and so is what `costed` gives. A
    part is a kernel of its own: it starts and ends, and reads its queries again.
    """
    if not np.any(num_parts > 1):
        return
    is_parted = (local.splits[:, N] & int(Axis.HOPS)) != 0
    times = np.where(is_parted, np.repeat(num_parts, len(local) // len(num_parts)), 1)
    rows = np.flatnonzero(times > 1)
    merged = costed(_merges(local.taken(rows)))
    columns[..., rows] = times[rows] * columns[..., rows] + (times[rows] - 1) * merged


def _merges(attentions: Ops) -> Ops:
    """What adds one part to the others: outputs, or gradients of queries and of the keys and values that pass."""
    b, m, n, k, v = attentions.extents.T
    is_backward = attentions.is_backward
    passing = -(-b * n * (k + v) * attentions.distinct_frac[:, 1] // k).astype(np.int64)
    extents = np.ones_like(attentions.extents)
    extents[:, M] = b * m + np.where(is_backward, passing, 0)
    extents[:, N] = np.where(is_backward, k, v)
    merge = code_of("merge")
    return replace(
        attentions,
        kind=np.full(len(attentions), merge),
        extents=extents,
        distinct_frac=np.ones_like(attentions.distinct_frac),
        work_frac=np.ones(len(attentions)),
        side_bytes_per_element=SIDE_BYTES_PER_ELEMENT[is_backward.astype(np.int64), merge],
    )


def leave_last_part(work: FloatArray, senders: Senders) -> None:
    """Takes attention over the last part to come round out of the time behind which the others come.

    `work` is ways by its rows by senders by policies.
    """
    is_ring = senders.context_exchange == _RING
    if is_ring.any():
        share = np.where(is_ring, 1.0 - 1.0 / senders.num_context_ranks, 1.0)
        work[:, [row for row in ROWS["core"] if row < work.shape[1]]] *= share[:, None]


def context_sends(block: BlockRows, local: Ops, senders: Senders, pace: Exchanging) -> list[Sends]:
    """What senders that do not gather keys and values exchange in a block; nothing where all gather them."""
    rows = np.flatnonzero(np.isin(block.ops.kind, _EXCHANGES))
    found = []
    for exchange, sends_of in ((_DEALT, _dealt), (_RING, _passed_on)):
        chosen = np.flatnonzero((senders.context_exchange == exchange) & (senders.num_context_ranks > 1))
        if len(rows) and len(chosen):
            found.append(sends_of(block, rows, local, senders, chosen, pace))
    return found


def _dealt(block: BlockRows, rows: IntArray, local: Ops, senders: Senders, chosen: IntArray, pace: Exchanging) -> Sends:
    """Four all-to-alls forward and four backward, which attention waits for: what it reads is kept as it is dealt."""
    rows = rows[block.ops.phase[rows] != Phase.WEIGHT_GRAD]
    each_bytes = _bytes(block, rows, local, senders, has_queries=True) / NUM_DEALT
    return _sends(
        block,
        rows,
        senders,
        chosen,
        collective="all-to-all",
        each_bytes=each_bytes,
        num_calls=np.full(each_bytes.shape, NUM_DEALT),
        runs=block.runs[:, rows].T,
        is_awaited=np.ones(len(rows), dtype=bool),
        pace=pace,
    )


def _passed_on(
    block: BlockRows, rows: IntArray, local: Ops, senders: Senders, chosen: IntArray, pace: Exchanging
) -> Sends:
    """Hop by hop: keys and values past all others, forward and backward; their gradients so and then home.

    Attention that runs again has the keys come round again. The last hop home is waited for.
    """
    ops, last = block.ops, rows[block.ops.phase[rows] == Phase.INPUT_GRAD]
    again = ops.is_core & (ops.phase == Phase.RECOMPUTE)
    runs = np.where(
        (ops.phase[rows] == Phase.RECOMPUTE)[:, None], block.runs[:, again].any(axis=1), block.runs[:, rows].T
    )
    every = np.concatenate([rows, last])
    is_last = np.arange(len(every)) >= len(rows)
    part_bytes = _bytes(block, every, local, senders, has_queries=False)
    return _sends(
        block,
        every,
        senders,
        chosen,
        collective="point-to-point",
        each_bytes=part_bytes,
        num_calls=np.where(is_last, 1, senders.num_context_ranks[:, None] - 1),
        runs=np.concatenate([runs, block.runs[:, last].T]),
        is_awaited=is_last,
        pace=pace,
    )


def _bytes(block: BlockRows, rows: IntArray, local: Ops, senders: Senders, *, has_queries: bool) -> FloatArray:
    """A device's own part of keys and values, with its queries and outputs or without, senders by rows."""
    under = senders.cut[:, None] * (len(local) // senders.num_cuts) + block.start + rows
    cols = local.extents[under, N] + (local.extents[under, V] if has_queries else 0)
    return np.asarray(local.extents[under, M] * cols * DTYPE_BYTES[local.dtype[under]])


def _sends(
    block: BlockRows,
    rows: IntArray,
    senders: Senders,
    chosen: IntArray,
    *,
    collective: str,
    each_bytes: FloatArray,
    num_calls: IntArray,
    runs: BoolArray,
    is_awaited: BoolArray,
    pace: Exchanging,
) -> Sends:
    """`num_calls` of a collective one after the other, of the senders `chosen`."""
    time_s, sent = np.zeros(each_bytes.shape), np.zeros(each_bytes.shape)
    ranks, calls = np.ones_like(num_calls), np.zeros_like(num_calls)
    for group, some in by_group(senders.groups, senders.group_of["context"][chosen]):
        here = chosen[some]
        once_s, once_bytes = timed(collective, each_bytes[here], group, pace.link_frac)
        calls[here], ranks[here] = num_calls[here], num_ranks(group)
        time_s[here], sent[here] = calls[here] * (once_s + pace.exchange_s), calls[here] * once_bytes
    return Sends(
        axis=np.full(len(rows), COMM_AXES.index("cp")),
        phase=block.ops.phase[rows],
        runs=runs,
        is_awaited=is_awaited,
        num_ranks=ranks,
        num_calls=calls,
        time_s=time_s,
        sent_bytes=sent,
    )
