"""The gaps of long searches that ship with the package."""

from __future__ import annotations

from functools import cache

from dovetail.accuracy.appraisal import Gap, gaps_of
from dovetail.files.measurements import load_measurements, shipped_folder


@cache
def load_gaps() -> tuple[Gap, ...]:
    return gaps_of(load_measurements(shipped_folder("gaps.csv")))
