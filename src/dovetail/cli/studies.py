"""`dovetail studies` and `dovetail export`: what a store holds, and its rows for other programs."""

# Annotations are evaluated here: the options in them are the command's.
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dovetail.api.requests.entries import StudiesRequest
from dovetail.api.requests.option import FLAG, Option, argument
from dovetail.cli.options import AsJson, Force, Html, command
from dovetail.errors import InvalidInput

if TYPE_CHECKING:
    from dovetail.files.exported_rows import Columns
    from dovetail.search.study import StudyRecord
    from dovetail.store import Store


@command(StudiesRequest)
def studies(
    request: StudiesRequest,
    *,
    rescue: Annotated[str, Option("Of a damaged store, write the rows that are whole to this new one.", "FILE")] = "",
    html: Html = "",
    as_json: AsJson = False,
) -> None:
    """List the studies of a store: progress and best of each.

    A study is one question put to one version of the model. A newer version starts a new one: numbers are never mixed.
    """
    from dovetail.api.stored import check_top, stored
    from dovetail.cli.html import check_html, show_html
    from dovetail.cli.screen import show_json, show_tables

    check_top(request)
    if rescue and request.study:
        raise InvalidInput("--rescue saves all studies; leave --study out")
    if rescue and html:
        raise InvalidInput("--html is of what a store holds; leave it out with --rescue")
    if rescue:
        _rescue_rows(request.store, rescue, as_json=as_json)
        return
    check_html(html)
    found = stored(request)
    show_json(found.record) if as_json else show_tables(found.tables)
    if html:
        show_html(html, found.page, found.inputs, found.record, is_announced=not as_json)


def _rescue_rows(file: str, to: str, *, as_json: bool) -> None:
    """Saves what is whole of a damaged store."""
    from dovetail.cli.screen import show_json, show_tables
    from dovetail.report.studies import rescued_table
    from dovetail.store.rescue import rescue

    rescued = [asdict(one) for one in rescue(Path(file), Path(to))]
    show_json({"studies": rescued}) if as_json else show_tables((rescued_table(to, rescued),))


@command()
def export(
    *,
    store: Annotated[str, argument("A file that a search was given by --store.", "STORE")],
    out: Annotated[str, Option("The file to write: .csv, or .parquet, which needs the extra export.", "FILE")],
    study: Annotated[
        str, Option("One study alone, by the beginning of its key, of whichever version of the model.", "KEY")
    ] = "",
    other_versions: Annotated[
        bool,
        Option("Studies of other versions of the model too; the column model_version tells them apart.", kind=FLAG),
    ] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the rows of a store as CSV or Parquet.

    Every evaluated design: its knobs, loss, figures and plan, with units at the ends of column names. Studies of this
    version of the model, unless one is named.
    """
    from dovetail.cli.screen import show_json, show_tables
    from dovetail.files.exported_rows import check_kind, write_rows
    from dovetail.files.written import check_writable
    from dovetail.report.study_rows import row_columns, written_record, written_table
    from dovetail.store import reading

    file = Path(out)
    check_kind(file)
    check_writable(file, is_forced=force)
    with reading(Path(store)) as held:
        every = held.studies()
        chosen = (held.named(study),) if study else _chosen(every, store, has_others=other_versions)
        columns = row_columns(chosen)
        num_rows = write_rows(file, columns, _rows(held, chosen, columns))
    left_out = [] if study else [one for one in every if one not in chosen]
    written = (str(file), num_rows, columns, chosen, left_out)
    show_json(written_record(*written)) if as_json else show_tables((written_table(*written),))


def _chosen(every: tuple["StudyRecord", ...], store: str, *, has_others: bool) -> tuple["StudyRecord", ...]:
    """Those of this version of the model, and others on request."""
    from dovetail.report.studies import num_studies

    chosen = tuple(study for study in every if study.is_current or has_others)
    if chosen:
        return chosen
    if not every:
        raise InvalidInput(f"{store} holds no study yet", "store")
    message = f"none of the {num_studies(len(every))} in {store} is of this version of the model"
    raise InvalidInput(f"{message}; pass --other-versions to write their rows, or name one by --study", "store")


def _rows(store: "Store", chosen: tuple["StudyRecord", ...], columns: "Columns") -> Iterator[list[Any]]:
    from dovetail.report.study_rows import row_cells

    for study in chosen:
        yield from map(row_cells(study, columns), store.at(study.key).rows())
