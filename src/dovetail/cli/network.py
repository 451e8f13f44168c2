"""`dovetail network`: one collective on one network, or a sweep of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dovetail.api.network_said import NetworkSaid
from dovetail.api.networks import asks_of, networked
from dovetail.cli.answers import show_answer
from dovetail.cli.html import check_html
from dovetail.cli.network_files import write_astra, write_network
from dovetail.cli.pictures import picture_file
from dovetail.cli.progress import through
from dovetail.cli.results import result_files
from dovetail.cli.screen import remark
from dovetail.cli.usage import check_needed
from dovetail.errors import InvalidInput
from dovetail.files.text import one_line
from dovetail.files.written import check_writable, write_file
from dovetail.report.curves import curves_svg
from dovetail.report.network import sweep_panels


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFiles:
    """Where results go beside the screen; empty for nowhere."""

    plot: str = ""
    perfetto: str = ""
    csv: str = ""
    ranks: str = ""
    astra: str = ""
    is_forced: bool = False  # of ASTRA-sim's files, which people go on with
    html: str = ""


def answer(said: NetworkSaid, wanted: NetworkFiles, *, as_json: bool) -> None:
    """Shows the answer, or all answers of a sweep, and writes the files that were asked for."""
    check_html(wanted.html)
    picture, files = picture_file(wanted.plot), result_files(wanted.perfetto, wanted.csv, wanted.ranks)
    _check_used(said, wanted, len(asks_of(said)))
    found = networked(said, files.watches, through=partial(through, f"following {one_line(said.collective)}"))
    write_network(files, found.outcome)
    written = write_astra(wanted.astra, found.outcome[0].asked, is_forced=wanted.is_forced) if wanted.astra else ""
    if picture is not None:
        title = one_line(f"{said.collective} on {said.topology}")
        write_file(picture, curves_svg(title, sweep_panels(found.outcome)))
    show_answer(found, as_json=as_json, html=wanted.html)
    if not as_json:
        remark(written)


def _check_used(said: NetworkSaid, wanted: NetworkFiles, num_answers: int) -> None:
    """Raises where a file is asked for that is of one answer alone, or ranks whose links nothing tells of."""
    if wanted.ranks and (num_answers > 1 or said.engine == "closed"):
        raise InvalidInput("--ranks is of the links and timeline of one answer by events; leave it out")
    for option, name in (("--perfetto", wanted.perfetto), ("--astra-sim", wanted.astra)):
        if name and num_answers > 1:
            raise InvalidInput(f"it takes one size, network and memory; this sweep has {num_answers}", option)
    if wanted.astra:
        check_writable(Path(f"{wanted.astra}.0.et"), is_forced=wanted.is_forced)
    check_needed("--force", {"--astra-sim": bool(wanted.astra)}, is_said=wanted.is_forced)
