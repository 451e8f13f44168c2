"""A paper's numbers as a page: ours beside the paper's, and every table."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.papers.verdicts import NOT_REPRODUCED
from dovetail.report.charts.ace import ace_charts
from dovetail.report.charts.beside_paper import BesidePaper, beside_paper
from dovetail.report.page import Page, Section
from dovetail.report.plain import Record
from dovetail.report.table import Table


def reproduction_page(record: Record, tables: tuple[Table, ...]) -> Page:
    """Of the record of any paper, and its tables."""
    paper = str(record.get("paper", "A paper"))
    rows = list(_rows(record))
    num_missed = sum(not row.holds for row in rows)
    holds = bool(record.get("holds", True))
    verdict = "every number that must meet the paper's does" if holds else "some numbers miss the paper's"
    counted = f"; {len(rows) - num_missed} of {len(rows)} numbers agree" if rows else ""
    sweeps = ace_charts(record) if "by_memory" in record else ()
    return Page(
        title=tables[0].title,
        sentence=f"{paper} again: {verdict}{counted}.",
        sections=(
            *((Section(title="Ours and the paper's", charts=(beside_paper(rows),)),) if rows else ()),
            *((Section(title="Sweeps and iterations", charts=sweeps),) if sweeps else ()),
            *(Section(title=table.title, tables=(table,)) for table in tables),
        ),
    )


def _rows(record: Record) -> Iterator[BesidePaper]:
    """Numbers that the record has of both, wherever it keeps them."""
    for one in record.get("checks", ()):
        yield BesidePaper(what=one["what"], ours=one["ours"], reported=one["reported"], holds=one["holds"])
    for one in record.get("claims", ()):
        figure = one["paper_mapper"]
        if figure is None:
            continue
        least, most = min(one["reported"]), max(one["reported"])
        nearest = min(max(figure, least), most)  # of a span that is reported, the nearest number
        yield BesidePaper(what=one["what"], ours=figure, reported=nearest, holds=one["verdict"] != NOT_REPRODUCED)
    for one in record.get("cases", ()):
        ours, recorded = one["ours"]["batch_s"], one["recorded"]["batch_s"]
        yield BesidePaper(what=one["instance"], ours=ours, reported=recorded, holds=one["holds"])
