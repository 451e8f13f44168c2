"""What the blocks of a model send on one device, under every distinct cut, placement and overlap at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.hardware.chip import Calibration
from dovetail.hardware.topology import Group, num_ranks
from dovetail.network.collectives import collectives
from dovetail.network.collectives.all_to_all import deduplicated_all_to_all_s
from dovetail.network.volume import sent_bytes
from dovetail.plan.exchange import MEANINGS, Meaning, payload_bytes
from dovetail.plan.plan import CONTEXT_EXCHANGES, RECOMPUTE_POLICIES
from dovetail.plan.sharding import GRADIENTS, BlockRows
from dovetail.schedule.work import COMM_AXES
from dovetail.workload.graph import Axis, BoolArray, FloatArray, IntArray, K, M, Ops, Phase
from dovetail.workload.operators import OPERATORS, Unit, code_of

WAYS = ((Phase.FORWARD,), (*GRADIENTS, Phase.RECOMPUTE))  # phases of the forward and of the backward pass
_TP = COMM_AXES.index("tp")
_TO_EXPERTS = tuple(code_of(kind) for kind, meaning in MEANINGS.items() if meaning.axis == "ep")
_GATHER = CONTEXT_EXCHANGES.index("gather")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchanging:
    """What of a chip the seconds of its collectives follow from, beside the links: see `hardware.chip.Calibration`."""

    link_frac: float
    exchange_s: float


def exchanging(calibration: Calibration) -> Exchanging:
    return Exchanging(link_frac=calibration.link_frac, exchange_s=calibration.exchange_s)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Senders:
    """Distinct ways in which devices communicate within a microbatch, as columns.

    `group_of` gives the group of ranks of each kind as an index into `groups`; `may_overlap` says by axis whether
    the plan lets it run beside compute, and of 'host' and 'routing' whether the host goes on beside the device.
    """

    cut: IntArray
    num_cuts: int
    loads: FloatArray  # rows routed to the most loaded device, against the mean
    is_sequence_parallel: BoolArray
    sends_once: BoolArray
    num_context_ranks: IntArray
    context_exchange: IntArray  # into CONTEXT_EXCHANGES
    zero_stage: IntArray
    are_ties_apart: BoolArray
    groups: tuple[Group, ...]
    group_of: dict[str, IntArray]
    may_overlap: dict[str, BoolArray]

    def __len__(self) -> int:
        return len(self.cut)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sends:
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

    def at(self, chosen: BoolArray) -> Sends:
        return Sends(
            axis=self.axis[chosen],
            phase=self.phase[chosen],
            runs=self.runs[chosen],
            is_awaited=self.is_awaited[chosen],
            num_ranks=self.num_ranks[:, chosen],
            num_calls=self.num_calls[:, chosen],
            time_s=self.time_s[:, chosen],
            sent_bytes=self.sent_bytes[:, chosen],
        )


def joined_sends(parts: Sequence[Sends]) -> Sends:
    return Sends(
        axis=np.concatenate([part.axis for part in parts]),
        phase=np.concatenate([part.phase for part in parts]),
        runs=np.concatenate([part.runs for part in parts]),
        is_awaited=np.concatenate([part.is_awaited for part in parts]),
        num_ranks=np.concatenate([part.num_ranks for part in parts], axis=1),
        num_calls=np.concatenate([part.num_calls for part in parts], axis=1),
        time_s=np.concatenate([part.time_s for part in parts], axis=1),
        sent_bytes=np.concatenate([part.sent_bytes for part in parts], axis=1),
    )


def overlaps(sends: Sends, senders: Senders) -> BoolArray:
    """Which run beside compute: gathers for weight gradients run beside the input gradient in any case."""
    may = np.stack([senders.may_overlap.get(axis, np.zeros(len(senders), dtype=bool)) for axis in COMM_AXES], axis=1)
    is_gather = (sends.axis == _TP) & (sends.phase == Phase.WEIGHT_GRAD)
    return np.asarray((may[:, sends.axis] | is_gather) & ~sends.is_awaited)


def block_sends(block: BlockRows, local: Ops, senders: Senders, pace: Exchanging) -> Sends:
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
                once_s = deduplicated_all_to_all_s(whole_bytes[here], group, pace.link_frac, copies)
                took_s = np.where(senders.sends_once[chosen][:, None], once_s, took_s)
            time_s[here] = took_s
    return Sends(
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


def _started(time_s: FloatArray, pace: Exchanging) -> FloatArray:
    """With the start and end of a collective where there is one."""
    return np.where(time_s > 0, time_s + pace.exchange_s, 0.0)


def _kinds(meaning: Meaning, senders: Senders) -> Iterator[tuple[str, Group, IntArray]]:
    """The collectives and groups that `meaning` stands for, each with the senders for which it does."""
    for is_sequence_parallel in (False, True):
        collective = meaning.collective(is_sequence_parallel=is_sequence_parallel)
        if not collective:
            continue
        does = senders.is_sequence_parallel == is_sequence_parallel
        if meaning.axis == "cp":
            does = does & (senders.context_exchange == _GATHER)
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


def parameter_sends(
    parameters: FloatArray,
    gradients: FloatArray,
    senders: Senders,
    group: str,
    bytes_each: tuple[float, float],
    pace: Exchanging,
) -> Sends:
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
    return Sends(
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
    collective: str, whole_bytes: FloatArray, does: BoolArray, senders: Senders, group: str, pace: Exchanging
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
