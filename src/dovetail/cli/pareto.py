"""`dovetail pareto`: from models and limits to every system that no other beats, kept in a store."""

from __future__ import annotations

from pathlib import Path

from dovetail.api.fronts import Front, ParetoAsked, fronted
from dovetail.cli.answers import show_answer
from dovetail.cli.around import Terminal
from dovetail.cli.html import check_html
from dovetail.cli.pictures import picture_file
from dovetail.cli.screen import remark
from dovetail.files.text import one_line
from dovetail.files.written import check_writable, write_file
from dovetail.report.fronts import FrontReport
from dovetail.report.fronts_picture import front_svg
from dovetail.report.fronts_record import front_csv
from dovetail.search.codesign.pareto import checked_axes


def answer(
    asked: ParetoAsked, terminal: Terminal, *, as_json: bool, csv: str = "", plot: str = "", html: str = ""
) -> bool:
    """Shows the front, and says whether there is one; tables and pictures of it go where they were asked for."""
    checked_axes(list(asked.axes))
    check_html(html)
    picture, table = picture_file(plot), Path(csv) if csv else None
    if table is not None:
        check_writable(table, is_forced=True)
    found = fronted(asked, terminal)
    written = _written(found, table, picture)
    fits = show_answer(found, as_json=as_json, html=html)
    if written and not as_json:
        remark(f"\nwritten: {one_line(', '.join(written))}\n")
    return fits


def _written(found: Front, table: Path | None, picture: Path | None) -> list[str]:
    front = found.outcome
    if not isinstance(front, FrontReport):
        return []
    if table is not None:
        write_file(table, front_csv(front))
    if picture is not None:
        write_file(picture, front_svg(front))
    return [str(file) for file in (table, picture) if file is not None]
