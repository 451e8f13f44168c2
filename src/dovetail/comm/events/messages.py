"""Message by message: the oracle of `AllRanks`, and its stand-in where ranks meet at links in different orders.

Tasks become one graph of nodes: messages and work (which pass resources: links, streams) and gates (which only wait).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dovetail.comm.events.ranks import TOLERANCE_S
from dovetail.errors import InvalidInput

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_CELLS_PER_S = 1 / TOLERANCE_S
_OFF = 0.37  # so that moments people write, whole and half picoseconds, do not lie where two cells of time meet


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MessageGraph:
    """Nodes with hops over resources and successors, both in CSR; a node without hops is a gate.

    `left` is the gate a node opens as soon as its first hop is through, -1 for none. `turn` decides between hops that
    come to a resource at once: it numbers all of them.
    """

    num_resources: int
    num_waits: Ints
    first_next: Ints
    next_node: Ints
    first_hop: Ints
    resource: Ints
    taken_s: Floats
    latency_s: Floats
    extra_s: Floats
    left: Ints
    node: Ints
    turn: Ints
    label: Callable[[int], str]


class _Columns(NamedTuple):
    """A graph as plain lists, which Python reads faster than arrays; `hop_of` undoes `turn`, `left` is a hop's."""

    first_next: list[int]
    next_node: list[int]
    first_hop: list[int]
    node_of: list[int]
    resource: list[int]
    taken_s: list[float]
    latency_s: list[float]
    extra_s: list[float]
    left: list[int]
    turn: list[int]
    hop_of: list[int]


class _State(NamedTuple):
    """What a run changes: waits each node has left, when it was ready, when hops began, tails, when links are free."""

    num_waits: list[int]
    ready_s: list[float]
    begin_s: list[float]
    tail_s: list[float]
    free_s: list[float]


def _columns(graph: MessageGraph) -> _Columns:
    left = np.full(len(graph.resource), -1)
    leaving = np.flatnonzero(graph.left >= 0)
    left[graph.first_hop[leaving]] = graph.left[leaving]
    hops = (graph.node, graph.resource, graph.taken_s, graph.latency_s)
    order = (left, graph.turn, np.argsort(graph.turn))
    columns = (graph.first_next, graph.next_node, graph.first_hop, *hops, graph.extra_s, *order)
    return _Columns(*(column.tolist() for column in columns))


def _serve(columns: _Columns, state: _State, opened: list[int]) -> None:
    """Works through all that `opened` leads to: one loop, and one heap of numbers that hold a moment and a turn."""
    first_next, next_node, first_hop, node_of, resource, taken_s, latency_s, extra_s, left, turn, hop_of = columns
    num_waits, ready_s, begin_s, tail_s, free_s = state
    heap: list[int] = []
    num_bits, turns = len(turn).bit_length(), (1 << len(turn).bit_length()) - 1
    while opened or heap:
        if opened:
            node = opened.pop()
            at, head_s, done_s = first_hop[node], ready_s[node], ready_s[node]
        else:  # the message enters its next link as soon as both have come
            at = hop_of[heappop(heap) & turns]
            node, link = node_of[at], resource[at]
            begin_s[at] = start_s = begin_s[at] if begin_s[at] > free_s[link] else free_s[link]
            free_s[link] = done_s = start_s + taken_s[at]
            if left[at] >= 0:
                _let_go(left[at], done_s, state, opened)
            tail_s[node] = done_s = (done_s if done_s > tail_s[node] else tail_s[node]) + latency_s[at]
            head_s, at = start_s + latency_s[at], at + 1
        if at < first_hop[node + 1]:  # it needs a resource, or another
            begin_s[at] = head_s
            heappush(heap, int(head_s * _CELLS_PER_S + _OFF) << num_bits | turn[at])
            continue
        done_s += extra_s[node]
        for later in next_node[first_next[node] : first_next[node + 1]]:
            ready_s[later] = done_s if done_s > ready_s[later] else ready_s[later]
            num_waits[later] -= 1
            if not num_waits[later]:
                opened.append(later)


def _let_go(node: int, time_s: float, state: _State, opened: list[int]) -> None:
    state.ready_s[node] = max(state.ready_s[node], time_s)
    state.num_waits[node] -= 1
    if not state.num_waits[node]:
        opened.append(node)


def node_times_s(graph: MessageGraph) -> tuple[Floats, Floats, int]:
    """When each node was ready (a gate: open), when each hop began, and the number of events.

    An error names what never was ready.
    """
    num_nodes, num_hops = len(graph.num_waits), len(graph.resource)
    sizes = (num_nodes, num_hops, num_nodes, graph.num_resources)  # ready, begin, tail, free
    state = _State(graph.num_waits.tolist(), *([0.0] * size for size in sizes))
    _serve(_columns(graph), state, [node for node, waits in enumerate(state.num_waits) if not waits])
    stuck = [node for node, waits in enumerate(state.num_waits) if waits]
    if stuck:
        raise InvalidInput(f"{len(stuck)} steps would never end; the first is {graph.label(stuck[0])}")
    return np.asarray(state.ready_s), np.asarray(state.begin_s), num_hops
