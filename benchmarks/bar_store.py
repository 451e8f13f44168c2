"""The store: searches killed at random moments and gone on with, and how fast rows are kept and found again.

A search to be killed is a line of `SEARCHES`: what follows `dovetail`, without --store, printing JSON that has no times
in it. Half of the moments are drawn evenly from the time of a whole run, half from its rows.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bar import Bar
from dovetail.search.algorithms import Scored
from dovetail.store import opened
from tests.e2e.killing import kill_often

ISSUE = 7
NUM_KILLS = 20
SEARCHES = {
    "mine": "mine bert-large --batch 8 --algorithm random --budget 1000 --seed 3 --json",
    "codesign": "codesign benchmarks/data/codesign-kills.yaml --exhaustive --json",
}
NUM_ROWS = 1_000_000
NUM_AT_ONCE = 1_000
NUM_FIGURES = 6
LEAST_ROWS_PER_S = 20_000
MOST_KNOWN_S = 5.0
INPUTS = {"space": {f"knob_{place}": list(range(10)) for place in range(6)}}


def bars() -> Iterator[Bar]:
    for name, command in SEARCHES.items():
        yield killed_bar(name, tuple(command.split()))
    yield from speed_bars()


def killed_bar(name: str, command: tuple[str, ...]) -> Bar:
    """Whether a search ends as it would have, whenever it is killed."""
    with tempfile.TemporaryDirectory() as folder:
        kills, wrong = kill_often(command, Path(folder), NUM_KILLS)
    midway = sum(kill.num_rows > 0 for kill in kills)
    return Bar(
        name=f"dovetail {name} --store, killed at random moments and gone on with",
        issue=ISSUE,
        bar=f"same answer and rows after each of {NUM_KILLS}",
        measured=f"{len(kills)} killed, {midway} of them with rows kept; {len(wrong)} differences",
        holds=not wrong,
        note="; ".join(wrong[:3]),
    )


def speed_bars() -> Iterator[Bar]:
    """CPU seconds, as a disk's own pace is not ours."""
    rows = [_row(number) for number in range(NUM_ROWS)]
    names = tuple(f"figure_{place}" for place in range(NUM_FIGURES))
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder) / "designs.db") as store:
        study = store.study("speed", INPUTS, names)
        began_s = time.process_time()
        for first in range(0, NUM_ROWS, NUM_AT_ONCE):
            study.keep(rows[first : first + NUM_AT_ONCE])
        kept_s = time.process_time() - began_s
        del rows
        began_s = time.process_time()
        num_known = len(study.known())
        known_s = time.process_time() - began_s
    assert num_known == NUM_ROWS, num_known
    yield Bar(
        name=f"rows kept, {NUM_AT_ONCE:,} in a transaction",
        issue=ISSUE,
        bar=f">= {LEAST_ROWS_PER_S:,} a CPU second",
        measured=f"{NUM_ROWS / kept_s:,.0f}",
        holds=NUM_ROWS / kept_s >= LEAST_ROWS_PER_S,
    )
    yield Bar(
        name=f"{NUM_ROWS:,} rows found again and checked",
        issue=ISSUE,
        bar=f"< {MOST_KNOWN_S:g} CPU seconds",
        measured=f"{known_s:.1f}",
        holds=known_s < MOST_KNOWN_S,
    )


def _row(number: int) -> Scored:
    point = tuple(number // 10**place % 10 for place in range(6))
    return Scored(point=point, loss=1.0 + number / NUM_ROWS, also=(math.sqrt(number),) * NUM_FIGURES)
