"""`dovetail network`: one collective on one network, or a sweep of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from dovetail.cli.screen import show_json, show_tables
from dovetail.errors import DovetailError, InvalidInput, did_you_mean
from dovetail.files.network import load_networks, memories_bytes_per_s, sizes_bytes, with_faults
from dovetail.files.network_words import algorithms_of, groups_of
from dovetail.files.text import one_line
from dovetail.files.written import check_writable, write_file
from dovetail.network.endpoint import Grant, endpoints
from dovetail.network.events.asked import EngineName, Network, NetworkAnswer, NetworkAsked, network_answer
from dovetail.network.events.fed import Endpoint
from dovetail.network.events.program import Policy, Queueing
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
    num_chunks: int = 1
    num_active_chunks: int = 1
    policy: str = "fifo"
    is_themis: bool = False
    groups: str = ""
    dims: str = ""
    slow: str = ""
    endpoint: str = ""
    memory: str = ""
    num_sms: int = 0
    plot: str = ""


def answer(said: Said, *, as_json: bool) -> None:
    """Shows the answer, or all answers of a sweep, and writes the picture that was asked for."""
    if not said.size or not said.topology:
        option, example = ("--size", "64 MiB") if not said.size else ("--topology", "ring:8@50GB/s,500ns")
        raise InvalidInput(f'{option} is missing, as in {option} "{example}"')
    picture = _picture(said.plot)
    networks = [with_faults(network, said.slow) for network in load_networks(said.topology)]
    sizes, ends = sizes_bytes(said.size), _endpoints(said)
    answers = [_one(said, network, size_bytes, end) for network in networks for end in ends for size_bytes in sizes]
    if picture is not None:
        title = one_line(f"{said.collective} on {said.topology}")
        write_file(picture, PICTURES[picture.suffix.lower()](title, sweep_panels(answers)))
    is_sweep = len(answers) > 1
    if as_json:
        records = [network_record(one, has_links=not is_sweep) for one in answers]
        show_json({"points": records} if is_sweep else records[0])
    else:
        show_tables(sweep_tables(answers) if is_sweep else network_tables(answers[0]))


def _one(said: Said, network: Network, size_bytes: float, endpoint: Endpoint) -> NetworkAnswer:
    queueing = Queueing(policy=_policy(said.policy), num_active_chunks=said.num_active_chunks)
    try:
        asked = NetworkAsked(
            collective=said.collective,
            payload_bytes=size_bytes,
            network=network,
            engine=_engine(said.engine),
            groups=groups_of(said.groups),
            dimensions=tuple(word.strip() for word in said.dims.split(",") if word.strip()),
            algorithms=_algorithms(said.algorithm, network),
            num_chunks=said.num_chunks,
            queueing=queueing,
            is_themis=said.is_themis,
            endpoint=endpoint,
        )
        return network_answer(asked)
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
    num_sms = said.num_sms or math.inf
    memories = memories_bytes_per_s(said.memory)
    return [Endpoint(name=said.endpoint, grant=Grant(memory_bytes_per_s=m, num_sms=num_sms)) for m in memories]


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


def _picture(name: str) -> Path | None:
    if not name:
        return None
    file = Path(name)
    if file.suffix.lower() not in PICTURES:
        raise InvalidInput(f"a plot is written to {' or '.join(PICTURES)}; got {one_line(name)!r}", "--plot")
    check_writable(file, is_forced=True)
    return file
