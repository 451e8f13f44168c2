"""Execution traces of all ranks on a network: when each rank ends; and ASTRA-sim 1.0 text workloads as traces."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

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

ENGINES = ("events", "astra-sim")
MAX_RANKS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """Traces PREFIX.0.et, PREFIX.1.et, ... and the network that they run on, as people write both."""

    prefix: str
    topology: str
    system: str = ""
    groups: str = ""
    engine: str = "events"
    is_congestion_aware: bool = False
    slow_ranks: str = ""

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise InvalidInput(f"no engine is named {self.engine!r}{did_you_mean(self.engine, ENGINES)}", "--engine")
        if self.is_congestion_aware and self.engine != "astra-sim":
            raise InvalidInput("events always model congestion; pass --engine astra-sim too", "--congestion-aware")
        if self.slow_ranks and self.engine == "astra-sim":
            raise InvalidInput("ASTRA-sim's ranks are identical; leave out --engine astra-sim", "--slow-ranks")
        _check_topology(self.topology)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTraces:
    """Traces that were written: one per rank, all of as many nodes."""

    num_ranks: int
    num_nodes: int


def _check_topology(topology: str) -> None:
    if not topology:
        raise InvalidInput("give the network of the ranks, as in ring:8@50GB/s,500ns", "--topology")


def traced(job: TraceJob, *watches: Watch) -> TraceOutcome:
    """When each rank of `job` ends; `watches` record its events."""
    dims = _astra_dims(job.topology)
    if job.engine == "astra-sim":
        system = _system(job, dims or astra_dims_of(_described(job.topology).parts))
        traces = load_traces(job.prefix, job.groups)
        with _placed(job.prefix):
            return run_astra(traces, system, *watches)
    network = _drawn(job.topology, dims) if dims else _described(job.topology)
    settings = Settings()
    if job.system:
        system = _system(job, dims or astra_dims_of(network.parts))
        settings = Settings(
            queueing=queueing_of(system),
            devices=devices_of(system),
            num_chunks=system.num_chunks,
            algorithms=algorithms_of(system, [part.name for part in network.parts]),
        )
    settings = settings.with_speeds(speeds_frac(job.slow_ranks), network.graph.num_devices)
    traces = load_traces(job.prefix, job.groups)
    with _placed(job.prefix):
        return run_events(traces, network, settings, *watches)


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
    """The network as ASTRA-sim describes it, where the file is one of ASTRA-sim's."""
    if is_file_name(reference) and "@" not in reference and ASTRA_KEY in read_text(Path(reference), "--topology"):
        dims = load_network(Path(reference))
        num_ranks = math.prod(dim.num_ranks for dim in dims)
        if num_ranks > MAX_RANKS:
            raise InvalidInput(f"at most {MAX_RANKS:,} ranks; got {num_ranks:,}", one_line(reference))
        return dims
    return ()


def _drawn(reference: str, dims: tuple[AstraDim, ...]) -> Network:
    """The links of ASTRA-sim's network, for the engine that follows each of them."""
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


def _system(job: TraceJob, dims: tuple[AstraDim, ...]) -> AstraSystem:
    if not job.system:
        return plain_system(dims, is_congestion_aware=job.is_congestion_aware)
    return load_system(dims, Path(job.system), is_congestion_aware=job.is_congestion_aware)


def imported_traces(workload: str, prefix: str, topology: str, *, is_forced: bool) -> ImportedTraces:
    """Writes a trace for each rank from an ASTRA-sim 1.0 text workload."""
    _check_topology(topology)
    dims = _astra_dims(topology) or astra_dims_of(_described(topology).parts)
    layers: LayerWorkload = load_workload(Path(workload))
    nodes = trace_of(layers.nodes(dims))
    if not nodes:
        raise InvalidInput("the workload has no compute and no collective, so no trace", one_line(workload))
    num_ranks = math.prod(dim.num_ranks for dim in dims)
    write_traces(prefix, (nodes,) * num_ranks, is_forced=is_forced)
    return ImportedTraces(num_ranks=num_ranks, num_nodes=len(nodes))
