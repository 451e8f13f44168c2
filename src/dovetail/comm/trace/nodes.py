"""One rank's execution trace as values, and what must hold of it before anything runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from dovetail.errors import InvalidInput

Kind = Literal["metadata", "load", "store", "compute", "send", "receive", "collective"]
KINDS: tuple[Kind, ...] = ("metadata", "load", "store", "compute", "send", "receive", "collective")
# In the order of Chakra's numbers.
COLLECTIVES = (
    "all-reduce", "reduce", "all-gather", "gather", "scatter", "broadcast", "all-to-all", "reduce-scatter",
    "reduce-scatter-block", "barrier",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceNode:
    """One node of one rank. `size_bytes` is per rank, for an all-gather the shard; `after` are ids of the same rank.

    `source` and `target` are ranks of a send or receive; `group` names a process group, empty where `involved` (a
    claim per network dimension; all, when empty) says who takes part.
    """

    id: int
    name: str = ""
    kind: Kind = "compute"
    after: tuple[int, ...] = ()
    duration_s: float = 0.0
    is_cpu: bool = False
    collective: str = ""
    size_bytes: int = 0
    source: int = 0
    target: int = 0
    tag: int = 0
    group: str = ""
    involved: tuple[bool, ...] = ()
    num_ops: int = 0
    tensor_bytes: int = 0

    @property
    def task(self) -> str:
        """What the node is called where it runs: its number, and its name where it has one."""
        return f"{self.id} {self.name}" if self.name else str(self.id)

    @property
    def label(self) -> str:
        return f"node {self.id} ({self.name})" if self.name else f"node {self.id}"


Rank = tuple[TraceNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """The traces of ranks 0, 1, ... and the members of each process group they name."""

    ranks: tuple[Rank, ...]
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def are_identical(self) -> bool:
        """Whether every rank does the same, so that one stands for all."""
        first = self.ranks[0]
        return all(rank is first or rank == first for rank in self.ranks) and not any(
            node.group or node.kind in ("send", "receive") for node in first
        )


def at(rank: int, node: TraceNode) -> str:
    """How an error names a node."""
    return f"rank {rank}, {node.label}"


def check_rank(nodes: Sequence[TraceNode], rank: int) -> None:
    """Raises for an id given twice, a dependency that is not there, or a cycle."""
    known = {node.id: node for node in nodes}
    if len(known) != len(nodes):
        counts = Counter(node.id for node in nodes)
        twice = next(node for node in nodes if counts[node.id] > 1)
        raise InvalidInput(f"id {twice.id} is given twice", at(rank, twice))
    for node in nodes:
        for before in node.after:
            if before not in known:
                raise InvalidInput(f"depends on node {before}, which the trace does not have", at(rank, node))
    if stuck := _in_cycle(nodes, known):
        cycle = " -> ".join(str(node.id) for node in (*stuck[:8], stuck[0]))
        shown = cycle if len(stuck) <= 8 else f"{cycle.rpartition(' -> ')[0]} -> ... ({len(stuck)} nodes)"
        raise InvalidInput(f"these nodes wait for each other and would never end: {shown}", at(rank, stuck[0]))


def _in_cycle(nodes: Sequence[TraceNode], known: Mapping[int, TraceNode]) -> list[TraceNode]:
    """The nodes along one cycle, none where there is none: what is left after taking away all that can run."""
    missing = {node.id: len(node.after) for node in nodes}
    users: dict[int, list[int]] = {node.id: [] for node in nodes}
    for node in nodes:
        for before in node.after:
            users[before].append(node.id)
    free = [id_ for id_, count in missing.items() if not count]
    while free:
        id_ = free.pop()
        del missing[id_]
        for user in users[id_]:
            missing[user] -= 1
            if not missing[user]:
                free.append(user)
    if not missing:
        return []
    walk, place = [min(missing)], {}
    while walk[-1] not in place:
        place[walk[-1]] = len(walk) - 1
        walk.append(min(before for before in known[walk[-1]].after if before in missing))
    return [known[id_] for id_ in walk[place[walk[-1]] : -1]]


def coordinates(rank: int, num_per_dim: Sequence[int]) -> tuple[int, ...]:
    """Where a rank stands in each dimension, innermost first."""
    found = []
    for count in num_per_dim:
        rank, place = divmod(rank, count)
        found.append(place)
    return tuple(found)


def is_involved(node: TraceNode, num_dims: int) -> tuple[bool, ...]:
    """A claim for each dimension of the network; what the node does not say of the last ones is no."""
    return (*node.involved, *(False,) * num_dims)[:num_dims] if node.involved else (True,) * num_dims


def members(node: TraceNode, rank: int, traces: Traces, num_per_dim: Sequence[int]) -> tuple[int, ...]:
    """The ranks that take part in a collective with `rank`."""
    if not node.group:
        involved = is_involved(node, len(num_per_dim))
        found, stride = [rank], 1
        for count, is_in in zip(num_per_dim, involved, strict=True):
            if is_in:
                base = [other - other // stride % count * stride for other in found]
                found = [b + place * stride for place in range(count) for b in base]
            stride *= count
        return tuple(sorted(found))
    if node.group not in traces.groups:
        hint = "name its ranks in a file of groups, --groups FILE.json"
        raise InvalidInput(f"process group {node.group[:40]!r} is not known; {hint}", at(rank, node))
    group = traces.groups[node.group]
    if rank not in group:
        raise InvalidInput(f"process group {node.group!r} does not have rank {rank}", at(rank, node))
    return group


def check_count(traces: Traces, num_per_dim: Sequence[int]) -> None:
    """Raises unless there is one trace for each device of the network, and every rank named is one of them."""
    num_devices, num_ranks = math.prod(num_per_dim), len(traces.ranks)
    if num_ranks != num_devices:
        raise InvalidInput(f"the network has {num_devices:,} devices, and there are traces of {num_ranks:,} ranks")
    for name, group in traces.groups.items():
        if group[-1] >= num_devices:
            raise InvalidInput(f"group {name[:40]!r} names rank {group[-1]}, but the network has {num_devices} devices")
    for rank, nodes in enumerate(() if traces.are_identical else traces.ranks):
        for node in nodes:
            peer = {"send": node.target, "receive": node.source}.get(node.kind)
            if peer is not None and (peer == rank or peer >= num_devices):
                raise InvalidInput(f"its peer must be another rank below {num_devices}; got {peer}", at(rank, node))
