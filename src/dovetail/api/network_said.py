"""A collective as people ask for it, and what of it would change nothing: that is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from dovetail.api.arguments import count
from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files.network_words import dimensions_named
from dovetail.files.text import one_line
from dovetail.network.events.fed import use_of
from dovetail.network.events.program import Policy
from dovetail.network.one_collective import EngineName, Network


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSaid:
    """What a collective is asked by, as people say it."""

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
    sms: str = ""

    @property
    def num_sms(self) -> int:
        return count("--sms", self.sms.partition("@")[0]) if self.sms else 0


def policy_of(word: str) -> Policy:
    if word not in get_args(Policy):
        raise InvalidInput(f"no policy is named {one_line(word)!r}{did_you_mean(word, get_args(Policy))}", "--policy")
    return word  # type: ignore[return-value]


def engine_of(word: str) -> EngineName:
    known = get_args(EngineName)
    if word not in known:
        raise InvalidInput(f"no engine is named {one_line(word)!r}{did_you_mean(word, known)}", "--engine")
    return word  # type: ignore[return-value]


def check_used(said: NetworkSaid) -> None:
    """Raises where an option was said that changes nothing for this collective, engine and number of chunks."""
    is_closed = engine_of(said.engine) == "closed"
    of_queues = {
        "--policy": policy_of(said.policy) != "fifo",
        "--active": said.num_active_chunks > 1,
        "--themis": said.is_themis,
    }
    of_chunks = {"--chunks": said.num_chunks > 1, **of_queues}
    if said.collective == "point-to-point":
        of_collectives = {**of_chunks, "--algorithm": bool(said.algorithm)}
        _refuse(of_collectives, "is of collectives, and point-to-point is one message; leave it out")
    if is_closed:
        _refuse(
            of_chunks, "is of several chunks, and the closed form is of one; ask the events engine, or leave it out"
        )
    if said.num_chunks == 1:
        _refuse(of_queues, "is of several chunks; say --chunks too, or leave it out")


def _refuse(options: dict[str, bool], words: str) -> None:
    for option, is_said in options.items():
        if is_said:
            raise InvalidInput(f"{option} {words}")


def check_dimensions_used(said: NetworkSaid, networks: Sequence[Network]) -> None:
    """Raises where dimensions are to be taken in turns and there is one alone."""
    named = dimensions_named(said.dims)
    num_dims = len(named) or max(len(network.graph.blocks) for network in networks)
    if said.is_themis and (num_dims == 1 or said.groups):
        raise InvalidInput("--themis is of several whole dimensions, which are not here; leave it out")


def check_endpoint(said: NetworkSaid) -> None:
    """Raises where an endpoint is given what it does not take, or nothing of what it does."""
    use = use_of(said.endpoint, said.collective)
    ways = (*(('--memory "450 GB/s"',) if use.memory_bytes else ()), *(("--sms 6",) if use.sm_bytes else ()))
    if ways and not said.memory and not said.sms:
        raise InvalidInput(f"--endpoint {said.endpoint} needs what it is given, as in {' or '.join(ways)}")
    if said.memory and not use.memory_bytes:
        raise InvalidInput(f"--endpoint {said.endpoint} takes no memory bandwidth; leave it out", "--memory")
    if said.sms and not use.sm_bytes:
        raise InvalidInput(f"--endpoint {said.endpoint} takes no SMs for {said.collective}; leave them out", "--sms")
