"""Who moves and adds the bytes of collectives on a device: kinds of endpoint, one file each.

A kind says what a byte sent takes of the device, from which follows how much compute a collective beside it costs, and
what its engines add to the die. docs/model/endpoint.md has the formula and its range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from dovetail.errors import InvalidInput
from dovetail.registry import Registry, holding, named
from dovetail.units import GIGA, NANO

# Share of compute that a collective of SMs beside it takes: it holds SMs and uses HBM (16 of 132 SMs held slow products
# of an H200 by a tenth to a fifth, docs/model/contention.md).
SM_HELD_FRAC = 0.15
# Of that, what is due to memory: a layer of Llama 3 8B and one of 70B (tp 8) take 0.30 and 0.34 longer beside 16 blocks
# on an H100, and 0.021 and 0.012 beside the memory traffic of these alone (schedule/one_device/contention.py).
MEMORY_FRAC = 0.05


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
RING_ADDING = Taken(core_bytes=1.5, memory_bytes=2.5)
RING_MOVING = Taken(core_bytes=1.0, memory_bytes=2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Silicon of its own, for so much of the links: nothing by default. Watts are drawn as long as the device is on."""

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

    `mechanism` is the name that it has in `comm.endpoint`, whose vector of a very large group it takes.
    `adding` are exchanges that sum, with the gather that goes with them: all-reduces, or a reduce-scatter and an
    all-gather. `moving` are those that only move bytes: of tokens to experts, of keys and values. Where what compute
    loses was seen in whole steps, `slowdown_frac` says it of both, and nothing is worked out from bytes.
    """

    name: str
    code: int
    summary: str
    mechanism: str
    adding: Taken
    moving: Taken
    engine: Engine = field(default_factory=Engine)
    slowdown_frac: float | None = None

    def __post_init__(self) -> None:
        if self.slowdown_frac is not None and not 0 <= self.slowdown_frac <= 1:
            raise InvalidInput(f"slowdown_frac must be from 0 to 1; got {self.slowdown_frac:g}", "slowdown_frac")

    @property
    def adding_slowdown_frac(self) -> float:
        worked_out = self.adding.compute_slowdown_frac(RING_ADDING)
        return worked_out if self.slowdown_frac is None else self.slowdown_frac

    @property
    def moving_held_frac(self) -> float:
        worked_out = self.moving.compute_slowdown_frac(RING_MOVING)
        return worked_out if self.slowdown_frac is None else self.slowdown_frac


def _check(name: str, kind: Endpoint) -> None:
    holding("endpoint", Endpoint)(name, kind)
    named("endpoint", name, kind.name)
    taken = {known.code: known.name for _, known in endpoints.items()}
    if kind.code in taken or kind.code < 1:
        message = f"the code of an endpoint is its own, and at least 1; {name!r} has {kind.code}"
        raise InvalidInput(f"{message}; free are those from {max(taken) + 1} on", "code")


endpoints: Registry[Endpoint] = Registry("endpoint", __name__, check=_check)
SM_DRIVEN = "sm"  # what chips have unless they say otherwise


def endpoint_coded(code: float) -> Endpoint:
    """The kind that a column of numbers has as `code`."""
    [found] = [kind for _, kind in endpoints.items() if kind.code == code]
    return found


def endpoint_names() -> tuple[str, ...]:
    """All kinds in the order of their codes."""
    return tuple(sorted(endpoints.names(), key=lambda name: endpoints[name].code))
