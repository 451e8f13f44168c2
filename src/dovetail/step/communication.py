"""Collectives within a microbatch, by block: tensor, context and expert parallelism, and ZeRO-2 and 3's parameters.

They are timed for all distinct communication variants (cut, placement, overlap) of many plans at once. The gradient
sync once per step is in `stage_columns`.

Context parallelism without a gather is here too. In ring attention a device attends to one part of the keys while the
next part comes from its neighbour. Every part takes as long: positions are dealt out in pairs from both ends of the
sequence, so that a causal mask leaves each device half of every part (zigzag; Brandon et al. 2023, arXiv:2311.09431,
has another order to the same end). With all-to-all (Ulysses) a device has all positions of some heads: queries, keys
and values go there and outputs come back, four all-to-alls per pass (Jacobs et al. 2023, arXiv:2309.14509).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dovetail.columns import is_among
from dovetail.comm.collectives import collectives
from dovetail.comm.dispatch import deduplicated_bytes, deduplicated_dispatch_s
from dovetail.comm.jitter import last_arrival_s
from dovetail.comm.library.on_group import Selection, is_timed_by_library, library_on, library_times
from dovetail.comm.library.timing import LibraryGroup
from dovetail.comm.volume import sent_bytes
from dovetail.cost.op_cost import LIMITS
from dovetail.hardware.chip import Calibration
from dovetail.hardware.topology import Group, num_ranks
from dovetail.parallel.collectives import OP_COLLECTIVES, OpCollective, op_payload_bytes
from dovetail.parallel.dispatchers import ALL_TO_ALL, Dispatcher, dispatchers
from dovetail.parallel.plan import CONTEXT_COMM_TYPES
from dovetail.parallel.sharding import GRADIENTS, BlockRows
from dovetail.step.work import COMM_AXES, COMPUTE, HOST, NUM_ROWS, ROWS
from dovetail.workload.graph import Axis, BoolArray, FloatArray, IntArray, K, M, N, Ops, Phase, V
from dovetail.workload.operators import DTYPE_BYTES, OPERATORS, SIDE_BYTES_PER_ELEMENT, Unit, code_of
from dovetail.workload.routing import ExpertChoice

PHASES_OF_PASS = ((Phase.FORWARD,), (*GRADIENTS, Phase.RECOMPUTE))  # phases of the forward and of the backward pass
_TP, _EP = COMM_AXES.index("tp"), COMM_AXES.index("ep")
_TO_EXPERTS = tuple(code_of(kind) for kind, meaning in OP_COLLECTIVES.items() if meaning.axis == "ep")
_EXCHANGES = tuple(code_of(kind) for kind, meaning in OP_COLLECTIVES.items() if meaning.axis == "cp")
_GATHER, _RING, _ALL_TO_ALL = (CONTEXT_COMM_TYPES.index(name) for name in ("gather", "ring", "all-to-all"))
_IS_IN_DIRECTION = tuple(np.array([phase in phases for phase in Phase]) for phases in PHASES_OF_PASS)
_LAUNCH = LIMITS.index("launch")
DEDUPLICATED = "deduplicated all-to-all"  # rows once to each node, by links alone
CALLED = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "point-to-point", DEDUPLICATED)
NUM_ALL_TO_ALLS = 4  # queries, keys, values and outputs, each by an all-to-all of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveOverheads:
    """Share of link bandwidth that collectives reach, and their fixed start: see `hardware.chip.Calibration`."""

    link_frac: float
    start_s: float


def collective_overheads(calibration: Calibration) -> CollectiveOverheads:
    return CollectiveOverheads(link_frac=calibration.link_frac, start_s=calibration.exchange_s)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommVariants:
    """Distinct combinations of all that communication within a microbatch depends on, as columns.

    `group_of` gives the group of ranks of each kind as an index into `groups`; `may_overlap` says by axis whether the
    plan lets communication overlap compute, and for 'host' and 'routing' whether the host runs ahead of the device.
    """

    cut: IntArray
    num_cuts: int
    loads: FloatArray  # rows routed to the most loaded device, against the mean
    is_sequence_parallel: BoolArray
    dispatcher: IntArray  # into the names of `dispatchers`
    choice: ExpertChoice | None  # of experts by tokens, where it is known
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
    """Collective calls of a block: seconds, bytes sent, calls and ranks, variants by collectives.

    `axis` indexes COMM_AXES; `runs` says under which recompute policies each is called, collectives by policies;
    `is_awaited` says which of them cannot overlap compute. Of each call, `collective` indexes CALLED, `group` the
    groups of the variants, and `payload_bytes` is its payload.
    """

    axis: IntArray
    phase: IntArray
    runs: BoolArray
    is_awaited: BoolArray
    num_ranks: IntArray
    num_calls: IntArray
    time_s: FloatArray
    sent_bytes: FloatArray
    collective: IntArray
    group: IntArray
    payload_bytes: FloatArray

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
            collective=self.collective[:, chosen],
            group=self.group[:, chosen],
            payload_bytes=self.payload_bytes[:, chosen],
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
        collective=np.concatenate([part.collective for part in parts], axis=1),
        group=np.concatenate([part.group for part in parts], axis=1),
        payload_bytes=np.concatenate([part.payload_bytes for part in parts], axis=1),
    )


def overlaps(calls: CollectiveCalls, variants: CommVariants) -> BoolArray:
    """Which calls overlap compute; gathers for weight gradients always overlap the input gradient."""
    may = np.stack([variants.may_overlap.get(axis, np.zeros(len(variants), dtype=bool)) for axis in COMM_AXES], axis=1)
    is_gather = (calls.axis == _TP) & (calls.phase == Phase.WEIGHT_GRAD)
    return np.asarray((may[:, calls.axis] | is_gather) & ~calls.is_awaited)


def block_collectives(
    block: BlockRows, local: Ops, variants: CommVariants, overheads: CollectiveOverheads
) -> CollectiveCalls:
    """The collectives of the network operators of a block, for each cut among `local`; none in groups of one rank."""
    ops, rows = block.ops, np.flatnonzero(block.ops.unit == Unit.NETWORK)
    kinds = ops.kind[rows].tolist()
    op_collectives = [OP_COLLECTIVES[OPERATORS[kind].name] for kind in kinds]
    num_copies = np.where([op.axis == "ep" for op in op_collectives], ops.extents[rows, K], 1).tolist()
    size = len(local) // variants.num_cuts
    under = variants.cut[:, None] * size + block.start + rows
    payload_bytes = op_payload_bytes(local, under, variants.num_context_ranks[:, None])
    payload_bytes[:, _are_local_rows(ops, rows)] *= variants.loads[:, None]
    time_s, sent, ranks = np.zeros(under.shape), np.zeros(under.shape), np.ones(under.shape, dtype=np.int64)
    called, groups = np.zeros(under.shape, dtype=np.int64), np.zeros(under.shape, dtype=np.int64)
    for (kind, copies), places in _positions(zip(kinds, num_copies, strict=True)).items():
        op = OP_COLLECTIVES[OPERATORS[kind].name]
        for collective, group, chosen in _calls_of(op, variants):
            cells = chosen[:, None], places
            called[cells], groups[cells] = CALLED.index(collective), variants.group_of[op.group][chosen[0]]
            call_s, sent[cells] = timed(collective, payload_bytes[cells], group, overheads.link_frac, overheads.start_s)
            ranks[cells] = num_ranks(group)
            time_s[cells] = call_s
            if op.axis == "ep":
                for dispatcher, own in _by_dispatcher(variants.dispatcher[chosen]):
                    cells = chosen[own][:, None], places
                    found = _dispatched(
                        OPERATORS[kind].name,
                        dispatcher,
                        payload_bytes[cells],
                        group,
                        variants.choice,
                        copies,
                        overheads,
                    )
                    time_s[cells], sent[cells], called[cells], payload_bytes[cells] = found
    return CollectiveCalls(
        axis=np.array([COMM_AXES.index(op.axis) for op in op_collectives], dtype=np.int64),
        phase=ops.phase[rows],
        runs=block.runs[:, rows].T,
        is_awaited=np.zeros(len(rows), dtype=bool),
        num_ranks=ranks,
        num_calls=(time_s > 0).astype(np.int64),
        time_s=time_s,
        sent_bytes=sent,
        collective=called,
        group=groups,
        payload_bytes=payload_bytes,
    )


def _by_dispatcher(dispatcher: IntArray) -> Iterator[tuple[Dispatcher, IntArray]]:
    """The dispatchers that are no plain all-to-all, each with the rows that have it."""
    names = dispatchers.names()
    for index in sorted(set(dispatcher.tolist())):
        if names[index] != ALL_TO_ALL:
            yield dispatchers[names[index]], np.flatnonzero(dispatcher == index)


def _dispatched(
    kind: str,
    dispatcher: Dispatcher,
    payload_bytes: FloatArray,
    group: Group,
    choice: ExpertChoice | None,
    num_copies: int,
    overheads: CollectiveOverheads,
) -> tuple[FloatArray, FloatArray, int, FloatArray]:
    """Seconds, bytes sent, collective and its payload where rows travel by `dispatcher`.

    `payload_bytes` are those of an all-to-all, which has a copy of a token for each of its experts.
    """
    if dispatcher.copies == "all":
        collective = "all-gather" if kind == "dispatch" else "reduce-scatter"
        whole_bytes = payload_bytes / num_copies * num_ranks(group)
        call_s, sent = timed(collective, whole_bytes, group, overheads.link_frac, overheads.start_s)
        return call_s, sent, CALLED.index(collective), whole_bytes
    if dispatcher.copies == "experts" or num_copies == 1:
        call_s, sent = timed("all-to-all", payload_bytes, group, overheads.link_frac, overheads.start_s)
        return call_s, sent, CALLED.index("all-to-all"), payload_bytes
    call_s = deduplicated_dispatch_s(payload_bytes, group, overheads.link_frac, choice, num_copies)
    sent = deduplicated_bytes(payload_bytes, group, choice, num_copies)
    return overheads.start_s + call_s, sent, CALLED.index(DEDUPLICATED), payload_bytes


def _positions(keys: Iterable[tuple[int, int]]) -> dict[tuple[int, int], list[int]]:
    """The positions of each distinct key among `keys`."""
    found: dict[tuple[int, int], list[int]] = {}
    for place, key in enumerate(keys):
        found.setdefault(key, []).append(place)
    return found


def _are_local_rows(ops: Ops, rows: IntArray) -> BoolArray:
    """Rows to and from experts whose extents count tokens before routing; the most loaded device moves more."""
    is_routed = (ops.splits[rows, M] & int(Axis.ROUTED)) != 0
    return np.asarray(is_among(ops.kind[rows], _TO_EXPERTS) & ~is_routed)


def _calls_of(op: OpCollective, variants: CommVariants) -> Iterator[tuple[str, Group, IntArray]]:
    """The collectives and groups of ranks that `op` means, each with the variants for which it means that."""
    for is_sequence_parallel in (False, True):
        collective = op.collective(is_sequence_parallel=is_sequence_parallel)
        if not collective:
            continue
        is_matching = variants.is_sequence_parallel == is_sequence_parallel
        if op.axis == "cp":
            is_matching = is_matching & (variants.context_comm_type == _GATHER)
        matching = np.flatnonzero(is_matching)
        for group, chosen in by_group(variants.groups, variants.group_of[op.group][matching]):
            yield collective, group, matching[chosen]


def by_group(groups: tuple[Group, ...], group_of: IntArray) -> Iterator[tuple[Group, IntArray]]:
    """Groups of more than one rank, each with the rows that have it."""
    if len(group_of) == 1:  # one plan by itself: nothing to sort
        if num_ranks(group := groups[group_of[0]]) > 1:
            yield group, np.zeros(1, dtype=np.int64)
        return
    order = np.argsort(group_of, kind="stable")
    ordered = group_of[order]
    ends = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    starts = [0, *ends.tolist()] if len(order) else []
    for start, end in zip(starts, [*ends.tolist(), len(order)], strict=False):
        group = groups[ordered[start]]
        if num_ranks(group) > 1:
            yield group, order[start:end]


def timed(
    collective: str,
    payload_bytes: FloatArray,
    group: Group,
    link_frac: float,
    start_s: float = 0.0,
    selection: Selection = "tuner",
) -> tuple[FloatArray, FloatArray]:
    """Seconds of a collective and the bytes that a rank sends in it, zero where there is no payload.

    By the library that the group's network names; else by a share of its links and a fixed start. `selection` "least"
    is for lower bounds. All wait for the rank that comes last, where the network states a jitter.
    """
    caller = _caller(collective, group)
    if caller.library is not None:
        called_s = library_times(caller.library, payload_bytes, selection).seconds.reshape(payload_bytes.shape)
    else:
        called_s = collectives[collective](payload_bytes, group, link_frac) + start_s
    if caller.last_arrival_s:
        called_s = called_s + caller.last_arrival_s
    sent = sent_bytes(collective, payload_bytes, caller.num_ranks, is_in_switch=caller.is_in_switch)
    return np.where(payload_bytes > 0, called_s, 0.0), np.asarray(sent)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Caller:
    """A collective on a group of ranks, whatever its payload."""

    library: LibraryGroup | None
    last_arrival_s: float
    is_in_switch: bool
    num_ranks: int


@lru_cache(maxsize=8192)
def _caller(collective: str, group: Group) -> _Caller:
    return _Caller(
        library=library_on(collective, group) if is_timed_by_library(collective, group) else None,
        last_arrival_s=last_arrival_s(group) if collective != "point-to-point" else 0.0,
        is_in_switch=any(span.dimension.is_reducing for span in group),
        num_ranks=num_ranks(group),
    )


def parameter_collectives(
    parameters: FloatArray,
    gradients: FloatArray,
    variants: CommVariants,
    group: str,
    bytes_each: tuple[float, float],
    overheads: CollectiveOverheads,
    num_policies: int,
    *,
    is_forward_only: bool = False,
) -> CollectiveCalls:
    """ZeRO-2 and 3: gathers of a block's parameters and reductions of its gradients in every microbatch.

    An evaluation step gathers parameters once for each microbatch, and reduces nothing.
    """
    gather_bytes, reduce_bytes = bytes_each
    is_sent = parameters > 0
    moves = (
        ("reduce-scatter", gradients * reduce_bytes, is_sent & (variants.zero_stage >= 2)),
        ("all-gather", parameters * gather_bytes, is_sent & (variants.zero_stage == 3)),
    )
    reduced, gathered = (
        _timed_calls(collective, payload_bytes, is_called, variants, group, overheads)
        for collective, payload_bytes, is_called in moves
    )
    ranks, time_s, sent = (np.stack([r, g, g], axis=1) for r, g in zip(reduced, gathered, strict=True))
    if is_forward_only:
        time_s, sent = (amounts * np.array([0.0, 1.0, 0.0]) for amounts in (time_s, sent))
    phases = (Phase.WEIGHT_GRAD, Phase.FORWARD, Phase.INPUT_GRAD)
    moved = [moves[0], moves[1], moves[1]]
    return CollectiveCalls(
        axis=np.full(len(phases), COMM_AXES.index("dp")),
        phase=np.array(phases, dtype=np.int64),
        runs=np.ones((len(phases), num_policies), dtype=bool),
        is_awaited=np.zeros(len(phases), dtype=bool),
        num_ranks=ranks,
        num_calls=(time_s > 0).astype(np.int64),
        time_s=time_s,
        sent_bytes=sent,
        collective=np.broadcast_to([CALLED.index(collective) for collective, _, _ in moved], time_s.shape),
        group=np.broadcast_to(variants.group_of[group][:, None], time_s.shape),
        payload_bytes=np.stack([payload_bytes for _, payload_bytes, _ in moved], axis=1),
    )


def _timed_calls(
    collective: str,
    payload_bytes: FloatArray,
    is_called: BoolArray,
    variants: CommVariants,
    group: str,
    overheads: CollectiveOverheads,
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Ranks, seconds and bytes sent of one collective, for the variants that call it."""
    time_s, sent, ranks = np.zeros(len(variants)), np.zeros(len(variants)), np.ones(len(variants), dtype=np.int64)
    callers = np.flatnonzero(is_called)
    if not len(callers):
        return ranks, time_s, sent
    for ranks_group, chosen in by_group(variants.groups, variants.group_of[group][callers]):
        rows = callers[chosen]
        time_s[rows], sent[rows] = timed(
            collective, payload_bytes[rows], ranks_group, overheads.link_frac, overheads.start_s
        )
        ranks[rows] = num_ranks(ranks_group)
    return ranks, time_s, sent


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommTotals:
    """All communication of one direction of a block, amounts variants by policies.

    `rows` are seconds and bytes, each with its row of work; `num_calls` is how many collectives the host launches, and
    `waited_frac` how much of the host's time the device waits for.
    """

    rows: tuple[tuple[int, FloatArray], ...]
    num_calls: FloatArray
    waited_frac: FloatArray


