"""A fit of a chip's calibration, as plain data and as a table."""

from __future__ import annotations

from dovetail.accuracy.fit import Fit
from dovetail.hardware.chip import Calibration
from dovetail.report.labels import gain, percent
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.stable_names import stable_names_of
from dovetail.units import format_s


def fit_record(found: Fit, skipped: tuple[str, ...]) -> Record:
    names = stable_names_of(Calibration)
    return {
        "chip": found.chip.name,
        "fitted_on": found.chip.calibration.fitted_on,
        "num_rows": found.num_rows,
        "before_mape_frac": found.before_frac,
        "after_mape_frac": found.after_frac,
        "cross_validated_mape_frac": found.cross_validated_frac,
        "fitted": [{"figure": names[n], "before": before, "after": after} for n, before, after in found.fitted],
        "unchanged": [names[name] for name in found.unchanged],
        "notes": list(skipped),
    }


def fit_tables(found: Fit, written: str, skipped: tuple[str, ...]) -> tuple[Table, ...]:
    errors = (
        ("before", percent(found.before_frac), ""),
        ("after", percent(found.after_frac), "on the rows it was fitted to"),
        ("cross-validated", percent(found.cross_validated_frac), "on each fifth of the rows, fitted to the others"),
    )
    names = stable_names_of(Calibration)
    numbers = tuple(
        (names[name], _words(name, before), _words(name, after), gain(after / before - 1) if before else "")
        for name, before, after in found.fitted
    )
    notes = [f"- left as they are: {', '.join(names[name] for name in found.unchanged)}"] if found.unchanged else []
    if found.num_rows and found.cross_validated_frac >= found.before_frac:
        notes.append("- rows left out are foretold no better by a fit than by the base, so its numbers stay")
    notes += [f"- {note}" for note in skipped]
    return (
        Table(title=f"mean error over {found.chip.calibration.fitted_on}", rows=errors, align="lrl"),
        Table(
            title=f"calibration of {found.chip.name}",
            columns=("number", "before", "after", ""),
            rows=numbers,
            align="lrrr",
            notes=(*notes, f"- written to {written}"),
        ),
    )


def _words(name: str, value: float) -> str:
    if name.endswith("_s") and not name.endswith("_per_s"):
        return format_s(value, 2)
    return f"{value:.4g}"
