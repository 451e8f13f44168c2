"""Who moves and adds the bytes of collectives on a device: kinds of endpoint, one file each, one registry for all.

An entry says what a collective takes of the device's cores, memory and engines per payload byte (`Resources`), by which
algorithm it must be sent, and what silicon it adds. `dovetail network`, training steps, planners and joint searches
read the same entry; docs/model/endpoint.md has the formulas and their range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.registry import Registry, holding, named
from dovetail.units import GIGA, NANO

# Share of compute that a collective of SMs beside it takes: it holds SMs and uses HBM (16 of 132 SMs held slow products
# of an H200 by a tenth to a fifth, docs/model/contention.md).
SM_HELD_FRAC = 0.15
# Of that, what is due to memory: a layer of Llama 3 8B and one of 70B (tp 8) take 0.30 and 0.34 longer beside 16 blocks
# on an H100, and 0.021 and 0.012 beside the memory traffic of these alone (schedule/one_device/contention.py).
MEMORY_FRAC = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """What a collective moves per payload byte, as one device sees it.

    `sent` goes out on its links and `reduced` arrives to be added to others. `read` is 1 where the payload itself
    leaves memory and `written` 1 where the result arrives there; the share of 1/n the other way is taken as none.
    """

    sent: float
    reduced: float = 0.0
    read: float = 1.0
    written: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Bytes on one resource: so many for each byte of a `Volume`."""

    sent: float = 0.0
    reduced: float = 0.0
    read: float = 0.0
    written: float = 0.0

    def __post_init__(self) -> None:
        if min(self.sent, self.reduced, self.read, self.written) < 0:
            raise InvalidInput(f"what a byte takes must not be negative; got {self}")

    def bytes_of(self, volume: Volume) -> float:
        """Bytes per payload byte."""
        return (
            self.sent * volume.sent
            + self.reduced * volume.reduced
            + self.read * volume.read
            + self.written * volume.written
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a collective takes of each resource of a device: nothing by default.

    `reads` and `writes` are of memory, `cores` what SMs load, `sram` what passes an engine's own memory both ways.
    """

    reads: Traffic = field(default_factory=Traffic)
    writes: Traffic = field(default_factory=Traffic)
    cores: Traffic = field(default_factory=Traffic)
    sram: Traffic = field(default_factory=Traffic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a byte sent takes of a device, of many ranks: bytes that its cores load, that memory reads and writes."""

    core_bytes: float
    memory_bytes: float

    def __post_init__(self) -> None:
        if not (self.core_bytes >= 0 and self.memory_bytes >= 0):
            raise InvalidInput(f"what a byte sent takes must not be negative; got {self}")

    def compute_slowdown_frac(self, ring: Taken) -> float:
        """Share of compute lost, where `ring` is what the same exchange takes as SMs do it."""
        core, memory = self.core_bytes / ring.core_bytes, self.memory_bytes / ring.memory_bytes
        return SM_HELD_FRAC * (core + MEMORY_FRAC * (memory - core))


# SMs that read what they send and what they add to it, and write what they receive (ACE's baseline, ISCA 2021).
RING = Resources(reads=Traffic(sent=1, reduced=1), writes=Traffic(sent=1), cores=Traffic(sent=1, reduced=1))
# An all-reduce of very many ranks sends its payload twice and adds it once; an all-to-all sends it once.
ALL_REDUCE_VOLUME = Volume(sent=2.0, reduced=1.0)
ALL_TO_ALL_VOLUME = Volume(sent=1.0)


def _taken(resources: Resources, volume: Volume, link_bytes: float) -> Taken:
    memory_bytes = resources.reads.bytes_of(volume) + resources.writes.bytes_of(volume)
    return Taken(core_bytes=resources.cores.bytes_of(volume) / link_bytes, memory_bytes=memory_bytes / link_bytes)


RING_ADDING = _taken(RING, ALL_REDUCE_VOLUME, ALL_REDUCE_VOLUME.sent)
RING_MOVING = _taken(RING, ALL_TO_ALL_VOLUME, ALL_TO_ALL_VOLUME.sent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Silicon of its own, for so much of the links: nothing by default. Watts are drawn as long as the device is on.

    What it costs is what the die costs by its area; a figure in dollars would count it twice.
    """

    area_mm2: float = 0.0
    power_w: float = 0.0
    node_m: float = 28 * NANO  # style: the node that area and power are of; 28 nm as ACE's
    link_bytes_per_s: float = 300 * GIGA  # links that one serves; the limit of ACE's 4x4x4, for which it is sized

    def __post_init__(self) -> None:
        if not (self.area_mm2 >= 0 and self.power_w >= 0 and self.link_bytes_per_s > 0):
            raise InvalidInput(f"an engine takes no less than nothing and serves some of the links; got {self}")

    def num_for(self, link_bytes_per_s: float) -> int:
        return math.ceil(link_bytes_per_s / self.link_bytes_per_s * (1 - 1e-12))  # style: against rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A kind of endpoint; `code` is what it is in columns of numbers, from 1 on and for good.

    `adding` is what collectives take that sum, with the gather that goes with them: all-reduces, reduce-scatters and
    all-gathers. `moving` is for those that only move bytes: of tokens to experts, of keys and values. `is_in_switch`
    says that switches add and copy, so that a payload goes up once and comes down once; it needs switches.
    `is_chunked` says that chunks pass an SRAM of the engine, whose own limits `dovetail network` counts. Where what
    compute loses was seen in whole steps, `slowdown_frac` says it of both, and nothing is worked out from bytes.
    """

    name: str
    code: int
    summary: str
    adding: Resources
    moving: Resources
    aliases: tuple[str, ...] = ()
    is_in_switch: bool = False
    is_chunked: bool = False
    engine: Engine = field(default_factory=Engine)
    slowdown_frac: float | None = None

    def __post_init__(self) -> None:
        if self.slowdown_frac is not None and not 0 <= self.slowdown_frac <= 1:
            raise InvalidInput(f"slowdown_frac must be from 0 to 1; got {self.slowdown_frac:g}", "slowdown_frac")

    @property
    def adding_taken(self) -> Taken:
        """Of an all-reduce of very many ranks, per byte on the links."""
        volume = ALL_REDUCE_VOLUME
        return _taken(self.adding, volume, max(volume.read, volume.written) if self.is_in_switch else volume.sent)

    @property
    def moving_taken(self) -> Taken:
        """Of an all-to-all of very many ranks, per byte on the links."""
        return _taken(self.moving, ALL_TO_ALL_VOLUME, ALL_TO_ALL_VOLUME.sent)

    @property
    def adding_slowdown_frac(self) -> float:
        worked_out = self.adding_taken.compute_slowdown_frac(RING_ADDING)
        return worked_out if self.slowdown_frac is None else self.slowdown_frac

    @property
    def moving_held_frac(self) -> float:
        worked_out = self.moving_taken.compute_slowdown_frac(RING_MOVING)
        return worked_out if self.slowdown_frac is None else self.slowdown_frac


def _check(name: str, kind: Endpoint) -> None:
    holding("endpoint", Endpoint)(name, kind)
    named("endpoint", name, kind.name)
    taken = {known.code: known.name for _, known in endpoints.items()}
    if kind.code in taken or kind.code < 1:
        message = f"the code of an endpoint is its own, and at least 1; {name!r} has {kind.code}"
        raise InvalidInput(f"{message}; free are those from {max(taken) + 1} on", "code")
    for word in (name, *kind.aliases):
        for _, known in endpoints.items():
            if word in (known.name, *known.aliases):
                raise InvalidInput(f"{word!r} names the endpoint {known.name} already; choose another name", "aliases")


endpoints: Registry[Endpoint] = Registry("endpoint", __name__, check=_check)
SM_DRIVEN = "sm"  # what chips have unless they say otherwise


def endpoint_named(name: str, where: str = "") -> Endpoint:
    """The endpoint of that name, or that has it as an alias; raises, naming what is close."""
    if name in endpoints:
        return endpoints[name]
    aliases = {alias: kind for _, kind in endpoints.items() for alias in kind.aliases}
    if name not in aliases:
        known = endpoint_names()
        hint = did_you_mean(name[:100], (*known, *aliases)) or f"; there are {', '.join(known)}"
        raise InvalidInput(f"no endpoint is named {name[:60]!r}{hint}", where)
    return aliases[name]


def endpoint_coded(code: float) -> Endpoint:
    """The kind that a column of numbers has as `code`."""
    [found] = [kind for _, kind in endpoints.items() if kind.code == code]
    return found


def endpoint_names() -> tuple[str, ...]:
    """All kinds in the order of their codes."""
    return tuple(sorted(endpoints.names(), key=lambda name: endpoints[name].code))


def endpoint_codes() -> dict[str, int]:
    """Codes by name, names in the order of their codes and aliases after them."""
    kinds = [endpoints[name] for name in endpoint_names()]
    return {kind.name: kind.code for kind in kinds} | {alias: kind.code for kind in kinds for alias in kind.aliases}
