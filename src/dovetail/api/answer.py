"""What every answer can do: be read as text, as JSON, in a notebook, and be kept as a page."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.report.charts.chart import Chart
from dovetail.report.charts.themes import themed
from dovetail.report.page import Page, Provenance, Section
from dovetail.report.plain import Record, versioned
from dovetail.report.table import Table, text_of

SVG = "image/svg+xml"
PLOTLY = "application/vnd.plotly.v1+json"  # what notebooks draw a figure from
_LISTS = ("rows", "jobs", "plans", "front", "designs", "systems", "sets", "blocks", "points", "results")
_STYLE = "text-align:{};vertical-align:top;padding:.1em .8em .1em 0;font-variant-numeric:tabular-nums"


class Answer(ABC):
    """An answer as a value. Print it for the command's text; in a notebook it shows its tables and charts.

    Rendering is inherited, against the custom of this project: a notebook asks the object itself, and all answers
    must answer alike.
    """

    __slots__ = ()
    call: str  # that gave this answer, as Python has it

    @property
    @abstractmethod
    def headline(self) -> str:
        """The answer in a line."""

    @property
    @abstractmethod
    def fits(self) -> bool:
        """Whether there is what was asked for: the command's exit code is 0 then."""

    @property
    @abstractmethod
    def tables(self) -> tuple[Table, ...]:
        """What the command prints, as values."""

    @property
    @abstractmethod
    def _record(self) -> Record:
        """`record` without the version of its keys."""

    @property
    def record(self) -> Record:
        """What the command prints with `--json`; docs/reference/json.md lists the keys."""
        return versioned(self._record)

    @property
    def page(self) -> Page:
        """The answer as a page has it: in a sentence, with its key figures, charts and tables."""
        return plain_page(self.headline, self.tables)

    @property
    def charts(self) -> tuple[Chart, ...]:
        """The answer as pictures; none where words say it all."""
        return self.page.charts

    @property
    def inputs(self) -> Record:
        """Everything that the answer follows from, as it was understood."""
        return {}

    @property
    def rows(self) -> list[Record]:
        """What `to_frame` has a row each for: the list that the answer is about, or the answer alone."""
        lists = (self.record.get(key) for key in _LISTS)
        found = next((one for one in lists if isinstance(one, list) and one and isinstance(one[0], dict)), None)
        return list(found) if found else [self.record]

    def to_frame(self) -> Any:
        """`rows` as a pandas DataFrame, a column for each figure: `memory.need_bytes` within records.

        Needs pandas, which is not installed with Dovetail.
        """
        try:
            import pandas as pd  # type: ignore[import-untyped,unused-ignore]
        except ImportError:
            raise InvalidInput("to_frame needs pandas; install it: pip install pandas") from None
        return pd.DataFrame([_flat(row) for row in self.rows])

    def plot(self, name: str = "") -> Chart:
        """The chart of this name, or the first: it draws itself in a notebook, and `save_chart` writes it to a file."""
        charts = {chart.name: chart for chart in self.charts}
        if not charts:
            raise InvalidInput(f"{type(self).__name__} has no chart: its answer is words and tables")
        if name and name not in charts:
            raise InvalidInput(f"{type(self).__name__} has no chart named {name!r}{did_you_mean(name, charts)}")
        return charts[name] if name else next(iter(charts.values()))

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the whole answer to a file that `load` reads: record, rows, tables and charts."""
        from dovetail.api.saved import saved_text
        from dovetail.files.written import write_file

        write_file(Path(path), saved_text(self))

    def to_json(self, path: str | PathLike[str]) -> None:
        """Writes `record` to a file."""
        from dovetail.files.written import write_file

        write_file(Path(path), json.dumps(self.record, indent=2, allow_nan=False) + "\n")

    def to_html(self, path: str | PathLike[str]) -> None:
        """Writes the answer as one page that opens in any browser, with all that it takes to get it again."""
        write_answer(path, self.page, command=self.call, inputs=self.inputs, answer=self.record)

    def __str__(self) -> str:
        return text_of(self.tables)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.headline}>"

    def _repr_html_(self) -> str:
        return tables_html(self.tables)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Record:  # noqa: ARG002  # IPython's
        """Text and tables, and the first chart for those who show one thing alone."""
        bundle: Record = {"text/plain": str(self), "text/html": self._repr_html_()}
        return bundle | next((_chart_bundle(chart, PLOTLY) for chart in self.charts[:1]), {})

    def _ipython_display_(self) -> None:
        """Tables and then every chart, as one bundle shows one of them only."""
        from IPython.display import display

        display({"text/plain": str(self), "text/html": self._repr_html_()}, raw=True)  # type: ignore[no-untyped-call]
        for chart in self.charts:
            display(_chart_bundle(chart, PLOTLY, SVG, "text/plain"), raw=True)  # type: ignore[no-untyped-call]


def write_answer(path: str | PathLike[str], page: Page, *, command: str, inputs: Record, answer: Record) -> None:
    """Writes `page` to a file, with the call that gave it and what it follows from."""
    from dovetail.files.report_page import check_page_file, versions, write_page
    from dovetail.store.version import model_version

    check_page_file(os.fspath(path))
    provenance = Provenance(command=command, versions=versions(model_version()), inputs=inputs, answer=answer)
    write_page(Path(path), page, provenance)


def plain_page(sentence: str, tables: tuple[Table, ...]) -> Page:
    """A page of tables alone."""
    first, *more = tables
    sections = (
        Section(title="The answer", tables=(first,)),
        *(Section(title=one.title, tables=(one,)) for one in more),
    )
    return Page(title=first.title, sentence=sentence, sections=sections)


def inputs_in(record: Record, names: Iterable[str]) -> Record:
    """Those of `names` that `record` has: what was asked, as it was understood."""
    return {name: record[name] for name in names if name in record}


def _flat(record: Record, before: str = "") -> Record:
    """Records in records by their path; lists as they are."""
    flat: Record = {}
    for key, value in record.items():
        flat |= _flat(value, f"{before}{key}.") if isinstance(value, dict) else {f"{before}{key}": value}
    return flat


def _chart_bundle(chart: Chart, *kinds: str) -> Record:
    """`chart` for a notebook; where it draws no figures, as a picture in light and dark."""
    from dovetail.report.charts.adaptive import adaptive_svg

    bundle = {
        PLOTLY: themed(chart.figure, "light"),
        SVG: adaptive_svg(chart),
        "text/plain": f"{chart.title}: {chart.alt}",
    }
    return {kind: bundle[kind] for kind in kinds}


def tables_html(tables: tuple[Table, ...]) -> str:
    """Tables as HTML that brings its own style and no script; every word is escaped, as names come from files."""
    return "<div>" + "".join(part for table in tables for part in _table_html(table)) + "</div>"


def _table_html(table: Table) -> Iterator[str]:
    yield f"<p><strong>{escape(table.title)}</strong></p>"
    if table.rows:
        yield "<table>"
        if table.columns:
            yield _row_html(table.columns, table.align, "th")
        yield from (_row_html(row, table.align, "td") for row in table.rows)
        yield "</table>"
    yield from (f"<p>{escape(note)}</p>" for note in table.notes)


def _row_html(cells: tuple[str, ...], align: str, kind: str) -> str:
    sides = align.ljust(len(cells), "l")
    inside = "".join(
        f'<{kind} style="{_STYLE.format("right" if side == "r" else "left")}">{escape(cell)}</{kind}>'
        for cell, side in zip(cells, sides, strict=False)
    )
    return f"<tr>{inside}</tr>"