def comm_totals(calls: CollectiveCalls, variants: CommVariants) -> tuple[CommTotals, ...]:
    """`calls` summed by axis, forward and backward."""
    return tuple(_totals(calls.at(is_in_direction[calls.phase]), variants) for is_in_direction in _IS_IN_DIRECTION)


def _totals(calls: CollectiveCalls, variants: CommVariants) -> CommTotals:
    runs = calls.runs.astype(np.float64)
    overlappable_s = np.where(overlaps(calls, variants), calls.time_s, 0.0)
    blocking_s = calls.time_s - overlappable_s
    rows = []
    for axis in sorted(set(calls.axis.tolist())):
        on_axis = calls.axis == axis
        rows.append((ROWS["overlappable_s"][axis], overlappable_s[:, on_axis] @ runs[on_axis]))
        rows.append((ROWS["blocking_s"][axis], blocking_s[:, on_axis] @ runs[on_axis]))
    rows.append((ROWS["sent_bytes"][0], calls.sent_bytes @ runs))
    return CommTotals(
        rows=tuple(rows), num_calls=calls.num_calls @ runs, waited_frac=_waited_frac(calls, variants)[:, None]
    )


def add_communication(work: FloatArray, sent: Sequence[CommTotals], host_s: float) -> None:
    """Adds communication to `work` (directions by rows by variants by policies); each call takes the host `host_s`."""
    for direction, totals in zip(work, sent, strict=True):
        for row, amount in totals.rows:
            direction[row] = amount
        direction[HOST] += host_s * totals.num_calls
        waited_s = direction[HOST] * totals.waited_frac
        direction[COMPUTE] += waited_s
        direction[HOST][waited_s > 0] = 0.0
        if len(direction) == NUM_ROWS:
            direction[ROWS["limits_s"][_LAUNCH]] += waited_s


