"""`dovetail codesign`: the best system, chip and plan together, on the screen and in spec files."""

# Annotations are evaluated here: the options in them are the command's.
from pathlib import Path
from typing import Annotated

from dovetail.api.requests.option import FLAG, Option
from dovetail.api.requests.searches import CodesignRequest
from dovetail.cli.options import AsJson, Html, command


@command(CodesignRequest, before={"spec_file": "top", "html": "top", "force": "top"})
def codesign(
    request: CodesignRequest,
    *,
    spec_file: Annotated[
        str,
        Option(
            "Write the best system and its plan to this file, a spec for simulate; of several models, a file each.",
            "FILE",
        ),
    ] = "",
    html: Html = "",
    force: Annotated[bool, Option("Overwrite an existing spec file.", kind=FLAG)] = False,
    as_json: AsJson = False,
) -> bool:
    """Find the best chip, plan and network together, and prove it.

    Every system of a space, cores, memories, clock, links and devices, with every plan of its models: bounded, scored
    where it may win, and refined where stages may be uneven. Without a spec, a small example.
    """
    from dovetail.api.codesign_search import check_algorithm, check_metric
    from dovetail.api.codesigned import codesigned
    from dovetail.cli.answers import show_answer
    from dovetail.cli.engines import engine_choice
    from dovetail.cli.html import check_html
    from dovetail.cli.screen import remark
    from dovetail.cli.terminal import TerminalContext
    from dovetail.cli.usage import check_needed
    from dovetail.files.text import one_line

    terminal = TerminalContext(choice=engine_choice(request.workers, request.dask), file=request.store)
    check_metric(request)
    check_algorithm(request)
    check_html(html)
    check_needed("--force", {"--spec-file": bool(spec_file)}, is_given=force)
    if spec_file:
        _check_spec_file(request, spec_file, is_forced=force)
    found = codesigned(request, terminal)
    written = [str(file) for file in found.to_spec(spec_file)] if spec_file and found.fits else []
    show_answer(found, as_json=as_json, html=html, more={"written": written} if spec_file else {})
    if written and not as_json:
        remark(f"\nwritten: {one_line(', '.join(written))}\n")
    return found.fits


def _check_spec_file(request: CodesignRequest, file: str, *, is_forced: bool) -> None:
    """Raises before any work where the best system could not be written."""
    from dovetail.api.codesigned import case_files
    from dovetail.api.joint import loaded
    from dovetail.cli.results import check_yaml_name
    from dovetail.files.written import check_writable

    check_yaml_name(file, "a spec file", "--spec-file")
    names = [case.name for case in loaded(request).cases]
    for own in case_files(Path(file), names):
        check_writable(own, is_forced=is_forced)
