"""`dovetail codesign`: from models and limits to the best system, chip and plan together, kept in a store."""

from __future__ import annotations

from pathlib import Path

from dovetail.api.arguments import entry_named
from dovetail.api.codesign_search import CodesignAsked, check_algorithm
from dovetail.api.codesigned import case_files, codesigned
from dovetail.api.joint import loaded
from dovetail.cli.answers import show_answer
from dovetail.cli.around import Terminal
from dovetail.cli.html import check_html
from dovetail.cli.results import check_yaml_name
from dovetail.cli.screen import remark
from dovetail.cli.usage import check_needed
from dovetail.files.text import one_line
from dovetail.files.written import check_writable
from dovetail.search.metrics import metrics


def answer(
    asked: CodesignAsked,
    terminal: Terminal,
    *,
    as_json: bool,
    html: str = "",
    spec_file: str = "",
    is_forced: bool = False,
) -> bool:
    """Shows the best system, and says whether there is one; writes it where a file is named."""
    entry_named(metrics, asked.metric, "--metric")
    check_algorithm(asked)
    check_html(html)
    check_needed("--force", {"--spec-file": bool(spec_file)}, is_said=is_forced)
    if spec_file:
        _check_spec_file(asked, spec_file, is_forced=is_forced)
    found = codesigned(asked, terminal)
    written = [str(file) for file in found.to_spec(spec_file)] if spec_file and found.fits else []
    show_answer(found, as_json=as_json, html=html, more={"written": written} if spec_file else {})
    if written and not as_json:
        remark(f"\nwritten: {one_line(', '.join(written))}\n")
    return found.fits


def _check_spec_file(asked: CodesignAsked, file: str, *, is_forced: bool) -> None:
    """Raises before any work where the best system could not be written."""
    check_yaml_name(file, "a spec file", "--spec-file")
    names = [case.name for case in loaded(asked.spec, asked.said).cases]
    for own in case_files(Path(file), names):
        check_writable(own, is_forced=is_forced)
