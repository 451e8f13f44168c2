"""Scores on published matrix products, recorded: `python -m benchmarks.published_gemm` writes them with their date.

The tables are other people's and do not travel with this repository, not even their worst rows;
benchmarks/results/accuracy.md shows what is recorded.
"""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path

from benchmarks.bar import reference_data
from benchmarks.stamp import RESULTS, commit
from dovetail.accuracy.prepared import Prepared, TableContext
from dovetail.accuracy.sets import prepared
from dovetail.accuracy.validation import validation
from dovetail.files.measurements import PUBLISHED_GEMM, load_measurements
from dovetail.report.accuracy import validation_record

RECORD = RESULTS / "published-gemm.json"
ABSENT = "the published tables are not on this machine; name their folder in DOVETAIL_REFERENCE_DATA"


def published_sets() -> list[Prepared]:
    """The sets of the published tables that this machine has."""
    found = (reference_data(f"third_party/{name}") or reference_data(name) for name in PUBLISHED_GEMM)
    return [one for file in found if file is not None for one in prepared(load_measurements(file), TableContext())]


def record(sets: list[Prepared], file: Path) -> None:
    """Writes the scores of `sets` with the day and the commit."""
    assert sets, ABSENT
    when = {"recorded": datetime.date.today().isoformat(), "commit": commit()}
    file.write_text(
        json.dumps(validation_record(validation(sets, num_worst=0)) | when, indent=2) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    if not published_sets():
        sys.exit(ABSENT)
    record(published_sets(), RECORD)
