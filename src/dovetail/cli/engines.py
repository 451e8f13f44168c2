"""Where a command has its search done: here, by worker processes, or by a Dask cluster."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import FrameType
from typing import TypeVar

from dovetail.cli.interrupts import Handler, at_interrupt
from dovetail.cli.verbosity import note
from dovetail.engine import Engine, opened
from dovetail.errors import InvalidInput

MOST_WORKERS = 256  # processes of one machine; more cores than that are another machine's
MOST_BY_CORE = 4  # beyond which workers only wait for each other

Q = TypeVar("Q")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """How many worker processes, or which Dask cluster; 0 or nothing where neither is requested."""

    num_workers: int = 0
    dask: str = ""


def engine_choice(num_workers: int, dask: str) -> EngineChoice:
    """What --workers and --dask say; raises at once where that cannot be, and starts no more than is any use."""
    if num_workers and dask:
        raise InvalidInput(f"--workers {num_workers} and --dask {dask} are two engines; choose one")
    if num_workers > MOST_WORKERS:
        message = f"--workers must be at most {MOST_WORKERS}, about one for each core; got {num_workers:,}"
        raise InvalidInput(f"{message}; spread the search over more machines by --dask")
    if dask:
        from dovetail.engine.cluster import check_cluster

        check_cluster(dask)
    return EngineChoice(num_workers=_useful(num_workers), dask=dask)


@contextmanager
def engine_for(choice: EngineChoice, question: Q) -> Iterator[Engine[Q]]:
    """The requested engine; an interrupt ends its workers before it ends the command."""
    has_workers = bool(choice.num_workers or choice.dask)
    with (
        at_interrupt(_raised) if has_workers else nullcontext(),
        opened(question, num_workers=choice.num_workers, cluster=choice.dask) as engine,
    ):
        yield engine


def _raised(_: Handler, number: int, frame: FrameType | None) -> None:
    signal.default_int_handler(number, frame)


def _useful(num_workers: int) -> int:
    """As many as requested, or as this machine has a use for; warns where they are more than its cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    started = min(num_workers, MOST_BY_CORE * cores)
    if num_workers > cores:
        words = f"{num_workers} workers for {cores} core{'s' if cores > 1 else ''}"
        fewer = f"; {started} are started" if started < num_workers else ""
        note(f"{words}: more than there are cores is no faster{fewer}")
    return started
