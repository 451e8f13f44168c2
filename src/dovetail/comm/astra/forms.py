"""Closed forms of ASTRA-sim's collectives: the ticks of one phase of one chunk that has its dimension to itself.

A phase is one collective on one dimension. Ring and halving-doubling are a row of steps, each "send, receive, think";
direct sends everything at once; the double binary tree goes up and down. Congestion-unaware and -aware back ends
differ only in what a message costs. Source: peers.md closed forms, checked against recorded ASTRA-sim runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.comm.astra.system import FULLY_CONNECTED, RING, AstraDim, AstraSystem
from dovetail.errors import InvalidInput, NotModelled


@dataclass(frozen=True, slots=True)
class Phase:
    """One collective of `size_bytes` per rank on one dimension, by one algorithm."""

    dim: int
    collective: str
    algorithm: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Steps:
    """`count` times: send `message_bytes` to the rank `distance` away, receive as much, think `think_ticks`."""

    count: int
    message_bytes: int
    distance: int
    think_ticks: int


def final_bytes(collective: str, size_bytes: int, num_ranks: int) -> int:
    """What each rank holds after the phase, which is what the next phase starts from."""
    if collective == "reduce_scatter":
        return size_bytes // num_ranks
    return size_bytes * num_ranks if collective == "all_gather" else size_bytes


def phases(system: AstraSystem, collective: str, size_bytes: int, involved: Sequence[bool] = ()) -> tuple[Phase, ...]:
    """The phases of one chunk in order: all-gather descends the dimensions, the rest ascend.

    `localBWAware` all-reduce scatters up to the last involved dimension, all-reduces there and gathers back;
    `baseline` all-reduces the whole chunk on every dimension.
    """
    used = [d for d, dim in enumerate(system.dims) if dim.num_ranks > 1 and (not involved or involved[d])]
    if collective == "all_gather":
        plan = [(d, collective) for d in reversed(used)]
    elif collective == "all_reduce" and system.optimization == "localBWAware" and used:
        plan = [(d, "reduce_scatter") for d in used[:-1]] + [(used[-1], collective)]
        plan += [(d, "all_gather") for d in reversed(used[:-1])]
    else:
        plan = [(d, collective) for d in used]
    made, here_bytes = [], size_bytes
    for d, kind in plan:
        made.append(Phase(d, kind, system.algorithm(collective, d), here_bytes))
        here_bytes = final_bytes(kind, here_bytes, system.dims[d].num_ranks)
    return tuple(made)


def chunk_sizes_bytes(system: AstraSystem, size_bytes: int) -> tuple[int, ...]:
    """The collective cut into chunks of size // num_chunks; what is left over makes one whole chunk more.

    ASTRA-sim counts chunks as ceil(size / chunk) and gives every one of them the size of a chunk.
    """
    chunk = size_bytes // system.num_chunks
    if chunk < 1:
        raise InvalidInput(f"{size_bytes} bytes cannot be cut into {system.num_chunks} chunks; use fewer splits")
    return (chunk,) * -(-size_bytes // chunk)


def steps(system: AstraSystem, phase: Phase) -> tuple[Steps, ...]:
    """The steps of a ring or halving-doubling phase, after its first endpoint delay."""
    build = _ring_steps if phase.algorithm == "ring" else _halving_doubling_steps
    return build(system, phase, system.dims[phase.dim].num_ranks)


def _ring_steps(system: AstraSystem, phase: Phase, num_ranks: int) -> tuple[Steps, ...]:
    delay = system.endpoint_ticks
    part = phase.size_bytes if phase.collective == "all_gather" else phase.size_bytes // num_ranks
    gather = Steps(num_ranks - 1, part, 1, delay)
    reduce = Steps(num_ranks - 1, part, 1, delay + system.reduction_ticks(part))
    if phase.collective == "all_to_all":
        return (Steps(num_ranks * (num_ranks - 1) // 2, part, 1, delay),)
    return {"all_reduce": (reduce, gather), "reduce_scatter": (reduce,), "all_gather": (gather,)}[phase.collective]


def _halving_doubling_steps(system: AstraSystem, phase: Phase, num_ranks: int) -> tuple[Steps, ...]:
    delay, size, levels = system.endpoint_ticks, phase.size_bytes, num_ranks.bit_length() - 1
    if num_ranks != 1 << levels:
        raise InvalidInput(f"halvingDoubling needs a power of two of ranks; got {num_ranks}, use ring")
    if phase.collective == "all_to_all":
        raise NotModelled("halvingDoubling does no all_to_all in ASTRA-sim; use direct or ring")
    if phase.collective == "all_gather":
        return tuple(Steps(1, size << j, num_ranks >> (j + 1), delay) for j in range(levels))
    # The reduction is charged on the message about to be sent, so none after the last halving.
    halve = tuple(
        Steps(1, size >> j, 1 << (j - 1), delay + (system.reduction_ticks(size >> (j + 1)) if j < levels else 0))
        for j in range(1, levels + 1)
    )
    double = tuple(Steps(1, size >> j, 1 << (j - 1), delay) for j in range(levels, 0, -1))
    return halve + double if phase.collective == "all_reduce" else halve


def phase_ticks(system: AstraSystem, phase: Phase) -> int:
    """Ticks of a phase that has its dimension to itself."""
    if phase.algorithm == "direct":
        return _direct_ticks(system, phase)
    if phase.algorithm == "doubleBinaryTree":
        return _tree_ticks(system, phase)
    dim, aware = system.dims[phase.dim], system.is_congestion_aware
    return system.endpoint_ticks + sum(
        s.count * (dim.path_ticks(s.distance, s.message_bytes, aware) + s.think_ticks) for s in steps(system, phase)
    )


def require_tree(system: AstraSystem, phase: Phase) -> None:
    """Raises unless the phase is one ASTRA-sim's double binary tree can do."""
    num_ranks = system.dims[phase.dim].num_ranks
    if phase.collective != "all_reduce" or num_ranks & (num_ranks - 1):
        raise NotModelled(
            f"doubleBinaryTree does all_reduce on a power of two of ranks; got {phase.collective} on {num_ranks}"
        )


