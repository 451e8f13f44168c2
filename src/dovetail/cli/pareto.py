"""`dovetail pareto`: every system that no other beats, on the screen, in a table and as a picture."""

# Annotations are evaluated here: the options in them are the command's.
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dovetail.api.requests.option import Option
from dovetail.api.requests.searches import ParetoRequest
from dovetail.cli.options import AsJson, Html, command

if TYPE_CHECKING:
    from dovetail.api.fronts import Front


@command(ParetoRequest, before={"csv": "top", "plot": "top", "html": "top"})
def pareto(
    request: ParetoRequest,
    *,
    csv: Annotated[str, Option("Write every system of the front to this file.", "FILE")] = "",
    plot: Annotated[str, Option("Draw the front, the first axis over each other one, as .svg.", "FILE")] = "",
    html: Html = "",
    as_json: AsJson = False,
) -> bool:
    """Find every system that no other beats: the exact Pareto front.

    Of all systems of a space within the limits, those of which no other is as good or better on every axis, each with
    its best plan by equal stages. Bounds settle most; the rest are scored. Without a spec, a small example.
    """
    from dovetail.api.fronts import check_axes, fronted
    from dovetail.cli.answers import show_answer
    from dovetail.cli.engines import engine_choice
    from dovetail.cli.html import check_html
    from dovetail.cli.pictures import picture_file
    from dovetail.cli.screen import remark
    from dovetail.cli.terminal import TerminalContext
    from dovetail.files.text import one_line
    from dovetail.files.written import check_writable

    terminal = TerminalContext(choice=engine_choice(request.workers, request.dask), file=request.store)
    check_axes(request)
    check_html(html)
    picture, table = picture_file(plot), Path(csv) if csv else None
    if table is not None:
        check_writable(table, is_forced=True)
    found = fronted(request, terminal)
    written = _written(found, table, picture)
    fits = show_answer(found, as_json=as_json, html=html)
    if written and not as_json:
        remark(f"\nwritten: {one_line(', '.join(written))}\n")
    return fits


def _written(found: "Front", table: Path | None, picture: Path | None) -> list[str]:
    from dovetail.files.written import write_file
    from dovetail.report.fronts import FrontReport, front_csv
    from dovetail.report.fronts_picture import front_svg

    front = found.outcome
    if not isinstance(front, FrontReport):
        return []
    if table is not None:
        write_file(table, front_csv(front))
    if picture is not None:
        write_file(picture, front_svg(front))
    return [str(file) for file in (table, picture) if file is not None]
