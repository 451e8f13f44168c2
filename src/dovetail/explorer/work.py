"""Worker processes that plan and evaluate beside the page's own, so that the page stays alive.

Answers depend on what is asked alone, so what one user waited for the next gets at once.
"""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import os
import signal
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from typing import Any, ParamSpec, TypeVar

from pebble import ProcessExpired, ProcessPool

from dovetail.engine.workers import end_with_parent
from dovetail.errors import InvalidInput
from dovetail.plugins import Plugin, blamed, load_all, loaded_plugins

P = ParamSpec("P")
R = TypeVar("R")
MOST_WORKERS = 2
MOST_REMEMBERED = 128
MOST_S = 300.0  # of one answer; the search page has no such limit


class Workers:
    """Processes that have imported what they need, and what they answered last."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
        num_workers = max(1, min(MOST_WORKERS, os.cpu_count() or 1))
        self._pool: Any = ProcessPool(
            max_workers=num_workers, initializer=begin_child, initargs=(loaded_plugins(),), context=context
        )
        self._known: OrderedDict[str, Any] = OrderedDict()
        self._asked: dict[str, asyncio.Future[Any]] = {}

    def start(self) -> None:
        """Starts them now, so that the first user does not wait for that."""
        for _ in range(MOST_WORKERS):
            self._pool.schedule(_warm)

    async def answer(self, key: str, act: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """What `act` says, from memory where the same `key` was asked before; errors come as they are raised."""
        if key in self._known:
            self._known.move_to_end(key)
            found: R = self._known[key]
            return found
        if key not in self._asked:
            asked = asyncio.ensure_future(self._answered(key, act, args, kwargs))
            asked.add_done_callback(_let_go)
            self._asked[key] = asked
        result: R = await asyncio.shield(self._asked[key])
        return result

    async def fresh(self, act: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """What `act` says now: of what may have changed since, as a store does."""
        future = self._pool.schedule(_acted, args=[act, *args], kwargs=dict(kwargs), timeout=MOST_S)
        try:
            found: R = await asyncio.wrap_future(future)
        except TimeoutError:
            told = (
                f"this takes more than {MOST_S:g} s; start it on the search page, where it may take as long as it needs"
            )
            raise InvalidInput(told) from None
        except (ProcessExpired, BrokenExecutor):
            raise InvalidInput("the process that worked on this ended; ask again, or for something smaller") from None
        return found

    async def _answered(self, key: str, act: Callable[..., R], args: Any, kwargs: Any) -> R:
        try:
            found = await self.fresh(act, *args, **kwargs)
        finally:
            self._asked.pop(key, None)
        self._known[key] = found
        while len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)
        return found

    def stop(self) -> None:
        self._pool.stop()
        self._pool.join()


def _let_go(asked: asyncio.Future[Any]) -> None:
    """Takes note of an error that nobody waits for any more, as when the server ends: asyncio would print it."""
    if not asked.cancelled():
        asked.exception()


def _acted(act: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    with blamed():
        return act(*args, **kwargs)


def _warm() -> None:
    """Imports what answers take."""
    for name in ("dovetail.explorer.answers", "dovetail.explorer.quick", "dovetail.explorer.studies"):
        importlib.import_module(name)


def begin_child(plugins: tuple[Plugin, ...] = ()) -> None:
    """How a process begins that works for the page: it ends with it, at once where told to, and knows the same."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's, which ends its children
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=end_with_parent, daemon=True).start()
    load_all(plugins)
