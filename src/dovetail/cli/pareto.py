"""`dovetail pareto`: from models and limits to every system that no other beats, kept in a store."""

from __future__ import annotations

from pathlib import Path

from dovetail.api.fronts import Front, ParetoAsked, fronted
from dovetail.cli.answers import show_answer
from dovetail.cli.around import Terminal
from dovetail.cli.html import check_html
from dovetail.cli.screen import remark
from dovetail.files.text import one_line
from dovetail.files.written import check_writable, write_file
from dovetail.report.fronts import FrontReport
from dovetail.report.fronts_picture import front_svg
from dovetail.report.fronts_record import front_csv
from dovetail.search.codesign.pareto import checked_axes

WRITERS = {"csv": front_csv, "svg": front_svg}


def answer(
    asked: ParetoAsked, terminal: Terminal, *, as_json: bool, csv: str = "", svg: str = "", html: str = ""
) -> bool:
    """Shows the front, and says whether there is one; tables and pictures of it go where they were asked for."""
    checked_axes(list(asked.axes))
    check_html(html)
    files = {kind: file for kind, file in (("csv", csv), ("svg", svg)) if file}
    for file in files.values():
        check_writable(Path(file), is_forced=True)
    found = fronted(asked, terminal)
    written = _written(found, files)
    fits = show_answer(found, as_json=as_json, html=html)
    if written and not as_json:
        remark(f"\nwritten: {one_line(', '.join(written))}\n")
    return fits


def _written(found: Front, files: dict[str, str]) -> list[str]:
    if not isinstance(found.outcome, FrontReport):
        return []
    for kind, file in files.items():
        write_file(Path(file), WRITERS[kind](found.outcome))
    return list(files.values())
