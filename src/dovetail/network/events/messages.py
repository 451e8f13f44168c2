"""Message by message: the oracle of `AllRanks`, and its stand-in where ranks meet at links in different orders.

Tasks become one graph of nodes: messages and work (which pass resources: links, streams) and gates (which only wait).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import InvalidInput

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MessageGraph:
    """Nodes with hops over resources and successors, both in CSR; a node without hops is a gate.

    `left` is the gate a node opens as soon as its first hop is through, -1 for none; `order` decides ties.
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
    order: Ints
    label: Callable[[int], str]


class _Run:
    """One run of a graph, as lists: Python reads these faster than arrays."""

    def __init__(self, graph: MessageGraph) -> None:
        num_nodes = len(graph.num_waits)
        self.num_waits: list[int] = graph.num_waits.tolist()
        self.first_next: list[int] = graph.first_next.tolist()
        self.next_node: list[int] = graph.next_node.tolist()
        self.first_hop: list[int] = graph.first_hop.tolist()
        self.resource: list[int] = graph.resource.tolist()
        self.taken_s: list[float] = graph.taken_s.tolist()
        self.latency_s: list[float] = graph.latency_s.tolist()
        self.extra_s: list[float] = graph.extra_s.tolist()
        self.left: list[int] = graph.left.tolist()
        self.order: list[int] = graph.order.tolist()
        self.free_s = [0.0] * graph.num_resources
        self.ready_s = [0.0] * num_nodes
        self.tail_s = [-1.0] * num_nodes
        self.is_done = [False] * num_nodes
        self.heap: list[tuple[float, int, int, int]] = []  # head of the message, order, node, hop
        self.opened = [node for node, waits in enumerate(self.num_waits) if not waits]

    def run(self) -> int:
        """Works the graph through and gives the number of events."""
        num_events = 0
        while True:
            while self.opened:  # pass gates, and send to the heap what needs a resource
                node = self.opened.pop()
                if self.first_hop[node] < self.first_hop[node + 1]:
                    heapq.heappush(self.heap, (self.ready_s[node], self.order[node], node, 0))
                else:
                    self._end(node, self.ready_s[node])
            if not self.heap:
                return num_events
            num_events += 1
            self._serve(*heapq.heappop(self.heap))

    def _serve(self, head_s: float, order: int, node: int, hop: int) -> None:
        """The message enters its next link as soon as both have come."""
        at = self.first_hop[node] + hop
        link = self.resource[at]
        start_s = max(head_s, self.free_s[link])
        end_s = self.free_s[link] = start_s + self.taken_s[at]
        self.tail_s[node] = max(end_s, self.tail_s[node]) + self.latency_s[at]
        if hop == 0 and self.left[node] >= 0:
            self._let_go(self.left[node], end_s)
        if at + 1 < self.first_hop[node + 1]:
            heapq.heappush(self.heap, (start_s + self.latency_s[at], order, node, hop + 1))
        else:
            self._end(node, self.tail_s[node])

    def _end(self, node: int, time_s: float) -> None:
        self.is_done[node] = True
        done_s = time_s + self.extra_s[node]
        for place in range(self.first_next[node], self.first_next[node + 1]):
            self._let_go(self.next_node[place], done_s)

    def _let_go(self, node: int, time_s: float) -> None:
        if self.ready_s[node] < time_s:
            self.ready_s[node] = time_s
        self.num_waits[node] -= 1
        if not self.num_waits[node]:
            self.opened.append(node)


def node_ready_s(graph: MessageGraph) -> tuple[Floats, int]:
    """When each node was ready (a gate: open), and the number of events; an error names what never was."""
    run = _Run(graph)
    num_events = run.run()
    if not all(run.is_done):
        stuck = [node for node, is_done in enumerate(run.is_done) if not is_done]
        raise InvalidInput(f"{len(stuck)} steps would never end; the first is {graph.label(stuck[0])}")
    return np.asarray(run.ready_s), num_events
