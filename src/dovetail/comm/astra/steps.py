"""ASTRA-sim's workload layer for ranks that all do the same: a graph of computes and collectives, in ticks.

One compute and one collective may be in flight, whatever dimensions they use; of the nodes whose dependencies are
met the lowest id goes first, and nothing is interrupted. That is why its independent collectives never overlap.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from dovetail.comm.astra.engine import collective_ticks
from dovetail.comm.astra.system import AstraSystem
from dovetail.errors import InvalidInput
from dovetail.units import MEBI


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeNode:
    """A kernel of fixed length."""

    run_ticks: int
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveNode:
    """A collective on the involved dimensions; all when empty."""

    collective: str
    size_bytes: int
    involved: tuple[bool, ...] = ()
    after: tuple[int, ...] = ()


Node = ComputeNode | CollectiveNode


@dataclass(frozen=True, slots=True, kw_only=True)
class GptLikeStep:
    """One training step of a tensor- and data-parallel transformer as the recorded end-to-end runs have it.

    Per layer nine nodes: two forward and two backward kernels, each followed by a tensor-parallel all-reduce on the
    first dimension, and after the backward pass one all-reduce of the gradients on the second, not waited for.
    The traces themselves are not recorded. Message counts fix the four and the one; the slope over layers, the
    constant and the slope over data-parallel ranks fix 800 + 400 us of kernels, 64 MiB and 100 MiB exactly; the
    even split of forward (2 x 200 us) and backward (2 x 400 us) is the reading that fits, not the only one.
    """

    num_layers: int
    forward_ticks: int = 200_000
    backward_ticks: int = 400_000
    activation_bytes: int = 64 * int(MEBI)
    gradient_bytes: int = 100 * int(MEBI)

    def nodes(self) -> tuple[Node, ...]:
        """The step in the order its ids are given: forward, then backward layer by layer."""
        made: list[Node] = []

        def half(run_ticks: int) -> None:
            made.append(ComputeNode(run_ticks=run_ticks, after=(last[0],) if last else ()))
            made.append(
                CollectiveNode(
                    collective="all_reduce",
                    size_bytes=self.activation_bytes,
                    involved=(True, False),
                    after=(len(made) - 1,),
                )
            )
            last[:] = [len(made) - 1]

        last: list[int] = []
        for _ in range(2 * self.num_layers):
            half(self.forward_ticks)
        for _ in range(self.num_layers):
            half(self.backward_ticks)
            half(self.backward_ticks)
            made.append(
                CollectiveNode(
                    collective="all_reduce", size_bytes=self.gradient_bytes, involved=(False, True), after=(last[0],)
                )
            )
        return tuple(made)


def gpt_like_step(workload: str) -> GptLikeStep:
    """The step named like `gpt_like_48layers_tp8_dp8`."""
    found = re.fullmatch(r"gpt_like_(\d+)layers_tp(\d+)_dp(\d+)", workload)
    if not found:
        raise InvalidInput(f"a workload is named gpt_like_<n>layers_tp<n>_dp<n>; got {workload!r}")
    return GptLikeStep(num_layers=int(found[1]))


def step_ticks(system: AstraSystem, nodes: Sequence[Node]) -> int:
    """Ticks until the last node ends. A cycle or an unknown dependency is refused by name."""
    length_ticks, (missing, users) = _node_ticks(system), _dependencies(nodes)
    unit_of = [int(isinstance(node, CollectiveNode)) for node in nodes]  # 0 computes, 1 communicates
    ready: tuple[list[int], list[int]] = ([], [])  # per unit a heap of node ids
    for i, count in enumerate(missing):
        if not count:
            ready[unit_of[i]].append(i)
    running: list[tuple[int, int]] = []
    is_free, now_ticks = [True, True], 0
    while True:
        for unit in (0, 1):
            if is_free[unit] and ready[unit]:
                i = heappop(ready[unit])
                is_free[unit] = False
                heappush(running, (now_ticks + length_ticks(nodes[i]), i))
        if not running:
            break
        now_ticks, i = heappop(running)
        is_free[unit_of[i]] = True
        for user in users[i]:
            missing[user] -= 1
            if not missing[user]:
                heappush(ready[unit_of[user]], user)
    _require_finished(missing)
    return now_ticks


def _require_finished(missing: Sequence[int]) -> None:
    stuck = [i for i, count in enumerate(missing) if count]
    if stuck:
        raise InvalidInput(f"node {stuck[0]} waits for a dependency that never ends; {len(stuck)} nodes never ran")


def _dependencies(nodes: Sequence[Node]) -> tuple[list[int], list[list[int]]]:
    missing = [len(node.after) for node in nodes]
    users: list[list[int]] = [[] for _ in nodes]
    for i, node in enumerate(nodes):
        for before in node.after:
            if not 0 <= before < len(nodes):
                raise InvalidInput(f"node {i} depends on node {before}, which does not exist")
            users[before].append(i)
    return missing, users


def _node_ticks(system: AstraSystem) -> Callable[[Node], int]:
    """The length of a node; equal collectives are simulated once, since each starts on idle queues."""
    known: dict[tuple[str, int, tuple[bool, ...]], int] = {}

    def length(node: Node) -> int:
        if isinstance(node, ComputeNode):
            return node.run_ticks
        key = (node.collective, node.size_bytes, node.involved)
        if key not in known:
            known[key] = collective_ticks(system, *key)
        return known[key]

    return length
