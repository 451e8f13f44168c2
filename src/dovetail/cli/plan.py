"""`dovetail plan`: from what was asked to the best plan on the screen."""

from __future__ import annotations

from dataclasses import replace

from dovetail.api.asked import Asked
from dovetail.api.plan_commands import PlanAsked
from dovetail.api.planned import check_objective, planned
from dovetail.cli.answers import show_answer
from dovetail.cli.around import Terminal
from dovetail.cli.html import check_html
from dovetail.cli.results import check_plan_file
from dovetail.cli.timeline import tell_timeline, timeline_files, timeline_record, write_step
from dovetail.cli.usage import check_needed


def answer(
    asked: Asked, wanted: PlanAsked, *, as_json: bool, html: str = "", perfetto: str = "", ranks: str = ""
) -> bool:
    """Shows the best plans, and says whether any fits; writes the best, and its timeline, where files are named."""
    check_html(html)
    files = timeline_files(perfetto, ranks)
    check_needed("--force", {"--plan-file": bool(wanted.plan_file)}, is_said=wanted.is_forced)
    check_plan_file(wanted.plan_file, is_forced=wanted.is_forced)
    check_objective(wanted.objective)
    found = planned(asked, wanted, Terminal())
    if wanted.plan_file and found.fits:
        found.to_yaml(wanted.plan_file)
        found = replace(found, written=(wanted.plan_file,))
    timeline = write_step(files, found.best.outcome)
    fits = show_answer(found, as_json=as_json, html=html, more=timeline_record(files, timeline))
    if not as_json:
        tell_timeline(files, timeline)
    return fits
