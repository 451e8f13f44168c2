"""Mixtures of experts and narrow formats: errors on published runs, fp8 beside bf16, and intervals (issue 26)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from benchmarks.bar import Bar
from benchmarks.residuals import TABLE, residuals
from dovetail.accuracy.evidence import class_of_row, evidence
from dovetail.accuracy.runs.row import Row
from dovetail.accuracy.runs.timing import Timed, timed_rows
from dovetail.files.measurements import load_measurements, shipped_folder
from dovetail.files.residuals import load_residuals

ISSUE = 26
PUBLISHER = "Megatron-Bridge"
MAX_MEAN_FRAC = 0.12
MIN_COVERED_FRAC = 0.80
WIDE, NARROW = ("bf16", "fp16"), ("fp8", "fp4")
# Columns in which two runs of one job are alike, however they are cut and whatever they compute in.
JOB = ("source", "model", "layers", "hidden", "heads", "seq", "gpu", "n_gpus", "global_batch")


def bars() -> Iterator[Bar]:
    table = load_measurements(shipped_folder(TABLE))
    rows = {row.word("row_id"): row for row in (Row(dict(zip(table.columns, r, strict=True))) for r in table.rows)}
    found = [timed for timed in timed_rows(rows.values())[0] if timed.is_complete]
    mixtures = [timed for timed in found if timed.run.model.experts is not None]
    yield _errors(mixtures)
    yield _never_slower(found, rows)
    yield _covered(found)


def _errors(mixtures: Sequence[Timed]) -> Bar:
    """By the publisher; no constant of the model is fitted on its rows, only options of its recipes are read."""
    by_publisher: dict[str, list[float]] = defaultdict(list)
    for timed in mixtures:
        by_publisher[timed.run.publisher].append(abs(timed.step_s / timed.run.measured_s - 1))
    own = by_publisher.pop(PUBLISHER)
    others = (f"{name} {np.mean(errors):.1%} of {len(errors)}" for name, errors in sorted(by_publisher.items()))
    return Bar(
        name=f"{PUBLISHER}, mixtures of experts, mean error",
        issue=ISSUE,
        bar=f"<= {MAX_MEAN_FRAC:.0%}",
        measured=f"{np.mean(own):.1%} mean, {np.median(own):.1%} median of {len(own)} rows",
        holds=float(np.mean(own)) <= MAX_MEAN_FRAC,
        note="others: " + ", ".join(others),
    )


def _never_slower(found: Sequence[Timed], rows: dict[str, Row]) -> Bar:
    """Pairs of one job of one publisher in which the narrower run was faster, and is said to be slower."""
    jobs: dict[tuple[str, ...], list[Timed]] = defaultdict(list)
    for timed in found:
        jobs[tuple(rows[timed.run.name].word(column) for column in JOB)].append(timed)
    wrong, num_pairs = [], 0
    for job in jobs.values():
        wide, narrow = ([one for one in job if one.run.precision.compute in kind] for kind in (WIDE, NARROW))
        for one, other in product(wide, narrow):
            if other.run.measured_s < one.run.measured_s:
                num_pairs += 1
                if other.step_s > one.step_s:
                    wrong.append(f"{other.run.name} beside {one.run.name}: {other.step_s / one.step_s - 1:+.1%}")
    return Bar(
        name="whole steps in fp8 or fp4, faster than bf16 as measured, predicted slower",
        issue=ISSUE,
        bar="0",
        measured=f"{len(wrong)} of {num_pairs} pairs",
        holds=not wrong,
        note=", ".join(wrong),
    )


def _covered(found: Sequence[Timed]) -> Bar:
    """By errors of today's model: of each mixture, the interval that other publishers' runs give."""
    timed = {row.name: row for row in residuals(found)}
    rows = [timed.get(row.name, row) for row in load_residuals()]
    mixtures = [row for row in rows if row.is_mixture]
    inside = []
    for row in mixtures:
        others = [other for other in rows if other.publisher != row.publisher]
        inside.append(abs(row.log_ratio) <= evidence(class_of_row(row), others).half_width)
    covered_frac = float(np.mean(inside))
    return Bar(
        name="90 % intervals of mixtures of experts, a publisher left out, by today's model",
        issue=ISSUE,
        bar=f"cover at least {MIN_COVERED_FRAC:.0%}",
        measured=f"{covered_frac:.1%} of {len(inside)} rows",
        holds=covered_frac >= MIN_COVERED_FRAC,
    )
