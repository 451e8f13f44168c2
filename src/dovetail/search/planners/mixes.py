"""Which numbers of layers of each kind the stages of a pipeline can hold, where layers of several kinds lie in order.

Chunks take consecutive layers, one or more each, and a stage holds its chunks. Let c_k be the chunk with the last
layer of kind k. Then a chunk between c_(k-1) and c_k, the latter included, holds a layer of kind k or more; c_(k-1)
may hold some; and no other does. Every number of layers by stage and kind that keeps to this, and adds up, can be.

That goes for kinds each of which is in one place. Where kinds are interleaved, a stage of one chunk holds layers that
follow each other, and what those are is read off the model's layer pattern (`LayerOrder`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np

from dovetail.parallel.plan import Plan
from dovetail.workload.graph import BoolArray, Graph, IntArray, RunLengths


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageLayers:
    """Layers that a stage may hold, one choice a row: how many of each kind and, of interleaved kinds, from where on.

    `start` is the first position from which layers of these kinds follow each other in this order.
    """

    counts: IntArray  # rows by kinds
    start: IntArray

    def at(self, rows: BoolArray) -> StageLayers:
        return StageLayers(counts=self.counts[rows], start=self.start[rows])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerOrder:
    """Where layers of interleaved kinds lie: those before each position, and which stretches of them are alike."""

    before: IntArray  # positions by kinds
    first_alike: IntArray  # by position and length: where the first stretch of the same kinds in the same order begins

    @property
    def num_layers(self) -> int:
        return len(self.before) - 1

    def held(self, start: IntArray, count: IntArray) -> IntArray:
        """Layers of each kind among the `count` from `start` on, rows by kinds."""
        return np.asarray(self.before[start + count] - self.before[start])

    def stages(self, num_stages: int) -> list[StageLayers]:
        """What each stage can hold if all hold consecutive layers, one or more; stretches that are alike once."""
        found, most = [], self.num_layers
        for stage in range(num_stages):
            behind = num_stages - 1 - stage
            starts = np.arange(stage, most - behind) if stage else np.zeros(1, dtype=np.int64)
            ends = np.arange(stage + 1, most - behind + 1) if behind else np.array([most])
            start, end = (grid.ravel() for grid in np.meshgrid(starts, ends, indexing="ij"))
            start, count = start[end > start], (end - start)[end > start]
            start, count = np.unique(np.stack([self.first_alike[start, count], count]), axis=1)
            found.append(StageLayers(counts=self.held(start, count), start=start))
        return found


def layer_order(graph: Graph) -> LayerOrder:
    return _layer_order(graph.layer_runs)


@lru_cache(maxsize=16)
def _layer_order(runs: RunLengths) -> LayerOrder:
    kinds = np.repeat(*np.array(runs).T)
    num, num_kinds = len(kinds), int(kinds.max()) + 1
    before = np.zeros((num + 1, num_kinds), dtype=np.int64)
    before[np.arange(1, num + 1), kinds] = 1
    first_alike = np.zeros((num + 1, num + 1), dtype=np.int64)
    pattern_of = np.zeros(num + 1, dtype=np.int64)
    for length in range(1, num + 1):  # stretches are alike that were so without their last layer, if that is too
        longer = pattern_of[: num - length + 1] * num_kinds + kinds[length - 1 :]
        _, first, pattern_of = np.unique(longer, return_index=True, return_inverse=True)
        first_alike[: num - length + 1, length] = first[pattern_of]
    return LayerOrder(before=np.cumsum(before, axis=0), first_alike=first_alike)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pattern:
    """Where kinds end: `ends`, the chunk of each kind's last layer; and what that lets stages hold, stages by kinds."""

    ends: tuple[int, ...]
    fewest: IntArray
    may_hold: BoolArray


def kind_counts(graph: Graph) -> IntArray:
    """Layers of each kind, in the order of the model."""
    return np.array([block.repeat for block in graph.blocks if block.is_layer])


