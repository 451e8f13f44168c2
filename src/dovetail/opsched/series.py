"""Graphs cut where all that came before must end before anything that follows: parts are scheduled one by one.

A forward pass is mostly such cuts. The best schedule of the whole is the best of each part, one after another, and so
are the bounds; nothing is lost, and parts are smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from dovetail.opsched.problem import NO_TENSORS, CoreProblem, CoreSchedule, Dag, Modes, dag_of
from dovetail.workload.graph import IntArray

MOST_OPERATORS = 3000  # whose ancestors are tracked; larger graphs are one part


def pools_of(dag: Dag) -> tuple[IntArray, ...]:
    """Operators of each part, the parts in order."""
    num = len(dag.order)
    if num == 0 or num > MOST_OPERATORS:
        return (np.arange(num),) if num else ()
    before = ancestors(dag)
    order = sorted(dag.order.tolist(), key=lambda i: before[i].bit_count())  # stable: still topological
    common = [0] * (num + 1)  # ancestors that all operators from a place on share
    common[num] = (1 << num) - 1
    for place in range(num - 1, -1, -1):
        common[place] = common[place + 1] & before[order[place]]
    cuts, seen = [0], 0
    for place in range(num):
        if place and seen & common[place] == seen:
            cuts.append(place)
        seen |= 1 << order[place]
    return tuple(np.array(order[low:high]) for low, high in zip(cuts, [*cuts[1:], num], strict=True))


def ancestors(dag: Dag) -> list[int]:
    """Of each operator, all that must end before it, as bits."""
    before = [0] * len(dag.order)
    starts, sources = dag.back_start.tolist(), dag.back_to.tolist()
    for i in dag.order.tolist():
        for source in sources[starts[i] : starts[i + 1]]:
            before[i] |= before[source] | (1 << source)
    return before


def part_problem(problem: CoreProblem, operators: IntArray) -> CoreProblem:
    """The problem of some operators alone, in the order given."""
    place = np.full(len(problem), -1, np.int64)
    place[operators] = np.arange(len(operators))
    sources, targets = (place[column] for column in problem.edges)
    is_inside = (sources >= 0) & (targets >= 0)
    counts = np.diff(problem.modes.start)[operators]
    rows = np.concatenate([np.arange(problem.modes.start[i], problem.modes.start[i + 1]) for i in operators])
    start = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    modes = problem.modes
    return replace(
        problem,
        names=tuple(problem.names[i] for i in operators),
        dag=dag_of(len(operators), sources[is_inside], targets[is_inside]),
        modes=Modes(start, modes.beats[rows], modes.need[rows], modes.share_beats[rows]),
        tensors=NO_TENSORS,
    )


def by_parts(problem: CoreProblem, solve: Callable[[Sequence[CoreProblem]], Sequence[CoreSchedule]]) -> CoreSchedule:
    """The schedule of the whole from schedules of its parts, one behind the other."""
    parts = pools_of(problem.dag)
    if len(parts) == 1:
        return solve([problem])[0]
    found = solve([part_problem(problem, part) for part in parts])
    start, mode = np.zeros(len(problem), np.int64), np.zeros(len(problem), np.int64)
    now = bound = 0
    for operators, part in zip(parts, found, strict=True):
        start[operators] = now + part.start_beats
        mode[operators] = problem.modes.start[operators] + part.mode - part.problem.modes.start[:-1]
        now += part.makespan_beats
        bound += part.bound_beats
    return CoreSchedule(problem=problem, start_beats=start, mode=mode, bound_beats=bound)
