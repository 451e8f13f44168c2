"""The options of `dovetail ui`, as Typer has them."""

from __future__ import annotations

from typing import Annotated

import typer

HOST_HELP = "Where to listen. Whoever asks, on this machine too, needs the token in the printed address."
PORT_HELP = "The port to listen on."
STORE_HELP = "A store whose studies are shown, and where searches are kept."
OPEN_HELP = "Open the page in the browser."
JSON_HELP = "Print the address as JSON, for programs."


def ui(
    host: Annotated[str, typer.Option(metavar="ADDRESS", help=HOST_HELP)] = "127.0.0.1",
    port: Annotated[str, typer.Option(metavar="N", help=PORT_HELP)] = "8037",
    store: Annotated[str, typer.Option(metavar="FILE", help=STORE_HELP)] = "",
    opens: Annotated[bool, typer.Option("--open", help=OPEN_HELP)] = False,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Explore in the browser: plan, turn hardware, compare, search.

    Pages are served by this machine alone, from what is installed: nothing is loaded from or told to anyone else.
    The address that is printed has a token in it, without which nobody gets in. Ends with Ctrl-C.
    """
    from dovetail.cli.ui import answer

    answer(host, port, store, opens_browser=opens, as_json=as_json)
