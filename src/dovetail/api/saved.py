"""Answers in files: what was answered, and enough to show it again without computing anything."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from dovetail.api.answer import Answer, plain_page
from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files.text import quoted, read_text
from dovetail.report.charts.chart import Chart
from dovetail.report.page import Page, Section
from dovetail.report.plain import Record
from dovetail.report.table import Table

FORMAT = "dovetail-answer-1"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class SavedAnswer(Answer):
    """A saved answer: the same record, text, tables and charts, and its figures by their JSON keys.

    Two are equal where all of that is.
    """

    kind: str  # the class of the answer that was saved
    call: str
    said: str
    has_fit: bool
    kept: Record
    kept_inputs: Record
    kept_rows: tuple[Record, ...]
    kept_tables: tuple[Table, ...]
    kept_charts: tuple[Chart, ...]

    @property
    def headline(self) -> str:
        return self.said

    @property
    def fits(self) -> bool:
        return self.has_fit

    @property
    def tables(self) -> tuple[Table, ...]:
        return self.kept_tables

    @property
    def rows(self) -> list[Record]:
        """The rows of a data frame of it."""
        return list(self.kept_rows)

    @property
    def record(self) -> Record:
        return self.kept

    @property
    def _record(self) -> Record:
        return self.kept

    @property
    def charts(self) -> tuple[Chart, ...]:
        return self.kept_charts

    @property
    def inputs(self) -> Record:
        return self.kept_inputs

    @property
    def page(self) -> Page:
        plain = plain_page(self.said, self.kept_tables)
        drawn = tuple(Section(title=chart.title, charts=(chart,)) for chart in self.kept_charts)
        return dataclasses.replace(plain, sections=(*drawn, *plain.sections))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self.kept:
            raise AttributeError(f"the saved {self.kind} has no {name!r}{did_you_mean(name, self.kept)}")
        return self.kept[name]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Answer) and saved_text(self) == saved_text(other)

    def __hash__(self) -> int:
        return hash(saved_text(self))


def saved_text(answer: Answer) -> str:
    """`answer` as the text of a file that `load` reads."""
    whole = {
        "format": FORMAT,
        "kind": answer.kind if isinstance(answer, SavedAnswer) else type(answer).__name__,
        "call": answer.call,
        "headline": answer.headline,
        "fits": answer.fits,
        "record": answer.record,
        "inputs": answer.inputs,
        "rows": answer.rows,
        "tables": [dataclasses.asdict(table) for table in answer.tables],
        "charts": [dataclasses.asdict(chart) for chart in answer.charts],
    }
    return json.dumps(whole, indent=1, allow_nan=False) + "\n"


def load(path: str | PathLike[str]) -> SavedAnswer:
    """Read an answer that `save` wrote: nothing is computed, and no code of the file runs."""
    file = Path(path)
    try:
        whole = json.loads(read_text(file, ""))
    except json.JSONDecodeError:
        raise InvalidInput(f"{quoted(file.name)} is no saved answer; `save` of an answer writes one") from None
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise InvalidInput(f"{quoted(file.name)} is no saved answer; `save` of an answer writes one")
    try:
        return SavedAnswer(
            kind=whole["kind"],
            call=whole["call"],
            said=whole["headline"],
            has_fit=whole["fits"],
            kept=whole["record"],
            kept_inputs=whole["inputs"],
            kept_rows=tuple(whole["rows"]),
            kept_tables=tuple(_table(**table) for table in whole["tables"]),
            kept_charts=tuple(Chart(**chart | {"table": _table(**chart["table"])}) for chart in whole["charts"]),
        )
    except (KeyError, TypeError, AssertionError):
        raise InvalidInput(f"{quoted(file.name)} is damaged: it is not as `save` wrote it") from None


def _table(title: str, columns: list[str], rows: list[list[str]], align: str, notes: list[str]) -> Table:
    return Table(title=title, columns=tuple(columns), rows=tuple(map(tuple, rows)), align=align, notes=tuple(notes))
