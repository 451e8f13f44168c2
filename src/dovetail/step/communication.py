"""What the blocks of a model send within a microbatch, under every distinct cut, placement and overlap at once.

Context parallelism without a gather is here too. Round a ring, a device attends to one part of the keys while the next
part comes from its neighbour. Every part takes as long: positions are dealt out in pairs from both ends of the
sequence, so that a causal mask leaves each device half of every part (zigzag; Brandon et al. 2023, arXiv:2311.09431,
has another order to the same end). Dealt out, a device has all positions of some heads: queries, keys and values go
there and outputs come back, four all-to-alls a pass (Jacobs et al. 2023, arXiv:2309.14509).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.comm.collectives import collectives
from dovetail.comm.collectives.all_to_all import deduplicated_all_to_all_s
from dovetail.comm.volume import sent_bytes
from dovetail.cost.op_cost import LIMITS
from dovetail.hardware.chip import Calibration
from dovetail.hardware.topology import Group, num_ranks
from dovetail.parallel.exchange import MEANINGS, Meaning, payload_bytes
from dovetail.parallel.plan import CONTEXT_COMM_TYPES, RECOMPUTE_POLICIES
from dovetail.parallel.sharding import GRADIENTS, BlockRows
from dovetail.step.work import COMM_AXES, COMPUTE, HOST, NUM_ROWS, ROWS
from dovetail.workload.graph import Axis, BoolArray, FloatArray, IntArray, K, M, N, Ops, Phase, V
from dovetail.workload.operators import DTYPE_BYTES, OPERATORS, SIDE_BYTES_PER_ELEMENT, Unit, code_of

PHASES_OF_PASS = ((Phase.FORWARD,), (*GRADIENTS, Phase.RECOMPUTE))  # phases of the forward and of the backward pass
_TP, _EP = COMM_AXES.index("tp"), COMM_AXES.index("ep")
_TO_EXPERTS = tuple(code_of(kind) for kind, meaning in MEANINGS.items() if meaning.axis == "ep")
_EXCHANGES = tuple(code_of(kind) for kind, meaning in MEANINGS.items() if meaning.axis == "cp")
_GATHER, _RING, _DEALT = (CONTEXT_COMM_TYPES.index(name) for name in ("gather", "ring", "all-to-all"))
_IS_IN_DIRECTION = tuple(np.array([phase in phases for phase in Phase]) for phases in PHASES_OF_PASS)
_LAUNCH = LIMITS.index("launch")
NUM_DEALT = 4  # queries, keys, values and outputs, each by an all-to-all of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveOverheads:
    """What of a chip the seconds of its collectives follow from, beside the links: see `hardware.chip.Calibration`."""

    link_frac: float
    exchange_s: float


def exchanging(calibration: Calibration) -> CollectiveOverheads:
    return CollectiveOverheads(link_frac=calibration.link_frac, exchange_s=calibration.exchange_s)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommVariants:
    """Distinct ways in which devices communicate within a microbatch, as columns.

    `group_of` gives the group of ranks of each kind as an index into `groups`; `may_overlap` says by axis whether
    the plan lets it run beside compute, and of 'host' and 'routing' whether the host goes on beside the device.
    """

    cut: IntArray
    num_cuts: int
    loads: FloatArray  # rows routed to the most loaded device, against the mean
    is_sequence_parallel: BoolArray
    deduplicated_dispatch: BoolArray
    num_context_ranks: IntArray
    context_comm_type: IntArray  # into CONTEXT_COMM_TYPES
    zero_stage: IntArray
    are_ties_apart: BoolArray
    groups: tuple[Group, ...]
    group_of: dict[str, IntArray]
    may_overlap: dict[str, BoolArray]

    def __len__(self) -> int:
        return len(self.cut)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CollectiveCalls:
    """Collectives of a block: seconds, bytes sent, calls and ranks of every sender in each, senders by collectives.

    `axis` indexes COMM_AXES; `runs` says under which recompute policies each is there, collectives by policies;
    `is_awaited` which of them nothing can run beside.
    """

    axis: IntArray
    phase: IntArray
    runs: BoolArray
    is_awaited: BoolArray
    num_ranks: IntArray
    num_calls: IntArray
    time_s: FloatArray
    sent_bytes: FloatArray

    def at(self, chosen: BoolArray) -> CollectiveCalls:
        return CollectiveCalls(
            axis=self.axis[chosen],
            phase=self.phase[chosen],
            runs=self.runs[chosen],
            is_awaited=self.is_awaited[chosen],
            num_ranks=self.num_ranks[:, chosen],
            num_calls=self.num_calls[:, chosen],
            time_s=self.time_s[:, chosen],
            sent_bytes=self.sent_bytes[:, chosen],
        )


def joined_collectives(parts: Sequence[CollectiveCalls]) -> CollectiveCalls:
    return CollectiveCalls(
        axis=np.concatenate([part.axis for part in parts]),
        phase=np.concatenate([part.phase for part in parts]),
        runs=np.concatenate([part.runs for part in parts]),
        is_awaited=np.concatenate([part.is_awaited for part in parts]),
        num_ranks=np.concatenate([part.num_ranks for part in parts], axis=1),
        num_calls=np.concatenate([part.num_calls for part in parts], axis=1),
        time_s=np.concatenate([part.time_s for part in parts], axis=1),
        sent_bytes=np.concatenate([part.sent_bytes for part in parts], axis=1),
    )


def overlaps(sends: CollectiveCalls, senders: CommVariants) -> BoolArray:
    """Which run beside compute: gathers for weight gradients run beside the input gradient in any case."""
    may = np.stack([senders.may_overlap.get(axis, np.zeros(len(senders), dtype=bool)) for axis in COMM_AXES], axis=1)
    is_gather = (sends.axis == _TP) & (sends.phase == Phase.WEIGHT_GRAD)
    return np.asarray((may[:, sends.axis] | is_gather) & ~sends.is_awaited)


def block_collectives(
    block: BlockRows, local: Ops, senders: CommVariants, pace: CollectiveOverheads
) -> CollectiveCalls:
    """The collectives behind the network rows of a block, under each cut among `local`; none in groups of one."""
    ops, rows = block.ops, np.flatnonzero(block.ops.unit == Unit.NETWORK)
    kinds = ops.kind[rows].tolist()
    meanings = [MEANINGS[OPERATORS[kind].name] for kind in kinds]
    num_copies = np.where([meaning.axis == "ep" for meaning in meanings], ops.extents[rows, K], 1).tolist()
    size = len(local) // senders.num_cuts
    under = senders.cut[:, None] * size + block.start + rows
    whole_bytes = payload_bytes(local, under, senders.num_context_ranks[:, None])
    whole_bytes[:, _are_home(ops, rows)] *= senders.loads[:, None]
    time_s, sent, ranks = np.zeros(under.shape), np.zeros(under.shape), np.ones(under.shape, dtype=np.int64)
    for (kind, copies), places in _places(zip(kinds, num_copies, strict=True)).items():
        for collective, group, chosen in _kinds(MEANINGS[OPERATORS[kind].name], senders):
            here = chosen[:, None], places
            took_s, sent[here] = timed(collective, whole_bytes[here], group, pace.link_frac)
            ranks[here] = num_ranks(group)
            if copies > 1:
                per_step_s = deduplicated_all_to_all_s(whole_bytes[here], group, pace.link_frac, copies)
                took_s = np.where(senders.deduplicated_dispatch[chosen][:, None], per_step_s, took_s)
            time_s[here] = took_s
    return CollectiveCalls(
        axis=np.array([COMM_AXES.index(meaning.axis) for meaning in meanings], dtype=np.int64),
        phase=ops.phase[rows],
        runs=block.runs[:, rows].T,
        is_awaited=np.zeros(len(rows), dtype=bool),
        num_ranks=ranks,
        num_calls=(time_s > 0).astype(np.int64),
        time_s=_started(time_s, pace),
        sent_bytes=sent,
    )


def _places(keys: Iterable[tuple[int, int]]) -> dict[tuple[int, int], list[int]]:
    """Where each of `keys` stands."""
    found: dict[tuple[int, int], list[int]] = {}
    for place, key in enumerate(keys):
        found.setdefault(key, []).append(place)
    return found


def _are_home(ops: Ops, rows: IntArray) -> BoolArray:
    """Rows to and from experts whose extents are of those at home: the most loaded device sends and gets more."""
    is_routed = (ops.splits[rows, M] & int(Axis.ROUTED)) != 0
    return np.asarray(np.isin(ops.kind[rows], _TO_EXPERTS) & ~is_routed)


def _started(time_s: FloatArray, pace: CollectiveOverheads) -> FloatArray:
    """With the start and end of a collective where there is one."""
    return np.where(time_s > 0, time_s + pace.exchange_s, 0.0)


def _kinds(meaning: Meaning, senders: CommVariants) -> Iterator[tuple[str, Group, IntArray]]:
    """The collectives and groups that `meaning` stands for, each with the senders for which it does."""
    for is_sequence_parallel in (False, True):
        collective = meaning.collective(is_sequence_parallel=is_sequence_parallel)
        if not collective:
            continue
        does = senders.is_sequence_parallel == is_sequence_parallel
        if meaning.axis == "cp":
            does = does & (senders.context_comm_type == _GATHER)
        alike = np.flatnonzero(does)
        for group, chosen in by_group(senders.groups, senders.group_of[meaning.group][alike]):
            yield collective, group, alike[chosen]


def by_group(groups: tuple[Group, ...], group_of: IntArray) -> Iterator[tuple[Group, IntArray]]:
    """Groups of more than one rank, each with the rows that have it."""
    if len(group_of) == 1:  # one plan by itself: nothing to sort
        if num_ranks(group := groups[group_of[0]]) > 1:
            yield group, np.zeros(1, dtype=np.int64)
        return
    order = np.argsort(group_of, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(group_of[order]) != 0)) if len(order) else order
    for rows in np.split(order, starts[1:]):
        if len(rows) and num_ranks(groups[group_of[rows[0]]]) > 1:
            yield groups[group_of[rows[0]]], rows


def timed(collective: str, whole_bytes: FloatArray, group: Group, link_frac: float) -> tuple[FloatArray, FloatArray]:
    """Seconds of a collective and bytes sent in it, zero where there is no payload."""
    time_s = np.where(whole_bytes > 0, collectives[collective](whole_bytes, group, link_frac), 0.0)
    return time_s, np.asarray(sent_bytes(collective, whole_bytes, num_ranks(group)))


def parameter_collectives(
    parameters: FloatArray,
    gradients: FloatArray,
    senders: CommVariants,
    group: str,
    bytes_each: tuple[float, float],
    pace: CollectiveOverheads,
) -> CollectiveCalls:
    """ZeRO-2 and 3: what every microbatch gathers of a block's parameters and reduces of its gradients."""
    gather_bytes, reduce_bytes = bytes_each
    is_sent = parameters > 0
    moves = (
        ("reduce-scatter", gradients * reduce_bytes, is_sent & (senders.zero_stage >= 2)),
        ("all-gather", parameters * gather_bytes, is_sent & (senders.zero_stage == 3)),
    )
    reduced, gathered = (
        _moved(collective, whole_bytes, does, senders, group, pace) for collective, whole_bytes, does in moves
    )
    num_ranks_each, time_s, sent = (np.stack([r, g, g], axis=1) for r, g in zip(reduced, gathered, strict=True))
    phases = (Phase.WEIGHT_GRAD, Phase.FORWARD, Phase.INPUT_GRAD)
    return CollectiveCalls(
        axis=np.full(len(phases), COMM_AXES.index("dp")),
        phase=np.array(phases, dtype=np.int64),
        runs=np.ones((len(phases), len(RECOMPUTE_POLICIES)), dtype=bool),
        is_awaited=np.zeros(len(phases), dtype=bool),
        num_ranks=num_ranks_each,
        num_calls=(time_s > 0).astype(np.int64),
        time_s=time_s,
        sent_bytes=sent,
    )


