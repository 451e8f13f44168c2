"""Intervals hold what they promise, on published runs as timed by today's model; and the shipped errors are its."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.bar import Bar
from benchmarks.residuals import moved, timed_residuals
from dovetail.accuracy.coverage import LEAST_FRAC, MOST_FRAC, JudgedCoverage, judged_coverage
from dovetail.accuracy.residuals import Residual
from dovetail.files.residuals import load_residuals

ISSUE = 5


def bars() -> Iterator[Bar]:
    rows = timed_residuals()
    message = f"cover {LEAST_FRAC:.0%} to {MOST_FRAC:.0%} of rows"
    yield from (_covering(message, judged, rows) for judged in judged_coverage(rows))
    yield _shipped(rows)


def _covering(told: str, judged: JudgedCoverage, rows: Sequence[Residual]) -> Bar:
    found, publishers = judged.coverage, len({row.publisher for row in rows})
    return Bar(
        name=f"90 % intervals, {judged.left_out} left out",
        issue=ISSUE,
        bar=told,
        measured=f"{found.covered_frac:.1%} of {found.num_rows} rows of {publishers} publishers,"
        f" {found.width_frac:.0%} wide in the middle",
        holds=judged.holds,
    )


def _shipped(rows: Sequence[Residual]) -> Bar:
    """The errors that intervals rest on, against those of today's model."""
    name, told = "shipped errors on published runs", "those of today's model"
    found = moved(rows, load_residuals())
    note = "write them again: python -m benchmarks.residuals" if found else ""
    return Bar(name=name, issue=ISSUE, bar=told, measured=f"{len(found)} rows moved", holds=not found, note=note)
