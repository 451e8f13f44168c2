"""Worker processes answer as this process does, in order, and may die without loss."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import time
from concurrent.futures import Future

import pytest

from dovetail.engine import EngineFailed, opened
from dovetail.engine.here import in_process
from dovetail.engine.workers import NUM_AHEAD, on_workers
from dovetail.errors import InvalidInput
from tests import engine_tasks as tasks


@pytest.fixture(scope="module")
def two():
    """Two workers whose question is 3; no test here ends them."""
    with on_workers(3, 2) as engine:
        yield engine


@pytest.fixture
def _none_left():
    """Fails where a test leaves a process behind."""
    before = {child.pid for child in multiprocessing.active_children()}
    yield
    assert {child.pid for child in multiprocessing.active_children()} <= before


@pytest.mark.parametrize("act", [tasks.times, tasks.slow_where_even])
def test_two_workers_answer_as_this_process_in_the_order_of_the_tasks(two, act):
    assert list(two.map(act, range(30))) == list(in_process(3).map(act, range(30))) == [3 * n for n in range(30)]


def test_no_tasks_are_no_results(two):
    assert list(two.map(tasks.times, [])) == []


def test_work_is_spread_over_the_workers(two):
    seen: set[int] = set()
    for _ in range(50):  # one may have started long before the other
        found = list(two.map(tasks.process, range(20)))
        assert [task for task, _ in found] == list(range(20))
        seen |= {worker for _, worker in found}
        if len(seen) > 1:
            break
    assert len(seen) == 2
    assert os.getpid() not in seen


def test_tasks_are_taken_as_they_are_needed_and_a_search_may_stop(two):
    taken = itertools.count()
    results = two.map(tasks.times, taken)
    assert [next(results) for _ in range(5)] == [0, 3, 6, 9, 12]
    results.close()
    assert next(taken) <= 5 + 2 * NUM_AHEAD
    assert list(two.map(tasks.times, [7])) == [21]


def test_in_this_process_a_task_is_done_when_its_result_is_wanted():
    taken = itertools.count()
    results = in_process(3).map(tasks.times, taken)
    assert [next(results), next(results)] == [0, 3]
    assert next(taken) == 2


def test_what_a_task_raises_is_raised_here_and_the_workers_go_on(two):
    with pytest.raises(InvalidInput, match="no such thing") as raised:
        list(two.map(tasks.refused, range(10)))
    assert raised.value.where == "chip.cores"
    assert list(two.map(tasks.times, [2])) == [6]


@pytest.mark.usefixtures("_none_left")
def test_killed_workers_lose_nothing(tmp_path):
    with on_workers(str(tmp_path), 2) as engine:
        assert list(engine.map(tasks.killed_once, range(20))) == [-n for n in range(20)]
    assert {file.name for file in tmp_path.iterdir()} == {"5", "11"}


@pytest.mark.usefixtures("_none_left")
def test_a_worker_killed_while_it_has_nothing_to_do_is_replaced():
    with on_workers(3, 1) as engine:
        [(_, before)] = engine.map(tasks.process, [0])
        os.kill(before, signal.SIGKILL)
        [(_, after)] = engine.map(tasks.process, [0])
        assert after != before


@pytest.mark.usefixtures("_none_left")
def test_a_task_that_a_pool_never_took_before_it_broke_is_done_by_another(monkeypatch):
    with on_workers(3, 1) as engine:
        [(_, before)] = engine.map(tasks.process, [0])
        monkeypatch.setattr(engine._workers[0]._pool, "schedule", lambda *_, **__: Future())
        os.kill(before, signal.SIGKILL)
        [(_, after)] = engine.map(tasks.process, [0])
        assert after != before


@pytest.mark.usefixtures("_none_left")
def test_a_task_that_a_pool_never_took_is_done_again_where_the_next_one_finds_it_broken(monkeypatch):
    with on_workers(3, 1) as engine:
        [(_, before)] = engine.map(tasks.process, [0])
        pool = engine._workers[0]._pool
        schedule = pool.schedule
        lost: list[Future[object]] = []

        def too_late(*given, **named):
            if lost:
                return schedule(*given, **named)
            os.kill(before, signal.SIGKILL)
            while pool.active:
                time.sleep(0.01)
            lost.append(Future())
            return lost[0]

        monkeypatch.setattr(pool, "schedule", too_late)
        assert [task for task, _ in engine.map(tasks.process, [0, 1])] == [0, 1]
        assert len(lost) == 1


@pytest.mark.usefixtures("_none_left")
def test_a_task_that_ends_every_worker_ends_the_search_and_is_named():
    with on_workers(3, 2) as engine, pytest.raises(EngineFailed, match=r"chunk 4 of the work .* 3 times .*SIGKILL"):
        list(engine.map(tasks.killed_always, range(8)))


def test_the_question_is_sent_to_each_worker_once(tmp_path):
    file = tmp_path / "unpacked"
    with on_workers(tasks.Counted(str(file)), 2) as engine:
        found = list(engine.map(tasks.process, range(20)))
    lines = file.read_text(encoding="utf-8").split()
    assert {str(worker) for _, worker in found} <= set(lines)
    assert len(lines) == len(set(lines)) <= 2


@pytest.mark.usefixtures("_none_left")
def test_an_interrupt_leaves_no_worker():
    def interrupted():
        with on_workers(3, 2) as engine:
            results = engine.map(tasks.asleep, range(4))
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            next(results)

    def raise_interrupt(_number, _frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, raise_interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("number", [0, -3])
def test_fewer_workers_than_one_are_refused(number):
    with pytest.raises(InvalidInput, match=f"at least 1; got {number}"), on_workers(3, number):
        pass


def test_two_engines_at_once_are_refused():
    with pytest.raises(InvalidInput, match="choose one"), opened(3, num_workers=2, cluster="tcp://host:8786"):
        pass


def test_without_words_a_search_stays_in_this_process():
    with opened(3) as engine:
        assert list(engine.map(tasks.process, [1])) == [(1, os.getpid())]
