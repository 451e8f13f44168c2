"""A bar or a clock on standard error while something runs, where that is a terminal; nothing elsewhere."""

from __future__ import annotations

import importlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from dovetail.api import progress as api_progress
from dovetail.api.progress import best_label
from dovetail.cli.interrupts import Handler, at_interrupt
from dovetail.cli.process import stream
from dovetail.cli.verbosity import has_colour, timed_log, verbosity

if TYPE_CHECKING:
    from dovetail.search.codesign.joint import Standing as JointStanding
    from dovetail.search.codesign.pareto import FrontStanding
    from dovetail.search.mining.miner import MiningProgress
    from dovetail.search.objectives import Objective
    from dovetail.search.planners.candidates import Candidate, Tally
    from dovetail.search.planners.even_plans import PlanProgress

CLEAR_LINE = b"\r\x1b[2K\x1b[?25h"  # ECMA-48: erase the line; and show the cursor that the bar hides
WIDTH = 12  # of a bar, in characters
NARROW = 80  # columns below which a bar says less
STATUS = "{task.fields[status]}"
MOMENT_S = 1e-9  # style: less than any clock tells, so that a pace is a number
Item = TypeVar("Item")

Columns = Callable[[Any], Sequence[Any]]  # of a bar, from Rich's module of them


@contextmanager
def _bar(columns: Columns) -> Iterator[Any | None]:
    """A bar that goes away in the end, and at an interrupt; none without a terminal."""
    watched = _terminal()
    if watched is None:
        yield None
        return
    rich = importlib.import_module("rich.progress")
    console = importlib.import_module("rich.console").Console(file=watched, no_color=not has_colour(watched))
    with rich.Progress(*columns(rich), console=console, transient=True) as bar, at_interrupt(_cleared):
        yield bar


def _cleared(before: Handler, number: int, frame: FrameType | None) -> None:
    """Clears the bar before an interrupt ends the process, as the handler does not know of the bar."""
    os.write(2, CLEAR_LINE)
    before(number, frame)


@contextmanager
def search_progress(objective: Objective, cluster_usd: float, framework: str = "") -> Iterator[PlanProgress]:
    """What a search calls as it goes on: grids done, plans per second, the best so far and the time left are shown."""

    def columns(rich: Any) -> Sequence[Any]:
        done = (
            rich.TextColumn(framework or "searching"),
            rich.BarColumn(bar_width=_room(20)),
            rich.MofNCompleteColumn(),
        )
        return *done, rich.TextColumn(STATUS), rich.TimeRemainingColumn()

    with _bar(columns) as bar:
        yield (lambda *_: None) if bar is None else _shown(bar, objective, cluster_usd)


@contextmanager
def _systems_bar(name: str, *, has_pace: bool = True) -> Iterator[Callable[[api_progress.Progress], None]]:
    """Of a search among designs or systems: how far it is, in words, its pace and the time left."""

    def columns(rich: Any) -> Sequence[Any]:
        done = (rich.TextColumn(name), rich.BarColumn(bar_width=_room(WIDTH)))
        return *done, rich.TextColumn(STATUS), rich.TimeRemainingColumn()

    with _bar(columns) as bar:
        yield (lambda _: None) if bar is None else _shown_systems(bar, has_pace=has_pace)


def _shown_systems(bar: Any, *, has_pace: bool) -> Callable[[api_progress.Progress], None]:
    task = bar.add_task("", total=None, status="bounding")
    begin_s = time.monotonic()

    def show(now: api_progress.Progress) -> None:
        passed_s = time.monotonic() - begin_s
        pace = f"; {now.num_done / passed_s if passed_s > 0 else 0.0:,.0f}/s" if has_pace else ""
        bar.update(task, completed=now.num_done, total=now.num_all, status=f"{now.words}{pace}")

    return show


@contextmanager
def mining_progress(base: str, num_most: int) -> Iterator[MiningProgress]:
    """What a search for a chip calls as it goes on: designs, their pace, the best, the bound and the time left."""
    with _systems_bar("mining") as show:
        yield lambda now: show(api_progress.mining_progress(now, base, num_most))


@contextmanager
def joint_progress(base: str) -> Iterator[Callable[[JointStanding], None]]:
    """What a joint search calls as it goes on: systems, their pace, the best, the bound and the time left."""
    with _systems_bar("co-design") as show:
        yield lambda now: show(api_progress.joint_progress(now, base))


@contextmanager
def front_progress() -> Iterator[Callable[[FrontStanding], None]]:
    """What a search for a front calls as it goes on: points bounded, then systems settled, scored and on the front."""
    with _systems_bar("front", has_pace=False) as show:
        yield lambda now: show(api_progress.front_progress(now))


@contextmanager
def announced(words: str) -> Iterator[None]:
    """Says what runs and for how long already."""
    columns: Columns = lambda rich: (rich.SpinnerColumn(), rich.TextColumn(words), rich.TimeElapsedColumn())  # noqa: E731
    with timed_log(words), _bar(columns) as bar:
        if bar is not None:
            bar.add_task(words, total=None)
        yield


