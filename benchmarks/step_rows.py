"""Whole training steps on one H200: seconds measured and seconds predicted, `python -m benchmarks.step_rows`.

The same rows and predictions as `dovetail validate h200`, one line each.
"""

from __future__ import annotations

import statistics

from benchmarks.measured import h200_table
from dovetail.accuracy.compared import Compared
from dovetail.accuracy.prepared import TableContext
from dovetail.accuracy.sets import prepared
from dovetail.units import MILLI


def step_rows() -> tuple[Compared, ...]:
    [steps] = prepared(h200_table("models"), TableContext())
    return steps.compared()


def main() -> None:
    rows = step_rows()
    for row in rows:
        measured_ms, predicted_ms = row.measured / MILLI, row.predicted / MILLI
        print(f"{row.what:36} {row.kind:8} {measured_ms:7.1f} ms  ours {predicted_ms:7.1f} ms  {row.error_frac:+6.1%}")
    print(f"mean error {statistics.fmean(abs(row.error_frac) for row in rows):.1%} over {len(rows)} steps")


if __name__ == "__main__":
    main()
