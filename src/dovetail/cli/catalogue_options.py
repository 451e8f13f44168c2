"""The options of `dovetail models`, `chips`, `clusters`, `plans`, `methods` and `show`, as Typer has them."""

from __future__ import annotations

from typing import Annotated

import typer

from dovetail.cli.answer_options import AsJson

KIND_HELP = "Which catalogue is meant, where a name is in several: model, chip, cluster or plan."


def models(as_json: AsJson = False) -> None:
    """List the models that can be named."""
    from dovetail.cli.catalogue import list_models

    list_models(as_json=as_json)


def chips(as_json: AsJson = False) -> None:
    """List the chips that can be named."""
    from dovetail.cli.catalogue import list_chips

    list_chips(as_json=as_json)


def clusters(as_json: AsJson = False) -> None:
    """List the clusters that can be named."""
    from dovetail.cli.catalogue import list_clusters

    list_clusters(as_json=as_json)


def plans(as_json: AsJson = False) -> None:
    """List the plans that can be named."""
    from dovetail.cli.catalogue import list_plans

    list_plans(as_json=as_json)


def methods(as_json: AsJson = False) -> None:
    """List pipeline schedules, collectives and algorithms."""
    from dovetail.cli.catalogue import list_methods

    list_methods(as_json=as_json)


def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name from any catalogue, or a file.")],
    kind: Annotated[str, typer.Option(metavar="KIND", help=KIND_HELP)] = "",
    as_json: AsJson = False,
) -> None:
    """Show one model, chip, cluster or plan, with its sources.

    A file works too: a Hugging Face config.json, or a YAML file with a model, chip, cluster or whole spec in it.
    """
    from dovetail.cli.show import show_entry

    show_entry(name, kind, as_json=as_json)
