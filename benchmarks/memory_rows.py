"""Measured and published memory beside ours: `python -m benchmarks.memory_rows` prints every row.

What a published row ran is read in `dovetail.accuracy.memory_jobs`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator

from benchmarks.measured import h200_table
from dovetail.accuracy.memory_rows import ANALYTIC, MemoryRow, figure_bytes, memory_row
from dovetail.accuracy.sets.steps import step_jobs
from dovetail.files.measurements import shipped_folder
from dovetail.units import GIBI

__all__ = ["MemoryRow", "h200_rows", "published_rows"]


def h200_rows() -> Iterator[MemoryRow]:
    table = h200_table("models")
    jobs, _ = step_jobs(table)
    columns = (table.words(name) for name in ("model", "layers", "micro_batch", "recompute", "mode"))
    rows = zip(jobs, *columns, table.positive("peak_gib"), strict=True)
    for index, (job, model, layers, batch, recompute, mode, peak) in enumerate(rows):
        assert job is not None, f"the shipped row of {model} is not expressed"
        yield MemoryRow(
            row=f"H200-{index + 1:02d}",
            source="H200 training steps",
            what=f"{model} {layers}L mb{batch} recompute={recompute} {mode}",
            measured_bytes=float(peak) * GIBI,
            predicted_bytes=figure_bytes(job, "allocated"),
            kind="allocated",
        )


def published_rows() -> Iterator[MemoryRow]:
    """Measured rows of published_memory.csv; analytic ones are closed forms and are checked as such."""
    with (shipped_folder("published") / "published_memory.csv").open(encoding="utf-8", newline="") as file:
        rows = [{name.lower(): cell for name, cell in row.items()} for row in csv.DictReader(file)]
    yield from (memory_row(row) for row in rows if row["quality"] != ANALYTIC)


def main() -> None:
    """The whole table, and what it comes to."""
    rows = (*h200_rows(), *published_rows())
    for row in rows:
        if row.why_not:
            print(f"{row.row:8} {row.what[:52]:52} not expressed: {row.why_not}")
            continue
        ours, theirs = row.predicted_bytes / GIBI, row.measured_bytes / GIBI
        error = (
            f"{theirs:7.2f} GiB  ours {ours:7.2f}  {row.error_frac:+7.1%}" if row.is_measured else f"ours {ours:7.2f}"
        )
        verdict = "" if not row.is_decision or row.is_decided_right else "  decided wrong"
        print(f"{row.row:8} {row.what[:48]:48} {row.kind:13} {error}{verdict}")
    errors = [abs(row.error_frac) for row in rows if row.is_measured]
    decisions = [row.is_decided_right for row in rows if row.is_decision]
    print(f"{len(errors)} measured rows, mean error {sum(errors) / len(errors):.2%}, worst {max(errors):.1%}")
    print(f"{len(decisions)} decisions, {sum(decisions) / len(decisions):.1%} right")


if __name__ == "__main__":
    main()
