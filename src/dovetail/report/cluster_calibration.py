"""A cluster's fit to a user's runs, as plain data and as tables."""

from __future__ import annotations

import math
from collections.abc import Callable

from dovetail.accuracy.cluster_fit import ClusterFit, FittedRun, is_at_bound
from dovetail.accuracy.evidence import CONFIDENCE_FRAC, MIN_OWN_RUNS, own_half_width
from dovetail.hardware.cluster import OwnRuns
from dovetail.hardware.scales import MAX_SCALE
from dovetail.report.labels import gain, percent
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.units import format_bytes, format_s

MIN_LEFT_OUT = 2  # runs, for one to be left out


def cluster_fit_record(fit: ClusterFit, own: OwnRuns, skipped: tuple[str, ...] = ()) -> Record:
    """The fit; `skipped` says which rows of the table it is not of."""
    return {
        "fitted_on": own.fitted_on,
        "num_runs": own.num_runs,
        "before_mape_frac": _mape_frac(fit, lambda run: run.before_s),
        "after_mape_frac": _mape_frac(fit, lambda run: run.after_s),
        **({"left_out_mape_frac": _mape_frac(fit, _left_out_s)} if own.num_runs >= MIN_LEFT_OUT else {}),
        "num_scales": fit.num_scales,
        "compute_scale": fit.scales.compute_scale,
        "link_scale": fit.scales.link_scale,
        "spread_frac": fit.spread_frac,
        "runs": [
            {
                "name": run.name,
                "measured_s": run.measured_s,
                "before_s": run.before_s,
                "after_s": run.after_s,
                "need_bytes": run.need_bytes,
                "limit_bytes": run.limit_bytes,
            }
            for run in fit.runs
        ],
        "notes": [*_notes(fit, own), *skipped],
    }


def cluster_fit_tables(
    fit: ClusterFit, own: OwnRuns, name: str, written: str, skipped: tuple[str, ...] = ()
) -> tuple[Table, ...]:
    errors = [
        ("before", percent(_mape_frac(fit, lambda run: run.before_s)), ""),
        ("after", percent(_mape_frac(fit, lambda run: run.after_s)), "on the runs it was fitted to"),
    ]
    if own.num_runs >= MIN_LEFT_OUT:
        errors.append(("left out", percent(_mape_frac(fit, _left_out_s)), "on each run, fitted to the others"))
    rows = tuple(
        (run.name, format_s(run.measured_s), *_beside(run.before_s, run), *_beside(run.after_s, run))
        for run in fit.runs
    )
    scales = (
        ("compute", f"{fit.scales.compute_scale:.4g}", "rates of the devices beside the chip's calibration"),
        ("links", f"{fit.scales.link_scale:.4g}", "bandwidth of the links, likewise"),
    )
    return (
        Table(title=f"mean error over {own.fitted_on}", rows=tuple(errors), align="lrl"),
        Table(title="runs", columns=("run", "measured", "before", "", "after", ""), rows=rows, align="lrrrrr"),
        Table(
            title=f"calibration of {name}",
            rows=scales,
            align="lrl",
            notes=(*(f"- {note}" for note in (*_notes(fit, own), *skipped)), f"- written to {written}"),
        ),
    )


def _beside(predicted_s: float, run: FittedRun) -> tuple[str, str]:
    return format_s(predicted_s), gain(predicted_s / run.measured_s - 1)


def _left_out_s(run: FittedRun) -> float:
    return run.left_out_s


def _mape_frac(fit: ClusterFit, predicted_s: Callable[[FittedRun], float]) -> float:
    return sum(abs(predicted_s(run) / run.measured_s - 1) for run in fit.runs) / len(fit.runs)


def _notes(fit: ClusterFit, own: OwnRuns) -> tuple[str, ...]:
    bound = f"a scale is at its bound of {MAX_SCALE:g}: not pace is off here, but the model, the plan or the chip"
    before_frac, left_out_frac = _mape_frac(fit, lambda run: run.before_s), _mape_frac(fit, _left_out_s)
    worse = f"no scale helps: runs left out are off by {percent(left_out_frac)}, and by {percent(before_frac)} without"
    return (
        "devices and links have one scale: the runs do not tell them apart, or foretell no better where they do"
        if fit.num_scales == 1
        else "devices and links have a scale each: the runs tell them apart",
        *([bound] if is_at_bound(fit.scales) else []),
        *([worse] if own.num_runs >= MIN_LEFT_OUT and left_out_frac > before_frac else []),
        *(_memory_note(run) for run in fit.runs if not run.fits),
        _interval_note(own),
    )


def _memory_note(run: FittedRun) -> str:
    need, limit = format_bytes(run.need_bytes), format_bytes(run.limit_bytes)
    return f"{run.name} ran, but by our count needs {need} of {limit}: check its recompute, microbatch and ZeRO stage"


def _interval_note(own: OwnRuns) -> str:
    if own.num_runs < MIN_OWN_RUNS:
        return f"intervals stay those of published runs: {own.num_runs} of the {MIN_OWN_RUNS} runs that they take"
    share = percent(CONFIDENCE_FRAC, 0)
    return f"{share} intervals become those of these runs: a factor of {_factor(own):.3f} either way"


def _factor(own: OwnRuns) -> float:
    return math.exp(own_half_width(own))
