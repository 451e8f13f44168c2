"""`dovetail trace`: execution traces in, when each rank ends out; and ASTRA-sim 1.0 text workloads into traces."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from dovetail.cli.screen import show_json, show_tables, write
from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files.astra import load_network, load_system, load_workload
from dovetail.files.entry import is_file_name
from dovetail.files.network import load_networks
from dovetail.files.text import read_text
from dovetail.files.traces import load_traces, write_traces
from dovetail.network.astra.dimensions import (
    algorithms_of,
    astra_dims_of,
    devices_of,
    dimensions_of,
    plain_system,
    queueing_of,
)
from dovetail.network.astra.layers import LayerWorkload
from dovetail.network.astra.system import AstraDim, AstraSystem
from dovetail.network.events.asked import Network
from dovetail.network.events.network_graph import network_graph
from dovetail.network.trace.from_layers import trace_of
from dovetail.network.trace.outcome import TraceOutcome
from dovetail.network.trace.run_astra import run_astra
from dovetail.network.trace.run_events import Settings, run_events
from dovetail.report.trace import trace_record, trace_tables

ENGINES = ("events", "astra-sim")
ASTRA_KEY = "npus_count"
MAX_RANKS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceAsked:
    """The command's arguments."""

    prefix: str
    topology: str
    system: str = ""
    groups: str = ""
    engine: str = "events"
    is_congestion_aware: bool = False
    as_json: bool = False


def answer(asked: TraceAsked) -> None:
    """Runs the traces and shows when each rank ends."""
    if asked.engine not in ENGINES:
        raise InvalidInput(f"no engine is named {asked.engine!r}{did_you_mean(asked.engine, ENGINES)}", "--engine")
    if asked.is_congestion_aware and asked.engine != "astra-sim":
        raise InvalidInput("events always model congestion; say --engine astra-sim too", "--congestion-aware")
    if not asked.topology:
        raise InvalidInput("say which network the ranks are on, as in ring:8@50GB/s,500ns", "--topology")
    found = _run(asked)
    if asked.as_json:
        show_json(trace_record(found))
    else:
        show_tables(trace_tables(found))


def _run(asked: TraceAsked) -> TraceOutcome:
    network, dims = _network(asked.topology)
    if asked.engine == "astra-sim":
        dims = dims or astra_dims_of(network.parts)
        return run_astra(load_traces(asked.prefix, asked.groups), _system(asked, dims))
    settings = Settings()
    if asked.system:
        system = _system(asked, dims or astra_dims_of(network.parts))
        settings = Settings(
            queueing=queueing_of(system),
            devices=devices_of(system),
            num_chunks=system.num_chunks,
            algorithms=algorithms_of(system, [part.name for part in network.parts]),
        )
    return run_events(load_traces(asked.prefix, asked.groups), network, settings)


def _network(reference: str) -> tuple[Network, tuple[AstraDim, ...]]:
    """The network, and ASTRA-sim's own words for it where the file is one of its own."""
    if is_file_name(reference) and "@" not in reference and ASTRA_KEY in read_text(Path(reference), "--topology"):
        dims = load_network(Path(reference))
        if math.prod(dim.num_ranks for dim in dims) > MAX_RANKS:
            raise InvalidInput(f"at most {MAX_RANKS:,} ranks", reference)
        parts = dimensions_of(dims)
        return Network(name=reference, parts=parts, graph=network_graph(parts)), dims
    networks = load_networks(reference)
    if len(networks) > 1:
        raise InvalidInput("a trace runs on one network; a range of devices is for dovetail network", "--topology")
    return networks[0], ()


def _system(asked: TraceAsked, dims: tuple[AstraDim, ...]) -> AstraSystem:
    if not asked.system:
        return plain_system(dims, is_congestion_aware=asked.is_congestion_aware)
    return load_system(dims, Path(asked.system), is_congestion_aware=asked.is_congestion_aware)


def convert(workload: str, prefix: str, topology: str) -> None:
    """Writes a trace for each rank from an ASTRA-sim 1.0 text workload."""
    if not topology:
        raise InvalidInput("say which network the ranks are on, as in ring:8@50GB/s,500ns", "--topology")
    network, dims = _network(topology)
    dims = dims or astra_dims_of(network.parts)
    found: LayerWorkload = load_workload(Path(workload))
    nodes = trace_of(found.nodes(dims))
    num_ranks = math.prod(dim.num_ranks for dim in dims)
    write_traces(prefix, (nodes,) * num_ranks)
    write(f"{num_ranks:,} traces of {len(nodes):,} nodes each: {prefix}.0.et to {prefix}.{num_ranks - 1}.et\n")
