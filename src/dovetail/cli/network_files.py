"""What `dovetail network` writes beside its answer: timeline, tables, and the same question as ASTRA-sim's files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dovetail.api.astra_files import write_astra_files
from dovetail.api.networks import timeline_of
from dovetail.api.timelines import write_timeline
from dovetail.cli.results import ResultFiles, check_links, write_tables
from dovetail.files.text import one_line
from dovetail.report.csv_table import CRITICAL_COLUMNS, LINK_COLUMNS, csv_text, points_text
from dovetail.report.links import link_records
from dovetail.report.network import critical_records

if TYPE_CHECKING:
    from dovetail.comm.one_collective import CollectiveJob, NetworkAnswer


def write_network(files: ResultFiles, answers: Sequence[NetworkAnswer]) -> None:
    """Writes the timeline of the one answer, and tables: of all answers, and of one the links and the critical path."""
    one = answers[0]
    graph = one.job.network.graph
    if files.perfetto:
        write_timeline(files.perfetto, timeline_of(one))
    if files.csv:
        beside = {}
        for timeline in one.timeline if len(answers) == 1 else ():
            check_links(files, graph)
            links = link_records(graph, timeline, one.time_s, files.devices)
            beside = {"links": csv_text(links, LINK_COLUMNS)}
            beside["critical"] = csv_text(critical_records(one), CRITICAL_COLUMNS)
        write_tables(files, points_text(answers), beside)


def write_astra(prefix: str, job: CollectiveJob, *, is_forced: bool) -> str:
    """Writes the question as ASTRA-sim's files, and says how to ask it again."""
    arguments = write_astra_files(prefix, job, is_forced=is_forced)
    return f"\nASTRA-sim's files are written; run them with\n  dovetail trace run {one_line(arguments)}\n"
