"""`dovetail validate`: measurements in, how far we are off out."""

from __future__ import annotations

from dovetail.api.validated import ValidateAsked, validated
from dovetail.cli.answers import show_answer
from dovetail.cli.around import Terminal
from dovetail.cli.html import check_html, show_html
from dovetail.cli.pictures import picture_file
from dovetail.cli.screen import write
from dovetail.errors import InvalidInput
from dovetail.files.measurements import SHIPPED
from dovetail.files.written import write_file
from dovetail.report.accuracy_page import accuracy_page
from dovetail.report.scatter import scatter_svg


def answer(asked: ValidateAsked, *, as_json: bool, as_markdown: bool = False, plot: str = "", html: str = "") -> bool:
    """Shows the scores, and says whether every documented bar holds."""
    if asked.is_whole and as_markdown:
        raise InvalidInput("--all and --markdown are two pages; choose one")
    if as_markdown and as_json:
        raise InvalidInput("--markdown and --json are two forms of one answer; choose one")
    check_html(html)
    picture = picture_file(plot)
    found = validated(asked, Terminal())
    if picture is not None:
        if not found.outcome.sets:
            raise InvalidInput("results hold no rows to draw; name the set itself", "--plot")
        write_file(picture, scatter_svg(found.outcome.sets))
    if as_json or not as_markdown:
        return show_answer(found, as_json=as_json, html=html)
    write(accuracy_page(found.record, is_whole=set(SHIPPED) <= set(asked.sets)))
    if html:
        show_html(html, found.page, found.inputs, found.record, is_told=False)
    return found.fits
