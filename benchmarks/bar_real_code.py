"""Code as it runs: whole steps of transformers and torchvision models, recorded without a GPU, beside measured ones."""

from __future__ import annotations

import importlib.util
from collections import defaultdict
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from statistics import mean
from typing import Any

import dovetail
from benchmarks.bar import Bar, reference_data
from dovetail.accuracy.sets.recorded_steps import step_cases
from dovetail.files.measurements import load_measurements, shipped_folder
from dovetail.hardware.catalog import chips
from dovetail.importers.torch_cases import case_of, configs_in, recorded_case
from dovetail.step.eager import HostPace, eager_step
from dovetail.units import MILLI

ISSUE = 24
TABLE, CASES = "hf_steps/hf_steps.csv", "hf_steps/hf_cases.py"
EAGER_FRAC, COMPILED_FRAC, WORST_FRAC = 0.03, 0.06, 0.15
MEMORY_FRAC, WORST_MEMORY_FRAC = 0.01, 0.05
LEFT_OUT_FRAC, OWN_FRAC = 0.06, 0.02
HOSTS = tuple(0.7 + 0.1 * place for place in range(9))  # times as slow as the host that steps were measured on
LIBRARIES = ("torch", "transformers", "torchvision")


def bars() -> Iterator[Bar]:
    yield own_bar()
    table, missing = reference_data(TABLE), [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
    if table is None or missing:
        note = f"{' and '.join(missing)} not installed" if missing else f"{TABLE} is not here"
        yield Bar(name="steps of real code", issue=ISSUE, bar="measured", measured="-", holds=None, note=note)
        return
    time, memory = dovetail.validate(str(table), worst=1000).record["sets"]
    yield from time_bars(time)
    yield from memory_bars(memory)
    yield left_out_bar(table)


def time_bars(found: Any) -> Iterator[Bar]:
    for mode, limit_frac in (("eager", EAGER_FRAC), ("compile", COMPILED_FRAC)):
        errors = [abs(row["error_frac"]) for row in rows_of(found) if row["kind"] == mode]
        skipped = sum(one["num_rows"] for one in found["skipped"])
        versions = ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES)
        note = f"{versions}; measured with torch 2.11, transformers 5.17; {skipped} rows not predicted"
        yield _mean_bar(f"steps of real code, {mode}", errors, limit_frac, note)
    yield _worst_bar("steps of real code", rows_of(found), WORST_FRAC)


def memory_bars(found: Any) -> Iterator[Bar]:
    errors = [abs(row["error_frac"]) for row in rows_of(found)]
    yield _mean_bar("peak memory of real code", errors, MEMORY_FRAC)
    yield _worst_bar("peak memory of real code", rows_of(found), WORST_MEMORY_FRAC)


def rows_of(found: Any) -> list[Any]:
    whole = [score for score in found["scores"] if not score["kind"]] or found["scores"]
    return [row for score in whole for row in score["worst"]]


def _mean_bar(name: str, errors: list[float], limit_frac: float, note: str = "") -> Bar:
    if not errors:
        return Bar(
            name=name, issue=ISSUE, bar=f"MAPE <= {limit_frac:.0%}", measured="-", holds=None, note="no such row"
        )
    off = mean(errors)
    return Bar(
        name=name,
        issue=ISSUE,
        bar=f"MAPE <= {limit_frac:.0%}",
        measured=f"{off:.2%} of {len(errors)} rows",
        holds=off <= limit_frac,
        note=note,
    )


def _worst_bar(name: str, rows: list[Any], limit_frac: float) -> Bar:
    row = max(rows, key=lambda row: abs(row["error_frac"]))
    return Bar(
        name=name,
        issue=ISSUE,
        bar=f"none beyond {limit_frac:.0%}",
        measured=f"{row['error_frac']:+.1%} ({row['kind']} {row['what']})",
        holds=abs(row["error_frac"]) <= limit_frac,
    )


def left_out_bar(table: Path) -> Bar:
    """What is fitted on these steps is the host's pace: it is fitted on all other families, family by family."""
    chip = chips["h200-sxm"]()
    measurements = load_measurements(table)
    configs = configs_in(table.parent / Path(CASES).name)
    measured_s = measurements.positive("iter_ms") * MILLI
    families: dict[str, list[list[float]]] = defaultdict(list)
    for case, time_s in zip(step_cases(measurements), measured_s.tolist(), strict=True):
        if case.mode != "eager":
            continue
        told = case_of(
            case.model,
            configs,
            batch=case.batch,
            seq=case.seq,
            is_checkpointed=case.is_checkpointed,
            is_autocast=case.is_autocast,
        )
        step = recorded_case(told)
        errors = [abs(eager_step(step, chip, HostPace(slowdown=times)).step_s / time_s - 1) for times in HOSTS]
        families[case.model.rpartition(":")[2]].append(errors)
    left_out = []
    for family, rows in families.items():
        others = [errors for other, found in families.items() if other != family for errors in found]
        best = min(range(len(HOSTS)), key=lambda place: mean(errors[place] for errors in others))
        left_out += [errors[best] for errors in rows]
    return _mean_bar("steps of real code, a family left out of the fit", left_out, LEFT_OUT_FRAC)


def own_bar() -> Bar:
    """Steps that were written as we would write them."""
    [found, *_] = dovetail.validate(str(Path(shipped_folder("h200")) / "models.csv")).record["sets"]
    score = found["scores"][0]
    return _mean_bar(
        "steps written with fused kernels (models.csv)", [score["mape_frac"]] * score["num_rows"], OWN_FRAC
    )
