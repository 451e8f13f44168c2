"""`dovetail calibrate --runs`: a user's runs in, a cluster file out."""

from __future__ import annotations

from pathlib import Path

from dovetail.accuracy.cluster_fit import fit_cluster
from dovetail.api.jobs import placed_in
from dovetail.cli.progress import announced
from dovetail.cli.screen import show_json, show_tables
from dovetail.errors import InvalidInput
from dovetail.files.cluster_text import calibrated_cluster_text
from dovetail.files.job import countable
from dovetail.files.own_runs import load_own_runs
from dovetail.files.text import one_line
from dovetail.files.written import check_writable, write_file
from dovetail.report.cluster_calibration import cluster_fit_record, cluster_fit_tables

ENDINGS = (".yaml", ".yml")
CALIBRATED = "-calibrated"


def fit_runs(runs: str, out: str, *, is_forced: bool, as_json: bool) -> None:
    """Fits the cluster of a table of runs, and writes its file."""
    with countable():
        table = load_own_runs(Path(runs))
    name = table.largest.name.removesuffix(CALIBRATED) + CALIBRATED
    file = _out(out, name, is_forced=is_forced)
    with placed_in(runs), announced(f"fitting {len(table.runs):,} runs"):
        fit = fit_cluster(table.runs)
    fitted_on = Path(table.shown).name[:120]
    own = fit.own_runs(fitted_on)
    write_file(file, calibrated_cluster_text(fit, table, name, fitted_on, file))
    if as_json:
        show_json({"cluster": name} | cluster_fit_record(fit, own, table.skipped) | {"written": str(file)})
    else:
        show_tables(cluster_fit_tables(fit, own, name, one_line(str(file)), table.skipped))


def _out(out: str, name: str, *, is_forced: bool) -> Path:
    file = Path(out or f"{name}.yaml")
    if file.suffix.lower() not in ENDINGS:
        raise InvalidInput(f"a cluster file ends in {' or '.join(ENDINGS)}; got {one_line(file.name)!r}", "--out")
    check_writable(file, is_forced=is_forced)
    return file
