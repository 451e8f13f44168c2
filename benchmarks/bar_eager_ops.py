"""The price of operators that eager PyTorch dispatches: one by one, kernel by kernel in profiled steps, and in time."""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time

import numpy as np

from benchmarks.bar import Bar
from benchmarks.eager_kernels import WITHIN_FRAC, steps
from dovetail.accuracy.prepared import TableContext
from dovetail.accuracy.sets import prepared
from dovetail.accuracy.sets.eager_ops import calls
from dovetail.cost.eager.times import eager_times
from dovetail.files.measurements import load_measurements, shipped_folder
from dovetail.hardware.catalog import chips
from dovetail.units import PERCENT

ISSUE = 24
MOST_FRAC, MOST_KIND_FRAC, LEAST_FRAC = 0.08, 0.12, 0.90
NUM_OPS, MOST_S = 5_000, 0.2
# Kinds that no constant was fitted on: they run by the rules of others, or by the models that were there before.
UNFITTED = (
    "relu", "hardswish", "add_scalar", "pow2_fp32", "pow3", "sdpa_causal", "sdpa_full", "cross_entropy_fp32",
)  # fmt: skip


def bars() -> Iterator[Bar]:
    yield from table_bars()
    yield kernel_bar()
    yield speed_bar()


def table_bars() -> Iterator[Bar]:
    [table] = prepared(load_measurements(shipped_folder("h200") / "eager_ops.csv"), TableContext())
    rows = table.compared()
    error_fracs = np.array([abs(row.predicted / row.measured - 1) for row in rows])
    kinds = np.array([row.kind for row in rows])
    by_kind = {str(kind): float(error_fracs[kinds == kind].mean()) for kind in np.unique(kinds)}
    worst = max(by_kind, key=by_kind.__getitem__)
    unfitted = error_fracs[np.isin(kinds, UNFITTED)]
    yield _error("eager operators, one by one", float(error_fracs.mean()), MOST_FRAC, f"{len(rows)} rows")
    yield _error("eager operators, worst kind", by_kind[worst], MOST_KIND_FRAC, worst)
    yield _error(
        "eager operators, kinds that nothing was fitted on", float(unfitted.mean()), MOST_FRAC, f"{len(unfitted)} rows"
    )


def _error(name: str, mean_frac: float, most_frac: float, what: str) -> Bar:
    return Bar(
        name=name,
        issue=ISSUE,
        bar=f"MAPE at most {most_frac * PERCENT:.0f} %",
        measured=f"{mean_frac * PERCENT:.1f} % ({what})",
        holds=mean_frac <= most_frac,
    )


def kernel_bar() -> Bar:
    """Rules were fitted on these very steps; models of a stranger's choosing are not among them."""
    within = {step.name: step.within_frac for step in steps()}
    mean_frac, num_above = float(np.mean(list(within.values()))), sum(one >= LEAST_FRAC for one in within.values())
    least = min(within, key=within.__getitem__)
    measured = f"{mean_frac * PERCENT:.1f} % on average; {num_above} of {len(within)} steps; least {within[least]:.0%}"
    return Bar(
        name="GPU time in kernels predicted within a quarter",
        issue=ISSUE,
        bar=f"at least {LEAST_FRAC * PERCENT:.0f} % of a step, within {WITHIN_FRAC * PERCENT:.0f} %",
        measured=f"{measured} ({least.partition('|')[0]})",
        holds=mean_frac >= LEAST_FRAC,
        note="in sample",
    )


def speed_bar() -> Bar:
    """A step of so many operators, a tenth of them distinct."""
    table = load_measurements(shipped_folder("h200") / "eager_ops.csv")
    rows = zip(*(table.words(name) for name in ("kind", "what", "pass")), strict=True)
    distinct = [op for row in rows for op in calls(*row)]
    ops = [distinct[place % len(distinct)] for place in range(NUM_OPS)]
    chip = chips["h200-sxm"]()
    eager_times(ops[:1], chip)  # what is read once is read
    begun_s = process_time()
    eager_times(ops, chip)
    taken_s = process_time() - begun_s
    return Bar(
        name=f"price of {NUM_OPS:,} dispatched operators",
        issue=ISSUE,
        bar=f"at most {MOST_S:.1f} CPU-s",
        measured=f"{taken_s:.2f} CPU-s, {len(set(distinct))} distinct",
        holds=taken_s <= MOST_S,
    )
