"""Intervals hold what they promise, on published runs as timed by today's model; and the shipped errors are its."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.bar import Bar
from benchmarks.interval_coverage import Coverage, coverage_one_out, coverage_publisher_out
from benchmarks.published_gemm import ABSENT
from benchmarks.residuals import timed_residuals
from dovetail.accuracy.residuals import Residual
from dovetail.files.residuals import load_residuals

ISSUE = 5
LEAST_FRAC, MOST_FRAC = 0.85, 0.95
STALE = 0.005  # of a log ratio, from which on the shipped errors are those of another model


def bars() -> Iterator[Bar]:
    rows = timed_residuals()
    told = f"cover {LEAST_FRAC:.0%} to {MOST_FRAC:.0%} of rows"
    judged = (("a row left out", coverage_one_out), ("a publisher left out", coverage_publisher_out))
    for words, coverage in judged:
        name = f"90 % intervals, {words}"
        if rows:
            yield _covering(name, told, coverage(rows), rows)
        else:
            yield Bar(name=name, issue=ISSUE, bar=told, measured="-", holds=None, note=ABSENT)
    yield _shipped(rows)


def _covering(name: str, told: str, found: Coverage, rows: Sequence[Residual]) -> Bar:
    holds = LEAST_FRAC <= found.covered_frac <= MOST_FRAC
    publishers = len({row.publisher for row in rows})
    return Bar(
        name=name,
        issue=ISSUE,
        bar=told,
        measured=f"{found.covered_frac:.1%} of {found.num_rows} rows of {publishers} publishers,"
        f" {found.width_frac:.0%} wide in the middle",
        holds=holds,
    )


def _shipped(rows: Sequence[Residual]) -> Bar:
    """The errors that intervals rest on, against those of today's model."""
    name, told = "shipped errors on published runs", "those of today's model"
    if not rows:
        return Bar(name=name, issue=ISSUE, bar=told, measured="-", holds=None, note=ABSENT)
    today, shipped = ({row.name: row.log_ratio for row in each} for each in (rows, load_residuals()))
    moved = [row for row in today.keys() | shipped.keys() if abs(today.get(row, 9) - shipped.get(row, 0)) > STALE]
    note = "write them anew: python -m benchmarks.residuals" if moved else ""
    return Bar(name=name, issue=ISSUE, bar=told, measured=f"{len(moved)} rows moved", holds=not moved, note=note)
