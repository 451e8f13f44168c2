"""`dovetail completion`: what a shell needs to complete commands and names."""

# Annotations are evaluated here: the options in them are the command's.
from typing import Annotated

from dovetail.api.requests.option import argument
from dovetail.cli.options import AsJson, command


@command()
def completion(
    *,
    shell: Annotated[str, argument("bash, zsh or fish.", "SHELL")],
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
