"""Exact schedules, by layers of states and then by CP-SAT (OR-Tools): the best found within a limit, and a bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dovetail.errors import InvalidInput, NotModelled
from dovetail.opsched.compiled import compiled_loops, plain_loops
from dovetail.opsched.conflicts import wider_needs
from dovetail.opsched.fast import FULL, part_schedule
from dovetail.opsched.problem import CoreProblem, CoreSchedule
from dovetail.opsched.series import ancestors, by_parts
from dovetail.opsched.widening import Purse, is_close, widened

INSTALL = "install dovetail-codesign[mine]"
STATES_FRAC = 0.75  # of the time, for layers of states; CP-SAT gets what they leave
STATES_PER_S = 250_000  # looked at one way, compiled (half of what a 2.x GHz core does, so that a busy one keeps time)
PLAIN_STATES_PER_S = 1500  # and not
MOST_WORKERS = 64  # threads; more cores are rare, and CP-SAT itself refuses more than 10,000
ROUNDS = (0.2, 1.0)  # of the time that is left: most parts close at once, and the rest is for those that do not


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """When to stop: seconds of the clock, or a gap small enough. One worker repeats itself; more find other ways."""

    wall_s: float = 60.0
    gap_frac: float = 0.0
    num_workers: int = 1

    def __post_init__(self) -> None:
        if not self.wall_s > 0 or self.num_workers < 1 or not 0 <= self.gap_frac < 1:
            got = f"{self.wall_s:g} s, {self.num_workers} workers, a gap of {self.gap_frac:g}"
            raise InvalidInput(f"a limit needs time, a worker and a gap from 0 to below 1; got {got}")
        if self.num_workers > MOST_WORKERS:
            message = f"threads of an exact schedule are at most {MOST_WORKERS}; got {self.num_workers:,}"
            raise InvalidInput(f"{message}, and more than there are cores are no faster", "--workers")


MINUTE = Limit()


def exact_schedule(problem: CoreProblem, limit: Limit = MINUTE) -> CoreSchedule:
    """The best schedule found within `limit`, from the list schedule on, so never worse than it; and the bound."""
    return by_parts(problem, lambda parts: exact_parts(parts, limit))


def exact_parts(parts: Sequence[CoreProblem], limit: Limit) -> list[CoreSchedule]:
    """Every part by states as far as its share of the time goes; what is open still by CP-SAT."""
    first = [part_schedule(part, FULL) for part in parts]
    states_per_s = STATES_PER_S if compiled_loops() != plain_loops() else PLAIN_STATES_PER_S
    purse = Purse(num_left=int(limit.wall_s * STATES_FRAC * states_per_s), num_workers=limit.num_workers)
    num_states = purse.num_left
    found = widened(first, limit.gap_frac, purse)
    used_s = (num_states - purse.num_left) / states_per_s
    return solved_parts(found, replace(limit, wall_s=limit.wall_s - min(used_s, limit.wall_s * STATES_FRAC)))


def solved_parts(first: Sequence[CoreSchedule], limit: Limit) -> list[CoreSchedule]:
    """Every part in two rounds, those with the least to gain first: a few seconds each, then what the others left."""
    found = list(first)
    left_s = limit.wall_s
    for round_frac in ROUNDS:
        open_beats = [part.makespan_beats - part.bound_beats for part in found]
        order = sorted((index for index, beats in enumerate(open_beats) if beats), key=lambda index: open_beats[index])
        round_s = left_s * round_frac
        for place, index in enumerate(order):
            if round_s <= 0 or is_close(found, limit.gap_frac):
                break
            share_s = round_s * open_beats[index] / sum(open_beats[later] for later in order[place:])
            found[index], took_s = _improved(found[index], replace(limit, wall_s=share_s))
            round_s, left_s = round_s - took_s, left_s - took_s
    return found


def _improved(first: CoreSchedule, limit: Limit) -> tuple[CoreSchedule, float]:
    """`first` or better, with the better bound, and how long that took."""
    program = lowered(first.problem, first)
    solver = _solver(limit)
    status = solver.status_name(solver.solve(program.model))
    assert status not in ("INFEASIBLE", "MODEL_INVALID"), f"{status}: the list schedule was a solution"
    bound = max(first.bound_beats, min(int(np.ceil(solver.best_objective_bound - 0.5)), first.makespan_beats))
    found = lifted(first.problem, program, solver) if status in ("OPTIMAL", "FEASIBLE") else first
    better = found if found.makespan_beats < first.makespan_beats else first
    return replace(better, bound_beats=bound), float(solver.wall_time)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """The model with the variables a schedule is read from."""

    model: Any
    start: tuple[Any, ...]
    is_mode: tuple[Any, ...]


def lowered(problem: CoreProblem, first: CoreSchedule) -> Program:
    """Start times, a choice of mode each, precedence, and what each resource holds; `first` is where to begin."""
    model = _cp_model().CpModel()
    horizon, lower_bound = first.makespan_beats, first.bound_beats
    modes, num = problem.modes, len(problem)
    makespan = model.new_int_var(lower_bound, horizon, "makespan")
    start = [model.new_int_var(0, horizon, f"start{i}") for i in range(num)]
    is_mode: list[Any] = []
    end: list[Any] = []
    for i in range(num):
        modes_of_operator = range(int(modes.start[i]), int(modes.start[i + 1]))
        chosen = (
            [model.new_bool_var(f"mode{m}") for m in modes_of_operator]
            if len(modes_of_operator) > 1
            else [model.new_constant(1)]
        )
        model.add_exactly_one(chosen)
        is_mode.extend(chosen)
        end.append(start[i] + sum(int(modes.beats[m]) * lit for m, lit in zip(modes_of_operator, chosen, strict=True)))
        model.add(end[i] <= makespan)
        model.add_hint(start[i], int(first.start_beats[i]))
        for m, lit in zip(modes_of_operator, chosen, strict=True):
            if len(modes_of_operator) > 1:
                model.add_hint(lit, int(first.mode[i]) == m)
    for source, target in zip(*(column.tolist() for column in problem.edges), strict=True):
        model.add(end[source] <= start[target])
    _add_resources(model, problem, start, end, is_mode, makespan)
    model.add_hint(makespan, horizon)
    model.minimize(makespan)
    return Program(model=model, start=tuple(start), is_mode=tuple(is_mode))


def _add_resources(
    model: Any, problem: CoreProblem, start: list[Any], end: list[Any], is_mode: list[Any], makespan: Any
) -> None:
    """No moment holds more of anything than there is; nor does the whole, which the solver bounds by."""
    modes = problem.modes
    owner = np.repeat(np.arange(len(problem)), np.diff(modes.start))
    intervals = [
        model.new_optional_fixed_size_interval_var(start[owner[m]], int(modes.beats[m]), lit, f"run{m}")
        for m, lit in enumerate(is_mode)
    ]
    needs_of, sizes = wider_needs(problem)
    before = ancestors(problem.dag)
    for what, whole in enumerate(sizes.tolist()):
        users = np.flatnonzero((needs_of[:, what] > 0) & (modes.beats > 0)).tolist()
        needs = [int(needs_of[m, what]) for m in users]
        if sum(needs) > whole:
            model.add_cumulative([intervals[m] for m in users], needs, whole)
            work = [(int(owner[m]), int(modes.beats[m] * needs_of[m, what]) * is_mode[m]) for m in users]
            _add_work(model, before, start, end, work, whole, makespan)


def _add_work(
    model: Any,
    before: list[int],
    start: list[Any],
    end: list[Any],
    work: list[tuple[int, Any]],
    whole: int,
    makespan: Any,
) -> None:
    """What must happen before an operator, after it, and in all, takes as long as its work over `whole` at least."""
    model.add(sum(part for _, part in work) <= whole * makespan)
    for i in range(len(start)):
        ahead = [part for owner, part in work if before[i] >> owner & 1]
        behind = [part for owner, part in work if before[owner] >> i & 1]
        if len(ahead) > 1:
            model.add(sum(ahead) <= whole * start[i])
        if len(behind) > 1:
            model.add(sum(behind) <= whole * (makespan - end[i]))


def lifted(problem: CoreProblem, program: Program, solver: Any) -> CoreSchedule:
    """The schedule that a solution says."""
    start = np.array([solver.value(variable) for variable in program.start], dtype=np.int64)
    is_mode = np.array([bool(solver.value(variable)) for variable in program.is_mode])
    return CoreSchedule(problem=problem, start_beats=start, mode=np.flatnonzero(is_mode), bound_beats=0)


def _solver(limit: Limit) -> Any:
    solver = _cp_model().CpSolver()
    solver.parameters.max_time_in_seconds = limit.wall_s
    solver.parameters.relative_gap_limit = limit.gap_frac
    solver.parameters.num_workers = limit.num_workers
    solver.parameters.random_seed = 1
    return solver


def _cp_model() -> Any:
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise NotModelled(f"exact schedules need OR-Tools, which is not installed; {INSTALL}") from None
    return cp_model
