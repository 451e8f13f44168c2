"""Ways to estimate what a chip draws from its other figures, one file each: `energy: {model: components}` of a chip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dovetail.errors import NotModelled
from dovetail.hardware.chip import Chip, EnergyCosts
from dovetail.hardware.node_energy import ENERGY_RATIO
from dovetail.registry import Registry, holding, named
from dovetail.units import BITS_PER_BYTE, NANO, PICO


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyModel:
    """`energy(chip, idle_w)` gives joules and watts of a chip whose own energies are not looked at.

    Idle power that is not given follows from the silicon (`is_idle_by_area`), else from the TDP.
    """

    name: str
    summary: str
    energy: Callable[[Chip, float], EnergyCosts]
    source: str
    is_idle_by_area: bool = False


def _check(name: str, model: EnergyModel) -> None:
    holding("energy model", EnergyModel)(name, model)
    named("energy model", name, model.name)


energy_models: Registry[EnergyModel] = Registry("energy model", __name__, check=_check)

H200_IDLE_W = 118.3  # measured, clocks up, no work
H200_TDP_W = 700.0
IDLE_FRAC = H200_IDLE_W / H200_TDP_W
IDLE_SOURCE = "estimate: the H200's measured idle share of TDP, 118.3 W of 700 W"
IDLE_BY_AREA_SOURCE = "estimate: the H200's measured idle power over its die, 118.3 W of 814 mm2, times our area"

# Geometric mean of 1 pJ/bit on package and 13 pJ/bit between nodes (DeepFlow configurations).
BOARD_LINK_J_PER_BYTE = 3.6 * BITS_PER_BYTE * PICO


def idle_estimate_w(tdp_w: float) -> float:
    """Idle power by the H200's share of its TDP (17 %)."""
    return IDLE_FRAC * tdp_w


def energy_ratio(chip: Chip) -> float:
    """Of logic on the chip's node, against 7 nm."""
    node = round(chip.die.node_m / NANO)
    if node not in ENERGY_RATIO:
        known = ", ".join(f"{one} nm" for one in sorted(ENERGY_RATIO))
        raise NotModelled(
            f"energies are estimated on {known}; got {node} nm; give them, or another die.node", "die.node"
        )
    return ENERGY_RATIO[node]
