"""Scores on published training runs that do not ship, recorded: `python -m benchmarks.published_runs` writes them.

The table is other people's and does not travel with this repository, not even its worst rows;
benchmarks/results/accuracy.md shows what is recorded beside the runs that ship, which it times again.
"""

from __future__ import annotations

import sys
from functools import cache

from benchmarks.bar import REPOSITORY, reference_data
from benchmarks.published_gemm import ABSENT, record
from dovetail.accuracy.prepared import Prepared, TableContext
from dovetail.accuracy.sets import prepared
from dovetail.files.measurements import MORE_RUNS, load_measurements

RESULTS = REPOSITORY / "benchmarks" / "results" / "published.json"
RUNS = ("published_training.csv", *MORE_RUNS, "published_memory.csv")
FOLDERS = ("published", "third_party")


@cache
def published_runs(names: tuple[str, ...] = RUNS) -> tuple[Prepared, ...]:
    """The sets of the published tables of runs that this machine has."""
    found = (reference_data(f"{folder}/{name}") for name in names for folder in FOLDERS)
    return tuple(one for file in found if file is not None for one in prepared(load_measurements(file), TableContext()))


if __name__ == "__main__":
    if not published_runs(MORE_RUNS):
        sys.exit(ABSENT)
    record(list(published_runs(MORE_RUNS)), RESULTS)
