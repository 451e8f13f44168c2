"""The options of `dovetail completion`, as Typer has them."""

from __future__ import annotations

from typing import Annotated

import typer

from dovetail.cli.answer_options import AsJson


def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
    as_json: AsJson = False,
) -> None:
    """Print what a shell needs to complete commands and names.

    Save it where the shell looks, as below, and start a new one: models, clusters, chips and plans are then completed
    by their names. For a single session: source <(dovetail completion bash).
    """
    from dovetail.cli.completion import completion_script
    from dovetail.cli.screen import show_json, write

    script = completion_script(shell)
    if as_json:
        show_json({"shell": shell, "script": script})
    else:
        write(script + "\n")
