"""A chip fitted to measured operators, or a cluster to a user's runs or to logs of collectives; written to a file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from dovetail.accuracy.cluster_fit import ClusterFit, OwnRun, fit_cluster
from dovetail.accuracy.collective_rows import Collectives, joined, reader_of
from dovetail.accuracy.fit import Fit, fit
from dovetail.accuracy.host_fit import fit_host
from dovetail.accuracy.library_fit import LibraryFit, fit_library
from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import TableContext
from dovetail.accuracy.sets import counted_reasons, format_of, prepared, readable
from dovetail.accuracy.sets.collectives import rows_of_platform
from dovetail.api.jobs import JobRequest, placed_in
from dovetail.api.logged_jobs import compared_log
from dovetail.api.recorded_steps import steps_in
from dovetail.comm.library.on_group import LIBRARIES, constants_on
from dovetail.errors import DovetailError, InvalidInput, NotModelled
from dovetail.files.chip import load_chip
from dovetail.files.chip_names import full_name
from dovetail.files.chip_text import calibrated_text
from dovetail.files.cluster import cluster_of
from dovetail.files.cluster_names import sized_name
from dovetail.files.cluster_text import calibrated_cluster_text, calibrated_library_text
from dovetail.files.collective_library import constant_labels
from dovetail.files.entry import is_file_name, spoken
from dovetail.files.job import countable
from dovetail.files.measurements import load_measurements
from dovetail.files.own_runs import OwnTable, load_own_runs
from dovetail.files.text import LOG_SUFFIXES, one_line
from dovetail.files.training_logs import log_formats
from dovetail.files.training_logs.loading import names_training_log
from dovetail.files.written import check_writable, write_file
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.hardware.topology import XLA_ICI, Span
from dovetail.report.library_calibration import LibraryReport
from dovetail.step.eager import eager_step
from dovetail.workload.graph import FloatArray

SUFFIXES = (".yaml", ".yml")
CALIBRATED = "-calibrated"
STEPS, HOST = "recorded-steps", "host_slowdown"
_CARD = re.compile(r"pcie|\bnvl\b")  # PCIe cards, which share a name with what servers join by NVSwitch


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


def has_collectives(files: Sequence[str]) -> bool:
    """Whether the files are tables or logs of collectives, which a cluster is fitted to; raises where only some are."""
    kinds = [reader_of(load_measurements(Path(name), is_whole=False)) is not None for name in files]
    if any(kinds) and not all(kinds):
        other = files[kinds.index(False)]
        rule = "collectives are fitted for a cluster and other tables for a chip"
        raise InvalidInput(f"{rule}; name {one_line(other)} in a separate call")
    return any(kinds)


def calibrated_library(
    files: Sequence[str],
    cluster: str,
    platform: str,
    out: str,
    *,
    is_forced: bool,
    announce: Callable[[str], AbstractContextManager[None]],
) -> LibraryReport:
    """The collective library of `cluster` fitted to logs and tables, and written as a cluster file.

    Without a cluster, it is the catalogue's whose chips the rows were measured on. `platform` says which rows of a
    table of several.
    """
    rows, notes = _collective_rows(files)
    rows = rows.where(rows_of_platform(rows, platform))
    named = sorted(set(rows.products) - {""})
    if len(named) > 1:
        raise InvalidInput(f"the rows are of several platforms, {', '.join(named)[:200]}; choose one", "--platform")
    product = platform or (named[0] if named else "")
    with countable():
        entry, written_devices = sized_name(spoken(cluster or _server_of(product)))
        base_name, num_devices = str(entry.value), written_devices or int(rows.num_ranks.max())
        base = cluster_of(spoken(base_name), num_devices if base_name in clusters else 0)
    _check_runs_library(base)
    name = base.name.removesuffix(CALIBRATED) + CALIBRATED
    file = _checked_file(out or f"{name}.yaml", "a cluster file", is_forced=is_forced)
    notes += _other_chip(base, product)
    with announce(f"fitting {len(rows):,} rows"):
        library, result = _fitted_library(base, rows)
    fitted_on = f"{', '.join(Path(one).name for one in files)[:120]}: {len(rows):,} rows"
    text = calibrated_library_text(
        base_name, num_devices, name, library, product, result.fitted, fitted_on, file
    )  # fmt: skip
    write_file(file, text)
    return LibraryReport(
        fit=result,
        name=name,
        library=library,
        platform=product,
        fitted_on=fitted_on,
        written=one_line(str(file)),
        words=[
            (
                *constant_labels(one.name, one.num_ranks, one.before),
                constant_labels(one.name, one.num_ranks, one.after)[1],
            )
            for one in result.constants
        ],
        notes=notes,
    )


def _collective_rows(files: Sequence[str]) -> tuple[Collectives, tuple[str, ...]]:
    """The rows of all files, and words on those that could not be read."""
    parts, notes = [], []
    for name in files:
        table = load_measurements(Path(name), is_whole=False)
        read = reader_of(table)
        assert read is not None, f"{name}: seen to be of collectives before"
        part, unreadable = readable(read, table)
        parts.append(part)
        reasons = counted_reasons(unreadable | dict(table.uneven))
        notes += [
            f"{table.name}: {count:,} {words if count > 1 else words.replace('rows', 'row', 1)}"
            for words, count in reasons
        ]
    return joined(tuple(parts)), tuple(notes)


def _check_runs_library(base: Cluster) -> None:
    if any(one.library == XLA_ICI for one in base.topology.dimensions):
        rule = f"{base.name} runs collectives by XLA on ICI, and logs of nccl-tests and the like do not tell of that"
        raise InvalidInput(f"{rule}; name a cluster of GPUs", "--cluster")


def _other_chip(base: Cluster, product: str) -> tuple[str, ...]:
    """A word where the rows name other GPUs than the cluster has."""
    if not product or is_chip(product, base.chip.name):
        return ()
    return (f"the rows are of {product[:60]}, and {base.name} has {base.chip.name}",)


def is_chip(product: str, chip: str) -> bool:
    """Whether a product as logs name it is a chip: NVIDIA A100-SXM4-80GB is a100-80gb-sxm, and GB200 is no b200."""
    product, chip = product.lower(), chip.lower()
    is_model = re.search(rf"(?<![a-z0-9]){re.escape(chip.partition('-')[0])}(?![0-9])", product) is not None
    return is_model and bool(_CARD.search(product)) == bool(_CARD.search(chip))


def _server_of(product: str) -> str:
    """The first catalogue cluster with a library whose chips are of `product`."""
    for name, entry in clusters.items() if product else ():
        built = entry.build(entry.default_devices)
        if is_chip(product, built.chip.name) and all(one.has_measured_library for one in built.topology.dimensions):
            return name
    named = f"no catalogue cluster is of platform {product[:40]!r}" if product else "the rows do not name their GPUs"
    raise InvalidInput(f"{named}; name the cluster that ran, its file or the nearest in the catalogue", "--cluster")


def _fitted_library(base: Cluster, rows: Collectives) -> tuple[str, LibraryFit]:
    """The library of a cluster fitted to rows; where it names none, that of all libraries which comes nearest."""
    dimensions = base.topology.dimensions
    named = {one.library for one in dimensions if one.has_measured_library}
    tried = []
    for name in sorted(named) or sorted(LIBRARIES):
        group = tuple(Span(dimension=replace(one, library=name), num_ranks=one.num_devices) for one in dimensions)
        platform, network = constants_on(group)
        try:
            found = fit_library(replace(LIBRARIES[name], platform=platform, network=network), rows)
        except NotModelled as error:
            if named:
                raise InvalidInput(error.message) from None
            continue
        tried.append((found.error_frac(found.after_s), name, found))
    _, name, found = min(tried, key=lambda one: one[:2])
    return name, found


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
    tables = {Path(name): load_measurements(Path(name)) for name in files}
    steps = {path: table for path, table in tables.items() if format_of(table) == STEPS}
    context = TableContext(chip=base, dtype=dtype)
    sets = [one for path, table in tables.items() if path not in steps for one in prepared(table, context)]
    skipped = tuple(f"{one.name}: {count:,} {what}" for one in sets for what, count in one.skipped)
    with announce("fitting") as progress:
        result = fit(sets, base, progress) if sets else _unfitted(base)
        if steps:
            result, notes = _with_host(result, steps, progress)
            skipped += notes
    result = _named(result, tuple(table.shown for table in tables.values()))
    fitted = tuple(name for name, _, _ in result.fitted)
    write_file(file, calibrated_text(result.chip, base_name, fitted, result.chip.calibration.fitted_on, file))
    return CalibratedChip(fit=result, skipped=skipped, file=file)


def _unfitted(base: Chip) -> Fit:
    """`base` as it is, where only steps are to be fitted to."""
    numbers = tuple(one.name for one in fields(base.calibration) if type(getattr(base.calibration, one.name)) is float)
    return Fit(
        chip=base, fitted=(), unchanged=numbers, num_rows=0, before_frac=0.0, after_frac=0.0, cross_validated_frac=0.0
    )


def _with_host(
    result: Fit, tables: dict[Path, Measurements], tell: Callable[[str], None]
) -> tuple[Fit, tuple[str, ...]]:
    """The fitted chip with the pace of the host that steps of models were measured beside; and words on that."""
    parts = [steps_in(path, table, tell) for path, table in tables.items()]
    steps = [step for part in parts for step in part[0]]
    notes = [note for part in parts for note in part[2]]
    chip = result.chip
    if not steps:
        return result, tuple(notes)

    def on(slowdown: float) -> Chip:
        return replace(chip, calibration=replace(chip.calibration, host_slowdown=slowdown))

    def predicted(slowdown: float) -> FloatArray:
        tell(f"fitting the host's pace: {slowdown:.2f}")
        return np.array([eager_step(step, on(slowdown)).step_s for step in steps])

    found = fit_host(predicted, np.concatenate([part[1] for part in parts]), chip.calibration.host_slowdown)
    if not found.num_rows:
        return result, (*notes, "no step waits for the host, so its pace stays as it is")
    if not result.num_rows:
        result = replace(
            result,
            num_rows=found.num_rows,
            before_frac=found.before_frac,
            after_frac=found.after_frac,
            cross_validated_frac=found.left_out_frac,
        )
    before, after, left_out = (
        f"{100 * one:.1f} %" for one in (found.before_frac, found.after_frac, found.left_out_frac)
    )
    steps_word = "step that waits" if found.num_rows == 1 else "steps that wait"
    words = f"{found.num_rows:,} {steps_word} for the host: mean error {before} before, {after} after"
    notes.append(f"{words}, {left_out} each fitted to the others")
    if found.after == found.before:
        return result, tuple(notes)
    result = replace(
        result,
        chip=on(found.after),
        fitted=(*result.fitted, (HOST, found.before, found.after)),
        unchanged=tuple(name for name in result.unchanged if name != HOST),
    )
    return result, tuple(notes)


def calibrated_cluster(
    runs: Sequence[str],
    out: str,
    *,
    is_forced: bool,
    announce: Callable[[str], AbstractContextManager[None]],
    job: JobRequest | None = None,
) -> CalibratedCluster:
    """The cluster of a table of runs, or of training logs, fitted to them; `announce` shows the progress.

    `job` is what is said of the job of every log; a table says that of each of its rows.
    """
    job = JobRequest() if job is None else job
    with countable():
        table = _own_table(runs, job)
    name = table.largest.name.removesuffix(CALIBRATED) + CALIBRATED
    file = _checked_file(out or f"{name}.yaml", "a cluster file", is_forced=is_forced)
    with placed_in(table.shown), announce(f"fitting {len(table.runs):,} runs"):
        result = fit_cluster(table.runs)
    fitted_on = ", ".join(Path(one).name for one in runs)[:120]
    write_file(file, calibrated_cluster_text(result, table, name, fitted_on, file))
    return CalibratedCluster(fit=result, name=name, fitted_on=fitted_on, skipped=table.skipped, file=file)


def _check_is_table(file: Path) -> None:
    """Raises where a log holds neither a table of runs nor steps of training."""
    if not file.is_file() or file.suffix.lower() not in LOG_SUFFIXES:
        return
    try:
        load_own_runs(file)
    except DovetailError:
        names = ", ".join(sorted({known.name for _, known in log_formats.items()}))
        message = f"no line of it is a step of a training log ({names}), and it is no table of runs"
        raise InvalidInput(message, one_line(str(file))) from None


def _own_table(files: Sequence[str], job: JobRequest) -> OwnTable:
    """The runs of one table, or of logs that are all of one cluster; words for logs that cannot be predicted."""
    are_logs = [names_training_log(Path(name)) for name in files]
    if not any(are_logs):
        if len(files) > 1:
            raise InvalidInput("name one table of runs, or several training logs", "--runs")
        _check_is_table(Path(files[0]))
        if job != JobRequest():
            raise InvalidInput("a table of runs has its jobs; leave options of the job out", "--runs")
        return load_own_runs(Path(files[0]))
    runs, errors, bases = [], [], set()
    for name in files:
        try:
            run, base = _logged_run(name, job)
        except DovetailError as error:  # one log that cannot be read says nothing against the others
            errors.append(error)
            continue
        runs.append(run)
        bases.add(base)
    if not runs:
        raise errors[0]
    if len(bases) > 1:
        raise InvalidInput(f"the logs are of several clusters, {', '.join(sorted(bases))[:100]}; fit each by itself")
    return OwnTable(
        base=bases.pop(), shown=files[0], runs=tuple(runs), skipped=tuple(f"log not predicted: {one}" for one in errors)
    )


def _logged_run(name: str, request: JobRequest) -> tuple[OwnRun, str]:
    """A log as a run: the median of its steady steps; and its cluster by the name that a file can say."""
    found = compared_log(name, request)
    if not isinstance(found.cluster, Cluster):
        raise InvalidInput("a cluster is fitted to runs on equal devices; this one has pools", name)
    run = OwnRun(
        name=found.log.source,
        graph=found.workload.training_graph(),
        precision=found.workload.precision,
        cluster=found.cluster,
        plan=found.plan,
        measured_s=found.measured.median_s,
    )
    return run, _base_of(found.cluster, request)


def _base_of(cluster: Cluster, request: JobRequest) -> str:
    """What a cluster file can name as its base: a catalogue name, or the file that was named."""
    if isinstance(request.cluster, str) and request.cluster and is_file_name(request.cluster):
        return os.path.abspath(request.cluster)
    if cluster.name in clusters:
        return cluster.name
    raise InvalidInput(f"the cluster {cluster.name[:60]!r} has no name of the catalogue; pass --cluster FILE")


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
