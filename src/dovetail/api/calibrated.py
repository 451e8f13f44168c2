"""A chip fitted to measured operators, or a cluster to a user's runs or to logs of collectives; written to a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from dovetail.accuracy.cluster_fit import ClusterFit, fit_cluster
from dovetail.accuracy.collective_rows import Collectives, joined, reader_of
from dovetail.accuracy.fit import Fit, fit
from dovetail.accuracy.library_fit import LibraryFit, fit_library
from dovetail.accuracy.prepared import TableContext
from dovetail.accuracy.sets import counted_reasons, prepared, readable
from dovetail.accuracy.sets.collectives import rows_of_platform
from dovetail.api.jobs import placed_in
from dovetail.comm.library.on_group import LIBRARIES, constants_on
from dovetail.errors import InvalidInput, NotModelled
from dovetail.files.chip import load_chip
from dovetail.files.chip_names import full_name
from dovetail.files.chip_text import calibrated_text
from dovetail.files.cluster import cluster_of
from dovetail.files.cluster_names import sized_name
from dovetail.files.cluster_text import calibrated_cluster_text, calibrated_library_text
from dovetail.files.collective_library import constant_labels
from dovetail.files.entry import spoken
from dovetail.files.job import countable
from dovetail.files.measurements import load_measurements
from dovetail.files.own_runs import load_own_runs
from dovetail.files.text import one_line
from dovetail.files.written import check_writable, write_file
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.hardware.topology import XLA_ICI, Span
from dovetail.report.library_calibration import LibraryReport

SUFFIXES = (".yaml", ".yml")
CALIBRATED = "-calibrated"
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
        raise InvalidInput(f"{rule}; name {one_line(other)} in a call of its own")
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
    if not product or _is_chip(product, base.chip.name):
        return ()
    return (f"the rows are of {product[:60]}, and {base.name} has {base.chip.name}",)


def _is_chip(product: str, chip: str) -> bool:
    """Whether a product as logs name it is a chip: NVIDIA A100-SXM4-80GB is a100-80gb-sxm, and GB200 is no b200."""
    product, chip = product.lower(), chip.lower()
    is_model = re.search(rf"(?<![a-z0-9]){re.escape(chip.partition('-')[0])}(?![0-9])", product) is not None
    return is_model and bool(_CARD.search(product)) == bool(_CARD.search(chip))


def _server_of(product: str) -> str:
    """The first catalogue cluster with a library whose chips are of `product`."""
    for name, entry in clusters.items() if product else ():
        built = entry.build(entry.default_devices)
        if _is_chip(product, built.chip.name) and all(one.has_measured_library for one in built.topology.dimensions):
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
