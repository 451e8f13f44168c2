"""A CSV file of a user's own runs on one cluster into jobs, each with the seconds that a step of it took.

A row may name a training log in place of a time: the median of its steady steps is taken.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dovetail.accuracy.cluster_fit import OwnRun
from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.training_log import measured_steps
from dovetail.errors import DovetailError, did_you_mean
from dovetail.files.cluster import cluster_of
from dovetail.files.entry import Document, Entry, is_file_name, placed
from dovetail.files.inline_plan import SHORT_NAMES
from dovetail.files.job import check_dtype, workload_of
from dovetail.files.measurements import load_measurements
from dovetail.files.plan import OLD_NAMES, plan_of
from dovetail.files.schema import written_keys
from dovetail.files.text import quoted
from dovetail.files.training_logs.loading import load_training_log
from dovetail.files.tree import Node
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.parallel.placement import nested, placement
from dovetail.parallel.plan import Overlap, Plan
from dovetail.workload.graph import Graph
from dovetail.workload.training import training_graph
from dovetail.workload.workload import Workload

NEEDED = ("model", "cluster")
WORKLOAD = ("model", "global_batch", "seq", "attention", "kernels")
MEASURED = ("step_s", "tokens_per_s", "log")
PRECISION = ("compute", "gradients")
OTHERS = ("name", "notes", "cluster", "devices", *PRECISION, "plan")
_CHOICE = "step_s, tokens_per_s or log"
MAX_RUNS = 200
_WHOLE = re.compile(r"[+-]?[0-9]+")
_LABELS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTable:
    """Runs on one cluster, of which there may be more or fewer devices; `base` is what the rows call it.

    `skipped` says of every row that is not among the runs why it cannot be.
    """

    base: str
    shown: str
    runs: tuple[OwnRun, ...]
    skipped: tuple[str, ...] = ()

    @property
    def largest(self) -> Cluster:
        return max((run.cluster for run in self.runs), key=lambda cluster: cluster.num_devices)


def load_own_runs(file: Path) -> OwnTable:
    """Every row that can be predicted, and words for the others; the first error where no row can."""
    table = load_measurements(file)
    _check_columns(table)
    base = _base(table)
    document = Document(shown=table.shown, folder=file.parent, chain=(os.path.realpath(file),))
    runs, errors = [], []
    for row, line in enumerate(table.lines):
        cells = {column: cell for column, cell in zip(table.columns, table.rows[row], strict=True) if cell}
        try:
            runs.append(_run(_Row(document=document, line=line, cells=cells), table, row))
        except DovetailError as error:  # one run that ended out of memory says nothing against the others
            errors.append(error)
    if not runs:
        raise errors[0]
    skipped = tuple(f"row not predicted: {error}" for error in errors)
    return OwnTable(base=base, shown=table.shown, runs=tuple(runs), skipped=skipped)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """The cells of a row that are filled, as entries of a spec whose paths are the columns' names."""

    document: Document
    line: int
    cells: Mapping[str, str]

    def entry(self, value: dict[str, Node] | str, path: str = "") -> Entry:
        return Entry(document=self.document, node=Node(value, line=self.line), path=path, line=self.line)

    def mapping(self, columns: tuple[str, ...]) -> dict[str, Node]:
        return {name: Node(_value(self.cells[name]), line=self.line) for name in columns if name in self.cells}


def _value(cell: str) -> int | bool | str:
    if _WHOLE.fullmatch(cell) and len(cell) < 20:
        return int(cell)
    return _LABELS.get(cell.lower(), cell)


def _plan_columns() -> tuple[str, ...]:
    return (*(key for key in written_keys(Plan).values() if key != "overlap"), *SHORT_NAMES, *OLD_NAMES)


def _overlap_columns() -> tuple[str, ...]:
    return tuple(f"overlap.{key}" for key in written_keys(Overlap).values())