def chunk_homes(plan: Plan) -> IntArray:
    """The stage of each chunk, of plans that have every chunk once."""
    return np.array([stage for [stage] in plan.chunk_stages])


def patterns(plan: Plan, counts: IntArray) -> Iterator[Pattern]:
    """All that layers of so many of each kind allow."""
    homes = chunk_homes(plan)
    num_chunks, ends = len(homes), np.cumsum(counts)
    # layer i lies on chunk i at the latest, and leaves a layer for every chunk behind
    latest = np.minimum(ends - 1, num_chunks - 1)
    earliest = np.maximum(0, num_chunks - 1 - (ends[-1] - ends))
    for inner in combinations_with_replacement(range(num_chunks), len(counts) - 1):
        chosen = (*inner, num_chunks - 1)
        if all(first <= end <= last for first, end, last in zip(earliest, chosen, latest, strict=True)):
            yield from _pattern(chosen, homes, plan.pipeline_parallel, counts)


def _pattern(ends: tuple[int, ...], homes: IntArray, num_stages: int, counts: IntArray) -> Iterator[Pattern]:
    fewest = np.zeros((num_stages, len(ends)), dtype=np.int64)
    may_hold = np.zeros((num_stages, len(ends)), dtype=bool)
    begin = 0
    for kind, end in enumerate(ends):
        first = begin if kind == 0 else ends[kind - 1] + 1
        np.add.at(fewest[:, kind], homes[first : end + 1], 1)
        if first > end:  # all of them are on the chunk where the kind before ends
            fewest[homes[end], kind] = counts[kind]
        may_hold[homes[begin : end + 1], kind] = True
        begin = end
    if np.all(fewest.sum(axis=0) <= counts):
        yield Pattern(ends=ends, fewest=fewest, may_hold=may_hold)


def num_patterns_at_most(num_chunks: int, num_kinds: int) -> int:
    """Of which `patterns` keeps some."""
    found = 1
    for index in range(num_kinds - 1):
        found = found * (num_chunks + index) // (index + 1)
    return found


def holdable(plan: Plan, counts: IntArray) -> BoolArray:
    """Whether a stage may hold a layer of a kind at all, stages by kinds: true of some that no pattern has."""
    homes, ends = chunk_homes(plan), np.cumsum(counts)
    chunk = np.arange(len(homes))[:, None]
    may = (ends - 1 >= chunk) & (ends - counts <= ends[-1] - len(homes) + chunk)
    held = np.zeros((plan.pipeline_parallel, len(counts)), dtype=bool)
    np.logical_or.at(held, homes, may)
    return held


def layers_by_chunk(plan: Plan, counts: IntArray, held: IntArray) -> tuple[int, ...]:
    """Layers of each chunk so that stages hold `held`, stages by kinds, which some pattern must allow.

    Chunks of a stage are as equal as the order of kinds lets them be.
    """
    homes = chunk_homes(plan)
    for pattern in patterns(plan, counts):
        if np.all(held >= pattern.fewest) and np.all((held == 0) | pattern.may_hold):
            return _by_chunk(pattern, homes, held)
    raise AssertionError(f"no chunks of {plan} give {held.tolist()}")


def _by_chunk(pattern: Pattern, homes: IntArray, held: IntArray) -> tuple[int, ...]:
    lengths = np.zeros(len(homes), dtype=np.int64)
    begin = 0
    for kind, end in enumerate(pattern.ends):
        first = begin if kind == 0 else pattern.ends[kind - 1] + 1
        for stage in range(len(held)):
            left = int(held[stage, kind])
            must = [chunk for chunk in range(first, end + 1) if homes[chunk] == stage]
            may = [chunk for chunk in range(begin, end + 1) if homes[chunk] == stage]
            lengths[must] += 1
            for _ in range(left - len(must)):
                lengths[min(may, key=lambda chunk: lengths[chunk])] += 1
        begin = end
    return tuple(int(length) for length in lengths)
