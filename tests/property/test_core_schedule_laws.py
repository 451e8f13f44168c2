"""Laws of operator schedules: all are feasible, bounds hold, exact is best, and compiled loops are the plain ones."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.operator_graphs import random_graph
from dovetail.opsched import fast, frontier, prices
from dovetail.opsched.check import violations
from dovetail.opsched.compiled import compiled_loops, plain_loops
from dovetail.opsched.conflicts import wider_needs
from dovetail.opsched.exact import Limit, exact_schedule
from dovetail.opsched.fast import QUICK, Effort, list_schedule
from dovetail.opsched.frontier import Explored, can_explore, explored, layout_of, merged
from dovetail.opsched.phaze import phaze_schedule, without_bandwidth
from dovetail.opsched.prices import prizes_of
from dovetail.opsched.problem import RESOURCES, WHOLE, CoreProblem, CoreSchedule, dag_of, modes_of
from dovetail.opsched.series import pools_of

SHORT = Effort(tries_per_operator=10)
PATIENT = Limit(wall_s=600)  # it ends with the proof, on a busy machine too
SEEDS = st.integers(0, 10_000)


@st.composite
def tiny_problems(draw: st.DrawFn, most: int = 5) -> CoreProblem:
    """A handful of operators with one or two modes each, small enough to try everything."""
    num = draw(st.integers(1, most))
    edges = [(i, j) for j in range(num) for i in range(j) if draw(st.booleans()) and draw(st.booleans())]
    counts = [draw(st.integers(1, 2)) for _ in range(num)]
    rows = sum(counts)
    whole = st.integers(0, WHOLE)
    need = np.array(
        [[draw(st.integers(0, 2)), draw(st.integers(0, 2)), draw(whole), draw(whole), 0] for _ in range(rows)]
    )
    beats = np.array([draw(st.integers(0, 5)) for _ in range(rows)])
    stock = np.array([2, 2, WHOLE, WHOLE, WHOLE])
    columns = np.array(edges, dtype=np.int64).reshape(-1, 2)
    problem = random_graph(1, 2)
    return replace(
        problem,
        names=tuple(str(i) for i in range(num)),
        dag=dag_of(num, columns[:, 0], columns[:, 1]),
        modes=modes_of(np.array(counts), beats, need, stock),
        stock=stock,
    )


def brute_force(problem: CoreProblem) -> int:
    """The least makespan over all modes and all orders, every operator placed beat by beat as early as it fits."""
    modes, num = problem.modes, len(problem)
    own = [range(int(modes.start[i]), int(modes.start[i + 1])) for i in range(num)]
    before = {(int(i), int(j)) for i, j in zip(*problem.edges, strict=True)}
    best = int(modes.beats.max() * num) + 1
    for order in permutations(range(num)):
        place = {i: p for p, i in enumerate(order)}
        if all(place[i] < place[j] for i, j in before):
            best = min(best, *(placed(problem, order, mode, before) for mode in product(*own)))
    return best


def placed(problem: CoreProblem, order: tuple[int, ...], mode: tuple[int, ...], before: set[tuple[int, int]]) -> int:
    modes = problem.modes
    end: dict[int, int] = {}
    used: dict[int, np.ndarray] = {}
    for j in order:
        now = max((end[i] for i, k in before if k == j), default=0)
        lasts = int(modes.beats[mode[j]])
        need = modes.need[mode[j]]
        while any(np.any(used.get(now + t, 0) + need > problem.stock) for t in range(lasts)):
            now += 1
        for t in range(lasts):
            used[now + t] = used.get(now + t, 0) + need
        end[j] = now + lasts
    return max(end.values())


@given(tiny_problems())
@settings(max_examples=12)
def test_exact_is_what_trying_everything_finds_and_fast_is_no_better(problem):
    least = brute_force(problem)
    exact = exact_schedule(problem, PATIENT)
    assert violations(exact) == []
    assert exact.makespan_beats == least == exact.bound_beats
    found = list_schedule(problem, SHORT)
    assert found.bound_beats <= least <= found.makespan_beats


WIDE, NO_LIMIT, MANY = 100_000, 2**40, 10**9


@given(tiny_problems(), st.booleans())
@settings(max_examples=30)
def test_states_without_a_limit_find_what_trying_everything_finds(problem, is_back):
    if can_explore(problem):
        found = explored(layout_of(problem, is_back), NO_LIMIT, WIDE, MANY)
        assert violations(found.schedules[0]) == []
        assert found.schedules[0].makespan_beats == found.bound_beats == brute_force(problem)


@given(tiny_problems(), st.booleans(), st.integers(1, 3), st.integers(0, 20), st.integers(1, 200))
@settings(max_examples=30)
def test_states_left_out_never_prove_too_much(problem, is_back, width, limit, most_looked):
    """Narrow layers, any limit, and an early end: what is proven is never above the best schedule."""
    if can_explore(problem):
        least = brute_force(problem)
        found = explored(layout_of(problem, is_back), limit, width, most_looked)
        assert found.bound_beats <= least
        assert all(violations(schedule) == [] for schedule in found.schedules)
        assert all(least <= schedule.makespan_beats < limit for schedule in found.schedules)


@given(tiny_problems())
@settings(max_examples=30)
def test_prizes_together_are_no_more_than_the_best_schedule(problem):
    need, sizes = prizes_of(problem, [list(range(len(problem)))])
    work = np.minimum.reduceat(problem.modes.beats[:, None] * need, problem.modes.start[:-1], axis=0).sum(axis=0)
    assert np.all(work <= sizes * brute_force(problem))


@given(SEEDS, st.integers(5, 40))
@settings(max_examples=15)
def test_no_schedule_earns_more_at_once_than_the_dearest_set(seed, num_operators):
    problem = random_graph(seed, num_operators)
    need, sizes = prizes_of(problem, [list(range(num_operators)), list(range(num_operators // 2, num_operators))])
    assert need.shape[1] >= 1
    for schedule in (list_schedule(problem, QUICK), list_schedule(problem, SHORT)):
        for now in np.unique(schedule.start_beats):
            running = (schedule.start_beats <= now) & (now < schedule.end_beats)
            assert np.all(need[schedule.mode[running]].sum(axis=0) <= sizes)


@given(SEEDS, st.integers(2, 9), st.booleans())
@settings(max_examples=6)
def test_compiled_and_plain_states_are_the_same(seed, num_operators, is_back):
    pytest.importorskip("numba")
    problem = random_graph(seed, num_operators)
    answers: list[Explored] = []
    for loops in (compiled_loops, plain_loops):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(frontier, "compiled_loops", loops)
            patch.setattr(prices, "compiled_loops", loops)
            answers.append(explored(layout_of(problem, is_back), NO_LIMIT, 20, MANY))
    compiled, plain = answers
    assert (compiled.bound_beats, compiled.num_looked) == (plain.bound_beats, plain.num_looked)
    assert np.array_equal(compiled.schedules[0].start_beats, plain.schedules[0].start_beats)
    assert np.array_equal(compiled.schedules[0].mode, plain.schedules[0].mode)


@given(SEEDS, st.integers(8, 30), st.booleans())
@settings(max_examples=15)
def test_states_merge_into_a_feasible_schedule_that_is_no_worse(seed, num_operators, is_back):
    problem = random_graph(seed, num_operators)
    first = list_schedule(problem, QUICK)
    better = merged(first, explored(layout_of(problem, is_back), first.makespan_beats, 50, MANY))
    assert violations(better) == []
    assert better.makespan_beats <= first.makespan_beats
    assert better.bound_beats >= first.bound_beats


@given(SEEDS, st.integers(2, 60))
@settings(max_examples=15)
def test_list_schedules_are_feasible_and_above_their_bound(seed, num_operators):
    problem = random_graph(seed, num_operators)
    quick, found = list_schedule(problem, QUICK), list_schedule(problem, SHORT)
    assert violations(quick) == []
    assert violations(found) == []
    assert quick.bound_beats <= found.makespan_beats
    assert found.bound_beats >= quick.bound_beats


@given(SEEDS, st.integers(2, 25))
@settings(max_examples=6)
def test_compiled_and_plain_loops_give_the_same_schedule(seed, num_operators):
    pytest.importorskip("numba")
    problem = random_graph(seed, num_operators)
    answers = []
    for loops in (compiled_loops, plain_loops):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fast, "compiled_loops", loops)
            answers.append(list_schedule(problem, Effort(tries_per_operator=5, most_square=8)))
    compiled, plain = answers
    assert np.array_equal(compiled.start_beats, plain.start_beats)
    assert np.array_equal(compiled.mode, plain.mode)
    assert compiled.bound_beats == plain.bound_beats


@given(SEEDS, st.integers(1, 80), st.integers(0, 8), st.booleans(), st.sampled_from((1, 2, 32)))
@settings(max_examples=20)
def test_rows_and_heaps_give_the_same_list_schedule(seed, num_operators, weight, is_dynamic, width):
    problem, loops = random_graph(seed, max(num_operators, 2)), compiled_loops()
    num = len(problem)
    rank, chosen = np.empty(num, np.int64), np.empty(num, np.int64)
    loops.ranked(problem.dag, problem.modes, weight, is_dynamic, rank, chosen)
    answers = []
    for act in (loops.parallel, loops.small_parallel):
        start, mode = np.empty(num, np.int64), np.empty(num, np.int64)
        makespan = act(problem.dag, problem.modes, problem.stock, rank, chosen, width, start, mode)
        answers.append((makespan, start.tolist(), mode.tolist()))
    assert answers[0] == answers[1]


@given(SEEDS, st.integers(2, 16))
@settings(max_examples=10)
def test_exact_is_never_worse_than_fast_and_its_bound_never_lower(seed, num_operators):
    problem = random_graph(seed, num_operators)
    found = list_schedule(problem)
    exact = exact_schedule(problem, Limit(wall_s=2))
    assert violations(exact) == []
    assert found.bound_beats <= exact.bound_beats <= exact.makespan_beats <= found.makespan_beats


@given(SEEDS)
@settings(max_examples=5)
def test_with_no_time_to_speak_of_exact_is_the_fast_schedule_or_better(seed):
    problem = random_graph(seed, 40)
    exact = exact_schedule(problem, Limit(wall_s=0.001))
    assert violations(exact) == []
    assert exact.makespan_beats <= list_schedule(problem).makespan_beats


@given(SEEDS, st.integers(2, 7))
@settings(max_examples=6)
def test_exact_is_never_worse_than_phazes_program(seed, num_operators):
    problem = without_bandwidth(random_graph(seed, num_operators))
    theirs = phaze_schedule(problem, wall_s=30.0)
    ours = exact_schedule(problem, PATIENT)
    assert violations(theirs) == []
    assert ours.makespan_beats <= theirs.makespan_beats


@given(SEEDS, st.integers(1, 40))
@settings(max_examples=15)
def test_parts_follow_one_another(seed, num_operators):
    problem = random_graph(seed, max(num_operators, 2))
    parts = pools_of(problem.dag)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(problem)))
    place = {int(i): index for index, part in enumerate(parts) for i in part}
    assert all(place[int(i)] <= place[int(j)] for i, j in zip(*problem.edges, strict=True))


@given(SEEDS, st.integers(5, 40))
@settings(max_examples=20)
def test_resources_for_conflicts_cut_off_no_schedule(seed, num_operators):
    """Whatever runs together in a feasible schedule also keeps the further limits that bounds use."""
    problem = random_graph(seed, num_operators)
    schedule = list_schedule(problem, QUICK)
    need, sizes = wider_needs(problem)
    for now in np.unique(schedule.start_beats):
        running = (schedule.start_beats <= now) & (now < schedule.end_beats)
        assert np.all(need[schedule.mode[running]].sum(axis=0) <= sizes)


@given(SEEDS, st.integers(3, 30), st.sampled_from(("early", "together", "mode")))
@settings(max_examples=15)
def test_the_checker_finds_what_is_broken(seed, num_operators, fault):
    schedule = list_schedule(random_graph(seed, num_operators), QUICK)
    start, mode = schedule.start_beats.copy(), schedule.mode.copy()
    if fault == "early":
        start[int(schedule.problem.edges[1][0])] = -1
    elif fault == "together":
        start[:] = 0
    else:
        mode[0] = len(schedule.problem.modes.beats)
    broken = CoreSchedule(problem=schedule.problem, start_beats=start, mode=mode, bound_beats=0)
    assert violations(broken) != []


def test_the_checker_names_what_is_held_too_often():
    problem = random_graph(3, 12)
    modes = problem.modes
    loose = replace(problem, dag=dag_of(12, np.zeros(0, np.int64), np.zeros(0, np.int64)))
    mode = np.array([int(modes.start[i + 1]) - 1 for i in range(12)])
    together = CoreSchedule(problem=loose, start_beats=np.zeros(12, np.int64), mode=mode, bound_beats=0)
    found = " ".join(violations(together))
    assert any(resource in found for resource in RESOURCES)


def test_plain_loops_are_all_there_is_without_numba(monkeypatch):
    import builtins

    real = builtins.__import__

    def without_numba(name: str, *rest: object, **more: object) -> object:
        if name == "numba":
            raise ImportError(name)
        return real(name, *rest, **more)  # type: ignore[arg-type]

    compiled_loops.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without_numba)
    try:
        assert isinstance(compiled_loops(), SimpleNamespace)
        assert vars(compiled_loops()) == vars(plain_loops())
    finally:
        compiled_loops.cache_clear()
