"""A bar or a clock on standard error while something runs, where that is a terminal; nothing elsewhere."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TextIO

from dovetail.cli.process import stream
from dovetail.search.codesign.joint import Standing as JointStanding
from dovetail.search.codesign.pareto import FrontStanding
from dovetail.search.mining.miner import Standing, Watch
from dovetail.search.objectives import Objective
from dovetail.search.planner import Progress, Tally
from dovetail.units import format_bytes, format_energy_j, format_s

CLEAR_LINE = b"\r\x1b[2K\x1b[?25h"  # ECMA-48: erase the line; and show the cursor that the bar hides


@contextmanager
def search_progress(objective: Objective, cluster_usd: float) -> Iterator[Progress]:
    """What a search calls as it goes on: grids done, plans a second, the best so far and the time left are shown."""
    told = _terminal()
    if told is None:
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("searching"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[said]}"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(file=told), transient=True) as bar, _clean_interrupt():
        yield _shown(bar, objective, cluster_usd)


@contextmanager
def mining_progress(base: str, num_most: int) -> Iterator[Watch]:
    """What a search for a chip calls as it goes on: designs, their pace, the best, the bound and the time left."""
    told = _terminal()
    if told is None:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("mining"), BarColumn(bar_width=12), TextColumn("{task.fields[said]}"), TimeRemainingColumn())
    with Bar(*columns, console=Console(file=told), transient=True) as bar, _clean_interrupt():
        yield _shown_mining(bar, base, num_most)


def _shown_mining(bar: Any, base: str, num_most: int) -> Watch:
    task = bar.add_task("mining", total=None, said="bounding")
    begin_s = time.monotonic()

    def show(now: Standing) -> None:
        passed_s = time.monotonic() - begin_s
        said = f"{now.num_evaluated:,} designs, {now.num_evaluated / passed_s if passed_s > 0 else 0.0:,.0f}/s"
        if now.loss < float("inf"):
            said += f"; {1 / now.loss:.3f}x {base}, at most {1 / now.bound:.3f}x"
        num_all = min(now.num_evaluated + now.num_open, num_most)
        bar.update(task, completed=now.num_evaluated, total=num_all, said=said)

    return show


@contextmanager
def joint_progress(base: str) -> Iterator[Callable[[JointStanding], None]]:
    """What a joint search calls as it goes on: systems, their pace, the best, the bound and the time left."""
    told = _terminal()
    if told is None:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("co-design"), BarColumn(bar_width=12), TextColumn("{task.fields[said]}"))
    with Bar(*columns, TimeRemainingColumn(), console=Console(file=told), transient=True) as bar, _clean_interrupt():
        yield _shown_joint(bar, base)


def _shown_joint(bar: Any, base: str) -> Callable[[JointStanding], None]:
    task = bar.add_task("co-design", total=None, said="bounding")
    begin_s = time.monotonic()

    def show(now: JointStanding) -> None:
        passed_s = time.monotonic() - begin_s
        said = f"{now.num_done:,} {now.phase}, {now.num_done / passed_s if passed_s > 0 else 0.0:,.0f}/s"
        if now.loss < float("inf"):
            said += f"; {1 / now.loss:.3f}x {base}, at most {1 / now.bound:.3f}x"
        bar.update(task, completed=now.num_done, total=now.num_done + now.num_open, said=said)

    return show


@contextmanager
def front_progress() -> Iterator[Callable[[FrontStanding], None]]:
    """What a search for a front calls as it goes on: points bounded, then systems settled, scored and on the front."""
    told = _terminal()
    if told is None:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("front"), BarColumn(bar_width=12), TextColumn("{task.fields[said]}"), TimeElapsedColumn())
    with Bar(*columns, console=Console(file=told), transient=True) as bar, _clean_interrupt():
        task = bar.add_task("front", total=None, said="bounding")

        def show(now: FrontStanding) -> None:
            if now.num_bounded < now.num_points:
                said = f"bounding {now.num_points:,} systems"
                bar.update(task, completed=now.num_bounded, total=2 * now.num_points, said=said)
                return
            said = f"{now.num_scored:,} scored, {now.num_front:,} on the front, {now.num_open:,} open"
            done = 2 * now.num_points - now.num_open
            bar.update(task, completed=done, total=2 * now.num_points, said=said)

        yield show


@contextmanager
def busy(words: str) -> Iterator[None]:
    """Says what runs and for how long already."""
    told = _terminal()
    if told is None:
        yield
        return
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn(words), TimeElapsedColumn())
    with Bar(*columns, console=Console(file=told), transient=True) as bar, _clean_interrupt():
        bar.add_task(words, total=None)
        yield


@contextmanager
def stepping(names: list[str]) -> Iterator[Callable[[str], None]]:
    """What a study of several things calls as it goes on, with words that begin with the name of one of them."""
    told = _terminal()
    if told is None:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(bar_width=12), MofNCompleteColumn(), TextColumn("{task.fields[said]}"), TimeElapsedColumn())
    with Bar(*columns, console=Console(file=told), transient=True) as bar, _clean_interrupt():
        yield _shown_steps(bar, names)


def _shown_steps(bar: Any, names: list[str]) -> Callable[[str], None]:
    task = bar.add_task("stepping", total=len(names), said="")
    num_done = 0

    def show(words: str) -> None:
        nonlocal num_done
        name = words.partition(":")[0]
        num_done = max(num_done, names.index(name) if name in names else len(names))
        bar.update(task, completed=num_done, said=words)

    return show


def _terminal() -> TextIO | None:
    """Standard error, where somebody watches it."""
    told = stream("stderr")
    return told if told is not None and told.isatty() and os.environ.get("TERM") != "dumb" else None


def _shown(bar: Any, objective: Objective, cluster_usd: float) -> Progress:
    task = bar.add_task("searching", total=None, said="")
    begin_s = time.monotonic()

    def show(num_done: int, num_all: int, tally: Tally, score: float, bound_s: float = 0.0, /) -> None:
        best = best_words(objective, score, cluster_usd)
        if score == float("inf") and not bound_s and not tally.num_evaluated:
            best = "bounding"
        if score == float("inf") and bound_s:
            said = f"{best}; cutting stages"
        elif bound_s:
            gap_frac = max(0.0, 1 - bound_s * cluster_usd / score)
            said = f"{best}; cutting stages, gap {100 * gap_frac:.2f} %"
        else:
            passed_s = time.monotonic() - begin_s
            said = f"{tally.num_plans / passed_s if passed_s > 0 else 0.0:,.0f} plans/s, {best}"
            said += "; cutting stages" if num_done == num_all else ""
        bar.update(task, completed=num_done, total=num_all, said=said)

    return show


def best_words(objective: Objective, score: float, cluster_usd: float) -> str:
    """The best score so far as people say it."""
    if score == float("inf"):
        return "nothing fits yet"
    if objective.aspect == "memory":
        return f"best {format_bytes(score)}"
    if objective.aspect == "energy":
        return f"best {format_energy_j(score, 1)} a step"
    return f"best {format_s(score / cluster_usd)} a step"


@contextmanager
def _clean_interrupt() -> Iterator[None]:
    """Clears the bar before an interrupt ends the process, as whoever meets it does not know of the bar."""
    previous = signal.getsignal(signal.SIGINT)
    if not callable(previous):  # ignored, as a shell may have it
        yield
        return

    def interrupted(number: int, frame: FrameType | None) -> None:
        os.write(2, CLEAR_LINE)
        previous(number, frame)

    try:
        signal.signal(signal.SIGINT, interrupted)
    except ValueError:  # not the main thread, which alone may say
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
