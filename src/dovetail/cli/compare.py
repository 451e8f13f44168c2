"""`dovetail compare` and `dovetail sweep`: several jobs in one table, on the screen and in files."""

# Annotations are evaluated here: the options in them are the commands'.
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dovetail.api.requests.comparisons import CompareRequest, SweepRequest
from dovetail.api.requests.option import Option
from dovetail.cli.options import AsJson, Html, command

if TYPE_CHECKING:
    from dovetail.api.compared import Comparison
    from dovetail.api.search_context import SearchContext

Csv = Annotated[str, Option("Write every row with every figure to this file.", "FILE")]


@command(CompareRequest)
def compare(request: CompareRequest, *, csv: Csv = "", html: Html = "", as_json: AsJson = False) -> bool:
    """Compare jobs in one table: time, memory, energy, price.

    DESIGN is a spec file, or names a model, a cluster or a plan; several --model, --cluster and --plan are combined.
    What does not fit, or cannot be read, is a row that says why.
    """
    from dovetail.api.compared import compared
    from dovetail.cli.answers import tell_cluster
    from dovetail.cli.html import check_html
    from dovetail.cli.progress import through

    check_html(html)
    _check_csv(csv)
    for cluster in request.cluster:
        tell_cluster(cluster, request.devices)
    found = compared(request, context=_around, through=partial(through, "comparing"))
    return _shown(found, csv, html, as_json=as_json)


@command(SweepRequest)
def sweep(request: SweepRequest, *, csv: Csv = "", html: Html = "", as_json: AsJson = False) -> bool:
    """Predict a step at every combination of some keys' values.

    Any key of a spec can be varied by its path: plan.tp, cluster.devices, cluster.nvlink.bandwidth, chip.tdp,
    workload.seq. A range is 1..16 (by 1), 1..16*2, 8..64+8 or 2TB/s..8TB/s:7 (seven values).
    """
    from dovetail.api.sweeps import swept
    from dovetail.cli.answers import tell_cluster
    from dovetail.cli.html import check_html
    from dovetail.cli.progress import through

    check_html(html)
    _check_csv(csv)
    tell_cluster(request.cluster, request.devices)
    found = swept(request, context=_around, through=partial(through, "sweeping"))
    return _shown(found, csv, html, as_json=as_json)


def _check_csv(csv: str) -> None:
    from dovetail.files.written import check_writable

    if csv:
        check_writable(Path(csv), is_forced=True)


def _shown(found: "Comparison", csv: str, html: str, *, as_json: bool) -> bool:
    from dovetail.cli.answers import show_answer
    from dovetail.cli.screen import remark
    from dovetail.files.text import one_line

    if csv:
        found.to_csv(csv)
    fits = show_answer(found, as_json=as_json, html=html, more={"written": [csv] if csv else []})
    if csv and not as_json:
        remark(f"\nwritten: {one_line(csv)}\n")
    return fits


@contextmanager
def _around() -> Iterator["SearchContext"]:
    """For plans that are to be found; imported where one searches."""
    from dovetail.cli.terminal import TerminalContext

    yield TerminalContext()
