"""fp32, tf32 and fp8 operators of GPUs from P100 to B200, and fp32 passes of whole models beside NeuSight's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.bar import Bar, reference_data
from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Prepared, TableContext
from dovetail.accuracy.sets import prepared
from dovetail.accuracy.sets.forward_backward import passes_of
from dovetail.api.recorded_steps import steps_recorder
from dovetail.api.search_context import called
from dovetail.errors import InvalidInput
from dovetail.files.measurements import load_measurements
from dovetail.hardware.catalog import chip_of_device
from dovetail.hardware.chip import Chip
from dovetail.units import MICRO, MILLI, PERCENT
from dovetail.workload.graph import BoolArray, FloatArray

ISSUE = 26
FOLDER = "third_party"
PASSES = "neusight_fp32_training.csv"
MOST_PASSES_FRAC, MOST_FP32_FRAC = 0.07, 0.12
CHIPS = ("a100-40gb-sxm", "v100-32gb-sxm")
GEMMS = {"b200_gemm_bf16": 0.09, "b200_gemm_fp8": 0.12}
LONG_S = 50 * MICRO
LANES = np.linspace(0.70, 0.99, 59)  # shares of peak tried when one chip's are fitted on another's rows


def bars() -> Iterator[Bar]:
    yield passes_bar()
    for kind in ("linear", "bmm", "vec"):
        for chip in CHIPS:
            yield table_bar(f"fp32_{kind}_{chip}", MOST_FP32_FRAC, "fp32")
    for name, most_frac in GEMMS.items():
        yield table_bar(name, most_frac, "above 50 us", lambda measured_s: measured_s > LONG_S)
    yield from left_out_bars()


def _absent(name: str, bar: str) -> Bar:
    return Bar(name=name, issue=ISSUE, bar=bar, measured="-", holds=None, note=f"{FOLDER} is not on this machine")


def _table(name: str) -> Path | None:
    return reference_data(f"{FOLDER}/{name}.csv")


def errors_frac(one: Prepared, chip: Chip | None = None) -> FloatArray:
    return np.asarray(np.abs(one.predicted(chip or one.chip) / one.measured - 1))


def table_bar(name: str, most_frac: float, what: str, kept: Callable[[FloatArray], BoolArray] = lambda s: s > 0) -> Bar:
    bar = f"MAPE at most {most_frac * PERCENT:.0f} %"
    file = _table(name)
    if file is None:
        return _absent(name, bar)
    [one] = prepared(load_measurements(file), TableContext())
    rows = kept(one.measured)
    mean_frac = float(errors_frac(one)[rows].mean())
    return Bar(
        name=f"{name}, {what}",
        issue=ISSUE,
        bar=bar,
        measured=f"{mean_frac * PERCENT:.1f} % ({int(rows.sum()):,} rows)",
        holds=mean_frac <= most_frac,
        note=one.note.partition(": ")[0].removeprefix(f"rows of {name} are "),
    )


def passes_bar() -> Bar:
    """Rows of NVIDIA's GPUs that are in the catalogue, forward and backward, beside NeuSight's own predictions."""
    bar = f"MAPE at most {MOST_PASSES_FRAC * PERCENT:.0f} %, and below NeuSight's"
    file = reference_data(f"{FOLDER}/{PASSES}")
    if file is None:
        return _absent("fp32 passes of whole models", bar)
    table = load_measurements(file)
    known = table.where(np.array([_is_known(table, row) for row in range(len(table))]))
    with suppress(InvalidInput), called(progress=False) as context:
        [one] = prepared(known, TableContext(record_steps=steps_recorder(file, "", context)))
        own_frac = float(errors_frac(one).mean())
        theirs = known.positive("neusight_ms") * MILLI / one.measured - 1
        theirs_frac = float(np.abs(theirs).mean())
        return Bar(
            name="fp32 passes of whole models",
            issue=ISSUE,
            bar=bar,
            measured=f"{own_frac * PERCENT:.1f} %, NeuSight {theirs_frac * PERCENT:.1f} % ({len(known)} rows)",
            holds=own_frac <= min(MOST_PASSES_FRAC, theirs_frac),
            note="no step was fitted but one energy, on the L4's row",
        )
    return Bar(
        name="fp32 passes of whole models", issue=ISSUE, bar=bar, measured="-", holds=None, note="no transformers here"
    )


def _is_known(table: Measurements, row: int) -> bool:
    model, parallel = table.words("model")[row], table.words("parallel")[row]
    batch, seq = (int(table.counts(name)[row]) for name in ("batch", "seq"))
    is_named = bool(chip_of_device(table.words("device")[row].replace("_", " ")))
    return is_named and passes_of(model, batch, seq, parallel) is not None


def left_out_bars() -> Iterator[Bar]:
    """fp32 products of each chip with the share of peak that the other's rows fit best."""
    bar = f"MAPE at most {MOST_FP32_FRAC * PERCENT:.0f} %"
    for fitted, judged in (CHIPS, CHIPS[::-1]):
        files = [_table(f"fp32_{kind}_{chip}") for chip in (fitted, judged) for kind in ("linear", "bmm")]
        name = f"fp32 products of {judged}, lanes fitted on {fitted}"
        if any(file is None for file in files):
            yield _absent(name, bar)
            continue
        sets = [prepared(load_measurements(file), TableContext())[0] for file in files if file is not None]
        means = [np.mean([_with_lanes(one, frac).mean() for one in sets[:2]]) for frac in LANES]
        frac = float(LANES[int(np.argmin(means))])
        found = [float(_with_lanes(one, frac).mean()) for one in sets[2:]]
        yield Bar(
            name=name,
            issue=ISSUE,
            bar=bar,
            measured=f"{found[0] * PERCENT:.1f} % single, {found[1] * PERCENT:.1f} % batched",
            holds=max(found) <= MOST_FP32_FRAC,
            note=f"lanes_frac {frac:.3f}",
        )


def _with_lanes(one: Prepared, lanes_frac: float) -> FloatArray:
    return errors_frac(one, replace(one.chip, calibration=replace(one.chip.calibration, lanes_frac=lanes_frac)))
