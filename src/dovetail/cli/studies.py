"""`dovetail studies` and `dovetail export`: what a store holds, and its rows for other programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dovetail.api.stored import NUM_SHOWN, stored
from dovetail.cli.html import check_html, show_html
from dovetail.cli.screen import show_json, show_tables
from dovetail.errors import InvalidInput
from dovetail.files.exported_rows import Columns, check_kind, write_rows
from dovetail.files.written import check_writable
from dovetail.report.studies import num_studies, rescued_table
from dovetail.report.study_rows import row_cells, row_columns, written_record, written_table
from dovetail.search.study import StudyRecord
from dovetail.store import Store, reading
from dovetail.store.rescue import rescue


def show_studies(file: str, key: str = "", num_best: int = NUM_SHOWN, *, as_json: bool, html: str = "") -> None:
    """All studies of a store, each with its best row; or the one of `key`, with its best rows."""
    check_html(html)
    found = stored(file, key, num_best)
    show_json(found.record) if as_json else show_tables(found.tables)
    if html:
        show_html(html, found.page, found.inputs, found.record, is_told=not as_json)


def rescue_rows(file: str, to: str, *, as_json: bool) -> None:
    """Saves what is whole of a damaged store."""
    told = [asdict(one) for one in rescue(Path(file), Path(to))]
    show_json({"studies": told}) if as_json else show_tables((rescued_table(to, told),))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportAsked:
    """What was typed; nothing where it was left out."""

    store: str
    study: str
    to: str
    has_others: bool
    is_forced: bool


def export(asked: ExportAsked, *, as_json: bool) -> None:
    """Writes every row of the studies asked for, and says what was written and left out."""
    file = Path(asked.to)
    check_kind(file)
    check_writable(file, is_forced=asked.is_forced)
    with reading(Path(asked.store)) as store:
        every = store.studies()
        chosen = (store.named(asked.study),) if asked.study else _chosen(every, asked)
        columns = row_columns(chosen)
        num_rows = write_rows(file, columns, _rows(store, chosen, columns))
    left_out = [] if asked.study else [study for study in every if study not in chosen]
    told = (str(file), num_rows, columns, chosen, left_out)
    show_json(written_record(*told)) if as_json else show_tables((written_table(*told),))


def _chosen(every: tuple[StudyRecord, ...], asked: ExportAsked) -> tuple[StudyRecord, ...]:
    """Those of this version of the model, and others where that was said."""
    chosen = tuple(study for study in every if study.is_current or asked.has_others)
    if chosen:
        return chosen
    if not every:
        raise InvalidInput(f"{asked.store} holds no study yet", "store")
    told = f"none of the {num_studies(len(every))} in {asked.store} is of this version of the model"
    raise InvalidInput(f"{told}; say --other-versions to write their rows, or name one by --study", "store")


def _rows(store: Store, chosen: tuple[StudyRecord, ...], columns: Columns) -> Iterator[list[Any]]:
    for study in chosen:
        yield from map(row_cells(study, columns), store.at(study.key).rows())
