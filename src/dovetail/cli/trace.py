"""`dovetail trace`: execution traces in, when each rank ends out; and ASTRA-sim 1.0 text workloads into traces."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dovetail.api.timelines import write_timeline
from dovetail.cli.html import check_html, show_html
from dovetail.cli.progress import announced
from dovetail.cli.results import ResultFiles, check_links, result_files, write_tables
from dovetail.cli.screen import show_json, show_tables, write
from dovetail.cli.trace_options import TraceRequest
from dovetail.comm.astra.dimensions import (
    algorithms_of,
    astra_dims_of,
    devices_of,
    dimensions_of,
    plain_system,
    queueing_of,
)
from dovetail.comm.astra.layers import LayerWorkload
from dovetail.comm.astra.system import AstraDim, AstraSystem
from dovetail.comm.events.recording import Watch
from dovetail.comm.one_collective import Network
from dovetail.comm.trace.from_layers import trace_of
from dovetail.comm.trace.outcome import TraceOutcome
from dovetail.comm.trace.run_astra import run_astra
from dovetail.comm.trace.run_events import Settings, run_events
from dovetail.errors import DovetailError, InvalidInput, did_you_mean
from dovetail.files.astra import load_network, load_system, load_workload
from dovetail.files.entry import is_file_name
from dovetail.files.network import ASTRA_KEY, load_networks, network_of
from dovetail.files.network_formats import speeds_frac
from dovetail.files.text import one_line, read_text
from dovetail.files.traces import load_traces, write_traces
from dovetail.report.csv_table import CRITICAL_COLUMNS, LINK_COLUMNS, RANK_COLUMNS, csv_text
from dovetail.report.pages.inputs import plain_inputs
from dovetail.report.pages.trace import trace_page
from dovetail.report.trace import trace_links, trace_record, trace_tables
from dovetail.report.tracks import device_processes

ENGINES = ("events", "astra-sim")
MAX_RANKS = 100_000


def answer(request: TraceRequest) -> None:
    """Runs the traces and shows when each rank ends."""
    if request.engine not in ENGINES:
        raise InvalidInput(f"no engine is named {request.engine!r}{did_you_mean(request.engine, ENGINES)}", "--engine")
    if request.congestion_aware and request.engine != "astra-sim":
        raise InvalidInput("events always model congestion; say --engine astra-sim too", "--congestion-aware")
    if request.slow_ranks and request.engine == "astra-sim":
        raise InvalidInput("ASTRA-sim's ranks are alike; leave --engine astra-sim away", "--slow-ranks")
    if not request.topology:
        raise InvalidInput("say which network the ranks are on, as in ring:8@50GB/s,500ns", "--topology")
    check_html(request.html)
    files = result_files(request.perfetto, request.csv, request.ranks)
    with announced(f"following the ranks of {one_line(request.prefix)}"):
        found = _run(request, *files.watches)
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
            is_told=not request.as_json,
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


def _run(request: TraceRequest, watch: Watch | None = None) -> TraceOutcome:
    dims = _astra_dims(request.topology)
    if request.engine == "astra-sim":
        system = _system(request, dims or astra_dims_of(_described(request.topology).parts))
        traces = load_traces(request.prefix, request.groups)
        with _placed(request.prefix):
            return run_astra(traces, system, watch)
    network = _drawn(request.topology, dims) if dims else _described(request.topology)
    settings = Settings()
    if request.system:
        system = _system(request, dims or astra_dims_of(network.parts))
        settings = Settings(
            queueing=queueing_of(system),
            devices=devices_of(system),
            num_chunks=system.num_chunks,
            algorithms=algorithms_of(system, [part.name for part in network.parts]),
        )
    settings = settings.with_speeds(speeds_frac(request.slow_ranks), network.graph.num_devices)
    traces = load_traces(request.prefix, request.groups)
    with _placed(request.prefix):
        return run_events(traces, network, settings, watch)


@contextmanager
def _placed(prefix: str) -> Iterator[None]:
    """Errors of traces name the file of the first rank they name, or all files."""
    try:
        yield
    except DovetailError as error:
        named = re.search(r"\brank ([0-9]+)\b", f"{error.where} {error.message}")
        file = one_line(f"{prefix}.{named[1] if named else '*'}.et")
        is_option = error.where.startswith("--")
        where = error.where if is_option else ": ".join(part for part in (file, error.where) if part)
        raise type(error)(error.message, where) from None


def _astra_dims(reference: str) -> tuple[AstraDim, ...]:
    """The network in ASTRA-sim's own words, where the file is one of its own."""
    if is_file_name(reference) and "@" not in reference and ASTRA_KEY in read_text(Path(reference), "--topology"):
        dims = load_network(Path(reference))
        num_ranks = math.prod(dim.num_ranks for dim in dims)
        if num_ranks > MAX_RANKS:
            raise InvalidInput(f"at most {MAX_RANKS:,} ranks; got {num_ranks:,}", one_line(reference))
        return dims
    return ()


def _drawn(reference: str, dims: tuple[AstraDim, ...]) -> Network:
    """The links of ASTRA-sim's network, for the engine that follows each."""
    try:
        return network_of(reference, dimensions_of(dims))
    except DovetailError as error:
        where = ": ".join(part for part in (one_line(reference), error.where) if part)
        raise type(error)(error.message, where) from None


def _described(reference: str) -> Network:
    networks = load_networks(reference)
    if len(networks) > 1:
        raise InvalidInput("a trace runs on one network; a range of devices is for dovetail network", "--topology")
    return networks[0]


def _system(request: TraceRequest, dims: tuple[AstraDim, ...]) -> AstraSystem:
    if not request.system:
        return plain_system(dims, is_congestion_aware=request.congestion_aware)
    return load_system(dims, Path(request.system), is_congestion_aware=request.congestion_aware)


def convert(workload: str, prefix: str, topology: str, *, is_forced: bool, as_json: bool) -> None:
    """Writes a trace for each rank from an ASTRA-sim 1.0 text workload."""
    if not topology:
        raise InvalidInput("say which network the ranks are on, as in ring:8@50GB/s,500ns", "--topology")
    dims = _astra_dims(topology) or astra_dims_of(_described(topology).parts)
    found: LayerWorkload = load_workload(Path(workload))
    nodes = trace_of(found.nodes(dims))
    if not nodes:
        raise InvalidInput("the workload has no compute and no collective, so no trace", one_line(workload))
    num_ranks = math.prod(dim.num_ranks for dim in dims)
    write_traces(prefix, (nodes,) * num_ranks, is_forced=is_forced)
    if as_json:
        show_json({"num_ranks": num_ranks, "num_nodes": len(nodes), "prefix": prefix})
        return
    write(f"{num_ranks:,} traces of {len(nodes):,} nodes each: {prefix}.0.et to {prefix}.{num_ranks - 1}.et\n")
