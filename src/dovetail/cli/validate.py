"""`dovetail validate`: measurements in, how far we are off out."""

# Annotations are evaluated here: the options in them are the command's.
from typing import Annotated

from dovetail.api.requests.evidence import ValidateRequest
from dovetail.api.requests.option import FLAG, Option
from dovetail.cli.options import AsJson, Html, command
from dovetail.errors import InvalidInput


@command(ValidateRequest)
def validate(
    request: ValidateRequest,
    *,
    plot: Annotated[str, Option("Draw predicted against measured, as .svg.", "FILE")] = "",
    html: Html = "",
    markdown: Annotated[
        bool, Option("Print it as Markdown; of all sets, benchmarks/results/accuracy.md.", kind=FLAG)
    ] = False,
    as_json: AsJson = False,
) -> bool:
    """Compare predictions with measurements, set by set.

    Without an argument, with what ships: h200, array-sims, dies and astra-sim. Tables are known by their columns; see
    docs/howto. Ends with exit code 1 when a documented bar is missed; no bar holds for a profile of your own.
    With --all, every set that is here, speed by operation and optimality gaps on one page.
    """
    from dovetail.api.validated import check_request, sets_of, validated
    from dovetail.cli.answers import show_answer
    from dovetail.cli.html import check_html, show_html
    from dovetail.cli.pictures import picture_file
    from dovetail.cli.screen import write
    from dovetail.cli.terminal import TerminalContext
    from dovetail.files.measurements import SHIPPED
    from dovetail.files.written import write_file
    from dovetail.report.accuracy_page import accuracy_page
    from dovetail.report.scatter import scatter_svg

    check_request(request)
    if request.all and markdown:
        raise InvalidInput("--all and --markdown are two pages; choose one")
    if markdown and as_json:
        raise InvalidInput("--markdown and --json are two forms of one answer; choose one")
    check_html(html)
    picture = picture_file(plot)
    found = validated(request, TerminalContext())
    if picture is not None:
        if not found.outcome.sets:
            raise InvalidInput("results hold no rows to draw; name the set itself", "--plot")
        write_file(picture, scatter_svg(found.outcome.sets))
    if as_json or not markdown:
        return show_answer(found, as_json=as_json, html=html)
    write(accuracy_page(found.record, is_whole=set(SHIPPED) <= set(sets_of(request))))
    if html:
        show_html(html, found.page, found.inputs, found.record, is_announced=False)
    return found.fits