def _check_columns(table: Measurements) -> None:
    known = (*WORKLOAD, *OTHERS, *MEASURED, *_plan_columns(), *_overlap_columns())
    for column in table.columns:
        if column not in known:
            raise table.refused(f"no column of runs is named {quoted(column)}{did_you_mean(column[:100], known)}")
    for column in NEEDED:
        if not table.has(column):
            raise table.refused(f"column {column} is missing; runs need model, cluster, and {_CHOICE}")
    if not any(table.has(column) for column in MEASURED):
        raise table.refused(f"columns {', '.join(MEASURED)} are all missing; give one of them")
    if len(table) > MAX_RUNS:
        raise table.refused(f"at most {MAX_RUNS} runs are fitted to; got {len(table):,}")


def _base(table: Measurements) -> str:
    names = table.words("cluster")
    other = next((row for row, name in enumerate(names) if name != names[0]), 0)
    if other:
        message = f"cluster must be the same in every row; got {quoted(names[0])} and {quoted(names[other])}"
        raise table.refused(f"{message}; give each cluster its own file", other)
    if not names[0]:
        raise table.refused("cluster must be a catalogue cluster or a file; got nothing", 0)
    return names[0]


def _run(row: _Row, table: Measurements, index: int) -> OwnRun:
    workload, graph = _workload(row)
    cluster = _cluster(row)
    with placed(row.entry({})):
        check_dtype(workload, cluster.chip)
    decided = row.mapping(_plan_columns())
    overlap = {key.removeprefix("overlap."): value for key, value in row.mapping(_overlap_columns()).items()}
    if overlap:
        decided["overlap"] = Node(overlap, line=row.line)
    if "plan" in row.cells:
        decided["base"] = Node(row.cells["plan"], line=row.line)
    plan = nested(plan_of(row.entry(decided), graph, cluster.num_devices), cluster.topology)
    with placed(row.entry({})):
        placement(plan, cluster.topology)
    return OwnRun(
        name=row.cells.get("name", f"row {row.line}"),
        graph=training_graph(graph, workload.precision),
        precision=workload.precision,
        cluster=cluster,
        plan=plan,
        measured_s=_measured_s(row, table, index, workload, cluster.num_devices),
    )


def _workload(row: _Row) -> tuple[Workload, Graph]:
    entries = row.mapping(WORKLOAD)
    if "model" not in entries:
        raise row.entry("", "model").refused("model must be a catalogue model or a file; got nothing")
    if any(column in row.cells for column in PRECISION):
        entries["precision"] = Node(row.mapping(PRECISION), line=row.line)
    return workload_of(row.entry(entries))


def _cluster(row: _Row) -> Cluster:
    name = row.cells["cluster"]
    if name in clusters and not is_file_name(name):
        entries = {"name": Node(name, line=row.line)} | row.mapping(("devices",))
        return cluster_of(row.entry(entries))
    cluster = cluster_of(row.entry(name, "cluster"))
    devices = _value(row.cells.get("devices", str(cluster.num_devices)))
    if devices != cluster.num_devices:
        message = f"devices must be those of {quoted(name)}, {cluster.num_devices}; got {quoted(row.cells['devices'])}"
        raise row.entry("", "devices").refused(message)
    return cluster


def _measured_s(row: _Row, table: Measurements, index: int, workload: Workload, num_devices: int) -> float:
    """Seconds of a step, as given, from the rate of tokens, or the median steady step of a log."""
    given = [column for column in MEASURED if column in row.cells]
    if len(given) != 1:
        got = " and ".join(given) if given else "none of them"
        raise row.entry("", "step_s").refused(f"give {_CHOICE} in each row; got {got}")
    if given[0] == "log":
        with placed(row.entry("", "log")):
            log = load_training_log(row.document.folder / row.cells["log"])
            return measured_steps(log, workload.global_batch, workload.seq, num_devices).median_s
    value = float(_one(table, index).positive(given[0])[0])
    if given[0] == "step_s":
        return value
    if workload.model.sample != "tokens":
        raise row.entry("", "tokens_per_s").refused(f"{workload.model.name} has no tokens; give step_s")
    return workload.global_batch * workload.seq / value


def _one(table: Measurements, index: int) -> Measurements:
    return table.where(np.arange(len(table)) == index)
