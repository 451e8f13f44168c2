"""Published runs by constants that were chosen without their publisher: `python -m benchmarks.left_out_runs`.

Two constants were chosen on the runs of many publishers: how far equal devices differ, and how much of today's pace
early software reached on Hopper (decision 90). For each publisher both are chosen again among a few on all other rows,
and its own rows are timed with them. Constants that only one publisher's kernels need (decisions 19 and 26) stay.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from dovetail.accuracy.runs.jobs import PublishedRun, run_of
from dovetail.accuracy.runs.machines import EARLY_HOPPER_FRAC, is_early_hopper
from dovetail.accuracy.runs.row import Row
from dovetail.accuracy.runs.timing import READ_OFF, timed
from dovetail.errors import DovetailError
from dovetail.files.measurements import load_measurements, shipped_folder
from dovetail.hardware.families.gpu import CLOCK_SPREAD_FRAC

TABLE = "published/published_training.csv"
SPREADS = (0.017, CLOCK_SPREAD_FRAC, 0.031)
EARLY = (1.0, 0.95, EARLY_HOPPER_FRAC, 0.85)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """One publisher: the mean error of its rows as shipped, and by constants chosen without it."""

    publisher: str
    num_rows: int
    shipped_frac: float
    left_out_frac: float
    spread_frac: float
    early_frac: float


@cache
def errors() -> tuple[tuple[str, ...], dict[tuple[float, float], np.ndarray]]:
    """The publisher of each complete row, and its error by spread and share of early software."""
    table = load_measurements(shipped_folder(TABLE))
    rows = [Row(cells=dict(zip(table.columns, row, strict=True))) for row in table.rows]
    found: dict[tuple[float, float], list[float]] = defaultdict(list)
    publishers = []
    for row in rows:
        if row.lacking or row.word("quality") == READ_OFF:
            continue
        try:
            run, is_early = run_of(row), is_early_hopper(row)
            step_s = {
                (spread, early): timed(_with(run, spread, early if is_early else EARLY_HOPPER_FRAC)).step_s
                for spread, early in itertools.product(SPREADS, EARLY if is_early else (EARLY_HOPPER_FRAC,))
            }
        except DovetailError:  # rows that cannot be said are counted where the table is scored
            continue
        publishers.append(row.publisher)
        for spread, early in itertools.product(SPREADS, EARLY):
            own_s = step_s[spread, early if is_early else EARLY_HOPPER_FRAC]
            found[spread, early].append(own_s / run.measured_s - 1)
    return tuple(publishers), {key: np.array(each) for key, each in found.items()}


def _with(run: PublishedRun, spread: float, early: float) -> PublishedRun:
    chip = run.cluster.chip
    tensor_frac = chip.calibration.tensor_frac * early / EARLY_HOPPER_FRAC
    calibration = replace(chip.calibration, clock_spread_frac=spread, tensor_frac=tensor_frac)
    return replace(run, cluster=replace(run.cluster, chip=replace(chip, calibration=calibration)))


def left_out() -> tuple[LeftOut, ...]:
    """Every publisher, by name."""
    publishers, by_constants = errors()
    of_row = np.array(publishers)
    shipped = by_constants[CLOCK_SPREAD_FRAC, EARLY_HOPPER_FRAC]
    found = []
    for name in sorted(set(publishers)):
        own = of_row == name
        best = min(by_constants, key=lambda constants: float(np.abs(by_constants[constants][~own]).mean()))
        found.append(
            LeftOut(
                publisher=name,
                num_rows=int(own.sum()),
                shipped_frac=float(np.abs(shipped[own]).mean()),
                left_out_frac=float(np.abs(by_constants[best][own]).mean()),
                spread_frac=best[0],
                early_frac=best[1],
            )
        )
    return tuple(found)


def mean_frac(found: Sequence[LeftOut]) -> float:
    """The mean error of all rows, each by constants chosen without its publisher."""
    return sum(one.num_rows * one.left_out_frac for one in found) / sum(one.num_rows for one in found)


def main() -> None:
    found = left_out()
    print("| publisher | rows | as shipped | left out | spread | early Hopper |\n|---|---:|---:|---:|---:|---:|")
    for one in found:
        print(
            f"| {one.publisher} | {one.num_rows} | {one.shipped_frac:.1%} | {one.left_out_frac:.1%} "
            f"| {one.spread_frac:g} | {one.early_frac:g} |"
        )
    print(f"\nall rows, a publisher left out: {mean_frac(found):.1%}")


if __name__ == "__main__":
    main()
