"""Searches under way: each a process of its own, watched through a pipe, stopped at once, resumed from its store."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from dovetail.api.progress import Progress
from dovetail.errors import InvalidInput
from dovetail.explorer.search_request import SearchRequest
from dovetail.explorer.search_work import Ended, Refused, Told, run_search
from dovetail.plugins import loaded_plugins
from dovetail.report.charts.trail import Mark

RUNNING, DONE, CANCELLED, FAILED = "running", "done", "cancelled", "failed"
MOST_RUNNING = 4
MOST_KEPT = 64
UNSEEN_S = 900.0  # a search that nobody looks at is stopped; its rows are kept in the store
END_S = 2.0


@dataclass(slots=True, eq=False)
class Search:
    """One search: what was asked, how far it is, and what it came to."""

    number: str
    asked: SearchRequest
    process: Any
    pipe: Connection
    began_s: float
    seen_s: float
    status: str = RUNNING
    said: str = ""
    standings: list[tuple[float, Progress]] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)  # the best so far and the bound, as it went on
    ended: Ended | None = None
    took_s: float = 0.0

    def look(self) -> None:
        """Takes what the process has told since."""
        self.seen_s = time.monotonic()
        while self.status == RUNNING:
            try:
                if not self.pipe.poll():
                    return
                self._take(self.pipe.recv())
            except (EOFError, OSError):
                self._end(FAILED, "the search ended without an answer; start it again")

    def _take(self, told: object) -> None:
        if isinstance(told, Told):
            self.standings.append((time.monotonic() - self.began_s, told.progress))
            if told.mark is not None:
                self.marks.append(told.mark)
        elif isinstance(told, Refused):
            self._end(FAILED, told.said)
        elif isinstance(told, Ended):
            self.ended = told
            self._end(DONE, "")

    def cancel(self) -> None:
        """Ends the process; what it has put into its store stays there."""
        if self.status == RUNNING:
            self.process.terminate()
            self._end(CANCELLED, "")

    def _end(self, status: str, said: str) -> None:
        self.status, self.said, self.took_s = status, said, time.monotonic() - self.began_s
        self.process.join(END_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join(END_S)
        self.pipe.close()


class Searches:
    """Those of one server, by numbers that cannot be guessed: whoever has one in an address may look and cancel."""

    def __init__(self, store: str, *, is_read_only: bool = False) -> None:
        self._store, self._is_read_only = store, is_read_only
        self._every: dict[str, Search] = {}

    def start(self, asked: SearchRequest) -> Search:
        if self._is_read_only:
            raise InvalidInput("this server is read-only: searches are started on one without --read-only")
        self._tidy()
        running = [one for one in self._every.values() if one.status == RUNNING]
        most = min(MOST_RUNNING, max(1, os.cpu_count() or 1))
        if len(running) >= most:
            raise InvalidInput(
                f"{len(running)} searches are running, as many as this machine takes; wait for one to end"
            )
        context = multiprocessing.get_context("spawn")
        pipe, theirs = context.Pipe(duplex=False)
        given = (asked, self._store, theirs, loaded_plugins())
        process = context.Process(target=run_search, args=given, daemon=True)
        process.start()
        theirs.close()
        now_s = time.monotonic()
        number = secrets.token_urlsafe(16)
        self._every[number] = Search(
            number=number, asked=asked, process=process, pipe=pipe, began_s=now_s, seen_s=now_s
        )
        return self._every[number]

    def at(self, number: str) -> Search | None:
        found = self._every.get(number)
        if found is not None:
            found.look()
        return found

    def _tidy(self) -> None:
        """Stops those that nobody looks at, and forgets the oldest that ended."""
        now_s = time.monotonic()
        for one in self._every.values():
            if one.status == RUNNING and now_s - one.seen_s > UNSEEN_S:
                one.cancel()
        ended = [number for number, one in self._every.items() if one.status != RUNNING]
        for number in ended[: max(0, len(self._every) - MOST_KEPT)]:
            del self._every[number]

    def stop(self) -> None:
        for one in self._every.values():
            one.cancel()
