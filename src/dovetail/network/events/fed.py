"""What the chip can feed a collective with, beside what the links can carry: the slower of the two sets the time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dovetail.errors import NotModelled
from dovetail.hardware.topology import Dimension
from dovetail.network.endpoint import Grant, fed_payload_bytes_per_s
from dovetail.network.events.unit_graphs import UnitGraph
from dovetail.network.themis import nested_phases
from dovetail.network.torus import Side, Torus, Work

_SWITCHED = ("switch", "fat-tree", "fully-connected")
_FED = tuple(work.value for work in Work)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A mechanism that moves a collective's bytes through the chip, and what it is given; no name: it costs nothing."""

    name: str = ""
    grant: Grant = field(default_factory=Grant)


def fed_s(
    endpoint: Endpoint, collective: str, payload_bytes: float, parts: Sequence[Dimension | UnitGraph], is_flat: bool
) -> float:
    """Least time in which `endpoint` reads, adds and writes what `collective` over `parts` moves through one device.

    `is_flat` says that groups are not whole dimensions. Links and chip are taken to work at once, chunk behind chunk.
    """
    if not endpoint.name:
        return 0.0
    sides = tuple(_side(part) for part in parts if isinstance(part, Dimension))
    if collective not in _FED or is_flat or len(sides) < len(parts):
        known = ", ".join(_FED)
        raise NotModelled(f"endpoints are modelled for {known} over whole dimensions", "--endpoint")
    if endpoint.name == "in-switch" and not all(side.is_switched for side in sides):
        raise NotModelled("an in-switch endpoint needs switches in every dimension", "--endpoint")
    phases = nested_phases(Torus(sides=sides), Work(collective))
    return payload_bytes / fed_payload_bytes_per_s(endpoint.name, phases, endpoint.grant)


def _side(part: Dimension) -> Side:
    return Side(
        name=part.name, num_devices=part.num_devices, bandwidth_bytes_per_s=part.link.bandwidth_bytes_per_s,
        latency_s=part.link.latency_s, is_both_ways=part.kind != "ring", is_switched=part.kind in _SWITCHED,
    )  # fmt: skip
