"""Schedules in a hurry: the best of several list schedules, tightened, then a short search of its neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.opsched.compiled import compiled_loops
from dovetail.opsched.conflicts import wider_needs
from dovetail.opsched.loops import Timeline
from dovetail.opsched.problem import RESOURCES, CoreProblem, CoreSchedule, reversed_dag
from dovetail.opsched.series import by_parts

FIXED, DYNAMIC = 0, 1
MOST_LOOKS = 400_000  # at ready operators, if as many are passed over whenever one ends: half a second
# (weight of area in the choice of modes, of NUM_WEIGHTS; modes kept, or the shortest that fits when its turn comes)
RULES = ((0, FIXED), (2, FIXED), (4, FIXED), (6, FIXED), (8, FIXED), (0, DYNAMIC), (6, DYNAMIC), (8, DYNAMIC))
QUICK_RULES = ((4, FIXED), (0, DYNAMIC))  # together within 0.2 % of all of RULES on 400 chips, on average


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long to look: rules tried, ready operators looked past, and neighbours tried for each operator."""

    rules: tuple[tuple[int, int], ...] = RULES
    others: tuple[tuple[int, int], ...] = ((8, FIXED), (6, FIXED))  # searched from too: wide modes end in other valleys
    width: int = 32
    tries_per_operator: int = 150  # from each start
    most_tries: int = 20_000
    most_tightened: int = 2000  # operators; above, one list schedule after another is all there is time for
    most_square: int = 40  # operators whose bound looks at all windows
    most_windows: int = 200  # and at windows from the start or to the end; above, at the whole only


FULL = Effort()
QUICK = Effort(rules=QUICK_RULES, others=(), tries_per_operator=0, most_tightened=0, most_square=0, most_windows=0)


def list_schedule(problem: CoreProblem, effort: Effort = FULL) -> CoreSchedule:
    """A good schedule, and a bound on the best; the same for the same problem, wherever it runs."""
    return by_parts(problem, lambda parts: [part_schedule(part, effort) for part in parts])


def part_schedule(problem: CoreProblem, effort: Effort) -> CoreSchedule:
    """The schedule of a graph that cannot be cut in parts, or is not worth it."""
    needs, sizes = wider_needs(problem)
    dag, back = problem.dag, reversed_dag(problem.dag)
    modes = problem.modes._replace(need=needs)
    bound = compiled_loops().lower_bound(dag, back, modes, sizes, effort.most_square, effort.most_windows)
    best = _searched(problem, effort, effort.rules, int(bound))
    for rule in effort.others if len(problem) <= effort.most_tightened else ():
        if best.makespan_beats > bound:
            best = min(best, _searched(problem, effort, (rule,), int(bound)), key=lambda found: found.makespan_beats)
    return best


def _searched(problem: CoreProblem, effort: Effort, rules: tuple[tuple[int, int], ...], bound: int) -> CoreSchedule:
    """The best list schedule by `rules`, tightened, and its neighbours searched."""
    loops, num = compiled_loops(), len(problem)
    dag, back, modes, stock = problem.dag, reversed_dag(problem.dag), problem.modes, problem.stock
    start, mode = np.zeros(num, np.int64), np.zeros(num, np.int64)
    width = min(effort.width, max(MOST_LOOKS // max(num, 1), 1))
    makespan = loops.best_rule(dag, modes, stock, np.array(rules, dtype=np.int64), width, start, mode)
    if num <= effort.most_tightened and makespan > bound:
        line = Timeline(np.empty(2 * num + 2, np.int64), np.empty((2 * num + 2, len(RESOURCES)), np.int64))
        makespan = loops.tightened(dag, back, modes, stock, line, start, mode, makespan)
        num_tries = min(effort.tries_per_operator * num, effort.most_tries)
        makespan = loops.searched(dag, modes, stock, line, num_tries, bound, start, mode, makespan)
        loops.tightened(dag, back, modes, stock, line, start, mode, makespan)
    return CoreSchedule(problem=problem, start_beats=start, mode=mode, bound_beats=bound)
