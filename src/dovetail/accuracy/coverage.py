"""Do intervals hold what they promise: rows that they were not made from, left out singly or by publisher."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.accuracy.evidence import class_of_row, evidence
from dovetail.accuracy.residuals import Residual

LEAST_FRAC, MOST_FRAC = 0.85, 0.95  # of rows that intervals of 90 % are to cover


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Share of rows inside the interval that other rows give, and how wide that is in the middle, over the time."""

    num_rows: int
    covered_frac: float
    width_frac: float


def coverage_one_out(rows: Sequence[Residual]) -> Coverage:
    """Each row judged by all others."""
    return _coverage(rows, lambda row, other: row is not other)


def coverage_publisher_out(rows: Sequence[Residual]) -> Coverage:
    """Each row judged by those of other publishers: what a stranger's run meets."""
    return _coverage(rows, lambda row, other: row.publisher != other.publisher)


def _coverage(rows: Sequence[Residual], is_kept: Callable[[Residual, Residual], bool]) -> Coverage:
    covered, widths = [], []
    for row in rows:
        others = [other for other in rows if is_kept(row, other)]
        half_width = evidence(class_of_row(row), others).half_width
        covered.append(abs(row.log_ratio) <= half_width)
        widths.append(math.exp(half_width) - math.exp(-half_width))
    return Coverage(num_rows=len(rows), covered_frac=float(np.mean(covered)), width_frac=float(np.median(widths)))


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCoverage:
    """What intervals were found to cover with a row or a publisher `left_out`, against the bar on that."""

    left_out: str
    coverage: Coverage

    @property
    def holds(self) -> bool:
        return LEAST_FRAC <= self.coverage.covered_frac <= MOST_FRAC


def judged_coverage(rows: Sequence[Residual]) -> tuple[JudgedCoverage, ...]:
    """Both ways to leave rows out."""
    return (
        JudgedCoverage(left_out="a row", coverage=coverage_one_out(rows)),
        JudgedCoverage(left_out="a publisher", coverage=coverage_publisher_out(rows)),
    )
