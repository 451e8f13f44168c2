"""One collective on one network, or a sweep of them: from what was asked to how long it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, SupportsIndex

from dovetail.api.answer import Answer
from dovetail.api.arguments import in_python
from dovetail.api.network_request import (
    check_dimensions_used,
    check_endpoint,
    check_used,
    engine_of,
    num_sms,
    policy_of,
)
from dovetail.api.requests.components import NetworkRequest
from dovetail.comm.endpoint import SM_BYTES_PER_S, SM_RATES_BYTES_PER_S, Grant
from dovetail.comm.events.fed import Endpoint
from dovetail.comm.events.program import Queueing
from dovetail.comm.events.recording import Watch
from dovetail.comm.events.schedules import algorithms
from dovetail.comm.one_collective import (
    CollectiveJob,
    Network,
    NetworkAnswer,
    check_collective,
    network_answer,
    why_no_library,
)
from dovetail.errors import DovetailError, InvalidInput
from dovetail.files.cluster import load_cluster
from dovetail.files.cluster_names import names_cluster
from dovetail.files.network import load_networks, memories_bytes_per_s, rates_bytes_per_s, sizes_bytes, with_faults
from dovetail.files.network_formats import algorithms_of, dimensions_named, groups_of
from dovetail.files.text import one_line
from dovetail.hardware.endpoints import endpoint_named
from dovetail.report.figures import Figures, record_of, tables_of
from dovetail.report.network import network_figures, network_record, sweep_figures
from dovetail.report.page import Page
from dovetail.report.pages.inputs import plain_inputs
from dovetail.report.pages.network import network_page
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.report.tracks import Process, device_processes, endpoint_processes, library_processes
from dovetail.units import format_s

Ask = tuple[Network, float, Endpoint]  # a point of a sweep


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Collective(Answer):
    """The time of a collective, or of every point of a sweep."""

    outcome: tuple[NetworkAnswer, ...]
    request: NetworkRequest
    call: str

    @property
    def fits(self) -> bool:
        return True

    @property
    def is_sweep(self) -> bool:
        return len(self.outcome) > 1

    @property
    def time_s(self) -> float:
        return self._one("time_s").time_s

    @property
    def bus_bytes_per_s(self) -> float:
        """The rate past every rank that moves the least bytes the collective can: what links are compared with."""
        return self._one("bus_bytes_per_s").bus_bytes_per_s

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Every point as a row for a table."""
        return [network_record(one, has_links=False) for one in self.outcome]

    @property
    def headline(self) -> str:
        first = self.outcome[0]
        what = f"{first.job.collective} on {one_line(first.job.network.name)}"
        if self.is_sweep:
            times_s = [one.time_s for one in self.outcome]
            return f"{what} and on, {len(times_s)} points, {format_s(min(times_s))} to {format_s(max(times_s))}"
        return f"{what}, {format_s(first.time_s)}"

    @property
    def tables(self) -> tuple[Table, ...]:
        return tables_of(self._figures)

    @property
    def _record(self) -> Record:
        return record_of(self._figures)

    @property
    def _figures(self) -> Figures:
        return sweep_figures(self.outcome) if self.is_sweep else network_figures(self.outcome[0])

    @property
    def page(self) -> Page:
        return network_page(self.outcome)

    @property
    def inputs(self) -> Record:
        networks = {one.job.network.name: one.job.network.parts for one in self.outcome}
        found: Record = plain_inputs({"asked": self.request.values, "networks": networks})
        return found

    @in_python
    def to_perfetto(self, path: str | PathLike[str], *, ranks: str | Sequence[SupportsIndex] = ()) -> None:
        """Writes a timeline of links and streams for ui.perfetto.dev, of `ranks` or of all."""
        from dovetail.api.timelines import parsed_ranks, write_timeline

        again = network_answer(self._one("timeline").job, Watch(devices=parsed_ranks(ranks)))
        write_timeline(path, timeline_of(again))

    def _one(self, wanted: str) -> NetworkAnswer:
        if self.is_sweep:
            raise InvalidInput(f"this is a sweep of {len(self.outcome)} points, which have each a {wanted}; see .rows")
        return self.outcome[0]


