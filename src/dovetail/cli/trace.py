"""`dovetail trace`: execution traces in, when each rank ends out; and ASTRA-sim 1.0 text workloads into traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail.api.timelines import write_timeline
from dovetail.api.traced import TraceJob, imported_traces, traced
from dovetail.cli.html import check_html, show_html
from dovetail.cli.progress import announced
from dovetail.cli.results import ResultFiles, check_links, result_files, write_tables
from dovetail.cli.screen import show_json, show_tables, write
from dovetail.cli.trace_options import TraceRequest
from dovetail.files.text import one_line
from dovetail.report.csv_table import CRITICAL_COLUMNS, LINK_COLUMNS, RANK_COLUMNS, csv_text
from dovetail.report.pages.inputs import plain_inputs
from dovetail.report.pages.trace import trace_page
from dovetail.report.trace import trace_links, trace_record, trace_tables
from dovetail.report.tracks import device_processes

if TYPE_CHECKING:
    from dovetail.comm.trace.outcome import TraceOutcome


def answer(request: TraceRequest) -> None:
    """Runs the traces and shows when each rank ends."""
    job = TraceJob(
        prefix=request.prefix,
        topology=request.topology,
        system=request.system,
        groups=request.groups,
        engine=request.engine,
        is_congestion_aware=request.congestion_aware,
        slow_ranks=request.slow_ranks,
    )
    check_html(request.html)
    files = result_files(request.perfetto, request.csv, request.ranks)
    with announced(f"following the ranks of {one_line(request.prefix)}"):
        found = traced(job, *files.watches)
    write_results(files, found)
    if request.as_json:
        show_json(trace_record(found))
    else:
        show_tables(trace_tables(found))
    if request.html:
        show_html(
            request.html,
            trace_page(found),
            plain_inputs(request.values),
            trace_record(found),
            is_announced=not request.as_json,
        )


def write_results(files: ResultFiles, found: TraceOutcome) -> None:
    """Writes the timeline, and tables: of ranks, and where the engine tells of links and the critical path."""
    graphs = [network.graph for network in found.network]
    if files.perfetto:
        [record] = found.record
        write_timeline(files.perfetto, device_processes(record, graphs[0] if graphs else None, {}))
    if files.csv:
        record_of = trace_record(found)
        beside = {}
        for graph in graphs:
            check_links(files, graph)
            beside = {"links": csv_text(trace_links(found, files.devices), LINK_COLUMNS)}
            beside["critical"] = csv_text(record_of["critical_path"], CRITICAL_COLUMNS)
        write_tables(files, csv_text(record_of["ranks"], RANK_COLUMNS), beside)


def convert(workload: str, prefix: str, topology: str, *, is_forced: bool, as_json: bool) -> None:
    """Writes a trace for each rank from an ASTRA-sim 1.0 text workload."""
    written = imported_traces(workload, prefix, topology, is_forced=is_forced)
    num_ranks, num_nodes = written.num_ranks, written.num_nodes
    if as_json:
        show_json({"num_ranks": num_ranks, "num_nodes": num_nodes, "prefix": prefix})
        return
    write(f"{num_ranks:,} traces of {num_nodes:,} nodes each: {prefix}.0.et to {prefix}.{num_ranks - 1}.et\n")
