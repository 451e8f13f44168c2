"""PHAZE's own program for a layer on a chip, solved by HiGHS, to compare with: one core or all cores, nothing between.

Operators are ordered in pairs, without a clock: x[i, j] = 1 when i ends before j starts. An operator runs on one core
of its kind (z says which), or on all of them (y = 1) and then beside nothing. There is no bandwidth in it, so it is
only used for problems without (`without_bandwidth`). Rows grow with the cube of operators: for small graphs only.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from dovetail.errors import InvalidInput, NotModelled
from dovetail.opsched.exact import INSTALL
from dovetail.opsched.fast import QUICK, list_schedule
from dovetail.opsched.problem import TENSOR, VECTOR, CoreProblem, CoreSchedule, modes_of
from dovetail.opsched.series import ancestors
from dovetail.workload.graph import BoolArray, FloatArray, IntArray

INFINITY = float("inf")
MOST_OPERATORS = 40  # above, its program has tens of thousands of rows and HiGHS finds nothing in minutes


@dataclass(slots=True)
class Rows:
    """A linear program as it is written down: columns with bounds, rows as lower <= sum <= upper."""

    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    is_whole: list[bool] = field(default_factory=list)
    row_low: list[float] = field(default_factory=list)
    row_high: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    columns: list[int] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)

    def column(self, lower: float, upper: float, is_whole: bool = False) -> int:
        self.lower.append(lower)
        self.upper.append(upper)
        self.is_whole.append(is_whole)
        return len(self.lower) - 1

    def row(self, low: float, high: float, *terms: tuple[int, float]) -> None:
        merged: dict[int, float] = {}
        for column, factor in terms:
            merged[column] = merged.get(column, 0.0) + factor
        self.row_low.append(low)
        self.row_high.append(high)
        self.columns.extend(merged)
        self.factors.extend(merged.values())
        self.starts.append(len(self.columns))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Key:
    """Where the columns of a program stand."""

    start: list[int]
    is_spread: list[int]
    comes_before: dict[tuple[int, int], int]


def without_bandwidth(problem: CoreProblem) -> CoreProblem:
    """The same operators and cores, where memory is no matter."""
    need = problem.modes.need.copy()
    need[:, [what for what in range(need.shape[1]) if what not in (TENSOR, VECTOR)]] = 0
    counts = np.diff(problem.modes.start)
    return replace(problem, modes=modes_of(counts, problem.modes.beats, need, problem.stock))


def phaze_schedule(problem: CoreProblem, wall_s: float = 60.0) -> CoreSchedule:
    """The best that PHAZE's program allows, as far as HiGHS gets within the limit; the bound is the problem's."""
    modes = problem.modes
    if bool((modes.need[:, 2:] > 0).any()):
        raise InvalidInput("PHAZE's program knows no bandwidth; ask it about the problem without_bandwidth")
    if len(problem) > MOST_OPERATORS:
        raise InvalidInput(f"PHAZE's program is for {MOST_OPERATORS} operators at most; got {len(problem)}")
    rows, key = lowered(problem)
    values = solved(rows, wall_s)
    return lifted(problem, key, values)


def phaze_modes(problem: CoreProblem) -> tuple[IntArray, IntArray, BoolArray]:
    """Of each operator the mode on one core, its fastest, and whether the former is on one core (of a kind) indeed."""
    modes = problem.modes
    cores = modes.need[:, [TENSOR, VECTOR]]
    spans = [slice(int(a), int(b)) for a, b in pairwise(modes.start)]
    single = np.array([span.start + int(cores[span].sum(axis=1).argmin()) for span in spans], dtype=np.int64)
    return single, modes.start[:-1].copy(), np.asarray(cores[single].max(axis=1) <= 1)


def lowered(problem: CoreProblem) -> tuple[Rows, Key]:
    """The program, its makespan in column 0, and where to read a schedule."""
    single, spread, is_single = phaze_modes(problem)
    one, whole = problem.modes.beats[single].astype(float), problem.modes.beats[spread].astype(float)
    horizon, num = float(whole.sum()), len(problem)
    rows = Rows()
    rows.column(0.0, horizon)
    start = [rows.column(0.0, horizon) for _ in range(num)]
    is_spread = [rows.column(float(not can), 1.0, is_whole=True) for can in is_single.tolist()]
    before = ancestors(problem.dag)
    pairs = [(i, j) for i in range(num) for j in range(num) if i != j]
    free = [(i, j) for i, j in pairs if not (before[i] >> j & 1 or before[j] >> i & 1)]
    comes_before = {pair: rows.column(0.0, 1.0, is_whole=True) for pair in free}
    for i in range(num):
        rows.row(-INFINITY, -one[i], (start[i], 1.0), (is_spread[i], whole[i] - one[i]), (0, -1.0))
    for i, j in pairs:
        ends = ((start[i], 1.0), (is_spread[i], whole[i] - one[i]), (start[j], -1.0))
        if before[j] >> i & 1:
            rows.row(-INFINITY, -one[i], *ends)
        elif (i, j) in comes_before:
            rows.row(-INFINITY, horizon - one[i], *ends, (comes_before[i, j], horizon))
            either = ((comes_before[i, j], 1.0), (comes_before[j, i], 1.0))
            rows.row(0.0, 1.0, *either)
            rows.row(0.0, INFINITY, *either, (is_spread[i], -1.0))
    _add_cores(rows, problem, single, is_spread, comes_before)
    _add_transitivity(rows, before, comes_before)
    return rows, Key(start=start, is_spread=is_spread, comes_before=comes_before)


def _add_cores(
    rows: Rows, problem: CoreProblem, single: IntArray, is_spread: list[int], comes_before: dict[tuple[int, int], int]
) -> None:
    """One core of each kind it needs, or all; two operators of one core are ordered."""
    for kind in (TENSOR, VECTOR):
        users = np.flatnonzero(problem.modes.need[single, kind] > 0).tolist()
        cores = range(int(problem.stock[kind]))
        on_core = {(i, core): rows.column(0.0, 1.0, is_whole=True) for i in users for core in cores}
        for i in users:
            rows.row(1.0, 1.0, (is_spread[i], 1.0), *((on_core[i, core], 1.0) for core in cores))
        for i, j in comes_before:
            if i < j and i in users and j in users:
                either = ((comes_before[i, j], 1.0), (comes_before[j, i], 1.0))
                for core in cores:
                    rows.row(-1.0, INFINITY, *either, (on_core[i, core], -1.0), (on_core[j, core], -1.0))


def _add_transitivity(rows: Rows, before: list[int], comes_before: dict[tuple[int, int], int]) -> None:
    """Who ends before one that ends before a third ends before it."""
    num = len(before)
    for (i, j), column in comes_before.items():
        for k in range(num):
            if k in (i, j) or before[j] >> k & 1:
                continue
            is_after = bool(before[k] >> j & 1)
            if not is_after and (j, k) not in comes_before:
                continue
            then = [] if is_after else [(comes_before[j, k], 1.0)]
            known = float(is_after)
            if (i, k) in comes_before:
                rows.row(-INFINITY, 1.0 - known, (column, 1.0), *then, (comes_before[i, k], -1.0))
            elif before[i] >> k & 1:
                rows.row(-INFINITY, 1.0 - known, (column, 1.0), *then)


def solved(rows: Rows, wall_s: float) -> FloatArray:
    """Values of the best solution that HiGHS finds. It is the one inside OR-Tools: `highspy` cannot load beside."""
    try:
        from ortools.linear_solver.python import model_builder
    except ImportError:
        raise NotModelled(f"PHAZE's program needs OR-Tools, which is not installed; {INSTALL}") from None
    model = model_builder.Model()  # type: ignore[no-untyped-call]
    bounds = zip(rows.lower, rows.upper, rows.is_whole, strict=True)
    columns = [model.new_var(lower, upper, is_whole, None) for lower, upper, is_whole in bounds]
    spans = zip(rows.row_low, rows.row_high, pairwise(rows.starts), strict=True)
    for low, high, (first, last) in spans:
        used = [columns[column] for column in rows.columns[first:last]]
        model.add_linear_constraint(model_builder.LinearExpr.weighted_sum(used, rows.factors[first:last]), low, high)
    model.minimize(columns[0])
    solver = model_builder.Solver("highs")
    solver.enable_output(False)
    solver.set_time_limit_in_seconds(wall_s)
    status = solver.solve(model)
    if status not in (model_builder.SolveStatus.OPTIMAL, model_builder.SolveStatus.FEASIBLE):
        raise InvalidInput(f"HiGHS found no schedule within {wall_s:g} s; allow more, or take a smaller graph")
    return np.array([solver.value(column) for column in columns])


def lifted(problem: CoreProblem, key: Key, values: FloatArray) -> CoreSchedule:
    """The schedule of a solution, every operator as early as the solution's order lets it."""
    single, spread, _ = phaze_modes(problem)
    mode = np.where(values[key.is_spread] > 0.5, spread, single)
    beats = problem.modes.beats[mode]
    before = ancestors(problem.dag)
    start = np.zeros(len(problem), np.int64)
    order = np.lexsort((np.argsort(problem.dag.order), values[key.start] + 0.5 * beats))
    for j in order.tolist():
        first = [i for i in range(len(problem)) if before[j] >> i & 1]
        first += [i for i, k in key.comes_before if k == j and values[key.comes_before[i, j]] > 0.5]
        start[j] = max((int(start[i] + beats[i]) for i in first), default=0)
    bound_beats = list_schedule(problem, QUICK).bound_beats
    return CoreSchedule(problem=problem, start_beats=start, mode=mode, bound_beats=bound_beats)
