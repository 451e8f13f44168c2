"""A chip fitted to measured operators, or a cluster fitted to a user's runs; each is written to a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from dovetail.accuracy.cluster_fit import ClusterFit, fit_cluster
from dovetail.accuracy.fit import Fit, fit
from dovetail.accuracy.prepared import TableContext
from dovetail.accuracy.sets import prepared
from dovetail.api.jobs import placed_in
from dovetail.errors import InvalidInput
from dovetail.files.chip import load_chip
from dovetail.files.chip_names import full_name
from dovetail.files.chip_text import calibrated_text
from dovetail.files.cluster_text import calibrated_cluster_text
from dovetail.files.job import countable
from dovetail.files.measurements import load_measurements
from dovetail.files.own_runs import load_own_runs
from dovetail.files.text import one_line
from dovetail.files.written import check_writable, write_file

SUFFIXES = (".yaml", ".yml")
CALIBRATED = "-calibrated"


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedChip:
    """A fit of a chip, the rows that it left out, and the file that was written."""

    fit: Fit
    skipped: tuple[str, ...]
    file: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedCluster:
    """A fit of a cluster to runs, the rows that it left out, and the file that was written."""

    fit: ClusterFit
    name: str
    fitted_on: str
    skipped: tuple[str, ...]
    file: Path


def calibrated_chip(
    files: Sequence[str],
    chip: str,
    dtype: str,
    out: str,
    *,
    is_forced: bool,
    announce: Callable[[str], AbstractContextManager[Callable[[str], None]]],
) -> CalibratedChip:
    """The chip whose calibration has the least mean error on the rows of `files`; `announce` shows the progress."""
    base_name = full_name(chip)
    base = load_chip(base_name)
    file = _checked_file(out or f"{base.name}{CALIBRATED}.yaml", "a chip file", is_forced=is_forced)
    tables = [load_measurements(Path(name)) for name in files]
    context = TableContext(chip=base, dtype=dtype)
    sets = [one for table in tables for one in prepared(table, context)]
    skipped = tuple(f"{one.name}: {count:,} {what}" for one in sets for what, count in one.skipped)
    with announce("fitting") as progress:
        result = fit(sets, base, progress)
    result = _named(result, tuple(table.shown for table in tables))
    fitted = tuple(name for name, _, _ in result.fitted)
    write_file(file, calibrated_text(result.chip, base_name, fitted, result.chip.calibration.fitted_on, file))
    return CalibratedChip(fit=result, skipped=skipped, file=file)


def calibrated_cluster(
    runs: str, out: str, *, is_forced: bool, announce: Callable[[str], AbstractContextManager[None]]
) -> CalibratedCluster:
    """The cluster of a table of runs, fitted to them; `announce` shows the progress."""
    with countable():
        table = load_own_runs(Path(runs))
    name = table.largest.name.removesuffix(CALIBRATED) + CALIBRATED
    file = _checked_file(out or f"{name}.yaml", "a cluster file", is_forced=is_forced)
    with placed_in(runs), announce(f"fitting {len(table.runs):,} runs"):
        result = fit_cluster(table.runs)
    fitted_on = Path(table.shown).name[:120]
    write_file(file, calibrated_cluster_text(result, table, name, fitted_on, file))
    return CalibratedCluster(fit=result, name=name, fitted_on=fitted_on, skipped=table.skipped, file=file)


def _checked_file(name: str, what: str, *, is_forced: bool) -> Path:
    """The file to write, found writable before any work is done."""
    file = Path(name)
    if file.suffix.lower() not in SUFFIXES:
        raise InvalidInput(f"{what} ends in {' or '.join(SUFFIXES)}; got {one_line(file.name)!r}", "--out")
    check_writable(file, is_forced=is_forced)
    return file


def _named(result: Fit, shown: tuple[str, ...]) -> Fit:
    """The fitted chip under a name of its own, saying what it was fitted on."""
    names = ", ".join(Path(name).name for name in shown)
    calibration = replace(result.chip.calibration, fitted_on=f"{names[:120]}: {result.num_rows:,} rows")
    name = result.chip.name.removesuffix(CALIBRATED) + CALIBRATED
    return replace(result, chip=replace(result.chip, name=name, calibration=calibration))
