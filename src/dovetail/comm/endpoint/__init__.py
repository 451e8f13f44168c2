"""How a collective touches the chip: what an endpoint takes of it per payload byte, and what that leaves of the rate.

An endpoint (`hardware/endpoints`) turns the phases of a collective into `Use`: bytes on the links, reads and writes of
memory, bytes through SMs and through the engine's SRAM, all per payload byte. What a device gives to communication
(`Grant`) bounds the rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dovetail.comm.torus import Phase, Torus, Work, ideal_injection_bytes_per_s, sent_per_byte
from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.endpoints import Endpoint, Volume, endpoint_named
from dovetail.units import GIGA

SM_BYTES_PER_S = 80 * GIGA  # ACE (Rashidi et al., ISCA 2021): 64 bytes a clock at 1.245 GHz are 79.7, which it rounds
# One block of a kernel that reads two streams and writes one moves 52.9 GB/s on an H200 (our measurement): two thirds.
HOPPER_SM_BYTES_PER_S = 52.9 * GIGA * 2 / 3
SM_RATES_BYTES_PER_S = {  # by chip, what one SM can read for a collective; no other was measured
    "ace-npu": SM_BYTES_PER_S,
    "h100-sxm": HOPPER_SM_BYTES_PER_S,
    "h200-sxm": HOPPER_SM_BYTES_PER_S,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What one payload byte of a collective takes."""

    link_bytes: float  # sent by one device
    read_bytes: float  # of memory
    write_bytes: float
    sm_bytes: float  # that SMs load
    sram_bytes: float  # through the engine's own memory, both ways

    @property
    def memory_bytes(self) -> float:
        return self.read_bytes + self.write_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a device gives to communication. Memory reads and writes each have `memory_bytes_per_s`."""

    memory_bytes_per_s: float = math.inf  # inf: no limit, as for links that are never full
    num_sms: float = math.inf
    sram_bytes_per_s: float = math.inf
    sm_bytes_per_s: float = SM_BYTES_PER_S

    def __post_init__(self) -> None:
        if min(self.memory_bytes_per_s, self.num_sms, self.sram_bytes_per_s) < 0:
            raise InvalidInput(f"a share for communication must not be negative; got {self}")


REDUCED_FRAC = {Work.REDUCE_SCATTER: 1.0, Work.ALL_REDUCE: 0.5}  # of what a phase sends; other work adds nothing


def reduced_per_byte(phases: tuple[Phase, ...]) -> float:
    """Bytes per payload byte that arrive to be added to others."""
    return sum(phase.sent_frac * REDUCED_FRAC.get(phase.work, 0.0) for phase in phases)


def volume_of(phases: tuple[Phase, ...]) -> Volume:
    """What a device moves of a collective: an all-gather alone reads nothing, a reduce-scatter alone writes nothing."""
    works = {phase.work for phase in phases}
    return Volume(
        sent=sent_per_byte(phases),
        reduced=reduced_per_byte(phases),
        read=0.0 if works == {Work.ALL_GATHER} else 1.0,
        written=0.0 if works == {Work.REDUCE_SCATTER} else 1.0,
    )


def use_of_phases(endpoint: Endpoint, phases: tuple[Phase, ...]) -> Use:
    """What one payload byte takes where `endpoint` moves it."""
    volume, is_moved = volume_of(phases), any(phase.work is Work.ALL_TO_ALL for phase in phases)
    resources = endpoint.moving if is_moved else endpoint.adding
    is_up_and_down = endpoint.is_in_switch and not is_moved
    return Use(
        link_bytes=max(volume.read, volume.written) if is_up_and_down else volume.sent,
        read_bytes=resources.reads.bytes_of(volume),
        write_bytes=resources.writes.bytes_of(volume),
        sm_bytes=resources.cores.bytes_of(volume),
        sram_bytes=resources.sram.bytes_of(volume),
    )


def fed_payload_bytes_per_s(name: str, phases: tuple[Phase, ...], grant: Grant) -> float:
    """Payload per second that the chip can feed, whatever the links: least of memory, SMs and SRAM."""
    use = use_of_phases(endpoint_named(name), phases)
    pairs = (
        (use.read_bytes, grant.memory_bytes_per_s),
        (use.write_bytes, grant.memory_bytes_per_s),
        (use.sm_bytes, grant.num_sms * grant.sm_bytes_per_s if grant.num_sms else 0.0),
        (use.sram_bytes, grant.sram_bytes_per_s),
    )
    return min((rate / need for need, rate in pairs if need > 0), default=math.inf)


def network_bytes_per_s(name: str, torus: Torus, phases: tuple[Phase, ...], grant: Grant) -> float:
    """Bytes a device sends per second through endpoint `name`: the links' limit or what the chip feeds.

    For ACE's baseline this is min(links, M/1.5, n_SM * 80 GB/s / 1.5); for ACE min(links, M * S).
    """
    if endpoint_named(name).is_in_switch:
        raise NotModelled("a torus has no switches that add; take another endpoint, or a switched topology", "endpoint")
    links = ideal_injection_bytes_per_s(torus, phases)
    fed = fed_payload_bytes_per_s(name, phases, grant)
    return links if math.isinf(fed) else min(links, fed * sent_per_byte(phases))