def _moved(
    collective: str,
    whole_bytes: FloatArray,
    does: BoolArray,
    senders: CommVariants,
    group: str,
    pace: CollectiveOverheads,
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Ranks, seconds and bytes sent of one collective of those senders that do it."""
    time_s, sent, ranks = np.zeros(len(senders)), np.zeros(len(senders)), np.ones(len(senders), dtype=np.int64)
    doing = np.flatnonzero(does)
    if not len(doing):
        return ranks, time_s, sent
    for ranked, chosen in by_group(senders.groups, senders.group_of[group][doing]):
        rows = doing[chosen]
        time_s[rows], sent[rows] = timed(collective, whole_bytes[rows], ranked, pace.link_frac)
        ranks[rows] = num_ranks(ranked)
    return ranks, _started(time_s, pace), sent


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommTotals:
    """What one direction of a block sends in all, amounts senders by policies.

    `rows` are seconds and bytes with the row of work they are; `num_calls` the host makes, and `waited_frac` says how
    often over its seconds are waited for.
    """

    rows: tuple[tuple[int, FloatArray], ...]
    num_calls: FloatArray
    waited_frac: FloatArray


def comm_totals(sends: CollectiveCalls, senders: CommVariants) -> tuple[CommTotals, ...]:
    """What `sends` come to, forward and backward."""
    return tuple(_sent(sends.at(is_in_direction[sends.phase]), senders) for is_in_direction in _IS_IN_DIRECTION)


def _sent(sends: CollectiveCalls, senders: CommVariants) -> CommTotals:
    runs = sends.runs.astype(np.float64)
    overlappable_s = np.where(overlaps(sends, senders), sends.time_s, 0.0)
    blocking_s = sends.time_s - overlappable_s
    rows = []
    for axis in sorted(set(sends.axis.tolist())):
        own = sends.axis == axis
        rows.append((ROWS["overlappable_s"][axis], overlappable_s[:, own] @ runs[own]))
        rows.append((ROWS["blocking_s"][axis], blocking_s[:, own] @ runs[own]))
    rows.append((ROWS["sent_bytes"][0], sends.sent_bytes @ runs))
    return CommTotals(
        rows=tuple(rows), num_calls=sends.num_calls @ runs, waited_frac=_waited_frac(sends, senders)[:, None]
    )


def add_communication(work: FloatArray, sent: Sequence[CommTotals], host_s: float) -> None:
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


def _waited_frac(sends: CollectiveCalls, senders: CommVariants) -> FloatArray:
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


def leave_last_part(work: FloatArray, senders: CommVariants) -> None:
    """Takes attention over the last part to come round out of the time behind which the others come.

    `work` is ways by its rows by senders by policies.
    """
    is_ring = senders.context_comm_type == _RING
    if is_ring.any():
        share = np.where(is_ring, 1.0 - 1.0 / senders.num_context_ranks, 1.0)
        work[:, [row for row in ROWS["core"] if row < work.shape[1]]] *= share[:, None]


def context_collectives(
    block: BlockRows, local: Ops, senders: CommVariants, pace: CollectiveOverheads
) -> list[CollectiveCalls]:
    """What senders that do not gather keys and values exchange in a block; nothing where all gather them."""
    rows = np.flatnonzero(np.isin(block.ops.kind, _EXCHANGES))
    found = []
    for exchange, collectives_of in ((_DEALT, _dealt), (_RING, _passed_on)):
        chosen = np.flatnonzero((senders.context_comm_type == exchange) & (senders.num_context_ranks > 1))
        if len(rows) and len(chosen):
            found.append(collectives_of(block, rows, local, senders, chosen, pace))
    return found


def _dealt(
    block: BlockRows, rows: IntArray, local: Ops, senders: CommVariants, chosen: IntArray, pace: CollectiveOverheads
) -> CollectiveCalls:
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
    block: BlockRows, rows: IntArray, local: Ops, senders: CommVariants, chosen: IntArray, pace: CollectiveOverheads
) -> CollectiveCalls:
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


def _bytes(block: BlockRows, rows: IntArray, local: Ops, senders: CommVariants, *, has_queries: bool) -> FloatArray:
    """A device's own part of keys and values, with its queries and outputs or without, senders by rows."""
    under = senders.cut[:, None] * (len(local) // senders.num_cuts) + block.start + rows
    cols = local.extents[under, N] + (local.extents[under, V] if has_queries else 0)
    return np.asarray(local.extents[under, M] * cols * DTYPE_BYTES[local.dtype[under]])


def _sends(
    block: BlockRows,
    rows: IntArray,
    senders: CommVariants,
    chosen: IntArray,
    *,
    collective: str,
    each_bytes: FloatArray,
    num_calls: IntArray,
    runs: BoolArray,
    is_awaited: BoolArray,
    pace: CollectiveOverheads,
) -> CollectiveCalls:
    """`num_calls` of a collective one after the other, of the senders `chosen`."""
    time_s, sent = np.zeros(each_bytes.shape), np.zeros(each_bytes.shape)
    ranks, calls = np.ones_like(num_calls), np.zeros_like(num_calls)
    for group, some in by_group(senders.groups, senders.group_of["context"][chosen]):
        here = chosen[some]
        per_step_s, once_bytes = timed(collective, each_bytes[here], group, pace.link_frac)
        calls[here], ranks[here] = num_calls[here], num_ranks(group)
        time_s[here], sent[here] = calls[here] * (per_step_s + pace.exchange_s), calls[here] * once_bytes
    return CollectiveCalls(
        axis=np.full(len(rows), COMM_AXES.index("cp")),
        phase=block.ops.phase[rows],
        runs=runs,
        is_awaited=is_awaited,
        num_ranks=ranks,
        num_calls=calls,
        time_s=time_s,
        sent_bytes=sent,
    )
