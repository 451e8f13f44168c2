"""`dovetail network`: one collective on one network, or a sweep of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from dovetail.cli.asked import count
from dovetail.cli.network_files import write_astra, write_network
from dovetail.cli.pictures import picture_file
from dovetail.cli.results import result_files
from dovetail.cli.screen import show_json, show_tables, write
from dovetail.errors import DovetailError, InvalidInput, did_you_mean
from dovetail.files.cluster import load_cluster
from dovetail.files.network import load_networks, memories_bytes_per_s, rates_bytes_per_s, sizes_bytes, with_faults
from dovetail.files.network_words import algorithms_of, dimensions_named, groups_of
from dovetail.files.text import one_line
from dovetail.files.written import check_writable, write_file
from dovetail.hardware.clusters import clusters
from dovetail.network.endpoint import SM_BYTES_PER_S, SM_RATES_BYTES_PER_S, Grant, endpoints
from dovetail.network.events.asked import (
    EngineName,
    Network,
    NetworkAnswer,
    NetworkAsked,
    check_collective,
    network_answer,
)
from dovetail.network.events.fed import Endpoint
from dovetail.network.events.program import Policy, Queueing
from dovetail.network.events.recording import Watch
from dovetail.network.events.schedules import algorithms
from dovetail.report.curves import curves_html, curves_svg
from dovetail.report.network import network_record, network_tables, sweep_panels, sweep_tables

PICTURES = {".svg": curves_svg, ".html": curves_html}


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The command's arguments, as typed."""

    collective: str
    size: str
    topology: str
    algorithm: str = ""
    engine: str = "events"
    chunks: str = "1"
    active: str = "1"
    policy: str = "fifo"
    is_themis: bool = False
    groups: str = ""
    dims: str = ""
    slow: str = ""
    endpoint: str = ""
    memory: str = ""
    sms: str | None = None
    plot: str = ""
    perfetto: str = ""
    csv: str = ""
    ranks: str = ""
    astra: str = ""

    def __post_init__(self) -> None:
        assert min(self.num_chunks, self.num_active_chunks) >= 1, self  # what is no count is refused here

    @property
    def num_chunks(self) -> int:
        return count("--chunks", self.chunks)

    @property
    def num_active_chunks(self) -> int:
        return count("--active", self.active)

    @property
    def num_sms(self) -> int:
        return count("--sms", self.sms.partition("@")[0] if self.sms else self.sms)


def answer(said: Said, *, as_json: bool) -> None:
    """Shows the answer, or all answers of a sweep, and writes the picture that was asked for."""
    check_collective(said.collective)
    if not said.size or not said.topology:
        option, example = ("--size", "64 MiB") if not said.size else ("--topology", "ring:8@50GB/s,500ns")
        raise InvalidInput(f'{option} is missing, as in {option} "{example}"')
    picture, files = picture_file(said.plot, PICTURES), result_files(said.perfetto, said.csv, said.ranks)
    networks = [with_faults(network, said.slow) for network in load_networks(said.topology)]
    sizes, ends = sizes_bytes(said.size), _endpoints(said)
    _check_single(said, len(networks) * len(ends) * len(sizes))
    asks = [(network, size_bytes, end) for network in networks for end in ends for size_bytes in sizes]
    answers = [_one(said, *ask, files.watches) for ask in asks]
    write_network(files, answers)
    written = write_astra(said.astra, answers[0].asked) if said.astra else ""
    if picture is not None:
        title = one_line(f"{said.collective} on {said.topology}")
        write_file(picture, PICTURES[picture.suffix.lower()](title, sweep_panels(answers)))
    is_sweep = len(answers) > 1
    if as_json:
        records = [network_record(one, has_links=not is_sweep) for one in answers]
        show_json({"points": records} if is_sweep else records[0])
    else:
        show_tables(sweep_tables(answers) if is_sweep else network_tables(answers[0]))
        write(written)


