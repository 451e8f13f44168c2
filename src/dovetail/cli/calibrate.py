"""`dovetail calibrate`: measurements in, a chip file out; with a user's runs, a cluster file."""

# Annotations are evaluated here: the options in them are the command's.
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dovetail.api.requests.option import REPEATED, Option, argument
from dovetail.cli.options import AsJson, Force, command
from dovetail.errors import InvalidInput

if TYPE_CHECKING:
    from dovetail.accuracy.fit import Fit
    from dovetail.hardware.chip import Chip

SUFFIXES = (".yaml", ".yml")


@command()
def calibrate(
    *,
    files: Annotated[tuple[str, ...], argument("CSV files, as dovetail validate takes them.", "FILE", REPEATED)] = (),
    chip: Annotated[
        str, Option("A chip: name, the beginning of one such as h200, or a file. Where the fit begins.", "NAME")
    ] = "",
    dtype: Annotated[str, Option("Of every row, whatever the table says.", "DTYPE")] = "",
    runs: Annotated[
        str,
        Option(
            "A CSV file of your own runs on one cluster: fits that cluster, and takes no FILE and no --chip.", "FILE"
        ),
    ] = "",
    out: Annotated[str, Option("The file to write; NAME-calibrated.yaml if none.", "FILE")] = "",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Fit a chip or a cluster to measurements, and write its file.

    The numbers of the chip's calibration that the rows tell anything of are fitted for the least mean error; the same
    error on rows left out in turn says what to expect of other rows. With --runs, one or two numbers of a cluster.
    """
    if runs:
        if files or chip or dtype:
            raise InvalidInput("a cluster is fitted to runs alone; leave out FILE, --chip and --dtype", "--runs")
        from dovetail.cli.calibrate_runs import fit_runs

        fit_runs(runs, out, is_forced=force, as_json=as_json)
        return
    if not files:
        raise InvalidInput("name CSV files of measurements, or say --runs FILE with your own runs on a cluster")
    from dovetail.accuracy.fit import fit
    from dovetail.accuracy.prepared import TableContext
    from dovetail.accuracy.sets import prepared
    from dovetail.cli.progress import telling
    from dovetail.cli.screen import show_json, show_tables
    from dovetail.files.chip import load_chip
    from dovetail.files.chip_names import full_name
    from dovetail.files.chip_text import calibrated_text
    from dovetail.files.measurements import load_measurements
    from dovetail.files.text import one_line
    from dovetail.files.written import write_file
    from dovetail.report.calibration import fit_record, fit_tables

    base = full_name(chip)
    begun = load_chip(base)
    file = _out(out, begun, is_forced=force)
    tables = [load_measurements(Path(name)) for name in files]
    given = TableContext(chip=begun, dtype=dtype)
    sets = [one for table in tables for one in prepared(table, given)]
    skipped = tuple(f"{one.name}: {count:,} {what}" for one in sets for what, count in one.skipped)
    with telling("fitting") as told:
        found = fit(sets, begun, told)
    found = _named(found, tuple(table.shown for table in tables))
    fitted = tuple(name for name, _, _ in found.fitted)
    write_file(file, calibrated_text(found.chip, base, fitted, found.chip.calibration.fitted_on, file))
    if as_json:
        show_json(fit_record(found, skipped) | {"written": str(file)})
    else:
        show_tables(fit_tables(found, one_line(str(file)), skipped))


def _out(out: str, chip: "Chip", *, is_forced: bool) -> Path:
    from dovetail.files.text import one_line
    from dovetail.files.written import check_writable

    file = Path(out or f"{chip.name}-calibrated.yaml")
    if file.suffix.lower() not in SUFFIXES:
        raise InvalidInput(f"a chip file ends in {' or '.join(SUFFIXES)}; got {one_line(file.name)!r}", "--out")
    check_writable(file, is_forced=is_forced)
    return file


def _named(found: "Fit", shown: tuple[str, ...]) -> "Fit":
    """The fitted chip under a name of its own, saying what it was fitted on."""
    names = ", ".join(Path(name).name for name in shown)
    calibration = replace(found.chip.calibration, fitted_on=f"{names[:120]}: {found.num_rows:,} rows")
    name = found.chip.name.removesuffix("-calibrated") + "-calibrated"
    return replace(found, chip=replace(found.chip, name=name, calibration=calibration))
