"""Worker processes that plan and evaluate beside the page's own, so that the page stays alive.

There are two lanes: light answers, which take well under a second, and heavy ones, which search. Heavy workers run at a
lower priority, so that two plans of a large cluster leave the light lane its time. Within a lane whoever asks has their
turn in order: one tab that asks for much waits behind itself, not before others. Answers depend on what is asked alone,
so what one user waited for the next gets at once.
"""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, ParamSpec, TypeVar

from dovetail.api.progress import Progress, Tell
from dovetail.engine.workers import end_with_parent
from dovetail.errors import DovetailError, InvalidInput
from dovetail.plugins import Plugin, blamed, load_all, loaded_plugins

P = ParamSpec("P")
R = TypeVar("R")
NUM_LIGHT = NUM_HEAVY = 2  # processes of a lane, at most; as many as there are cores, at most
NICE = 10  # of heavy workers: what Unix's nice gives by default
MOST_REMEMBERED = 256
MOST_S = 300.0  # of one light answer; a heavy one is shown as it goes on, and can be cancelled
TELL_S = 0.15  # between two things that a worker tells
END_S = 5.0
ENDED = "the process that worked on this ended; try again, or with something smaller"


class Cancelled(Exception):
    """Nobody waits for this answer any more."""


@dataclass(slots=True, eq=False, kw_only=True)
class Task:
    """One answer that is asked for: what makes it, who waits for it, and whom it tells how far it is."""

    act: Callable[..., Any]
    args: tuple[Any, ...]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    limit_s: float
    tells: dict[str, Tell] = field(default_factory=dict)  # by who asks
    last: Progress | None = None  # what was told last
    is_cancelled: bool = False

    def end(self, found: Any = None, error: BaseException | None = None) -> None:
        """From any thread."""
        self.loop.call_soon_threadsafe(self._end, found, error)

    def _end(self, found: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(found)
        else:
            self.future.set_exception(error)

    def tell(self, now: Progress) -> None:
        self.loop.call_soon_threadsafe(self._tell, now)

    def _tell(self, now: Progress) -> None:
        self.last = now
        for tell in tuple(self.tells.values()):
            tell(now)


class FairQueue:
    """Tasks by who asks for them: askers have their turn one after the other, each with the oldest of their tasks."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[Task]] = OrderedDict()
        self._changed = threading.Condition()
        self._is_closed = False

    def put(self, asker: str, task: Task) -> None:
        with self._changed:
            self._waiting.setdefault(asker, deque()).append(task)
            self._changed.notify()

    def take(self) -> Task | None:
        """The next task, once there is one; nothing once it was closed."""
        with self._changed:
            while not self._waiting and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                return None
            asker, tasks = self._waiting.popitem(last=False)
            found = tasks.popleft()
            if tasks:
                self._waiting[asker] = tasks  # behind everyone else
            return found

    def remove(self, task: Task) -> bool:
        """Whether it was waiting still."""
        with self._changed:
            for asker, tasks in self._waiting.items():
                if task in tasks:
                    tasks.remove(task)
                    if not tasks:
                        del self._waiting[asker]
                    return True
        return False

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def __len__(self) -> int:
        with self._changed:
            return sum(map(len, self._waiting.values()))


class Lane:
    """Some processes of one priority, each with a thread here that hands it one task after the other."""

    def __init__(self, num_workers: int, nice: int = 0) -> None:
        self.queue = FairQueue()
        self._nice = nice
        self._now: dict[int, tuple[Task | None, Any]] = {}  # by worker: what it does, and its process
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._serve, args=(n,), daemon=True) for n in range(num_workers)]
        for thread in self._threads:
            thread.start()

    def cancel(self, task: Task) -> None:
        """Ends a task wherever it is: one that is worked on with its process, which is made again."""
        task.is_cancelled = True
        if self.queue.remove(task):
            task.end(error=Cancelled())
            return
        with self._lock:
            for own, process in self._now.values():
                if own is task:
                    process.terminate()

    def _serve(self, worker: int) -> None:
        process, pipe = self._begun()
        while (task := self.queue.take()) is not None:
            with self._lock:
                self._now[worker] = task, process
            if task.is_cancelled:
                task.end(error=Cancelled())
                is_whole = True
            else:
                is_whole = _worked(task, process, pipe)
            with self._lock:
                self._now[worker] = None, process
            if not is_whole:
                pipe.close()
                process.join(END_S)
                process, pipe = self._begun()
        process.terminate()
        process.join(END_S)
        pipe.close()

    def _begun(self) -> tuple[Any, Connection]:
        context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
        pipe, theirs = context.Pipe()
        process = context.Process(target=run_tasks, args=(theirs, loaded_plugins(), self._nice), daemon=True)
        process.start()
        theirs.close()
        return process, pipe

    def stop(self) -> None:
        self.queue.close()
        with self._lock:
            for task, process in self._now.values():
                if task is not None:
                    task.is_cancelled = True
                    process.terminate()
        for thread in self._threads:
            thread.join(END_S)


def _worked(task: Task, process: Any, pipe: Connection) -> bool:
    """Has a process do a task; false where the process is of no more use."""
    ends_s = time.monotonic() + task.limit_s
    try:
        pipe.send((task.act, task.args))
        while True:
            if not pipe.poll(max(0.0, min(1.0, ends_s - time.monotonic()))):
                if time.monotonic() < ends_s:
                    continue
                process.terminate()
                told = f"this takes more than {task.limit_s:g} s; start it on the search page, where it may take longer"
                task.end(error=InvalidInput(told))
                return False
            kind, told = pipe.recv()
            if kind == "progress":
                task.tell(told)
                continue
            task.end(*((told,) if kind == "found" else (None, told)))
            return True
    except (EOFError, OSError):
        process.terminate()
        task.end(error=Cancelled() if task.is_cancelled else InvalidInput(ENDED))
        return False


class Workers:
    """Processes that have imported what they need, and what they answered last."""

    def __init__(self) -> None:
        most = max(1, os.cpu_count() or 1)
        self._light, self._heavy = Lane(min(NUM_LIGHT, most)), Lane(min(NUM_HEAVY, most), NICE)
        self._known: OrderedDict[str, Any] = OrderedDict()
        self._asked: dict[str, tuple[Task, Lane]] = {}

    def known(self, key: str) -> Any | None:
        """What was answered to `key`, where it is remembered."""
        return self._known.get(key)

    def keep(self, key: str, found: Any) -> None:
        """Remembers an answer."""
        self._known[key] = found
        while len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)

    @property
    def num_waiting(self) -> int:
        """Heavy tasks that no worker has taken yet."""
        return len(self._heavy.queue)

    async def answer(self, asker: str, key: str, act: Callable[P, R], *args: P.args, **_: P.kwargs) -> R:
        """What `act` says, from memory where the same `key` was asked before; errors come as they are raised."""
        found: R = await self._answered(asker, key, self._light, MOST_S, None, act, args)
        return found

    async def search(self, asker: str, key: str, tell: Tell, act: Callable[..., R], *args: Any) -> R:
        """The same of what takes long: `act` is given a `Tell` behind its arguments, which reaches `tell`."""
        found: R = await self._answered(asker, key, self._heavy, float("inf"), tell, act, args)
        return found

    async def fresh(self, asker: str, act: Callable[..., R], *args: Any) -> R:
        """What `act` says now: of what may have changed since, as a store does."""
        task = self._put(asker, self._light, MOST_S, act, args)
        found: R = await task.future
        return found

    def leave(self, asker: str, key: str) -> None:
        """`asker` waits for `key` no more; where nobody does, it is cancelled."""
        if key in self._asked:
            task, lane = self._asked[key]
            if task.tells.pop(asker, None) is not None and not task.tells:
                lane.cancel(task)

    def leave_all(self, asker: str) -> None:
        """`asker` waits for no search any more."""
        for key, (_, lane) in tuple(self._asked.items()):
            if lane is self._heavy:
                self.leave(asker, key)

    def _put(self, asker: str, lane: Lane, limit_s: float, act: Callable[..., Any], args: tuple[Any, ...]) -> Task:
        loop = asyncio.get_running_loop()
        task = Task(act=act, args=args, loop=loop, future=loop.create_future(), limit_s=limit_s)
        task.future.add_done_callback(_let_go)
        lane.queue.put(asker, task)
        return task

    async def _answered(
        self, asker: str, key: str, lane: Lane, limit_s: float, tell: Tell | None, act: Callable[..., Any], args: Any
    ) -> Any:
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        if key not in self._asked or self._asked[key][0].is_cancelled:
            task = self._put(asker, lane, limit_s, act, args if tell is None else (*args, TellHere()))
            self._asked[key] = task, lane
            task.future.add_done_callback(lambda future: self._ended(key, task, future))
        task = self._asked[key][0]
        task.tells[asker] = tell or _tell_nobody
        if tell is not None and task.last is not None:
            tell(task.last)
        return await asyncio.shield(task.future)

    def _ended(self, key: str, task: Task, future: asyncio.Future[Any]) -> None:
        if key in self._asked and self._asked[key][0] is task:
            del self._asked[key]
        if future.cancelled() or future.exception() is not None:
            return
        self.keep(key, future.result())

    def stop(self) -> None:
        self._light.stop()
        self._heavy.stop()


@dataclass(frozen=True, slots=True)
class TellHere:
    """Among arguments: where the worker puts its own `Tell`."""


def _tell_nobody(_: Progress) -> None:
    """Of a light answer nothing is told."""


def _let_go(asked: asyncio.Future[Any]) -> None:
    """Takes note of an error that nobody waits for any more, as when the server ends: asyncio would print it."""
    if not asked.cancelled():
        asked.exception()


def run_tasks(pipe: Connection, plugins: tuple[Plugin, ...], nice: int) -> None:
    """What a worker's process does, until its pipe is closed."""
    if nice and hasattr(os, "nice"):
        os.nice(nice)
    begin_child(plugins)
    for name in ("dovetail.explorer.answers", "dovetail.explorer.views", "dovetail.explorer.studies"):
        importlib.import_module(name)  # now, so that the first to ask does not wait for that
    last_s = 0.0

    def tell(now: Progress) -> None:
        nonlocal last_s
        if (moment_s := time.monotonic()) - last_s >= TELL_S:
            last_s = moment_s
            pipe.send(("progress", now))

    while True:
        try:
            act, args = pipe.recv()
        except EOFError:
            return
        try:
            with blamed():
                told = "found", act(*(tell if isinstance(one, TellHere) else one for one in args))
        except DovetailError as error:
            told = "error", error
        except Exception as error:
            traceback.print_exc()
            told = "error", RuntimeError(str(error))
        last_s = 0.0
        pipe.send(told)


def begin_child(plugins: tuple[Plugin, ...] = ()) -> None:
    """How a process begins that works for the page: it ends with it, at once where told to, and knows the same."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's, which ends its children
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=end_with_parent, daemon=True).start()
    load_all(plugins)
