"""Scores on published training runs and their memory, recorded: `python -m benchmarks.published_runs` writes them.

The tables are other people's and do not travel with this repository, not even their worst rows; docs/accuracy.md shows
what is recorded.
"""

from __future__ import annotations

import sys
from functools import cache

from benchmarks.bar import REPOSITORY, reference_data
from benchmarks.published_gemm import ABSENT, record
from dovetail.accuracy.prepared import Given, Prepared
from dovetail.accuracy.sets import prepared
from dovetail.files.measurements import MORE_RUNS, load_measurements

RESULTS = REPOSITORY / "benchmarks" / "results" / "published.json"
RUNS = ("published_training.csv", *MORE_RUNS, "published_memory.csv")
FOLDERS = ("published", "third_party")


@cache
def published_runs() -> tuple[Prepared, ...]:
    """The sets of the published tables of runs that this machine has."""
    found = (reference_data(f"{folder}/{name}") for name in RUNS for folder in FOLDERS)
    return tuple(one for file in found if file is not None for one in prepared(load_measurements(file), Given()))


if __name__ == "__main__":
    if not published_runs():
        sys.exit(ABSENT)
    record(list(published_runs()), RESULTS)
