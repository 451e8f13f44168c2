"""`dovetail ui`: the explorer, until it is interrupted."""

from __future__ import annotations

import importlib.util

from dovetail.api.arguments import count
from dovetail.cli.screen import show_json, write
from dovetail.errors import InvalidInput
from dovetail.explorer.server import MISSING, serve
from dovetail.explorer.settings import settings_of


def answer(host: str, port: str, store: str, *, opens_browser: bool, as_json: bool) -> None:
    """Serves the pages, and says where."""
    if importlib.util.find_spec("nicegui") is None:
        raise InvalidInput(MISSING)
    settings = settings_of(host, count("--port", port), store)

    def ready(url: str) -> None:
        show_json({"url": url}) if as_json else write(f"Dovetail is at {url}\nCtrl-C ends it.\n")

    serve(settings, ready, opens_browser=opens_browser)
