"""The options of `dovetail reproduce`, as Typer has them."""

from __future__ import annotations

from typing import Annotated

import typer

from dovetail.cli.answer_options import AsJson, Html
from dovetail.cli.process import EXIT_MISSED


def reproduce(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help="Whose results: ace, phaze, phaze-dp, wham.")],
    beyond: Annotated[bool, typer.Option("--beyond", help="The same question on chips of 2026, by mechanism.")] = False,
    refit: Annotated[bool, typer.Option("--refit", help="Fit the declared compute scales again.")] = False,
    figures: Annotated[str, typer.Option(metavar="DIR", help="Write the figures as SVG into this folder.")] = "",
    model: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="With phaze or wham: only this model; may be said again.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="With wham: prove, but do not schedule all designs; with phaze: no chips.")
    ] = False,
    html: Html = "",
    as_json: AsJson = False,
) -> None:
    """Print a paper's tables and sweeps, ours beside the paper's.

    Ends with exit code 1 when a number that must meet the paper's does not.
    """
    from dovetail.api.reproduced import ReproduceAsked
    from dovetail.cli.reproduce import answer

    asked = ReproduceAsked(
        paper=paper,
        is_beyond=beyond,
        refits=refit,
        has_figures=bool(figures),
        models=tuple(model or ()),
        is_quick=quick,
    )
    if not answer(asked, figures=figures, as_json=as_json, html=html):
        raise typer.Exit(EXIT_MISSED)
