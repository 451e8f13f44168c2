"""`dovetail ui`: the explorer, until it is interrupted."""

# Annotations are evaluated here: the options in them are the command's.
import importlib.util
from typing import Annotated

from dovetail.api.requests.option import COUNT, FLAG, SWITCH, Option
from dovetail.cli.options import command
from dovetail.errors import InvalidInput


@command()
def ui(
    *,
    host: Annotated[
        str,
        Option(
            "Where to listen. Every client, also on this machine, needs the token in the printed address.", "ADDRESS"
        ),
    ] = "127.0.0.1",
    port: Annotated[int, Option("The port to listen on.", "N", COUNT)] = 8037,
    store: Annotated[str, Option("A store whose studies are shown, and where searches are kept.", "FILE")] = "",
    is_read_only: Annotated[
        bool,
        Option(
            "For sharing: pages and sliders work, nothing is uploaded, and no search is started.",
            kind=FLAG,
            flag="--read-only",
        ),
    ] = False,
    opens: Annotated[
        "bool | None",
        Option("Open the page in the browser; it is not, if left out.", kind=SWITCH, flag="--open/--no-open"),
    ] = None,
    as_json: Annotated[bool, Option("Print the address as JSON, for programs.", kind=FLAG, flag="--json")] = False,
) -> None:
    """Explore in the browser: plan, hardware, chip, network, search.

    Pages are served by this machine alone, from what is installed: nothing is loaded from or told to anyone else.
    The address that is printed has a token in it, without which nobody gets in. Ends with Ctrl-C.
    """
    answer(host, port, store, is_read_only=is_read_only, opens_browser=bool(opens), as_json=as_json)


def answer(host: str, port: int, store: str, *, opens_browser: bool, as_json: bool, is_read_only: bool = False) -> None:
    """Serves the pages, and says where."""
    from dovetail.cli.screen import show_json, write
    from dovetail.explorer.server import MISSING, serve
    from dovetail.explorer.settings import settings_of

    if importlib.util.find_spec("nicegui") is None:
        raise InvalidInput(MISSING)
    settings = settings_of(host, port, store, is_read_only=is_read_only)

    def ready(url: str) -> None:
        show_json({"url": url}) if as_json else write(f"Dovetail is at {url}\nCtrl-C ends it.\n")

    serve(settings, ready, opens_browser=opens_browser)
