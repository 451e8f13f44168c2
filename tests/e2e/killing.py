"""A command with --store, killed at any moment and started again: does it answer as if nothing had been?

`command` is what follows `dovetail`, without --store; it prints JSON. Used by the tests and by benchmarks/bar_store.py.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.e2e.conftest import ROOT, environment

POLL_S = 0.01
LIMIT_S = 600.0
Rows = tuple[tuple[object, ...], ...]


@dataclass(frozen=True)
class Whole:
    """A run that came to its end: what it printed, all rows of its store, and how long it took."""

    stdout: str
    rows: Rows
    took_s: float


@dataclass(frozen=True)
class Killed:
    """A run that was killed, unless it `has_ended` before; `num_rows` were in the store then."""

    num_rows: int
    has_ended: bool


def started(command: Sequence[str], store: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "dovetail", *command, "--store", str(store)],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def whole_run(command: Sequence[str], store: Path) -> Whole:
    began_s = time.monotonic()
    running = started(command, store)
    out, err = running.communicate(timeout=LIMIT_S)
    assert (running.returncode, err) == (0, ""), err
    return Whole(stdout=out, rows=rows_of(store), took_s=time.monotonic() - began_s)


def rows_of(store: Path) -> Rows:
    """Every row of a store that another process may be making, by study and point."""
    query = "SELECT key, p.* FROM points p JOIN studies ON id = study ORDER BY key, point"
    try:
        with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=LIMIT_S)) as link:
            return tuple((key, *cells) for key, _, *cells in link.execute(query))
    except sqlite3.OperationalError:  # no file yet, or no table in it
        return ()


def killed_after_rows(command: Sequence[str], store: Path, num_rows: int) -> Killed:
    """Kills it as soon as its store has so many rows; with 0, as soon as there is a file."""
    running = started(command, store)
    while running.poll() is None and (not store.exists() or len(rows_of(store)) < num_rows):
        time.sleep(POLL_S)
    return _killed(running, store)


def killed_after_s(command: Sequence[str], store: Path, wait_s: float) -> Killed:
    """Kills it so long after its start."""
    running = started(command, store)
    with suppress(subprocess.TimeoutExpired):
        running.wait(wait_s)
    return _killed(running, store)


def _killed(running: subprocess.Popen[str], store: Path) -> Killed:
    running.kill()
    _, err = running.communicate(timeout=LIMIT_S)
    assert running.returncode not in (2, 70), f"it was not killed, but ended in a mistake: {err}"
    return Killed(num_rows=len(rows_of(store)), has_ended=running.returncode == 0)


def resumed_as_whole(command: Sequence[str], store: Path, whole: Whole) -> list[str]:
    """What differs, once a killed run has gone on to its end, from a run that was left alone; nothing if all is well.

    What the killed one left must still be there, as it was.
    """
    left = set(rows_of(store))
    again = whole_run(command, store)
    differences = {
        "the answer": again.stdout == whole.stdout,
        f"{len(again.rows)} rows, not {len(whole.rows)}": len(again.rows) == len(whole.rows),
        "what rows say": set(again.rows) == set(whole.rows),
        "a row that was kept": left <= set(again.rows),
    }
    return [what for what, is_same in differences.items() if not is_same]


def kill_often(command: Sequence[str], folder: Path, num_kills: int, seed: int = 1) -> tuple[list[Killed], list[str]]:
    """Runs killed at random, each in a store of its own, then gone on with.

    Every other moment is drawn evenly from the time of a whole run, start and end included; the rest from its rows, as
    the time that goes by while rows are written may be short. A run that ended before its moment is drawn again, by
    time. Gives the kills, and what differed from a run left alone.
    """
    rng, whole = Random(seed), whole_run(command, folder / "whole.db")
    kills: list[Killed] = []
    wrong: list[str] = []
    is_by_rows = False
    while len(kills) < num_kills:
        store = folder / f"killed-{len(kills)}.db"
        if is_by_rows:
            killed = killed_after_rows(command, store, rng.randrange(1, max(2, len(whole.rows))))
        else:
            killed = killed_after_s(command, store, rng.uniform(0.0, whole.took_s))
        is_by_rows = not is_by_rows and not killed.has_ended
        if killed.has_ended:
            for left in folder.glob(f"{store.name}*"):
                left.unlink()
            continue
        kills.append(killed)
        wrong += [f"kill {len(kills)}: {what}" for what in resumed_as_whole(command, store, whole)]
    return kills, wrong