def networked(
    request: NetworkRequest,
    watches: tuple[Watch, ...] = (),
    through: Callable[[list[Ask]], Iterable[Ask]] = iter,
) -> Collective:
    """Every point that was asked for; `watches` record the events of each, and they are taken `through` one by one."""
    found = tuple(_one(request, *ask, watches) for ask in through(asks_of(request)))
    return Collective(outcome=found, request=request, call=request.call)


def asks_of(request: NetworkRequest) -> list[Ask]:
    """The points of what was asked: networks, sizes and endpoints."""
    check_collective(request.collective)
    if not request.size or not request.topology:
        option, example = ("--size", "64 MiB") if not request.size else ("--topology", "ring:8@50GB/s,500ns")
        raise InvalidInput(f'{option} is missing, as in {option} "{example}"')
    check_used(request)
    networks = [with_faults(network, request.slow) for network in load_networks(request.topology)]
    check_dimensions_used(request, networks)
    sizes, ends = sizes_bytes(request.size), _endpoints(request)
    return [(network, size_bytes, end) for network in networks for end in ends for size_bytes in sizes]


def timeline_of(answer: NetworkAnswer) -> tuple[Process, ...]:
    """The tracks of an answer that was watched."""
    [timeline] = answer.timeline
    [record] = timeline.record
    names = dict.fromkeys(record.tasks, answer.job.collective)
    devices = device_processes(record, answer.job.network.graph, names)
    return (*devices, *endpoint_processes(answer), *library_processes(answer))


def _one(
    request: NetworkRequest, network: Network, size_bytes: float, endpoint: Endpoint, watches: tuple[Watch, ...]
) -> NetworkAnswer:
    queueing = Queueing(policy=policy_of(request.policy), num_active_chunks=request.active)
    try:
        job = CollectiveJob(
            collective=request.collective,
            payload_bytes=size_bytes,
            network=network,
            engine=engine_of(request.engine) or "library",
            groups=groups_of(request.groups),
            dimensions=dimensions_named(request.dims),
            algorithms=algorithms_of(request.algorithm),
            num_chunks=request.chunks,
            queueing=queueing,
            is_themis=request.themis,
            endpoint=endpoint,
        )
        if not request.engine and (watches or why_no_library(job)):
            job = replace(job, engine="events")
        if job.engine != "library":
            _check_algorithms(job)
        return network_answer(job, *watches)
    except DovetailError as error:
        where = error.where if error.where not in ("it", "") else one_line(network.name)
        raise type(error)(error.message, where) from None


def _endpoints(request: NetworkRequest) -> list[Endpoint]:
    """The endpoint with what it is given, once for every memory bandwidth of a range."""
    if not request.endpoint:
        if request.memory or num_sms(request):
            raise InvalidInput("--memory and --sms are what an endpoint is given; name one with --endpoint")
        return [Endpoint()]
    kind = endpoint_named(request.endpoint, "--endpoint")
    check_endpoint(request)
    grant = Grant(num_sms=num_sms(request), sm_bytes_per_s=_sm_bytes_per_s(request)) if num_sms(request) else Grant()
    memories = memories_bytes_per_s(request.memory)
    return [Endpoint(name=kind.name, grant=replace(grant, memory_bytes_per_s=m)) for m in memories]


def _sm_bytes_per_s(request: NetworkRequest) -> float:
    """What one SM reads: as said after @, that of a catalogue cluster's chip, or for networks without a chip ACE's."""
    rate = request.sms.partition("@")[2]
    if rate:
        first, *more = rates_bytes_per_s(rate, "--sms")
        if more:
            raise InvalidInput(f"an SM has one rate; got {one_line(rate)}", "--sms")
        return first
    if not names_cluster(request.topology.strip()):
        return SM_BYTES_PER_S
    chip = load_cluster(request.topology.strip()).chip.name
    if chip not in SM_RATES_BYTES_PER_S:
        rule = f"what an SM of {chip} reads was not measured; give it"
        raise InvalidInput(f"{rule}, as in --sms {num_sms(request)}@40GB/s", "--sms")
    return SM_RATES_BYTES_PER_S[chip]


def _check_algorithms(job: CollectiveJob) -> None:
    """Raises where an algorithm is not known, or names a dimension that is not there."""
    for dimension, algorithm in job.algorithms:
        algorithms[algorithm]  # raises, naming what is close
        if dimension != "*":
            job.network.graph.block(dimension)
