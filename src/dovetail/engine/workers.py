"""Worker processes of this machine, by pebble: each has its own copy of the question, and may die without loss.

Every worker is a pool of one. Workers that share a pool share its locks and pipes, and one that is killed with a lock
held or a message half written takes the others with it; a pool of one is thrown away with its worker.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection
from typing import Any, Generic

from pebble import ProcessExpired, ProcessPool

from dovetail.engine import MOST_TRIES, EngineFailed, Q, R, T
from dovetail.errors import InvalidInput
from dovetail.plugins import Plugin, blamed, load_all, loaded_plugins

NUM_HELD = 2  # tasks that a worker has at once: one done, the next at hand
NUM_AHEAD = 4  # tasks by worker, that may be done before the one whose result is wanted
LOOK_S = 1.0  # between two looks whether workers live, while no result comes

_held: dict[str, Any] = {}  # in a worker: its question


@contextmanager
def on_workers(question: Q, num_workers: int) -> Iterator[Workers[Q]]:
    """`num_workers` processes that know `question`; none is left at the end, however that comes."""
    if num_workers < 1:
        raise InvalidInput(f"the number of workers must be at least 1; got {num_workers}", "--workers")
    workers = Workers(question, num_workers)
    try:
        yield workers
    finally:
        workers.end()


@dataclass(slots=True, eq=False)
class _Try:
    """A task on its way to a result."""

    place: int
    task: Any
    num_ended: int = 0  # workers that it ended


class Workers(Generic[Q]):
    """Processes started at once, so that they are ready by the time the first task comes."""

    def __init__(self, question: Q, num_workers: int) -> None:
        payload = pickle.dumps(question, protocol=pickle.HIGHEST_PROTOCOL)
        self._workers = [_Worker(payload) for _ in range(num_workers)]

    def map(self, act: Callable[[Q, T], R], tasks: Iterable[T]) -> Generator[R, None, None]:
        assert not any(worker.held for worker in self._workers), "one map at a time: close the other first"
        num_ahead = NUM_AHEAD * len(self._workers)
        waiting: Iterator[_Try] = (_Try(place, task) for place, task in enumerate(tasks))
        again: deque[_Try] = deque()
        done: dict[int, R] = {}
        num_given = num_taken = 0
        is_dry = False
        try:
            while True:
                for worker in self._free():
                    if again:
                        again.extend(worker.ask(act, again.popleft()))
                    elif not is_dry and num_taken < num_given + num_ahead:
                        found = next(waiting, None)
                        is_dry = found is None
                        if found is not None:
                            again.extend(worker.ask(act, found))
                            num_taken += 1
                if num_given in done:
                    yield done.pop(num_given)
                    num_given += 1
                elif num_given == num_taken and is_dry:
                    return
                else:
                    self._gather(done, again)
        finally:
            for worker in self._workers:
                worker.forget()

    def _free(self) -> Iterator[_Worker]:
        """Places for a task, those of the least busy workers first."""
        for num_held in range(NUM_HELD):
            yield from (worker for worker in self._workers if len(worker.held) == num_held)

    def _gather(self, done: dict[int, R], again: deque[_Try]) -> None:
        """Waits for a result, takes all that are there, and replaces workers that died."""
        wait([worker.first for worker in self._workers if worker.held], LOOK_S, FIRST_COMPLETED)
        for worker in self._workers:
            if worker.held and worker.is_lost:
                again.extend(_tried(worker.replace(), BrokenProcessPool()))
            while worker.held and worker.first.done():
                try:
                    result = worker.first.result()
                except (ProcessExpired, BrokenProcessPool) as error:
                    again.extend(_tried(worker.replace(), error))
                else:
                    done[worker.take().place] = result

    def end(self) -> None:
        for worker in self._workers:
            worker.stop()
        for worker in self._workers:
            worker.join()


def _tried(held: list[_Try], error: BaseException) -> list[_Try]:
    """What a dead worker held; the first of them was being done, and ends the search where it ended too many."""
    held[0].num_ended += 1
    if held[0].num_ended >= MOST_TRIES:
        message = f"chunk {held[0].place + 1} of the work ended its worker {MOST_TRIES} times ({_cause(error)})"
        raise EngineFailed(f"{message}; fewer --workers leave more memory to each, and without --workers it shows why")
    return held


def _cause(error: BaseException) -> str:
    code = error.exitcode if isinstance(error, ProcessExpired) else None
    if not isinstance(code, int):
        return "it died before it began"
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


class _Worker:
    """A pool of one process, with its pending tasks."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._pool = self._started()
        self._pending: deque[tuple[_Try, Future[Any]]] = deque()

    def _started(self) -> Any:  # its methods have no types
        context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
        given = (self._payload, loaded_plugins())
        pool = ProcessPool(max_workers=1, initializer=_begin, initargs=given, context=context)
        with _interrupts_later():
            assert pool.active, "a pool that does not start"
        return pool

    @property
    def held(self) -> list[_Try]:
        return [one for one, _ in self._pending]

    @property
    def first(self) -> Future[Any]:
        return self._pending[0][1]

    @property
    def is_lost(self) -> bool:
        """Whether the pool broke before it took its task: it then never says so of that task."""
        return not self.first.done() and not self._pool.active

    def ask(self, act: Callable[[Q, T], R], one: _Try) -> list[_Try]:
        """Has it do `one`; where its process died, by another process, and what the dead one held comes back."""
        lost: list[_Try] = []
        try:
            future = self._pool.schedule(_acted, args=(act, one.task))
        except RuntimeError:
            lost = self.replace()
            future = self._first_of_new(act, one)
        self._pending.append((one, future))
        return lost

    def _first_of_new(self, act: Callable[[Q, T], R], one: _Try) -> Future[Any]:
        try:
            found: Future[Any] = self._pool.schedule(_acted, args=(act, one.task))
        except RuntimeError:
            message = "a worker ended as soon as it was started; fewer --workers leave more memory to each"
            raise EngineFailed(message) from None
        return found

    def take(self) -> _Try:
        return self._pending.popleft()[0]

    def replace(self) -> list[_Try]:
        """Another process in place of a dead one, and what that held."""
        held = self.held
        self._pending.clear()
        self._renew()
        return held

    def _renew(self) -> None:
        self.stop()
        self.join()
        self._pool = self._started()

    def forget(self) -> None:
        """Whatever it still does is wanted no more; it is let end, as that is sooner than a new process."""
        self._pending.clear()

    def stop(self) -> None:
        self._pool.stop()

    def join(self) -> None:
        self._pool.join()


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Keeps Ctrl-C from a process that is being started: the one that started it will end it, without a traceback."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# --- what runs in a worker --------------------------------------------------------------------------------------------


def _begin(payload: bytes, plugins: tuple[Plugin, ...]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # at once, compiled loop or not
    threading.Thread(target=end_with_parent, daemon=True).start()
    load_all(plugins)  # what they registered, and their own values, may be part of the question
    _held["question"] = pickle.loads(payload)


def end_with_parent() -> None:
    """Waits for the process that started this one to end, and ends this one; for a thread of its own."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "an unknown worker"
    connection.wait([parent.sentinel])
    os._exit(1)


def _acted(act: Callable[[Q, T], R], task: T) -> R:
    with blamed():
        return act(_held["question"], task)
