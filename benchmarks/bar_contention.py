"""Compute beside communication: the slow-downs that an H200 showed, beside blocks of a collective and copy engines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.bar import Bar
from benchmarks.bar_accuracy import judged
from dovetail.accuracy.prepared import TableContext
from dovetail.accuracy.sets import prepared
from dovetail.files.measurements import load_measurements, shipped_folder

ISSUE = 4
TABLES = ("contention.csv", "contention_copy_engine.csv", "contention_kernels.csv")


def bars() -> Iterator[Bar]:
    tables = [load_measurements(shipped_folder("h200") / name) for name in TABLES]
    for bar in judged([one for table in tables for one in prepared(table, TableContext())]):
        yield replace(bar, issue=ISSUE)
