"""Mapping of products onto arrays: simulators, one TPU v4, and pairs per CPU-second."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.bar import Bar, reference_data
from benchmarks.limiter_check import operators_agreeing, steps_agreeing
from benchmarks.mapping_accuracy import PRODUCTS, TILES, Score, simulator_scores, tpu_scores
from benchmarks.mapping_speed import pace, phaze_systems, transformer_products
from benchmarks.tpu_steps import TABLE, left_out, shipped
from dovetail.accuracy.runs.row import Row
from dovetail.accuracy.sets.published_tpu import timed_tpu_run
from dovetail.cost.mapping.tables import Dataflow
from dovetail.files.measurements import load_measurements
from dovetail.units import MEGA, PERCENT

ISSUE = 22
LEAST_PAIRS_PER_S = 1 * MEGA
NUM_PAIRS, NUM_STEPS, LEAST_NAMED_FRAC = 200, 50, 0.95
TPU_RUNS = load_measurements(TABLE)
NO_TABLES = "the TPU's tables are not on this machine"


def bars() -> Iterator[Bar]:
    """Every figure that the mapping model owes."""
    simulators = {one.name: one for one in simulator_scores()}
    equal = simulators["SCALE-Sim"]
    yield Bar(
        name="SCALE-Sim through the mapper",
        issue=ISSUE,
        bar="equal",
        measured=equal.assumes,
        holds=equal.num_rows == 411 and equal.assumes.startswith("411 of 411 "),
    )
    yield _error(simulators["ZigZag, its rules"], 0.06)
    yield _error(simulators["ZigZag, its rules, energy"], 0.12)
    yield _error(simulators["AccelForge, our mapper"], 0.15)
    yield _named("operators whose limit gains most", operators_agreeing(NUM_PAIRS), NUM_PAIRS)
    yield _named("steps whose limit gains most", steps_agreeing(NUM_STEPS), NUM_STEPS)
    yield from _tpu()
    yield from _steps()
    for flows in ((Dataflow.WEIGHT_STATIONARY,), tuple(Dataflow)):
        found = pace(transformer_products(), phaze_systems(flows))
        yield Bar(
            name=f"mapped pairs, {len(flows)} dataflows",
            issue=ISSUE,
            bar=f"at least {LEAST_PAIRS_PER_S / MEGA:.0f} M per CPU-s",
            measured=f"{found.pairs_per_s / MEGA:.1f} M of {found.num_pairs:,}",
            holds=found.pairs_per_s >= LEAST_PAIRS_PER_S,
        )


def _named(name: str, num_right: int, num: int) -> Bar:
    return Bar(
        name=name,
        issue=ISSUE,
        bar=f"at least {LEAST_NAMED_FRAC * PERCENT:.0f} % of {num}",
        measured=f"{num_right} of {num}",
        holds=num_right >= LEAST_NAMED_FRAC * num,
    )


def _error(one: Score, most_frac: float) -> Bar:
    return Bar(
        name=one.name,
        issue=ISSUE,
        bar=f"mean at most {most_frac * PERCENT:.0f} %",
        measured=f"{one.mean_frac * PERCENT:.1f} % of {one.num_rows} rows",
        holds=one.mean_frac <= most_frac,
    )


def _steps() -> Iterator[Bar]:
    """Published steps as the catalogue has the chips, and each generation by constants of the others."""
    own, others = shipped(), np.concatenate([one.errors for one in left_out()])
    for name, errors, most_frac in (("as shipped", own, 0.08), ("a generation left out", others, 0.12)):
        mean_frac = float(np.abs(errors).mean())
        yield Bar(
            name=f"published TPU steps, {name}",
            issue=ISSUE,
            bar=f"mean at most {most_frac * PERCENT:.0f} %",
            measured=f"{mean_frac * PERCENT:.1f} % of {len(errors)} runs",
            holds=mean_frac <= most_frac,
        )
    fits = [timed_tpu_run(Row(cells=dict(zip(TPU_RUNS.columns, cells, strict=True)))) for cells in TPU_RUNS.rows]
    num_fitting = sum(one.memory.fits for one in fits)
    yield Bar(
        name="published TPU runs that fit",
        issue=ISSUE,
        bar="all that ran",
        measured=f"{num_fitting} of {len(fits)}",
        holds=num_fitting == len(fits),
    )


def _tpu() -> Iterator[Bar]:
    profiles, products = reference_data(TILES), reference_data(PRODUCTS)
    if profiles is None or products is None:
        yield Bar(name="TPU v4", issue=ISSUE, bar="mean at most 4 %", measured="-", holds=None, note=NO_TABLES)
        return
    known, own, folds, *_ = tpu_scores(load_measurements(profiles), load_measurements(products))
    yield _error(known, 0.04)
    yield _error(own, 0.13)
    yield _error(replace(folds, name=f"{own.name}, five-fold"), 0.14)
