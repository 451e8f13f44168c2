"""`--plugin FILE`: the option that every command has, before its name or after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

OPTION = "--plugin"
PLUGIN_HELP = "A Python file with chips, models or costs of yours; it runs as you. May be repeated."


def _load(files: list[Path] | None) -> None:
    if not files:
        return
    from dovetail.files.plugins import load_plugin

    for file in files:
        load_plugin(file)


@contextmanager
def own_plugins(arguments: Sequence[str]) -> Iterator[None]:
    """The plugins of one command, from its start to its end; what their code raises is reported as theirs."""
    if not any(word.startswith(OPTION) for word in arguments):
        yield
        return
    from dovetail.plugins import blamed, forget, loaded_plugins

    num_before = len(loaded_plugins())
    try:
        with blamed():
            yield
    finally:
        forget(num_before)


def _every_command(
    plugin: Annotated[
        list[Path] | None,
        typer.Option(OPTION, metavar="FILE", expose_value=False, callback=_load, help=PLUGIN_HELP),
    ] = None,
) -> None:
    """What `plugin_options` takes its option from."""


@cache
def plugin_options() -> tuple[Any, ...]:
    """The option that every command has, as Typer makes it."""
    lone = typer.Typer(add_completion=False)
    lone.command()(_every_command)
    return tuple(option for option in typer.main.get_command(lone).params if option.name != "help")
