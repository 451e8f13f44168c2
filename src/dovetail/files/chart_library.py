"""The JavaScript that draws charts, out of the installed plotly package: nothing is ever fetched."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from dovetail.errors import InvalidInput

FILE = "plotly/package_data/plotly.min.js"


def chart_library() -> str:
    """The text of plotly.min.js. Plotly itself is not imported, which would take longer than reading the file."""
    try:
        file = Path(str(distribution("plotly").locate_file(FILE)))
        return file.read_text(encoding="utf-8")
    except (PackageNotFoundError, OSError):
        raise InvalidInput(
            "charts are drawn by the plotly package, and it is not installed whole; install it again"
        ) from None
