"""The options of `dovetail studies` and `dovetail export`, as Typer has them."""

from __future__ import annotations

from typing import Annotated

import typer

from dovetail.cli.answer_options import AsJson, Html
from dovetail.errors import InvalidInput

STORE_HELP = "A file that a search was given by --store."
STUDY_HELP = "One study, by the beginning of its key: all it was asked by, every row checked, and the best rows."
ONE_HELP = "One study alone, by the beginning of its key, of whichever version of the model."
OUT_HELP = "The file to write: .csv, or .parquet, which needs the extra export."
OTHERS_HELP = "Studies of other versions of the model too; the column model_version tells them apart."
RESCUE_HELP = "Of a damaged store, write the rows that are whole to this new one."


def studies(
    store: Annotated[str, typer.Argument(metavar="STORE", help=STORE_HELP)],
    study: Annotated[str, typer.Option(metavar="KEY", help=STUDY_HELP)] = "",
    top: Annotated[str | None, typer.Option(metavar="N", help="How many rows of --study to show; 10, if left out.")] = (
        None
    ),
    rescue: Annotated[str, typer.Option(metavar="FILE", help=RESCUE_HELP)] = "",
    html: Html = "",
    as_json: AsJson = False,
) -> None:
    """List what a store holds: studies, how far each is, its best.

    A study is one question put to one version of the model. A newer version starts a new one: numbers are never mixed.
    """
    from dovetail.api.arguments import count
    from dovetail.api.stored import NUM_SHOWN
    from dovetail.cli.studies import rescue_rows, show_studies

    num_best = count("--top", top)
    if num_best and not study:
        raise InvalidInput("--top is of the rows of one study; name it by --study")
    if rescue and study:
        raise InvalidInput("--rescue saves all studies; leave --study out")
    if rescue and html:
        raise InvalidInput("--html is of what a store holds; leave it out with --rescue")
    if rescue:
        rescue_rows(store, rescue, as_json=as_json)
    else:
        show_studies(store, study, num_best or NUM_SHOWN, as_json=as_json, html=html)


def export(
    store: Annotated[str, typer.Argument(metavar="STORE", help=STORE_HELP)],
    out: Annotated[str, typer.Option(metavar="FILE", help=OUT_HELP)],
    study: Annotated[str, typer.Option(metavar="KEY", help=ONE_HELP)] = "",
    other_versions: Annotated[bool, typer.Option("--other-versions", help=OTHERS_HELP)] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that stands.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the rows of a store as CSV or Parquet.

    Every evaluated design: its knobs, loss, figures and plan, with units at the ends of column names. Studies of this
    version of the model, unless one is named.
    """
    from dovetail.cli.studies import ExportAsked
    from dovetail.cli.studies import export as written

    asked = ExportAsked(store=store, study=study, to=out, has_others=other_versions, is_forced=force)
    written(asked, as_json=as_json)
