"""The measurements that ship with the package, for benchmarks."""

from __future__ import annotations

from dovetail.accuracy.measurements import Measurements
from dovetail.files.measurements import load_measurements, shipped_folder


def h200_table(name: str) -> Measurements:
    return load_measurements(shipped_folder("h200") / f"{name}.csv")
