"""Schedules grown start by start, many side by side: best found, and what those left out cannot beat.

States with as many operators started form a layer, and every layer grows from the one before. States that another makes
useless go, and so do those whose bound is not below what is sought; where more are left than a layer may hold, the
worst go too, and the least of their bounds is what is proven. See docs/model/scheduling.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.opsched.compiled import compiled_loops
from dovetail.opsched.conflicts import wider_needs
from dovetail.opsched.frontier_loops import (
    BOUND,
    LEAST_LEFT,
    MODE,
    NEVER,
    NOW,
    NUM_LOOKED,
    NUM_WORD_BITS,
    NUM_WORDS,
    OPERATOR,
    PARENT,
    PER_RUNNING,
    RUNNING_FROM,
    SCORE,
    STARTED,
    Table,
)
from dovetail.opsched.prices import prizes_of
from dovetail.opsched.problem import TENSOR, VECTOR, CoreProblem, CoreSchedule, reversed_dag
from dovetail.opsched.series import ancestors
from dovetail.workload.graph import IntArray

MOST_STARTED = NUM_WORD_BITS * NUM_WORDS
MOST_RUNNING = 32  # at once; a state of more is left out
MOST_FOUND = 2**16  # rows grown in one call
LATE = (0.0, 0.3, 0.6)  # of operators by when they can start: those behind have prizes of their own
LEAST_SHARE = 0.5  # of the longest bound: resources whose work comes to less are not looked at


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """A problem as a table, and which of its operators and modes the table's are; `is_back` where time runs back."""

    problem: CoreProblem
    table: Table
    operators: IntArray
    modes: IntArray
    is_back: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Explored:
    """What a search came to: the shortest schedule it met below its limit, if any; and what none can beat."""

    schedules: tuple[CoreSchedule, ...]
    bound_beats: int
    num_looked: int


def can_explore(problem: CoreProblem) -> bool:
    """Whether operators of some time are few enough for the bits of a state."""
    shortest = problem.modes.beats[problem.modes.start[:-1]]
    return 0 < int((shortest > 0).sum()) <= MOST_STARTED


def layout_of(problem: CoreProblem, is_back: bool) -> Layout:
    """Operators of some time, in an order that respects who waits for whom; those of none wait at the border."""
    dag = reversed_dag(problem.dag) if is_back else problem.dag
    shortest = problem.modes.beats[problem.modes.start[:-1]]
    operators = np.array([i for i in dag.order.tolist() if shortest[i] > 0], dtype=np.int64)
    counts = np.diff(problem.modes.start)[operators]
    start = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    first = np.repeat(problem.modes.start[operators] - start[:-1], counts)
    modes = first + np.arange(len(first))
    before = ancestors(dag)
    waits = [[place for place, j in enumerate(operators.tolist()) if before[i] >> j & 1] for i in operators.tolist()]
    table = _table(problem, operators, start, modes, waits)
    return Layout(problem=problem, table=table, operators=operators, modes=modes, is_back=is_back)


def _columns(problem: CoreProblem, operators: IntArray, waits: list[list[int]]) -> tuple[IntArray, IntArray]:
    """Needs of the problem, of conflicts, and of prizes: of all operators, and of those that come late."""
    wide, stocks = wider_needs(problem)
    shortest = problem.modes.beats[problem.modes.start[operators]]
    head = np.zeros(len(operators), np.int64)
    for place, waited_for in enumerate(waits):
        head[place] = max((int(head[other] + shortest[other]) for other in waited_for), default=0)
    groups = [operators[head >= np.quantile(head, part)].tolist() for part in LATE]
    prices, most = prizes_of(problem, groups)
    return np.concatenate((wide, prices), axis=1), np.concatenate((stocks, most))