def through(words: str, items: Sequence[Item]) -> Iterator[Item]:
    """The items one after another; how many are done, their pace and the time left are shown."""

    def columns(rich: Any) -> Sequence[Any]:
        done = (rich.TextColumn(words), rich.BarColumn(bar_width=_room(WIDTH)), rich.MofNCompleteColumn())
        return *done, rich.TextColumn(STATUS), rich.TimeRemainingColumn()

    with timed_log(words), _bar(columns) as bar:
        task = None if bar is None else bar.add_task(words, total=len(items), status="")
        begin_s = time.monotonic()
        for num_done, item in enumerate(items, start=1):
            yield item
            if bar is not None:
                pace = num_done / max(time.monotonic() - begin_s, MOMENT_S)
                bar.update(
                    task, completed=num_done, status=f"{pace:,.1f}/s" if pace >= 1 else f"{1 / pace:,.1f} s each"
                )


@contextmanager
def telling(words: str) -> Iterator[Callable[[str], None]]:
    """What something of unknown length calls with what it does; that and how long it takes already are shown."""

    def columns(rich: Any) -> Sequence[Any]:
        return rich.SpinnerColumn(), rich.TextColumn(STATUS), rich.TimeElapsedColumn()

    with timed_log(words), _bar(columns) as bar:
        task = None if bar is None else bar.add_task(words, total=None, status=words)
        yield (lambda _: None) if bar is None else (lambda now: bar.update(task, status=now))


@contextmanager
def measuring_progress() -> Iterator[Callable[[api_progress.Progress], None]]:
    """What a measurement calls as it goes on: rows done of all, the table, and the time left."""

    def columns(rich: Any) -> Sequence[Any]:
        return rich.BarColumn(bar_width=_room(WIDTH)), rich.MofNCompleteColumn(), rich.TextColumn(STATUS)

    with timed_log("measuring"), _bar(columns) as bar:
        yield (lambda _: None) if bar is None else _shown_rows(bar)


def _shown_rows(bar: Any) -> Callable[[api_progress.Progress], None]:
    task = bar.add_task("measuring", total=None, status="measuring")

    def show(now: api_progress.Progress) -> None:
        bar.update(task, completed=now.num_done, total=now.num_all or None, status=now.words)

    return show


@contextmanager
def stepping(names: list[str]) -> Iterator[Callable[[str], None]]:
    """What a study of several things calls as it goes on, with words that begin with the name of one of them."""

    def columns(rich: Any) -> Sequence[Any]:
        done = (rich.BarColumn(bar_width=_room(WIDTH)), rich.MofNCompleteColumn())
        return *done, rich.TextColumn(STATUS), rich.TimeElapsedColumn(), rich.TimeRemainingColumn()

    with timed_log(f"{len(names)} steps"), _bar(columns) as bar:
        yield (lambda _: None) if bar is None else _shown_steps(bar, names)


def _shown_steps(bar: Any, names: list[str]) -> Callable[[str], None]:
    task = bar.add_task("stepping", total=len(names), status="")
    num_done = 0

    def show(words: str) -> None:
        nonlocal num_done
        name = words.partition(":")[0]
        num_done = max(num_done, names.index(name) if name in names else len(names))
        bar.update(task, completed=num_done, status=words)

    return show


def _terminal() -> TextIO | None:
    """Standard error, where it is a terminal."""
    output = stream("stderr")
    is_watched = (
        output is not None and output.isatty() and os.environ.get("TERM") != "dumb" and not verbosity().is_quiet
    )
    return output if is_watched else None


def _is_narrow() -> bool:
    return shutil.get_terminal_size().columns < NARROW


def _room(width: int) -> int:
    """How wide a bar is where there is less room for words beside it."""
    return min(width, 6) if _is_narrow() else width


def _shown(bar: Any, objective: Objective, cluster_usd: float) -> PlanProgress:
    task = bar.add_task("searching", total=None, status="")
    begin_s = time.monotonic()

    def show(
        num_done: int,
        num_all: int,
        tally: Tally,
        score: float,
        bound_s: float = 0.0,
        _: tuple[Candidate, ...] = (),
        /,
    ) -> None:
        best = best_label(objective, score, cluster_usd)
        if score == float("inf") and not bound_s and not tally.num_evaluated:
            best = "bounding"
        if score == float("inf") and bound_s:
            status = f"{best}; cutting stages"
        elif bound_s:
            gap_frac = max(0.0, 1 - bound_s * cluster_usd / score)
            status = f"{best}; cutting stages, gap {100 * gap_frac:.2f} %"
        else:
            passed_s = time.monotonic() - begin_s
            pace = f"{tally.num_plans / passed_s if passed_s > 0 else 0.0:,.0f} plans/s"
            status = best if _is_narrow() else f"{pace}, {best}"
            status += "; cutting stages" if num_done == num_all else ""
        bar.update(task, completed=num_done, total=num_all, status=status)

    return show