def _tree_ticks(system: AstraSystem, phase: Phase) -> int:
    """Up and down a binary tree; on a switch two children share one port, and the second waits for the first."""
    require_tree(system, phase)
    dim, size = system.dims[phase.dim], phase.size_bytes
    levels = dim.num_ranks.bit_length() - 1
    aware = system.is_congestion_aware
    travel = 2 * sum(dim.path_ticks(1 << j, size, aware) for j in range(levels))
    if aware and dim.kind not in (RING, FULLY_CONNECTED):
        travel += 2 * (levels - 1) * dim.link_busy_ticks(size)
    return (2 * levels + 1) * system.endpoint_ticks + (2 * levels - 1) * system.reduction_ticks(size) + travel


def _direct_ticks(system: AstraSystem, phase: Phase) -> int:
    """Every rank sends to all others at once; an all-reduce sends back once it has received everything.

    A rank whose reduction ends before the last arrival waits for the first that ends later; the others go one by one.
    """
    dim, delay = system.dims[phase.dim], system.endpoint_ticks
    num_peers = dim.num_ranks - 1
    part = phase.size_bytes if phase.collective == "all_gather" else phase.size_bytes // dim.num_ranks
    reduce_ticks = system.reduction_ticks(part)
    arrivals = burst_arrival_ticks(dim, part, [delay] * num_peers, system.is_congestion_aware)
    if phase.collective != "all_reduce":
        return max(arrivals) + delay + (reduce_ticks if phase.collective == "reduce_scatter" else 0)
    last = max(arrivals)
    reduced = sorted(arrival + delay + reduce_ticks for arrival in arrivals)
    first = next(tick for tick in reduced if tick >= last)
    sends = [max(tick, first) for tick in reduced]
    return max(burst_arrival_ticks(dim, part, sends, system.is_congestion_aware)) + delay


def burst_arrival_ticks(dim: AstraDim, message_bytes: int, sends: Sequence[int], is_aware: bool) -> list[int]:
    """When a message from each distance 1, 2, ... arrives, if all ranks send to distance d at sends[d-1]."""
    if not is_aware or dim.kind == FULLY_CONNECTED:
        return [t + dim.path_ticks(d, message_bytes, is_aware) for d, t in enumerate(sends, 1)]
    if dim.kind != RING:
        once = _one_link(dim, message_bytes, sends)
        return _one_link(dim, message_bytes, once)
    clockwise = dim.num_ranks // 2
    return _ring_link(dim, message_bytes, list(sends[:clockwise]), 1) + _ring_link(
        dim, message_bytes, list(sends[clockwise:]), clockwise + 1
    )


def _one_link(dim: AstraDim, message_bytes: int, entries: Sequence[int]) -> list[int]:
    busy, travel, free, out = dim.link_busy_ticks(message_bytes), dim.link_ticks(message_bytes), 0, []
    for entry in entries:
        start = max(free, entry)
        free = start + busy
        out.append(start + travel)
    return out


def _ring_link(dim: AstraDim, message_bytes: int, sends: list[int], first_distance: int) -> list[int]:
    """Arrivals over one direction of a ring. All links are equal, so one is followed, which messages re-enter."""
    busy, travel, free = dim.link_busy_ticks(message_bytes), dim.link_ticks(message_bytes), 0
    arrivals = [0] * len(sends)
    own = deque((t, i, dim.num_hops(first_distance + i)) for i, t in enumerate(sends))
    passing: deque[tuple[int, int, int]] = deque()
    while own or passing:
        entry, i, hops = (passing if not own or (passing and passing[0][0] < own[0][0]) else own).popleft()
        start = entry if entry > free else free
        free = start + busy
        if hops > 1:
            passing.append((start + travel, i, hops - 1))
        else:
            arrivals[i] = start + travel
    return arrivals
