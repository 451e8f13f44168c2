"""Which numbers of layers of each kind the stages of a pipeline can hold, where layers of several kinds lie in order.

Chunks take consecutive layers, one or more each, and a stage holds its chunks. Let c_k be the chunk with the last
layer of kind k. Then a chunk between c_(k-1) and c_k, the latter included, holds a layer of kind k or more; c_(k-1)
may hold some; and no other does. Every number of layers by stage and kind that keeps to this, and adds up, can be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from dovetail.parallel.plan import Plan
from dovetail.workload.graph import BoolArray, Graph, IntArray


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
        if all(low <= end <= high for low, end, high in zip(earliest, chosen, latest, strict=True)):
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
