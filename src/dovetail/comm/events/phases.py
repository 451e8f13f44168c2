"""A chunk of a collective -> what it does in one network dimension after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from dovetail.comm.collectives import collectives
from dovetail.comm.events.network_graph import Block, LinkGraph, coordinate, switch_of
from dovetail.comm.events.program import Collective
from dovetail.comm.events.schedules import Ask, Ints, Schedule, Shape, algorithms
from dovetail.comm.messages import BY_SWITCHES, shape_of, suited_algorithm
from dovetail.errors import InvalidInput, NotModelled
from dovetail.registry import at_withdrawal

_ROOTED = ("broadcast", "reduce")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Phase:
    """One schedule run by every row of `groups` at once, in the queue of `dimension`: what `collective` is there."""

    dimension: str
    collective: str
    block: Block | None
    groups: Ints
    schedule: Schedule


@cache
def schedule_of(algorithm: str, ask: Ask) -> Schedule:
    return algorithms[algorithm](ask)


at_withdrawal(schedule_of.cache_clear)


class Phases:
    """Phases of collectives on one network, with the groups of each dimension worked out once."""

    def __init__(self, graph: LinkGraph) -> None:
        self.graph = graph
        self._groups: dict[tuple[tuple[tuple[int, ...], ...], str], Ints] = {}
        self._chunks: dict[tuple[object, ...], tuple[Phase, ...]] = {}
        self._spans: dict[tuple[tuple[int, ...], ...], tuple[Block, ...]] = {}

    def of_chunk(self, task: Collective, chunk: int) -> tuple[Phase, ...]:
        """The phases of chunk number `chunk`, first to last."""
        order = task.orders[chunk % len(task.orders)] if task.orders else ()
        sizes = (task.collective, task.payload_bytes / task.num_chunks, task.root)
        key = (*sizes, task.groups, task.dimensions, task.algorithms, order)
        if key not in self._chunks:
            self._chunks[key] = self._new_chunk(task, order)
        return self._chunks[key]

    def _new_chunk(self, task: Collective, order: tuple[str, ...]) -> tuple[Phase, ...]:
        spans = self.spans(task)
        payload_bytes = task.payload_bytes / task.num_chunks
        if task.collective in _ROOTED and task.groups and not self._are_roots_equal(task, spans):
            spans = ()
        if not spans:
            return (self._flat(task, payload_bytes),) if task.groups and len(task.groups[0]) > 1 else ()
        by_name = {block.name: block for block in spans}
        order = order or tuple(by_name)
        if sorted(order) != sorted(by_name):
            raise InvalidInput(f"a chunk must visit {', '.join(by_name)}; got {', '.join(order)}", task.name)
        blocks = [by_name[name] for name in order]
        return tuple(
            self._phase(task, block, what, size) for block, what, size in self._plan(task, blocks, payload_bytes)
        )

    def spans(self, task: Collective) -> tuple[Block, ...]:
        """Dimensions the groups are a product over, innermost first; none: they are not, and are taken flat."""
        if not task.groups:
            named = [self.graph.block(name).name for name in task.dimensions] or [b.name for b in self.graph.blocks]
            return tuple(block for block in self.graph.blocks if block.num_devices > 1 and block.name in named)
        if task.groups not in self._spans:
            self._spans[task.groups] = self._found_spans(task)
        return self._spans[task.groups]

    def _found_spans(self, task: Collective) -> tuple[Block, ...]:
        rows = np.array(task.groups)
        if rows.ndim != 2 or rows.min() < 0 or rows.max() >= self.graph.num_devices:
            raise InvalidInput(f"groups hold equally many devices below {self.graph.num_devices}", task.name)
        if _num_distinct(rows.ravel()) != rows.size:
            raise InvalidInput("a device is in two groups, or twice in one", task.name)
        spans = []
        for block in self.graph.blocks:
            counts = {_num_distinct(coordinate(block, row)) for row in rows}
            if len(counts) > 1:
                return ()
            if counts != {1}:
                spans.append((block, counts.pop()))
        if math.prod(count for _, count in spans) != rows.shape[1]:
            return ()
        return tuple(block for block, _ in spans)

    def rows(self, task: Collective, block: Block) -> Ints:
        """Groups along one dimension: the devices of every group that differ in nothing else, in order."""
        key = (task.groups, block.name)
        if key not in self._groups:
            rows = np.array(task.groups) if task.groups else np.arange(self.graph.num_devices)[None, :]
            lines = []
            for row in rows:
                lines.append(_lines(block, row))
            self._groups[key] = np.concatenate(lines)
        return self._groups[key]

    def _plan(self, task: Collective, blocks: list[Block], payload_bytes: float) -> list[tuple[Block, str, float]]:
        what, sizes = task.collective, []
        left = payload_bytes
        for block in blocks:
            sizes.append(left)
            left /= self.rows(task, block).shape[1]
        down = [(block, "reduce-scatter", size) for block, size in zip(blocks, sizes, strict=True)]
        up = [(block, "all-gather", size) for block, _, size in reversed(down)]
        if what == "all-reduce":
            last, _, size = down[-1]
            return [*down[:-1], (last, "all-reduce", size), *up[1:]]
        if what in ("reduce-scatter", "all-gather"):
            return down if what == "reduce-scatter" else up
        if what in ("all-to-all", "reduce"):
            return [(block, what, payload_bytes) for block in blocks]
        if what == "broadcast":
            return [(block, what, payload_bytes) for block in reversed(blocks)]
        if what not in collectives:
            raise InvalidInput(f"no collective is named {what!r}", task.name)
        if len(blocks) == 1:  # a plugin's: its algorithm says what it does in one dimension, and not in several
            return [(blocks[0], what, payload_bytes)]
        message = f"{what!r} is simulated in one dimension at a time; got {len(blocks)} of them"
        raise NotModelled(f"{message}; name one with --dims, or use the closed engine", task.name)

    def _phase(self, task: Collective, block: Block, what: str, payload_bytes: float) -> Phase:
        rows, root = self._rooted(task, block) if what in _ROOTED else (self.rows(task, block), 0)
        named = dict(task.algorithms)
        name = named.get(block.name, named.get("*", ""))
        shape = _shape(block, rows)
        if not name:
            name = suited(block, what, shape)
        if name in BY_SWITCHES:
            switch_of(block, rows[0])  # raises where there is none
        ask = Ask(collective=what, num_ranks=rows.shape[1], payload_bytes=payload_bytes, shape=shape, root=root)
        return Phase(dimension=block.name, collective=what, block=block, groups=rows, schedule=schedule_of(name, ask))

    def _rooted(self, task: Collective, block: Block) -> tuple[Ints, int]:
        """Rows that hold their root's data in this dimension's turn, and its place there: outer dimensions go first."""
        groups = self._members(task)
        roots = groups[:, task.root]
        key = (task.groups, f"{block.name} of root {task.root} in {','.join(task.dimensions)}")
        if key not in self._groups:
            holds = np.ones(groups.shape, bool)
            for span in self.spans(task):
                if span.stride < block.stride:
                    holds &= coordinate(span, groups) == coordinate(span, roots)[:, None]
            lines = [_lines(block, row[kept]) for row, kept in zip(groups, holds, strict=True)]
            self._groups[key] = np.concatenate(lines)
        rows = self._groups[key]
        return rows, int(np.flatnonzero(coordinate(block, rows[0]) == coordinate(block, roots)[0])[0])

    def _members(self, task: Collective) -> Ints:
        """The groups, a row each, their devices in order of rank."""
        if task.groups:
            return np.array(task.groups)
        devices = np.arange(self.graph.num_devices)
        place = np.zeros_like(devices)
        for block in self.spans(task):
            place += coordinate(block, devices) * block.stride
        return devices[np.lexsort((place, devices - place))].reshape(_num_distinct(devices - place), -1)

    def _are_roots_equal(self, task: Collective, spans: tuple[Block, ...]) -> bool:
        """Whether the roots of all groups come at the same places along every dimension."""
        groups = np.array(task.groups)
        places = [_place(block, row, task.root) for block in spans for row in groups]
        return all(place == places[index // len(groups) * len(groups)] for index, place in enumerate(places))

    def _flat(self, task: Collective, payload_bytes: float) -> Phase:
        groups = np.array(task.groups)
        ask = Ask(collective=task.collective, num_ranks=groups.shape[1], payload_bytes=payload_bytes, root=task.root)
        name = dict(task.algorithms).get("*", "direct" if task.collective == "all-to-all" else "ring")
        if name in BY_SWITCHES:
            rule = "in-switch reduction needs groups that lie along dimensions, each a switch"
            raise InvalidInput(f"{rule}; got {len(task.groups)} of {len(task.groups[0])} devices", task.name)
        return Phase(
            dimension="*", collective=task.collective, block=None, groups=groups, schedule=schedule_of(name, ask)
        )


def _lines(block: Block, row: Ints) -> Ints:
    """The devices of a group that differ along one dimension only, a line each, in order."""
    place = coordinate(block, row)
    rest = row - place * block.stride
    return row[np.lexsort((place, rest))].reshape(_num_distinct(rest), -1)


def _place(block: Block, row: Ints, rank: int) -> int:
    """How many places of a group come before that of one rank, along one dimension."""
    places = coordinate(block, row)
    return _num_distinct(places[places < places[rank]])


def _num_distinct(numbers: Ints) -> int:
    return len(set(numbers.tolist()))  # np.unique loads numpy.ma: 9 ms, as much as a whole run here


def suited(block: Block, what: str, shape: Shape | None = None) -> str:
    """The algorithm that reaches the bound of a dimension, for ranks that fill it or lie in `shape`."""
    return suited_algorithm(block.kind, what, shape)


def _shape(block: Block, rows: Ints) -> Shape:
    places = coordinate(block, rows[0])
    stride = int(places[1] - places[0]) if len(places) > 1 else 1
    goes_round = bool((np.diff(places) == stride).all()) and stride * len(places) == block.num_devices
    return shape_of(block.kind, goes_round=goes_round)


def themis_orders(task: Collective, graph: LinkGraph) -> tuple[tuple[str, ...], ...]:
    """For each chunk in turn, the dimensions from the least to the most loaded so far; none where that gains nothing.

    The first dimension of a chunk carries most of it, so loads even out.
    Source: Rashidi et al., "Themis", ISCA 2022.
    """
    phases = Phases(graph)
    blocks = phases.spans(task)
    rows = {block.name: phases.rows(task, block) for block in blocks}
    s_per_byte = {block.name: _s_per_byte(graph, block, rows[block.name]) for block in blocks}
    chunk_bytes = task.payload_bytes / task.num_chunks

    def add(load_s: dict[str, float], order: Sequence[Block]) -> None:
        left_bytes = chunk_bytes
        for block in order:
            load_s[block.name] += left_bytes * s_per_byte[block.name]
            left_bytes /= rows[block.name].shape[1]

    even_s, fixed_s = ({block.name: 0.0 for block in blocks} for _ in range(2))
    orders = []
    for _ in range(task.num_chunks):
        order = sorted(blocks, key=lambda block: even_s[block.name])
        add(even_s, order)
        add(fixed_s, blocks)
        orders.append(tuple(block.name for block in order))
    return tuple(orders) if blocks and max(even_s.values()) < max(fixed_s.values()) else ()


def _s_per_byte(graph: LinkGraph, block: Block, rows: Ints) -> float:
    """How long a gather keeps a dimension busy, a byte of what a rank ends with: by the ports that set the pace."""
    n = rows.shape[1]
    rate = float(graph.bandwidth_bytes_per_s[block.first_link : block.first_link + block.num_links].mean())
    ports = 2 if _shape(block, rows) == "two-way" and block.num_devices > 2 else 1  # at the ends of a line, one
    ports = n - 1 if block.kind == "fully-connected" else ports
    return float((n - 1) / n / rate / ports)
