"""A calibrated cluster as the YAML file that describes it: its base, and how far from that it runs."""

from __future__ import annotations

from pathlib import Path

from dovetail.accuracy.cluster_fit import ClusterFit
from dovetail.files.chip_text import quoted_text, reference_from
from dovetail.files.collective_library import collectives_text
from dovetail.files.entry import is_file_name
from dovetail.files.own_runs import OwnTable
from dovetail.files.schema import MAX_TEXT_CHARACTERS
from dovetail.hardware.clusters import clusters
from dovetail.hardware.topology import FittedConstants

DIGITS = 5


def calibrated_cluster_text(fit: ClusterFit, table: OwnTable, name: str, fitted_on: str, out: Path) -> str:
    """The base of the runs at its largest size, with the scales that were fitted to them."""
    is_family = table.base in clusters
    own = fit.own_runs(fitted_on)
    lines = [
        "# Written by `dovetail calibrate --runs`; what is not here is as in the base.",
        f"base: {quoted_text(table.base if is_family else reference_from(out, _path(table)))}",
        *([f"devices: {table.largest.num_devices}  # of the largest run; any other will do"] if is_family else []),
        f"name: {quoted_text(name)}",
        "calibration:",
        f"  compute: {fit.scales.compute_scale:.{DIGITS}g}  # rates of the devices, of what the base says",
        f"  links: {fit.scales.link_scale:.{DIGITS}g}",
        f"  runs: {own.num_runs}",
        f"  scales: {own.num_scales}  # numbers that were fitted",
        f"  spread: {own.spread_frac:.{DIGITS}g}  # of errors on runs left out in turn, in logarithms",
        f"  fitted_on: {quoted_text(fitted_on[:MAX_TEXT_CHARACTERS])}",
    ]
    return "\n".join(lines) + "\n"


def _path(table: OwnTable) -> str:
    """A base that is a file is named from where the runs' file lies."""
    return str(Path(table.shown).parent / table.base)


def calibrated_library_text(
    base: str, num_devices: int, name: str, library: str, platform: str, constants: FittedConstants, fitted_on: str,
    out: Path,
) -> str:  # fmt: skip
    """A base cluster whose collective library has the constants that were fitted to logs."""
    is_family = base in clusters
    lines = [
        "# Written by `dovetail calibrate`; what is not here is as in the base.",
        f"base: {quoted_text(base if is_family or not is_file_name(base) else reference_from(out, base))}",
        *([f"devices: {num_devices}  # of the largest log; any other will do"] if is_family else []),
        f"name: {quoted_text(name)}",
        *collectives_text(library, platform, constants, fitted_on),
    ]
    return "\n".join(lines) + "\n"
