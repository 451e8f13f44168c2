"""`dovetail reproduce`: a paper's tables and figures, ours beside the paper's."""

# Annotations are evaluated here: the options in them are the command's.
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

from dovetail.api.requests.evidence import ReproduceRequest
from dovetail.api.requests.option import Option
from dovetail.cli.options import AsJson, Html, command
from dovetail.errors import InvalidInput


@command(ReproduceRequest, before={"figures": "model"})
def reproduce(
    request: ReproduceRequest,
    *,
    figures: Annotated[str, Option("Write the figures as SVG into this folder.", "DIR")] = "",
    html: Html = "",
    as_json: AsJson = False,
) -> bool:
    """Print a paper's tables and sweeps, ours beside the paper's.

    Ends with exit code 1 when a number that must meet the paper's does not.
    """
    from dovetail.api.reproduced import check_request, reproduced
    from dovetail.cli.answers import show_answer
    from dovetail.cli.html import check_html
    from dovetail.cli.slow_loops import log_if_slow

    check_request(request, has_figures=bool(figures))
    check_html(html)
    folder = _folder(figures)
    if request.paper == "wham":
        log_if_slow()
    found = reproduced(request, _Screen())
    if folder is not None:
        found.to_svg(folder)
    return show_answer(found, as_json=as_json, html=html)


class _Screen:
    """Progress as the command line shows it."""

    def announced(self, words: str) -> AbstractContextManager[None]:
        from dovetail.cli.progress import announced

        return announced(words)

    def stepping(self, names: list[str]) -> AbstractContextManager[Callable[[str], None]]:
        from dovetail.cli.progress import stepping

        return stepping(names)


def _folder(name: str) -> Path | None:
    """Where figures go: a folder that is there."""
    from dovetail.files.text import one_line

    if not name:
        return None
    folder = Path(name)
    if not folder.is_dir():
        raise InvalidInput(f"there is no folder {one_line(name)!r} to write figures to", "--figures")
    return folder
