"""A collective as people ask for it, and what of it would change nothing: that is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from dovetail.api.arguments import count
from dovetail.api.requests.components import NetworkRequest
from dovetail.comm.events.fed import use_of
from dovetail.comm.events.program import Policy
from dovetail.comm.one_collective import EngineName, Network
from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files.network_formats import dimensions_named
from dovetail.files.text import one_line


def num_sms(request: NetworkRequest) -> int:
    """How many SMs a collective may use, whatever each of them reads."""
    return count("--sms", request.sms.partition("@")[0]) if request.sms else 0


def policy_of(word: str) -> Policy:
    if word not in get_args(Policy):
        raise InvalidInput(f"no policy is named {one_line(word)!r}{did_you_mean(word, get_args(Policy))}", "--policy")
    return word  # type: ignore[return-value]


def engine_of(word: str) -> EngineName | None:
    """The engine that was named; none where that is left to the network."""
    if not word:
        return None
    known = get_args(EngineName)
    if word not in known:
        raise InvalidInput(f"no engine is named {one_line(word)!r}{did_you_mean(word, known)}", "--engine")
    return word  # type: ignore[return-value]


def check_used(request: NetworkRequest) -> None:
    """Raises where an option was said that changes nothing for this collective, engine and number of chunks."""
    is_closed = engine_of(request.engine) == "closed"
    of_queues = {
        "--policy": policy_of(request.policy) != "fifo",
        "--active": request.active > 1,
        "--themis": request.themis,
    }
    of_chunks = {"--chunks": request.chunks > 1, **of_queues}
    if request.collective == "point-to-point":
        of_collectives = {**of_chunks, "--algorithm": bool(request.algorithm)}
        _refuse(of_collectives, "is of collectives, and point-to-point is one message; leave it out")
    if is_closed:
        _refuse(
            of_chunks, "is of several chunks, and the closed form is of one; use the events engine, or leave it out"
        )
    if request.chunks == 1:
        _refuse(of_queues, "is of several chunks; pass --chunks too, or leave it out")


def _refuse(options: dict[str, bool], words: str) -> None:
    for option, is_said in options.items():
        if is_said:
            raise InvalidInput(f"{option} {words}")


def check_dimensions_used(request: NetworkRequest, networks: Sequence[Network]) -> None:
    """Raises where dimensions are to be taken in turns and there is one alone."""
    named = dimensions_named(request.dims)
    num_dims = len(named) or max(len(network.graph.blocks) for network in networks)
    if request.themis and (num_dims == 1 or request.groups):
        raise InvalidInput("--themis is of several whole dimensions, which are not here; leave it out")


def check_endpoint(request: NetworkRequest) -> None:
    """Raises where an endpoint is given what it does not take, or nothing of what it does."""
    use = use_of(request.endpoint, request.collective)
    ways = (*(('--memory "450 GB/s"',) if use.memory_bytes else ()), *(("--sms 6",) if use.sm_bytes else ()))
    if ways and not request.memory and not request.sms:
        raise InvalidInput(f"--endpoint {request.endpoint} needs what it is given, as in {' or '.join(ways)}")
    if request.memory and not use.memory_bytes:
        raise InvalidInput(f"--endpoint {request.endpoint} takes no memory bandwidth; leave it out", "--memory")
    if request.sms and not use.sm_bytes:
        message = f"--endpoint {request.endpoint} takes no SMs for {request.collective}"
        raise InvalidInput(f"{message}; leave them out", "--sms")
