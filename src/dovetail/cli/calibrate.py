"""`dovetail calibrate`: measurements in, a chip file out; with a user's runs, a cluster file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from dovetail.accuracy.fit import Fit, fit
from dovetail.accuracy.prepared import Given
from dovetail.accuracy.sets import prepared
from dovetail.cli import calibrate_runs
from dovetail.cli.calibrate_runs import RunsAsked
from dovetail.cli.progress import telling
from dovetail.cli.screen import show_json, show_tables
from dovetail.errors import InvalidInput
from dovetail.files.chip import load_chip
from dovetail.files.chip_names import full_name
from dovetail.files.chip_text import calibrated_text
from dovetail.files.measurements import load_measurements
from dovetail.files.text import one_line
from dovetail.files.written import check_writable, write_file
from dovetail.hardware.chip import Chip
from dovetail.report.calibration import fit_record, fit_tables

SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrateAsked:
    """The command's arguments."""

    files: tuple[str, ...]
    chip: str
    dtype: str = ""
    out: str = ""
    is_forced: bool = False
    as_json: bool = False


def answer(asked: CalibrateAsked, runs: str = "") -> None:
    """Fits a chip to tables, or a cluster to the table `runs`."""
    if runs:
        if asked.files or asked.chip or asked.dtype:
            raise InvalidInput("a cluster is fitted to runs alone; leave out FILE, --chip and --dtype", "--runs")
        calibrate_runs.answer(RunsAsked(runs=runs, out=asked.out, is_forced=asked.is_forced, as_json=asked.as_json))
        return
    if not asked.files:
        raise InvalidInput("name CSV files of measurements, or say --runs FILE with your own runs on a cluster")
    base = full_name(asked.chip)
    chip = load_chip(base)
    out = _out(asked, chip)
    tables = [load_measurements(Path(name)) for name in asked.files]
    given = Given(chip=chip, dtype=asked.dtype)
    sets = [one for table in tables for one in prepared(table, given)]
    skipped = tuple(f"{one.name}: {count:,} {what}" for one in sets for what, count in one.skipped)
    with telling("fitting") as told:
        found = fit(sets, chip, told)
    found = _named(found, tuple(table.shown for table in tables))
    fitted = tuple(name for name, _, _ in found.fitted)
    write_file(out, calibrated_text(found.chip, base, fitted, found.chip.calibration.fitted_on, out))
    if asked.as_json:
        show_json(fit_record(found, skipped) | {"written": str(out)})
    else:
        show_tables(fit_tables(found, one_line(str(out)), skipped))


def _out(asked: CalibrateAsked, chip: Chip) -> Path:
    out = Path(asked.out or f"{chip.name}-calibrated.yaml")
    if out.suffix.lower() not in SUFFIXES:
        raise InvalidInput(f"a chip file ends in {' or '.join(SUFFIXES)}; got {one_line(out.name)!r}", "--out")
    check_writable(out, is_forced=asked.is_forced)
    return out


def _named(found: Fit, shown: tuple[str, ...]) -> Fit:
    """The fitted chip under a name of its own, saying what it was fitted on."""
    names = ", ".join(Path(name).name for name in shown)
    calibration = replace(found.chip.calibration, fitted_on=f"{names[:120]}: {found.num_rows:,} rows")
    name = found.chip.name.removesuffix("-calibrated") + "-calibrated"
    return replace(found, chip=replace(found.chip, name=name, calibration=calibration))
