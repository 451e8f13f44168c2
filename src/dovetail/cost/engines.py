"""What engines that run collectives add to a chip: silicon, and watts as long as it is on."""

from __future__ import annotations

from dataclasses import replace

from dovetail.cost.node import node
from dovetail.hardware.chip import Chip
from dovetail.hardware.endpoints import Endpoint, endpoint_named


def engines_mm2_and_w(
    kind: Endpoint, link_bytes_per_s: float, node_m: float
) -> tuple[float, float]:  # style: (mm2, watts)
    """What the engines for those links take on a node: SRAM for the most part, so they shrink as its cells do."""
    engine = kind.engine
    own, here, num = node(engine.node_m), node(node_m), engine.num_for(link_bytes_per_s)
    area_mm2 = num * engine.area_mm2 * here.sram_ratio / own.sram_ratio
    return float(area_mm2), float(num * engine.power_w * here.energy_ratio / own.energy_ratio)


def engines_of(chip: Chip) -> tuple[float, float]:  # style: (mm2, watts)
    """Those of `chip`, on the dies that have its links."""
    node_m = chip.die.io_node_m if chip.die.num_io_dies else chip.die.node_m
    return engines_mm2_and_w(chip.endpoint_kind, chip.interconnect_bytes_per_s, node_m)


def with_endpoint(chip: Chip, name: str) -> Chip:
    """`chip` with another endpoint, by name or alias; its engines draw power idle too, and its power limit stays."""
    other = replace(chip, endpoint=endpoint_named(name, "endpoint").name)
    more_w = engines_of(other)[1] - engines_of(chip)[1]
    return replace(other, energy=replace(chip.energy, idle_w=chip.energy.idle_w + more_w))
