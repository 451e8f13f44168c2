"""What the chip can feed a collective with, beside what the links can carry: the slower of the two sets the time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dovetail.comm.endpoint import Grant, Use, fed_payload_bytes_per_s, use_of_phases
from dovetail.comm.endpoint.ace_engine import AceDesign, engine_payload_bytes_per_s
from dovetail.comm.events.unit_graphs import UnitGraph
from dovetail.comm.themis import nested_phases
from dovetail.comm.torus import Phase, Side, Torus, Work
from dovetail.errors import NotModelled
from dovetail.hardware.endpoints import endpoint_named
from dovetail.hardware.topology import Dimension

_SWITCHED = ("switch", "fat-tree", "fully-connected")
_ADDING = ("switch", "fat-tree")  # what can add is a switch; devices joined each to each have none
_ACE = AceDesign(sizing="residence")
_FED = tuple(work.value for work in Work)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """What moves a collective's bytes through the chip, and what it is given; no name: it costs nothing."""

    name: str = ""
    grant: Grant = field(default_factory=Grant)


def fed_s(
    endpoint: Endpoint, collective: str, payload_bytes: float, parts: Sequence[Dimension | UnitGraph], is_flat: bool
) -> float:
    """Least time in which `endpoint` reads, adds and writes what `collective` over `parts` moves through one device.

    `is_flat` says that groups are not whole dimensions. Links and chip are taken to work at once, chunk behind chunk.
    ACE has the paper's 4 MiB and 16 FSMs, dealt for this network; its chunks wait for the latency of links.
    """
    if not endpoint.name:
        return 0.0
    whole = [part for part in parts if isinstance(part, Dimension)]
    if collective not in _FED or is_flat or len(whole) < len(parts):
        raise _unfed()
    kind = endpoint_named(endpoint.name, "--endpoint")
    if kind.is_in_switch and not all(part.kind in _ADDING for part in whole):
        raise NotModelled(f"an {kind.name} endpoint needs switches in every dimension", "--endpoint")
    sides = tuple(_side(part) for part in whole if part.num_devices > 1)
    if not sides:
        return 0.0
    torus = Torus(sides=sides)
    phases = nested_phases(torus, Work(collective))
    rate = fed_payload_bytes_per_s(endpoint.name, phases, endpoint.grant)
    if kind.is_chunked:
        steps = tuple(_in_few_steps(phase, sides[phase.side]) for phase in phases)
        rate = min(rate, engine_payload_bytes_per_s(_ACE, torus, steps, endpoint.grant.memory_bytes_per_s))
    return payload_bytes / rate


def use_of(name: str, collective: str) -> Use:
    """What endpoint `name` takes per byte of `collective` between two devices: the same kinds of things anywhere."""
    if collective not in _FED:
        raise _unfed()
    pair = Side(name="pair", num_devices=2, latency_s=0.0, bandwidth_bytes_per_s=1.0, is_both_ways=True)
    return use_of_phases(endpoint_named(name, "--endpoint"), nested_phases(Torus(sides=(pair,)), Work(collective)))


def _unfed() -> NotModelled:
    known = ", ".join(_FED)
    return NotModelled(f"endpoints are modelled for {known} over whole dimensions", "--endpoint")


def _side(part: Dimension) -> Side:
    return Side(
        name=part.name, num_devices=part.num_devices, latency_s=part.link.latency_s,
        bandwidth_bytes_per_s=part.link.bandwidth_bytes_per_s / part.oversubscription,
        is_both_ways=part.kind != "ring", is_switched=part.kind in _SWITCHED, is_line=part.kind == "mesh",
    )  # fmt: skip


def _in_few_steps(phase: Phase, side: Side) -> Phase:
    """Where every device is one hop from any other a chunk waits for the steps of halving-doubling, not of a ring."""
    if not side.is_switched:
        return phase
    num_rounds = 2 if phase.work is Work.ALL_REDUCE else 1
    num_steps = 1 if phase.work is Work.ALL_TO_ALL else num_rounds * (side.num_devices - 1).bit_length()
    return replace(phase, num_steps=num_steps)
