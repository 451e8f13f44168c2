"""What operators earn while they run: resources that no list names, found by linear programs (GLOP, in OR-Tools).

Give every operator a prize, earned evenly over its time. If no set that can run at once earns more than one a beat,
then no schedule is shorter than the prizes together. The prizes that prove most are the dual of a linear program
over sets that can run at once; sets are added as they are needed. What a mode earns a beat is then a need like any
other, of a resource of which there is what the dearest set earns, in whole numbers: see docs/model/scheduling.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from dovetail.errors import NotModelled
from dovetail.opsched.compiled import compiled_loops
from dovetail.opsched.price_loops import MOST_AT_ONCE, TOO_MANY, Offers
from dovetail.opsched.problem import CoreProblem
from dovetail.opsched.series import ancestors
from dovetail.workload.graph import FloatArray, IntArray

INSTALL = "install dovetail-codesign[mine]"
UNIT = 2**21  # what the dearest set earns a beat, about
MOST_LOOKS = 20_000  # at sets, in one search for the dearest
MOST_ROUNDS = 200  # of prizes and dearest sets
CLOSE = 1 + 2**-12  # the dearest set earns no more than this: prizes are as good as they get


def prizes_of(problem: CoreProblem, groups: list[list[int]]) -> tuple[IntArray, IntArray]:
    """A column of needs for the prizes of each group of operators, and how much there is of each."""
    is_apart = _is_apart(problem)
    found = [column for group in groups for column in _prizes(problem, group, is_apart)]
    needs = [need for need, _ in found]
    num_modes = len(problem.modes.beats)
    return (
        np.ascontiguousarray(np.stack(needs, axis=1)) if needs else np.zeros((num_modes, 0), np.int64),
        np.array([size for _, size in found], dtype=np.int64),
    )


def _is_apart(problem: CoreProblem) -> IntArray:
    """Operators by operators: 1 where one must end before the other starts, and for each beside itself."""
    num, before = len(problem), ancestors(problem.dag)
    is_apart = np.eye(num, dtype=np.int64)
    for i, bits in enumerate(before):
        for j in range(num):
            if bits >> j & 1:
                is_apart[i, j] = is_apart[j, i] = 1
    return is_apart


def _prizes(problem: CoreProblem, group: list[int], is_apart: IntArray) -> list[tuple[IntArray, int]]:
    """The needs that the best prizes of a group come to, and their size; none where sets are too many to search."""
    modes, dearest = problem.modes, compiled_loops().dearest
    owner = np.repeat(np.arange(len(problem)), np.diff(modes.start))
    group_modes = np.flatnonzero(np.isin(owner, group) & (modes.beats > 0))
    if len(np.unique(owner[group_modes])) < 2:
        return []
    program = PrizeProgram(owner, modes.beats, group_modes)
    found, best, proven = np.empty(MOST_AT_ONCE + 1, np.int64), [], 0.0
    for _ in range(MOST_ROUNDS):
        prizes = program.prizes(len(problem))
        earns = np.zeros(len(modes.beats), np.int64)
        earns[group_modes] = (UNIT * prizes[owner[group_modes]] / modes.beats[group_modes]).astype(np.int64)
        earning_modes = group_modes[earns[group_modes] > 0]
        earning_modes = earning_modes[np.argsort(-earns[earning_modes], kind="stable")]
        most, num = dearest(Offers(earns, modes.need, owner, is_apart), earning_modes, problem.stock, MOST_LOOKS, found)
        if most == TOO_MANY:
            break
        least = np.minimum.reduceat(earns * modes.beats, modes.start[:-1]).sum() / max(most, 1)
        if least > proven:
            best, proven = [(earns, int(most))], float(least)
        if most <= UNIT * CLOSE:
            break
        program.add(found[:num].tolist())
    return best


class PrizeProgram:
    """The least time in which sets that can run at once, by turns, do all of every operator; its dual is the prizes."""

    def __init__(self, owner: IntArray, beats: IntArray, group_modes: IntArray) -> None:
        self.owner, self.beats = owner, beats
        self.unit_beats = float(beats[group_modes].max())
        self.solver = _glop()
        self.solver.Objective().SetMinimization()
        self.rows = {int(i): self.solver.Constraint(1.0, self.solver.infinity()) for i in np.unique(owner[group_modes])}
        for m in group_modes.tolist():
            self.add([m])

    def add(self, together: list[int]) -> None:
        """A set of modes that can run at once."""
        lasts = self.solver.NumVar(0.0, self.solver.infinity(), "")
        self.solver.Objective().SetCoefficient(lasts, 1.0)
        for m in together:
            self.rows[int(self.owner[m])].SetCoefficient(lasts, self.unit_beats / float(self.beats[m]))

    def prizes(self, num_operators: int) -> FloatArray:
        """The prize of each operator, in beats; any that are not negative prove something."""
        self.solver.Solve()
        prizes = np.zeros(num_operators)
        for i, row in self.rows.items():
            prizes[i] = max(row.dual_value(), 0.0) * self.unit_beats
        return prizes


def _glop() -> Any:
    try:
        pywraplp: Any = import_module("ortools.linear_solver.pywraplp")  # which has no types
    except ImportError:
        raise NotModelled(f"exact schedules need OR-Tools, which is not installed; {INSTALL}") from None
    return pywraplp.Solver.CreateSolver("GLOP")
