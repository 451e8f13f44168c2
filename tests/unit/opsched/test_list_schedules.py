"""List schedules, justification and bounds by plain loops, beside schedulers written as their definitions read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail.errors import InvalidInput
from dovetail.opsched import fast
from dovetail.opsched.check import violations
from dovetail.opsched.compiled import plain_loops
from dovetail.opsched.fast import Effort, list_schedule
from dovetail.opsched.frontier_loops import NUM_RUNNING, PER_RUNNING, RUNNING_FROM
from dovetail.opsched.loops import DYNAMIC, PATIENCE, Timeline
from dovetail.opsched.phaze import phaze_schedule, without_bandwidth
from dovetail.opsched.problem import NO_TENSORS, WHOLE, CoreProblem, CoreSchedule, dag_of, modes_of, reversed_dag

LOOPS = plain_loops()
STOCK = np.array([2, 2, WHOLE, WHOLE, WHOLE])
FAR = 2**62
SEEDS = range(12)
CORE = (1, 0, 0, 0, 0)  # one of two tensor cores
BOTH = (2, 0, 0, 0, 0)

Mode = tuple[int, tuple[int, ...]]


def problem_of(operators: list[list[Mode]], edges: list[tuple[int, int]]) -> CoreProblem:
    """Operators by their modes of (beats, needs), and who waits for whom."""
    columns = np.array(edges, dtype=np.int64).reshape(-1, 2)
    every = [mode for modes in operators for mode in modes]
    counts = np.array([len(modes) for modes in operators])
    beats, need = np.array([mode[0] for mode in every]), np.array([mode[1] for mode in every])
    return CoreProblem(
        names=tuple(str(i) for i in range(len(operators))),
        dag=dag_of(len(operators), columns[:, 0], columns[:, 1]),
        modes=modes_of(counts, beats, need, STOCK),
        stock=STOCK,
        tensors=NO_TENSORS,
        beat_s=1.0,
        sram_bytes=1.0,
        hbm_bytes=1.0,
    )


def random_problem(seed: int, num: int = 9) -> CoreProblem:
    rng = np.random.default_rng(seed)

    def mode() -> Mode:
        cores = (int(rng.integers(0, 3)), int(rng.integers(0, 3)))
        return int(rng.integers(0, 12)), (*cores, int(rng.integers(0, WHOLE)), int(rng.integers(0, WHOLE)), 0)

    edges = [(i, j) for j in range(num) for i in range(j) if rng.random() < 0.2]
    return problem_of([[mode() for _ in range(int(rng.integers(1, 4)))] for _ in range(num)], edges)


def inputs_of(problem: CoreProblem, i: int) -> list[int]:
    return [int(j) for j in problem.dag.back_to[problem.dag.back_start[i] : problem.dag.back_start[i + 1]]]


def placed_one_by_one(problem: CoreProblem, order: list[int], mode: list[int]) -> list[int]:
    """Every operator of `order` at the first beat from which on it finds all it needs."""
    modes, start = problem.modes, [0] * len(problem)
    used: dict[int, Any] = {}
    for i in order:
        lasts, need = int(modes.beats[mode[i]]), modes.need[mode[i]]
        now = max((start[j] + int(modes.beats[mode[j]]) for j in inputs_of(problem, i)), default=0)
        while any(np.any(used.get(now + beat, 0) + need > problem.stock) for beat in range(lasts)):
            now += 1
        for beat in range(lasts):
            used[now + beat] = used.get(now + beat, 0) + need
        start[i] = now
    return start


@pytest.mark.parametrize("seed", SEEDS)
def test_operators_in_turn_start_at_the_first_beat_that_has_room(seed):
    problem, rng = random_problem(seed), np.random.default_rng(seed)
    num, modes = len(problem), problem.modes
    mode = np.array([rng.integers(modes.start[i], modes.start[i + 1]) for i in range(num)])
    line = Timeline(np.empty(2 * num + 2, np.int64), np.empty((2 * num + 2, len(STOCK)), np.int64))
    start = np.empty(num, np.int64)
    makespan = LOOPS.serial(
        problem.dag, modes, STOCK, problem.dag.order, mode, line, np.zeros(num, np.int64), FAR, start
    )
    assert start.tolist() == placed_one_by_one(problem, problem.dag.order.tolist(), mode.tolist())
    assert makespan == int((start + modes.beats[mode]).max())
    given_up = LOOPS.serial(
        problem.dag, modes, STOCK, problem.dag.order, mode, line, np.zeros(num, np.int64), makespan - 1, start
    )
    assert given_up == makespan  # more than it may take, which is all that is asked


def listed_by_definition(problem: CoreProblem, rank, chosen, width: int) -> tuple[list[int], list[int]]:
    """Whenever something ends: of what is ready, the highest rank first, whatever fits; some may be passed over."""
    modes, num = problem.modes, len(problem)
    start, mode, end = [-1] * num, [-1] * num, [-1] * num
    now = 0
    while True:
        running = [i for i in range(num) if start[i] >= 0 and end[i] > now]
        done = [i for i in range(num) if start[i] >= 0 and end[i] <= now]
        waiting = [i for i in range(num) if start[i] < 0 and all(j in done for j in inputs_of(problem, i))]
        free = STOCK - sum((modes.need[mode[i]] for i in running), np.zeros(len(STOCK), np.int64))
        num_skipped = 0
        for i in sorted(waiting, key=lambda i: (-rank[i], i)):
            own = range(int(modes.start[i]), int(modes.start[i + 1]))
            if chosen[i] != DYNAMIC:
                found = [int(chosen[i])]
            elif running:
                found = [m for m in own if modes.beats[m] <= PATIENCE * modes.beats[own[0]]]
            else:
                found = list(own)
            fitting = [m for m in found if np.all(modes.need[m] <= free)]
            if num_skipped == width:
                break
            if not fitting:
                num_skipped += 1
                continue
            start[i], mode[i], end[i] = now, fitting[0], now + int(modes.beats[fitting[0]])
            free = free - modes.need[fitting[0]]
            running.append(i)
        if all(begun >= 0 for begun in start):
            return start, mode
        later = [end[i] for i in running if end[i] > now]
        now = min(later) if later and not any(end[i] == now for i in running) else now


@pytest.mark.parametrize("width", [1, 2, 32])
@pytest.mark.parametrize("is_dynamic", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_list_schedule_starts_what_fits_by_rank_whenever_something_ends(seed, is_dynamic, width):
    problem = random_problem(seed)
    num = len(problem)
    rank, chosen = np.empty(num, np.int64), np.empty(num, np.int64)
    LOOPS.ranked(problem.dag, problem.modes, 4, is_dynamic, rank, chosen)
    for act in (LOOPS.parallel, LOOPS.small_parallel):
        start, mode = np.empty(num, np.int64), np.empty(num, np.int64)
        makespan = act(problem.dag, problem.modes, STOCK, rank, chosen, width, start, mode)
        schedule = CoreSchedule(problem=problem, start_beats=start, mode=mode, bound_beats=0)
        assert violations(schedule) == []
        assert makespan == schedule.makespan_beats
        assert (start.tolist(), mode.tolist()) == listed_by_definition(problem, rank, chosen, width)


def test_ranks_are_the_longest_ways_to_the_end_in_the_modes_that_are_taken():
    """0 -> 1 -> 3 and 0 -> 2 -> 3; the second mode of 1 takes longer on half the cores."""
    problem = problem_of(
        [[(2, CORE)], [(4, BOTH), (5, CORE)], [(3, CORE)], [(1, CORE)]], [(0, 1), (0, 2), (1, 3), (2, 3)]
    )
    rank, chosen = np.empty(4, np.int64), np.empty(4, np.int64)
    LOOPS.ranked(problem.dag, problem.modes, 0, False, rank, chosen)  # time alone
    assert (rank.tolist(), chosen.tolist()) == ([2 + 4 + 1, 4 + 1, 3 + 1, 1], [0, 1, 3, 4])
    LOOPS.ranked(problem.dag, problem.modes, 8, False, rank, chosen)  # area alone: 4 beats of all cores, or 5 of half
    assert (rank.tolist(), chosen.tolist()) == ([2 + 5 + 1, 5 + 1, 3 + 1, 1], [0, 2, 3, 4])
    LOOPS.ranked(problem.dag, problem.modes, 0, True, rank, chosen)
    assert chosen.tolist() == [DYNAMIC] * 4


def late(problem: CoreProblem) -> tuple[np.ndarray, np.ndarray, int]:
    """One operator after the other, each in its first mode."""
    mode = problem.modes.start[:-1].copy()
    start, now = np.zeros(len(problem), np.int64), 0
    for i in problem.dag.order.tolist():
        start[i], now = now, now + int(problem.modes.beats[mode[i]])
    return start, mode, now


def pushed(problem: CoreProblem) -> CoreSchedule:
    num = len(problem)
    line = Timeline(np.empty(2 * num + 2, np.int64), np.empty((2 * num + 2, len(STOCK)), np.int64))
    start, mode, now = late(problem)
    found = LOOPS.tightened(problem.dag, reversed_dag(problem.dag), problem.modes, STOCK, line, start, mode, now)
    schedule = CoreSchedule(problem=problem, start_beats=start, mode=mode, bound_beats=0)
    assert schedule.makespan_beats == found
    return schedule


def test_pushed_to_and_fro_two_operators_run_side_by_side():
    assert pushed(problem_of([[(4, CORE)], [(3, CORE)], [(2, BOTH)]], [])).makespan_beats == 4 + 2


@pytest.mark.parametrize("seed", SEEDS)
def test_pushing_a_schedule_to_and_fro_leaves_it_feasible_and_no_longer(seed):
    problem = random_problem(seed)
    schedule = pushed(problem)
    assert violations(schedule) == []
    assert schedule.makespan_beats <= late(problem)[2]
    start = placed_one_by_one(problem, np.argsort(schedule.start_beats, kind="stable").tolist(), schedule.mode.tolist())
    assert schedule.makespan_beats <= max(
        begun + int(problem.modes.beats[m]) for begun, m in zip(start, schedule.mode.tolist(), strict=True)
    )


def test_numbers_are_drawn_as_the_c_standard_shows():
    """next = next * 1103515245 + 12345 (ISO C, 7.22.2.2), from 1 on."""
    seed = np.array([1])
    drawn, states = [], []
    for _ in range(2):
        drawn.append(LOOPS.drawn(seed, 10))
        states.append(int(seed[0]))
    assert states == [1103527590, 377401575]
    assert drawn == [int(state / 2**31 * 10) for state in states]


def bound(problem: CoreProblem, *, most_windows: int = 200) -> int:
    dag, modes = problem.dag, problem.modes
    return int(LOOPS.lower_bound(dag, reversed_dag(dag), modes, STOCK, 40, most_windows))


def test_no_schedule_is_shorter_than_its_longest_path_or_its_work():
    assert bound(problem_of([[(2, CORE)], [(3, CORE)], [(4, CORE)]], [(0, 1), (1, 2)])) == 2 + 3 + 4
    assert bound(problem_of([[(3, CORE)]] * 4, [])) == 4 * 3 / 2
    assert bound(problem_of([[(3, BOTH), (4, CORE)]] * 4, [])) == 4 * min(3 * 2, 4) / 2


def test_work_between_two_ends_that_must_come_first_and_last_is_bounded_with_them():
    middle: list[list[Mode]] = [[(3, CORE)]] * 4
    operators: list[list[Mode]] = [[(2, CORE)], *middle, [(5, CORE)]]
    edges = [(0, i) for i in range(1, 5)] + [(i, 5) for i in range(1, 5)]
    assert bound(problem_of(operators, edges)) == 2 + 4 * 3 / 2 + 5
    assert bound(problem_of(operators, edges), most_windows=0) < 2 + 4 * 3 / 2 + 5  # of the whole alone


def test_what_a_mode_holds_is_its_time_times_its_largest_share():
    modes = modes_of(np.array([3]), np.array([7, 4, 4]), np.array([CORE, BOTH, (1, 0, WHOLE // 8, 0, 0)]), STOCK)
    assert modes.beats.tolist() == [4, 4, 7]  # the shortest first, of equals the smaller
    assert modes.share_beats.tolist() == [2, 4, 4]  # 4 of half the cores, 4 of all, 7 / 2 rounded up
    assert modes.need.tolist() == [[1, 0, WHOLE // 8, 0, 0], [2, 0, 0, 0, 0], [1, 0, 0, 0, 0]]


@pytest.mark.parametrize("seed", SEEDS)
def test_modes_packed_for_a_chip_are_sorted_as_those_of_one_problem(seed):
    rng = np.random.default_rng(seed)
    beats = rng.integers(1, 5, (1, 6))
    need = np.zeros((1, 6, 5), np.int64)
    need[0, :, 0] = rng.permutation([1, 1, 2, 2, 0, 0])
    need[0, :, 2] = rng.integers(0, WHOLE, 6)
    start, kept = np.zeros((1, 2), np.int64), (np.zeros(6, np.int64), np.zeros((6, 5), np.int64), np.zeros(6, np.int64))
    num = LOOPS.packed_modes(beats, need, np.array([0, 6]), STOCK[None], start, *kept)
    packed_beats, packed_need, packed_share = (column[:num] for column in kept)
    assert start.tolist() == [[0, num]]
    again = modes_of(np.array([num]), packed_beats, packed_need, STOCK)
    assert packed_beats.tolist() == again.beats.tolist()
    assert packed_share.tolist() == again.share_beats.tolist()
    for out in range(6):  # whatever was left out is beaten by something that stayed
        own = need[0, out]
        assert any(
            np.all(packed_need[k] <= own) and packed_beats[k] <= beats[0, out] * (1 + 1 / 256) for k in range(num)
        )


@pytest.mark.parametrize("seed", range(4))
def test_a_short_search_is_feasible_repeats_and_lies_between_its_bound_and_the_list_schedule(seed, monkeypatch):
    monkeypatch.setattr(fast, "compiled_loops", plain_loops)
    problem = random_problem(seed)
    quick = list_schedule(problem, Effort(tries_per_operator=0, most_tightened=0, others=()))
    found, again = (list_schedule(problem, Effort(tries_per_operator=5)) for _ in range(2))
    assert violations(found) == violations(quick) == []
    assert found.bound_beats <= found.makespan_beats <= quick.makespan_beats
    assert np.array_equal(found.start_beats, again.start_beats)


def test_a_search_packs_what_the_longest_first_leaves_apart(monkeypatch):
    """Two pairs need both cores for 4 beats in all; 6, 6 and 2 beats of one core each take 8 on two: 12 together."""
    monkeypatch.setattr(fast, "compiled_loops", plain_loops)
    problem = problem_of([[(6, CORE)], [(6, CORE)], [(2, BOTH)], [(2, BOTH)], [(2, CORE)]], [(2, 3)])
    assert list_schedule(problem, Effort(tries_per_operator=20)).makespan_beats == 12


@pytest.mark.parametrize("seed", SEEDS)
def test_modes_are_sorted_by_time_then_by_what_they_hold_and_others_stay(seed):
    rng = np.random.default_rng(seed)
    beats, share_beats = rng.integers(1, 4, 9), rng.integers(1, 4, 9)
    need = np.arange(18).reshape(9, 2)
    before = list(zip(beats.tolist(), share_beats.tolist(), need.tolist(), strict=True))
    LOOPS.sorted_modes(beats, need, share_beats, 2, 8)
    after = list(zip(beats.tolist(), share_beats.tolist(), need.tolist(), strict=True))
    assert after == [*before[:2], *sorted(before[2:8], key=lambda row: row[:2]), *before[8:]]


@pytest.mark.parametrize(("end", "place"), [(50, 0), (25, 1), (5, 2)])
@pytest.mark.parametrize("num_places", [2, 3])
def test_a_state_takes_in_what_starts_by_its_end_as_long_as_a_row_has_places(num_places, end, place):
    """Two run on until 30 and 20 when a third starts at 4; the last to end is written first."""
    rows, found = (np.zeros((1, RUNNING_FROM + PER_RUNNING * num), np.int64) for num in (3, num_places))
    rows[0, NUM_RUNNING] = 2
    rows[0, RUNNING_FROM : RUNNING_FROM + 2 * PER_RUNNING] = (7, 30, 70, 8, 20, 80)
    assert LOOPS.follow(rows, 0, 9, 90, 4, end, found, 0) == (num_places == 3)
    if num_places == 3:
        expected = [[7, 30, 70], [8, 20, 80]]
        expected.insert(place, [9, end, 90])
        assert found[0, RUNNING_FROM:].reshape(3, PER_RUNNING).tolist() == expected
        assert found[0, NUM_RUNNING] == 3


def test_a_state_forgets_what_has_ended_before_the_next_begins():
    rows, found = (np.zeros((1, RUNNING_FROM + 2 * PER_RUNNING), np.int64) for _ in range(2))
    rows[0, NUM_RUNNING] = 2
    rows[0, RUNNING_FROM:] = (7, 30, 70, 8, 20, 80)
    assert LOOPS.follow(rows, 0, 9, 90, 20, 25, found, 0)
    assert found[0, RUNNING_FROM:].tolist() == [7, 30, 70, 9, 25, 90]


@pytest.mark.parametrize("what", [2, 3, 4])
def test_phazes_program_refuses_any_need_but_cores(what):
    need = [1, 0, 0, 0, 0]
    need[what] = 1
    problem = problem_of([[(3, tuple(need))]], [])
    with pytest.raises(InvalidInput, match="bandwidth"):
        phaze_schedule(problem)
    assert phaze_schedule(without_bandwidth(problem)).makespan_beats == 3
