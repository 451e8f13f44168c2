"""What starts a run as a page: the script, and what of the plan it does not say."""

from __future__ import annotations

from dovetail.report.launchers.launch import Launch, launch_text
from dovetail.report.page import Page, Section
from dovetail.report.table import Table


def launch_page(launch: Launch, differing: tuple[str, ...] = ()) -> Page:
    """`differing` are sentences on where the run is another than the plan's."""
    title, *comments = launch.comments
    missing = tuple(f"- {one.sentence}" for one in launch.missing)
    sections = [Section(title="What starts the run", sentences=tuple(comments), code=launch_text(launch))]
    if missing or differing:
        told = Table(title="Where it differs from the plan", notes=(*differing, *missing))
        sections.append(Section(title=told.title, tables=(told,)))
    verdict = (
        "It expresses the whole plan." if not missing else f"{len(missing)} of the plan's choices it cannot express."
    )
    return Page(title=title, sentence=verdict, sections=tuple(sections))
