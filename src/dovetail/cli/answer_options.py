"""The options of every command that gives an answer, `--json` and `--html`; importing them takes no time."""

from __future__ import annotations

from typing import Annotated

import typer

JSON_HELP = "Print JSON, for programs; docs/reference/json.md lists its keys."
HTML_HELP = "Also write the answer as one page with charts that opens in any browser."

AsJson = Annotated[bool, typer.Option("--json", help=JSON_HELP)]
Html = Annotated[str, typer.Option("--html", metavar="FILE", help=HTML_HELP)]