def _table(
    problem: CoreProblem, operators: IntArray, start: IntArray, modes: IntArray, waits: list[list[int]]
) -> Table:
    beats = problem.modes.beats[modes]
    wide, stocks = _columns(problem, operators, waits)
    wide = wide[modes]
    work = np.minimum.reduceat(beats[:, None] * wide, start[:-1], axis=0)
    lasts = work.sum(axis=0) / np.maximum(stocks, 1)
    columns = np.flatnonzero((stocks > 0) & (lasts >= LEAST_SHARE * lasts.max()))
    wide, stocks, work = (np.ascontiguousarray(array[..., columns]) for array in (wide, stocks, work))
    shortest = beats[start[:-1]]
    words = np.zeros((len(waits), NUM_WORDS), np.int64)
    for place, waited_for in enumerate(waits):
        for other in waited_for:
            words[place, other // NUM_WORD_BITS] |= 1 << (other % NUM_WORD_BITS)
    tail = tails_of(waits, shortest, work, stocks)
    by_tail = np.argsort(-tail, kind="stable")
    need = np.ascontiguousarray(problem.modes.need[modes])
    return Table(start, beats, need, wide, problem.stock, stocks, words, tail, by_tail, shortest.copy(), work)


def tails_of(waits: list[list[int]], shortest: IntArray, work: IntArray, stocks: IntArray) -> IntArray:
    """What must follow each operator: paths, and the work of all that wait for it before the least of their tails."""
    num = len(waits)
    after: list[list[int]] = [[] for _ in range(num)]
    for place, waited_for in enumerate(waits):
        for other in waited_for:
            after[other].append(place)
    tail = np.zeros(num, np.int64)
    for place in range(num - 1, -1, -1):
        if after[place]:
            behind = np.array(after[place])
            behind = behind[np.argsort(-tail[behind], kind="stable")]
            lasts = (-(-np.cumsum(work[behind], axis=0) // stocks)).max(axis=1)
            tail[place] = max(int((lasts + tail[behind]).max()), int((shortest[behind] + tail[behind]).max()))
    return tail


def explored(layout: Layout, limit: int, width: int, most_looked: int) -> Explored:
    """A schedule shorter than `limit`, if one is met, by layers of up to `width` states; and what is proven.

    Ends early once `most_looked` states were looked at, with what the layer it stands at proves.
    """
    table, num = layout.table, len(layout.operators)
    most_running = int(min(num, MOST_RUNNING, layout.problem.stock[[TENSOR, VECTOR]].sum() + _num_coreless(layout)))
    rows = np.zeros((1, RUNNING_FROM + PER_RUNNING * most_running), np.int64)
    counters = np.array([NEVER, 0], dtype=np.int64)
    steps: list[IntArray] = []
    for _ in range(num):
        if counters[NUM_LOOKED] >= most_looked:
            bound = min(int(counters[LEAST_LEFT]), int(rows[:, BOUND].min()))
            return Explored(schedules=(), bound_beats=bound, num_looked=int(counters[NUM_LOOKED]))
        rows = _next_layer(rows, table, limit, width, counters)
        if not len(rows):
            return Explored(schedules=(), bound_beats=int(counters[LEAST_LEFT]), num_looked=int(counters[NUM_LOOKED]))
        steps.append(rows[:, [PARENT, OPERATOR, MODE, NOW]])
    best = int(rows[:, RUNNING_FROM + 1].argmin())
    found = _relaxed(layout, steps, best)
    bound = min(int(counters[LEAST_LEFT]), found.makespan_beats)
    return Explored(schedules=(found,), bound_beats=bound, num_looked=int(counters[NUM_LOOKED]))


def _num_coreless(layout: Layout) -> int:
    return int((layout.table.need[:, [TENSOR, VECTOR]].sum(axis=1) == 0).sum())


def _next_layer(rows: IntArray, table: Table, limit: int, width: int, counters: IntArray) -> IntArray:
    """States one start further, the best `width` of them."""
    grow = compiled_loops().grow
    step = max(MOST_FOUND // len(table.beats), 1)
    found = np.empty((min(step, len(rows)) * len(table.beats), rows.shape[1]), np.int64)
    kept, num_kept = [rows[:0]], 0
    for first in range(0, len(rows), step):
        num = grow(rows, first, min(first + step, len(rows)), table, limit, found, counters)
        kept.append(found[:num].copy())
        num_kept += num
        if num_kept > 4 * width + MOST_FOUND:  # not more at once than memory likes
            kept = [_best(np.concatenate(kept), table, width, counters)]
            num_kept = len(kept[0])
    return _best(np.concatenate(kept), table, width, counters)


def _best(rows: IntArray, table: Table, width: int, counters: IntArray) -> IntArray:
    """The states that no other makes useless, at most `width`; `counters` get the least bound of the rest."""
    order = np.lexsort((rows[:, BOUND], rows[:, NOW], *(rows[:, STARTED + word] for word in range(NUM_WORDS))))
    is_kept = np.zeros(len(rows), np.int64)
    compiled_loops().mark_best(rows, order, table.need, is_kept)
    kept: IntArray = rows[is_kept == 1]
    if len(kept) > width:
        place = np.argsort(kept[:, SCORE], kind="stable")
        counters[LEAST_LEFT] = min(counters[LEAST_LEFT], kept[place[width:], BOUND].min())
        kept = kept[np.sort(place[:width])]
    return kept


def _relaxed(layout: Layout, steps: list[IntArray], last: int) -> CoreSchedule:
    """The schedule that a state of the last layer stands for; operators of no time run when their inputs are there."""
    problem, beats = layout.problem, layout.problem.modes.beats
    mode = problem.modes.start[:-1].copy()
    end, makespan = np.zeros(len(problem), np.int64), 0
    for step in reversed(steps):
        last, place, mode_index, now = (int(value) for value in step[last])
        i = int(layout.operators[place])
        mode[i] = layout.modes[mode_index]
        end[i] = now + beats[mode[i]]
        makespan = max(makespan, int(end[i]))
    start = makespan - end if layout.is_back else end - beats[mode]
    dag = problem.dag
    for i in dag.order.tolist():
        if beats[mode[i]] == 0:
            inputs = dag.back_to[dag.back_start[i] : dag.back_start[i + 1]]
            start[i] = max((int(start[j] + beats[mode[j]]) for j in inputs), default=0)
    return CoreSchedule(problem=problem, start_beats=start, mode=mode, bound_beats=0)


def merged(first: CoreSchedule, found: Explored) -> CoreSchedule:
    """The shorter schedule with the better bound."""
    best = min((first, *found.schedules), key=lambda schedule: schedule.makespan_beats)
    return replace(best, bound_beats=min(max(first.bound_beats, found.bound_beats), best.makespan_beats))
