"""`dovetail calibrate --runs`: a user's runs in, a cluster file out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dovetail.accuracy.cluster_fit import fit_cluster
from dovetail.api.jobs import placed_in
from dovetail.cli.progress import busy
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsAsked:
    """The command's arguments."""

    runs: str
    out: str = ""
    is_forced: bool = False
    as_json: bool = False


def answer(asked: RunsAsked) -> None:
    with countable():
        table = load_own_runs(Path(asked.runs))
    name = table.largest.name.removesuffix(CALIBRATED) + CALIBRATED
    out = _out(asked, name)
    with placed_in(asked.runs), busy(f"fitting {len(table.runs):,} runs"):
        fit = fit_cluster(table.runs)
    fitted_on = Path(table.shown).name[:120]
    own = fit.own_runs(fitted_on)
    write_file(out, calibrated_cluster_text(fit, table, name, fitted_on, out))
    if asked.as_json:
        show_json({"cluster": name} | cluster_fit_record(fit, own) | {"written": str(out)})
    else:
        show_tables(cluster_fit_tables(fit, own, name, one_line(str(out))))


def _out(asked: RunsAsked, name: str) -> Path:
    out = Path(asked.out or f"{name}.yaml")
    if out.suffix.lower() not in ENDINGS:
        raise InvalidInput(f"a cluster file ends in {' or '.join(ENDINGS)}; got {one_line(out.name)!r}", "--out")
    check_writable(out, is_forced=asked.is_forced)
    return out