def _check_single(said: Said, num_answers: int) -> None:
    for option, name in (("--perfetto", said.perfetto), ("--astra-sim", said.astra)):
        if name and num_answers > 1:
            raise InvalidInput(f"it takes one size, network and memory; this sweep has {num_answers}", option)
    if said.astra:
        check_writable(Path(f"{said.astra}.0.et"), is_forced=True)


def _one(
    said: Said, network: Network, size_bytes: float, endpoint: Endpoint, watches: tuple[Watch, ...]
) -> NetworkAnswer:
    queueing = Queueing(policy=_policy(said.policy), num_active_chunks=said.num_active_chunks)
    try:
        asked = NetworkAsked(
            collective=said.collective,
            payload_bytes=size_bytes,
            network=network,
            engine=_engine(said.engine),
            groups=groups_of(said.groups),
            dimensions=dimensions_named(said.dims),
            algorithms=_algorithms(said.algorithm, network),
            num_chunks=said.num_chunks,
            queueing=queueing,
            is_themis=said.is_themis,
            endpoint=endpoint,
        )
        return network_answer(asked, *watches)
    except DovetailError as error:
        where = error.where if error.where not in ("it", "") else one_line(network.name)
        raise type(error)(error.message, where) from None


def _endpoints(said: Said) -> list[Endpoint]:
    """The endpoint with what it is given, once for every memory bandwidth of a range."""
    if not said.endpoint:
        if said.memory or said.num_sms:
            raise InvalidInput("--memory and --sms are what an endpoint is given; name one with --endpoint")
        return [Endpoint()]
    endpoints[said.endpoint]  # raises, naming what is close
    if said.endpoint != "ideal" and not said.memory and not said.num_sms:
        raise InvalidInput(f'--endpoint {said.endpoint} needs what it is given, as in --memory "450 GB/s" or --sms 6')
    given = Grant(num_sms=said.num_sms, sm_bytes_per_s=_sm_bytes_per_s(said)) if said.num_sms else Grant()
    memories = memories_bytes_per_s(said.memory)
    return [Endpoint(name=said.endpoint, grant=replace(given, memory_bytes_per_s=m)) for m in memories]


def _sm_bytes_per_s(said: Said) -> float:
    """What one SM reads: as said after @, that of a catalogue cluster's chip, or for networks without a chip ACE's."""
    rate = (said.sms or "").partition("@")[2]
    if rate:
        first, *more = rates_bytes_per_s(rate, "--sms")
        if more:
            raise InvalidInput(f"an SM has one rate; got {one_line(rate)}", "--sms")
        return first
    if said.topology.strip() not in clusters:
        return SM_BYTES_PER_S
    chip = load_cluster(said.topology.strip()).chip.name
    if chip not in SM_RATES_BYTES_PER_S:
        rule = f"what an SM of {chip} reads was not measured; say it"
        raise InvalidInput(f"{rule}, as in --sms {said.num_sms}@40GB/s", "--sms")
    return SM_RATES_BYTES_PER_S[chip]


def _policy(word: str) -> Policy:
    if word not in get_args(Policy):
        raise InvalidInput(f"no policy is named {one_line(word)!r}{did_you_mean(word, get_args(Policy))}", "--policy")
    return word  # type: ignore[return-value]


def _engine(word: str) -> EngineName:
    known = get_args(EngineName)
    if word not in known:
        raise InvalidInput(f"no engine is named {one_line(word)!r}{did_you_mean(word, known)}", "--engine")
    return word  # type: ignore[return-value]


def _algorithms(text: str, network: Network) -> tuple[tuple[str, str], ...]:
    """The algorithms named, each known, and each for a dimension that is there."""
    pairs = algorithms_of(text)
    for dimension, algorithm in pairs:
        algorithms[algorithm]  # raises, naming what is close
        if dimension != "*":
            network.graph.block(dimension)
    return pairs
