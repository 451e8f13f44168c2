"""Intervals and chances that can be trusted: no surer without evidence, and right as often as they say (issue 26)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.bar import Bar
from benchmarks.pair_errors import (
    PUBLISHERS,
    held_out_chances,
    jobs_of,
    pooled,
    published_pairs,
    published_runs,
    worst_bin_frac,
)
from benchmarks.published_gemm import ABSENT
from dovetail.accuracy.chance import PAIRS, selection
from dovetail.accuracy.coverage import LEAST_FRAC, MOST_FRAC, coverage_publisher_out
from dovetail.accuracy.evidence import Class, class_of_row, evidence
from dovetail.accuracy.residuals import Residual
from dovetail.files.residuals import load_residuals

ISSUE = 26
MAX_OFF_FRAC = 0.10  # of the observed share, in the worst tenth
MIN_MIXTURES_FRAC = 0.80
JOB = Class(chip="h100-sxm", num_devices=256, is_transformer=True, is_mixture=False, has_pipeline=True)
UNLIKE = {
    "TPU v5p": replace(JOB, chip="tpu-v5p"),
    "MI300X": replace(JOB, chip="mi300x"),
    "L40S": replace(JOB, chip="l40s"),
    "100,000 H100": replace(JOB, num_devices=100_000),
    "zb-h1": replace(JOB, schedule="zb-h1"),
    "a mixture": replace(JOB, is_mixture=True),
    "a mixture on MI300X": replace(JOB, chip="mi300x", is_mixture=True),
}


def bars() -> Iterator[Bar]:
    rows = load_residuals()
    yield _without_evidence(rows)
    yield from _covered(rows)
    yield from _pairs()
    yield _picked(rows)


def _picked(rows: Sequence[Residual]) -> Bar:
    """Of each job that was run by several plans the one that we say is fastest, by intervals of other publishers."""
    of_name = {row.name: row for row in rows}
    inside = []
    for job in jobs_of(published_runs()):
        pick = min(job, key=lambda one: one.step_s)
        if pick.run.name not in of_name:
            continue
        row = of_name[pick.run.name]
        half_width = _half_width_of_others(row, rows)
        others = [one for one in job if one.run.plan != pick.run.plan]
        gaps = np.log([one.step_s / pick.step_s for one in others])
        ratios = [one.run.plan.tensor_parallel / pick.run.plan.tensor_parallel for one in others]
        shift = math.log1p(selection(gaps, PAIRS.scale(np.abs(np.log2(ratios)), gaps)).shift_frac)
        inside.append(-half_width <= row.log_ratio <= half_width + shift)
    covered_frac = float(np.mean(inside))
    return Bar(
        name="90 % intervals of the plan that we would have picked, a publisher left out",
        issue=ISSUE,
        bar=f"cover {LEAST_FRAC:.0%} to {MOST_FRAC:.0%}",
        measured=f"{covered_frac:.1%} of {len(inside)} published jobs",
        holds=LEAST_FRAC <= covered_frac <= MOST_FRAC,
    )


def _without_evidence(rows: Sequence[Residual]) -> Bar:
    """Intervals of jobs without evidence beside the widest of a published run that has it."""
    known = [evidence(class_of_row(row), rows) for row in rows]
    widest = max(one.half_width for one in known if one.words.startswith("from "))
    found = {name: evidence(job, rows).half_width for name, job in UNLIKE.items()}
    narrower = [name for name, half_width in found.items() if half_width < widest]
    return Bar(
        name=f"jobs without evidence ({', '.join(UNLIKE)}) with a narrower interval than a run with it",
        issue=ISSUE,
        bar="0",
        measured=f"{len(narrower)} of {len(found)}; {math.expm1(-widest):+.0%} to {math.expm1(widest):+.0%}",
        holds=not narrower,
        note=", ".join(narrower),
    )


def _covered(rows: Sequence[Residual]) -> Iterator[Bar]:
    found = coverage_publisher_out(rows)
    yield Bar(
        name="90 % intervals, a publisher left out",
        issue=ISSUE,
        bar=f"cover {LEAST_FRAC:.0%} to {MOST_FRAC:.0%}",
        measured=f"{found.covered_frac:.1%} of {found.num_rows} rows",
        holds=LEAST_FRAC <= found.covered_frac <= MOST_FRAC,
    )
    mixtures = [row for row in rows if row.is_mixture]
    inside = [abs(row.log_ratio) <= _half_width_of_others(row, rows) for row in mixtures]
    yield Bar(
        name="90 % intervals of mixtures of experts, a publisher left out",
        issue=ISSUE,
        bar=f"cover at least {MIN_MIXTURES_FRAC:.0%}",
        measured=f"{np.mean(inside):.1%} of {len(inside)} rows",
        holds=float(np.mean(inside)) >= MIN_MIXTURES_FRAC,
    )


def _half_width_of_others(row: Residual, rows: Sequence[Residual]) -> float:
    return evidence(class_of_row(row), [other for other in rows if other.publisher != row.publisher]).half_width


def _pairs() -> Iterator[Bar]:
    """By tenths of the probability: as it ships, and each publisher by what is fitted on the others."""
    name, told = "P(A beats B), vTrain and BLOOM", f"within {100 * MAX_OFF_FRAC:.0f} points of the share, by tenths"
    pairs = published_pairs(published_runs())
    if set(pairs) != set(PUBLISHERS):
        yield Bar(name=name, issue=ISSUE, bar=told, measured="-", holds=None, note=ABSENT)
        return
    every = pooled(pairs)
    off = worst_bin_frac(every.chances(PAIRS), every.measured)
    alone = (f"{one}: {worst_bin_frac(rows.chances(PAIRS), rows.measured):.3f}" for one, rows in pairs.items())
    yield _within(name, told, off, len(every), ", ".join(alone))
    held_out = held_out_chances(pairs)
    out = worst_bin_frac(np.concatenate([held_out[one] for one in pairs]), every.measured)
    yield _within(f"{name}, each by the other publishers", told, out, len(every), "")


def _within(name: str, told: str, off_frac: float, num_pairs: int, note: str) -> Bar:
    measured = f"{100 * off_frac:.1f} points in the worst, {num_pairs:,} pairs"
    return Bar(name=name, issue=ISSUE, bar=told, measured=measured, holds=off_frac <= MAX_OFF_FRAC, note=note)
