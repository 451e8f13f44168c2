"""The option `--html`, the same for every command that gives an answer; importing it takes no time."""

from __future__ import annotations

from typing import Annotated

import typer

HTML_HELP = "Also write the answer as one page with charts that opens in any browser."

Html = Annotated[str, typer.Option("--html", metavar="FILE", help=HTML_HELP)]
