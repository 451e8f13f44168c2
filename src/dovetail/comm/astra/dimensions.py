"""ASTRA-sim's network and options in Dovetail's words, and back, so that either engine runs either's files.

ASTRA-sim gives the bandwidth of a link and the latency of a hop; Dovetail what a device can send into a dimension, all
its ports together, and the latency from device to device. A switch is two hops, a ring has links both ways.
"""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.comm.astra.system import (
    COLLECTIVES,
    FULLY_CONNECTED,
    RING,
    SWITCH,
    TICK_S,
    AstraDim,
    AstraSystem,
)
from dovetail.comm.events.program import Devices, Queueing
from dovetail.comm.events.unit_graphs import UnitGraph
from dovetail.errors import NotModelled
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension

KINDS = {RING: "bidirectional-ring", SWITCH: "switch", FULLY_CONNECTED: "fully-connected"}
ALGORITHMS = {
    "ring": "ring", "direct": "direct", "halvingDoubling": "halving-doubling", "doubleBinaryTree": "double-binary-tree",
}  # fmt: skip
NAMES = "xyzwvu"
LATENCY_DIGITS = 6  # of a nanosecond: 500 ns must not become 499.99999999999994, which a simulator cuts to 499


def dimensions_of(dims: Sequence[AstraDim]) -> tuple[Dimension, ...]:
    """The dimensions with the same links."""
    found = []
    for number, dim in enumerate(dims):
        link_bytes_per_s = dim.bytes_per_tick / TICK_S
        latency_s = dim.latency_ticks * TICK_S * dim.num_hops(1)
        link = Link(bandwidth_bytes_per_s=link_bytes_per_s * _num_ports(dim), latency_s=latency_s)
        name = NAMES[number] if number < len(NAMES) else f"dim{number}"
        found.append(Dimension(name=name, kind=KINDS[dim.kind], num_devices=dim.num_ranks, link=link))
    return tuple(found)


def _num_ports(dim: AstraDim) -> int:
    if dim.kind == RING:
        return 2 if dim.num_ranks > 2 else 1
    return max(1, dim.num_ranks - 1) if dim.kind == FULLY_CONNECTED else 1


def astra_dims_of(parts: Sequence[Dimension | UnitGraph]) -> tuple[AstraDim, ...]:
    """The ASTRA-sim network with the same links; what it has no name for is refused."""
    found = []
    for part in parts:
        kind = next((name for name, ours in KINDS.items() if getattr(part, "kind", "") == ours), "")
        if not kind or not isinstance(part, Dimension):
            raise NotModelled(f"ASTRA-sim knows rings, switches and fully connected dimensions; {part.name!r} is none")
        whole = AstraDim(
            kind=kind,
            num_ranks=part.num_devices,
            bytes_per_tick=part.link.bandwidth_bytes_per_s / part.oversubscription * TICK_S,
            latency_ticks=round(part.link.latency_s / TICK_S, LATENCY_DIGITS),
        )
        found.append(
            AstraDim(
                kind=kind,
                num_ranks=whole.num_ranks,
                bytes_per_tick=whole.bytes_per_tick / _num_ports(whole),
                latency_ticks=whole.latency_ticks / (2 if kind == SWITCH else 1),
            )
        )
    return tuple(found)


def plain_system(dims: tuple[AstraDim, ...], *, is_congestion_aware: bool) -> AstraSystem:
    """What ASTRA-sim's own examples would use on `dims`: the algorithm that suits each dimension, one chunk."""
    suited = {name: tuple(_suited(dim, name) for dim in dims) for name in COLLECTIVES}
    return AstraSystem(
        dims=dims, algorithms=suited, optimization="localBWAware", is_congestion_aware=is_congestion_aware
    )


def _suited(dim: AstraDim, collective: str) -> str:
    if dim.kind == RING:
        return "ring"
    is_power = dim.num_ranks & (dim.num_ranks - 1) == 0
    if dim.kind == SWITCH and is_power and collective != "all_to_all":
        return "halvingDoubling"
    return "direct" if dim.kind == FULLY_CONNECTED or collective == "all_to_all" else "ring"


def queueing_of(system: AstraSystem) -> Queueing:
    return Queueing(policy="lifo" if system.policy == "LIFO" else "fifo", num_active_chunks=system.num_active_chunks)


def devices_of(system: AstraSystem) -> Devices:
    """An endpoint that takes as long over a message: a delay, and two reads and a write of memory to reduce."""
    reduce_s_per_byte = 3 * TICK_S / system.memory_bytes_per_tick
    return Devices(overhead_s=system.endpoint_ticks * TICK_S, reduce_s_per_byte=reduce_s_per_byte)


def algorithms_of(system: AstraSystem, names: Sequence[str]) -> dict[str, tuple[tuple[str, str], ...]]:
    """Our names for the algorithms of each collective in the dimensions `names`."""
    return {
        collective.replace("_", "-"): tuple(
            (name, ALGORITHMS[algorithm]) for name, algorithm in zip(names, chosen, strict=True)
        )
        for collective, chosen in system.algorithms.items()
    }
