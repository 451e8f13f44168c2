"""Which of many systems others are better than: figures in columns, less is better, equal ones by who comes first."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.workload.graph import BoolArray, IntArray

Figures = NDArray[np.float32]  # axes by systems
CELLS = 2**21  # of the table that most systems are looked up in; 8 MB
SYSTEM_BATCH = 200_000  # looked up together
CHUNK = 512
PAIRS_AT_ONCE = 2**22  # compared together; 4 MB for each axis


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranked:
    """Systems by number, which says who comes first, with their figures."""

    number: IntArray
    figures: Figures

    def __len__(self) -> int:
        return len(self.number)

    def at(self, rows: IntArray | BoolArray) -> Ranked:
        return Ranked(number=self.number[rows], figures=self.figures[:, rows])

    def with_others(self, others: Ranked) -> Ranked:
        return Ranked(
            number=np.concatenate([self.number, others.number]),
            figures=np.concatenate([self.figures, others.figures], axis=1),
        )


def no_systems(num_axes: int) -> Ranked:
    return Ranked(number=np.zeros(0, dtype=np.int64), figures=np.zeros((num_axes, 0), dtype=np.float32))


def beaten(systems: Ranked, by: Ranked) -> BoolArray:
    """Which of `systems` some of `by` is before: no worse on any axis, and better on one or first of equal ones."""
    found = np.zeros(len(systems), dtype=bool)
    if not len(by):
        return found
    at_once = max(1, PAIRS_AT_ONCE // len(by))
    for start in range(0, len(systems), at_once):
        batch = slice(start, start + at_once)
        found[batch] = _some_beaten(systems.figures[:, batch], systems.number[batch], by)
    return found


def _some_beaten(figures: Figures, number: IntArray, by: Ranked) -> BoolArray:
    no_worse = by.figures[0][None] <= figures[0][:, None]
    for figure, figure_of_others in zip(figures[1:], by.figures[1:], strict=True):
        no_worse &= figure_of_others[None] <= figure[:, None]
    first = no_worse.argmax(axis=1)
    row = np.flatnonzero(no_worse[np.arange(len(first)), first])
    found = np.zeros(len(number), dtype=bool)
    found[row] = _is_before(by, first[row], figures, number, row)
    rest = row[~found[row]]  # equal to the first that is no worse, such as itself
    place, other = np.nonzero(no_worse[rest])
    found[rest[place[_is_before(by, other, figures, number, rest[place])]]] = True
    return found


def _is_before(by: Ranked, other: IntArray, figures: Figures, number: IntArray, row: IntArray) -> BoolArray:
    """Of pairs of which the one is no worse on any axis: whether it is better on one, or first of equal ones."""
    is_better = (by.figures[:, other] < figures[:, row]).any(axis=0)
    return np.asarray(is_better | (by.number[other] < number[row]))


def sorted_rows(systems: Ranked) -> IntArray:
    """An order in which whatever beats a system comes before it."""
    return np.lexsort((systems.number, *systems.figures[::-1]))


def open_to(systems: Ranked, front: Ranked) -> BoolArray:
    """Which of `systems`, in order, nothing of a front beats."""
    found = np.ones(len(systems), dtype=bool)
    for start in range(0, len(systems), SYSTEM_BATCH):
        batch = np.arange(start, min(start + SYSTEM_BATCH, len(systems)))
        found[batch] = _some_open(systems.at(batch), front)
    return found


def front_of(systems: Ranked) -> BoolArray:
    """Which of `systems`, in order, no other of them beats."""
    found = np.zeros(len(systems), dtype=bool)
    front, start, at_once = systems.at(np.zeros(0, dtype=np.int64)), 0, CHUNK
    while start < len(systems):
        batch = np.arange(start, min(start + at_once, len(systems)))
        start, at_once = start + len(batch), min(2 * at_once, SYSTEM_BATCH)
        batch = batch[_some_open(systems.at(batch), front)]
        for first in range(0, len(batch), CHUNK):
            few = systems.at(batch[first : first + CHUNK])
            few = few.at(~beaten(few, front))
            few = few.at(~beaten(few, few))
            front = front.with_others(few)
        found[batch] = np.isin(systems.number[batch], front.number, assume_unique=True)
    return found


def _some_open(systems: Ranked, front: Ranked) -> BoolArray:
    """Most are settled by a table: what those ahead of all on the first axis come to in cells of the others."""
    is_open = np.ones(len(systems), dtype=bool)
    if not len(systems) or not len(front):
        return is_open
    ahead = front.at(front.figures[0] < systems.figures[0, 0])
    if len(ahead):
        is_open = ~_surely_beaten(systems.figures[1:], ahead.figures[1:])
    rows = np.flatnonzero(is_open)
    is_open[rows] = ~beaten(systems.at(rows), front.at(front.figures[0] <= systems.figures[0, -1]))
    return is_open


def _surely_beaten(figures: Figures, ahead: Figures) -> BoolArray:
    """Where some system ahead is no worse on any of these axes, as far as cells of all but the last tell."""
    num_axes = len(ahead) - 1
    if not num_axes:
        return np.asarray(ahead[0].min() <= figures[0])
    edges = [_edges(column, num_axes) for column in ahead[:-1]]
    table = np.full([len(axis_edges) for axis_edges in edges], np.inf, dtype=np.float32)
    cells = tuple(
        np.searchsorted(axis_edges, column, side="left") for axis_edges, column in zip(edges, ahead, strict=False)
    )
    np.minimum.at(table, cells, ahead[-1])
    for axis in range(num_axes):
        np.minimum.accumulate(table, axis=axis, out=table)
    places = [
        np.searchsorted(axis_edges, column, side="right") - 1
        for axis_edges, column in zip(edges, figures, strict=False)
    ]
    is_inside = np.ones(figures.shape[1], dtype=bool)
    for place in places:
        is_inside &= place >= 0
    return np.asarray(is_inside & (table[tuple(places)] <= figures[-1]))


def _edges(column: Figures, num_axes: int) -> Figures:
    """Some values of a column, from small to large and with the largest, so that cells of all axes are few enough."""
    values = np.unique(column)
    most = math.floor(CELLS ** (1 / num_axes))
    step = max(1, math.ceil(len(values) / most))
    return np.asarray(values[::-1][::step][::-1])