def _waited_frac(calls: CollectiveCalls, variants: CommVariants) -> FloatArray:
    """How many times over the device waits for the host's seconds: 0 where the host runs ahead.

    Where every launch is waited for, tensor-parallel ranks meet at every collective and the slowest host sets the
    pace: the longest of n exponentially distributed waits is their mean times 1 + 1/2 + ... + 1/n. A host that must
    see how tokens were routed before it goes on is waited for in blocks with experts.
    """
    is_sent = calls.time_s > 0
    most = np.where(is_sent & (calls.axis == _TP), calls.num_ranks, 1).max(axis=1, initial=1)
    meeting = np.cumsum(1.0 / np.arange(1, most.max() + 1))[most - 1]
    is_routed = np.any(is_sent & (calls.axis == _EP), axis=1)
    is_seen = is_routed & ~variants.may_overlap["routing"]
    return np.where(variants.may_overlap["host"], np.where(is_seen, 1.0, 0.0), meeting)


def add_ring_parts(columns: FloatArray, local: Ops, num_parts: IntArray, costed: Callable[[Ops], FloatArray]) -> None:
    """Turns the cost of attention over one part of the keys into that over all `num_parts`, and merging them.

    In ring attention each part is a kernel of its own: it is launched, and reads its queries again. `columns` are
    costs in the order of COSTS by operators of `local`, cut after cut, by chips where there are many; so is what
    `costed` gives.
    """
    if not np.any(num_parts > 1):
        return
    is_parted = (local.splits[:, N] & int(Axis.HOPS)) != 0
    times = np.where(is_parted, np.repeat(num_parts, len(local) // len(num_parts)), 1)
    rows = np.flatnonzero(times > 1)
    merged = costed(_merges(local.taken(rows)))
    columns[..., rows] = times[rows] * columns[..., rows] + (times[rows] - 1) * merged


def _merges(attentions: Ops) -> Ops:
    """The operators that merge one part of ring attention with the others: outputs, or gradients of q, k and v."""
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


def exclude_last_ring_part(work: FloatArray, variants: CommVariants) -> None:
    """Takes attention over the last part of the ring out of the time that hides the transfer of the others.

    `work` is directions by rows by variants by policies.
    """
    is_ring = variants.context_comm_type == _RING
    if is_ring.any():
        share = np.where(is_ring, 1.0 - 1.0 / variants.num_context_ranks, 1.0)
        work[:, [row for row in ROWS["core"] if row < work.shape[1]]] *= share[:, None]


def context_collectives(
    block: BlockRows, local: Ops, variants: CommVariants, overheads: CollectiveOverheads
) -> list[CollectiveCalls]:
    """Context-parallel collectives of a block for the variants that use a ring or all-to-alls, not gathers."""
    rows = np.flatnonzero(is_among(block.ops.kind, _EXCHANGES))
    found = []
    for kind, collectives_of in ((_ALL_TO_ALL, _all_to_alls), (_RING, _ring_hops)):
        chosen = np.flatnonzero((variants.context_comm_type == kind) & (variants.num_context_ranks > 1))
        if len(rows) and len(chosen):
            found.append(collectives_of(block, rows, local, variants, chosen, overheads))
    return found


def _all_to_alls(
    block: BlockRows,
    rows: IntArray,
    local: Ops,
    variants: CommVariants,
    chosen: IntArray,
    overheads: CollectiveOverheads,
) -> CollectiveCalls:
    """Four all-to-alls forward and four backward, which attention waits for; its inputs are kept as they arrive."""
    rows = rows[block.ops.phase[rows] != Phase.WEIGHT_GRAD]
    each_bytes = _part_bytes(block, rows, local, variants, has_queries=True) / NUM_ALL_TO_ALLS
    return _repeated_calls(
        block,
        rows,
        variants,
        chosen,
        collective="all-to-all",
        each_bytes=each_bytes,
        num_calls=np.full(each_bytes.shape, NUM_ALL_TO_ALLS),
        runs=block.runs[:, rows].T,
        is_awaited=np.ones(len(rows), dtype=bool),
        overheads=overheads,
    )


def _ring_hops(
    block: BlockRows,
    rows: IntArray,
    local: Ops,
    variants: CommVariants,
    chosen: IntArray,
    overheads: CollectiveOverheads,
) -> CollectiveCalls:
    """Ring attention: keys and values go round the ring hop by hop, forward and backward, and their gradients too.

    Recomputed attention sends the keys round again. Gradients take one more hop, home, which is waited for.
    """
    ops, last = block.ops, rows[block.ops.phase[rows] == Phase.INPUT_GRAD]
    again = ops.is_core & (ops.phase == Phase.RECOMPUTE)
    runs = np.where(
        (ops.phase[rows] == Phase.RECOMPUTE)[:, None], block.runs[:, again].any(axis=1), block.runs[:, rows].T
    )
    all_rows = np.concatenate([rows, last])
    is_last = np.arange(len(all_rows)) >= len(rows)
    part_bytes = _part_bytes(block, all_rows, local, variants, has_queries=False)
    return _repeated_calls(
        block,
        all_rows,
        variants,
        chosen,
        collective="point-to-point",
        each_bytes=part_bytes,
        num_calls=np.where(is_last, 1, variants.num_context_ranks[:, None] - 1),
        runs=np.concatenate([runs, block.runs[:, last].T]),
        is_awaited=is_last,
        overheads=overheads,
    )


def _part_bytes(
    block: BlockRows, rows: IntArray, local: Ops, variants: CommVariants, *, has_queries: bool
) -> FloatArray:
    """Bytes of a device's part of keys and values, with or without its queries and outputs: variants by rows."""
    under = variants.cut[:, None] * (len(local) // variants.num_cuts) + block.start + rows
    cols = local.extents[under, N] + (local.extents[under, V] if has_queries else 0)
    return np.asarray(local.extents[under, M] * cols * DTYPE_BYTES[local.dtype[under]])


def _repeated_calls(
    block: BlockRows,
    rows: IntArray,
    variants: CommVariants,
    chosen: IntArray,
    *,
    collective: str,
    each_bytes: FloatArray,
    num_calls: IntArray,
    runs: BoolArray,
    is_awaited: BoolArray,
    overheads: CollectiveOverheads,
) -> CollectiveCalls:
    """`num_calls` of a collective one after the other, of the variants `chosen`."""
    time_s, sent = np.zeros(each_bytes.shape), np.zeros(each_bytes.shape)
    ranks, calls = np.ones_like(num_calls), np.zeros_like(num_calls)
    for group, members in by_group(variants.groups, variants.group_of["context"][chosen]):
        rows_of_group = chosen[members]
        call_s, call_bytes = timed(collective, each_bytes[rows_of_group], group, overheads.link_frac, overheads.start_s)
        calls[rows_of_group], ranks[rows_of_group] = num_calls[rows_of_group], num_ranks(group)
        time_s[rows_of_group], sent[rows_of_group] = (
            calls[rows_of_group] * call_s,
            calls[rows_of_group] * call_bytes,
        )
    return CollectiveCalls(
        axis=np.full(len(rows), COMM_AXES.index("cp")),
        phase=block.ops.phase[rows],
        runs=runs,
        is_awaited=is_awaited,
        num_ranks=ranks,
        num_calls=calls,
        time_s=time_s,
        sent_bytes=sent,
        collective=np.full(time_s.shape, CALLED.index(collective)),
        group=np.broadcast_to(variants.group_of["context"][:, None], time_s.shape),
        payload_bytes=each_bytes,
    )
