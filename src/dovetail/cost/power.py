"""The clock that the power limit leaves: the highest at which what the chip does draws no more than its TDP.

At a share s of full clock, work that waits for the cores takes 1/s as long, their energy falls as s^VOLTAGE_POWER with
the voltage, and HBM costs and takes what it does. Energy is dynamic; idle power is on all the time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from dovetail.cost.cost import Cost
from dovetail.hardware.chip import Chip

VOLTAGE_POWER = 1.1  # energy of the cores falls as this power of the clock (thirteen loads of one H200)
MIN_CLOCK_FRAC = 0.25  # below it no part of a load is left to slow down
_NUM_HALVINGS = 30  # of an interval of one: to a billionth


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Work that a chip does over and over, as fast as it and the host that queues it can."""

    cost: Cost

    def time_s(self, clock_frac: float) -> float:
        return max(at_clock(self.cost, clock_frac).compute_s, self.cost.host_s)

    def power_w(self, chip: Chip, clock_frac: float) -> float:
        """Mean power; idle power where the load is nothing."""
        time_s = self.time_s(clock_frac)
        if time_s <= 0:
            return chip.energy.idle_w
        return chip.energy.idle_w + at_clock(self.cost, clock_frac).energy_j / time_s


def at_clock(cost: Cost, clock_frac: float) -> Cost:
    """What `cost` becomes at a share of full clock."""
    saved_j = cost.core_j * (1 - clock_frac**VOLTAGE_POWER)
    clocked_s = cost.clocked_s / clock_frac
    return replace(
        cost,
        compute_s=cost.compute_s - cost.clocked_s + clocked_s,
        clocked_s=clocked_s,
        energy_j=cost.energy_j - saved_j,
        core_j=cost.core_j - saved_j,
    )


class Drawing(Protocol):
    """What draws power at a clock: a load, or a stage."""

    def power_w(self, chip: Chip, clock_frac: float) -> float: ...


def sustained_clock_frac(load: Drawing, chip: Chip) -> float:
    """Share of full clock that `load` settles at: 1, or where its mean power meets the TDP."""
    if load.power_w(chip, 1.0) <= chip.tdp_w:
        return 1.0
    low, high = MIN_CLOCK_FRAC, 1.0
    for _ in range(_NUM_HALVINGS):
        middle = (low + high) / 2
        if load.power_w(chip, middle) <= chip.tdp_w:
            low = middle
        else:
            high = middle
    return low
