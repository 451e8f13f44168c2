"""`dovetail launch`: from what was asked to what starts the run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from dovetail.api.asked import Asked
from dovetail.api.launched import check_framework, launched
from dovetail.api.planned import title_of
from dovetail.cli.html import check_html, show_html
from dovetail.cli.results import check_plan_file
from dovetail.cli.screen import show_json, wrapped, write
from dovetail.cli.usage import check_needed
from dovetail.files.plan_text import plan_text
from dovetail.files.text import one_line
from dovetail.files.written import check_writable, write_file


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchAsked:
    """The command's arguments beside those of `simulate`."""

    framework: str
    out: str = ""
    plan_file: str = ""
    is_forced: bool = False
    as_json: bool = False
    html: str = ""


def answer(asked: Asked, wanted: LaunchAsked) -> None:
    """Shows what starts the run, or writes it; the plan is written too where a file for it is named."""
    check_framework(wanted.framework)
    check_html(wanted.html)
    _check_files(wanted)
    found = launched(asked, wanted.framework)
    if wanted.plan_file:
        write_file(Path(wanted.plan_file), plan_text(found.job.plan, title_of(found.job)))
    if wanted.out:
        found.to_file(wanted.out)
    found = replace(found, written=tuple(file for file in (wanted.out, wanted.plan_file) if file))
    if wanted.as_json:
        show_json(found.record)
    elif wanted.out:
        missing = tuple(one.sentence for one in found.outcome.missing)
        told = (f"{one_line(wanted.out)}: {found.headline}", *found.differing, *missing)
        write("".join(f"{wrapped(line)}\n" for line in told))
    else:
        write(found.text)
    if wanted.html:
        is_told = bool(wanted.out) and not wanted.as_json  # else what is printed is a script, and nothing else
        show_html(wanted.html, found.page, found.inputs, found.record, is_told=is_told)


def _check_files(wanted: LaunchAsked) -> None:
    files = {"--out": bool(wanted.out), "--plan-file": bool(wanted.plan_file)}
    check_needed("--force", files, is_said=wanted.is_forced)
    if wanted.out:
        check_writable(Path(wanted.out), is_forced=wanted.is_forced)
    check_plan_file(wanted.plan_file, is_forced=wanted.is_forced)
