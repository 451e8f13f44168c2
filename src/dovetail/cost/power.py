"""The clock that the power limit leaves: the highest at which what the chip does draws no more than its TDP.

At a share s of full clock, work that waits for the cores takes 1/s as long, their energy falls as s^VOLTAGE_POWER with
the voltage, and HBM costs and takes what it does. Energy is dynamic; idle power is on all the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dovetail.cost.cost import Cost
from dovetail.units import Amount

VOLTAGE_POWER = 1.1  # energy of the cores falls as this power of the clock (thirteen loads of one H200)
MIN_CLOCK_FRAC = 0.25  # below it no part of a load is left to slow down
CLOSE_FRAC = 1e-12  # style: a tolerance, of the TDP: as close as the clock brings power to it
_NUM_CUTS = 12  # of the interval that holds the clock, at most; each but the first few leaves a small part of it


class Energies(Protocol):
    """What being on draws, and sending costs."""

    @property
    def idle_w(self) -> Amount: ...
    @property
    def link_j_per_byte(self) -> Amount: ...


class Powered(Protocol):
    """What the power limit needs to know of a chip, or of many: then amounts are arrays."""

    @property
    def tdp_w(self) -> Amount: ...
    @property
    def energy(self) -> Energies: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Work that a chip does over and over, as fast as it and the host that queues it can."""

    cost: Cost

    def time_s(self, clock_frac: Amount) -> Amount:
        return np.maximum(at_clock(self.cost, clock_frac).compute_s, self.cost.host_s)

    def power_w(self, chip: Powered, clock_frac: Amount) -> Amount:
        """Mean power; idle power where the load is nothing."""
        return mean_w(chip, at_clock(self.cost, clock_frac).energy_j, self.time_s(clock_frac))


def mean_w(chip: Powered, dynamic_j: Amount, time_s: Amount) -> Amount:
    """Power of a chip that spends `dynamic_j` over and over in `time_s`; idle power where that is nothing."""
    is_work = np.asarray(time_s) > 0
    return chip.energy.idle_w + np.where(is_work, dynamic_j / np.where(is_work, time_s, 1.0), 0.0)


def at_clock(cost: Cost, clock_frac: Amount) -> Cost:
    """What `cost` becomes at a share of full clock."""
    saved_j = cost.core_j * (1 - clock_frac**VOLTAGE_POWER)
    clocked_s = cost.clocked_s / clock_frac
    return Cost(
        compute_s=cost.compute_s - cost.clocked_s + clocked_s,
        clocked_s=clocked_s,
        energy_j=cost.energy_j - saved_j,
        core_j=cost.core_j - saved_j,
        flop=cost.flop,
        hbm_bytes=cost.hbm_bytes,
        host_s=cost.host_s,
    )


def energy_at_j(energy_j: Amount, core_j: Amount, clock_frac: Amount) -> Amount:
    """What is left of `energy_j`, of which `core_j` falls with the voltage, at a share of full clock."""
    return energy_j - core_j * (1 - clock_frac**VOLTAGE_POWER)


class Drawing(Protocol):
    """What draws power at a clock: a load, or a stage."""

    def power_w(self, chip: Powered, clock_frac: Amount) -> Amount: ...


def sustained_clock_frac(load: Drawing, chip: Powered) -> Amount:
    """Share of full clock that `load` settles at: 1, or where its mean power meets the TDP."""
    full_w = np.asarray(load.power_w(chip, 1.0))
    is_free = full_w <= chip.tdp_w
    if bool(is_free.all()):
        return np.ones(is_free.shape)[()]
    return np.where(is_free, 1.0, _crossing(load, chip, full_w))[()]


def _crossing(load: Drawing, chip: Powered, full_w: Amount) -> Amount:
    """The clock at which power meets the TDP, or the least: false position, Illinois' rule against a stuck end."""
    limit_w = chip.tdp_w * (1 - 2 * CLOSE_FRAC)
    low, high = np.full(full_w.shape, MIN_CLOCK_FRAC), np.ones(full_w.shape)
    under_w, over_w = load.power_w(chip, MIN_CLOCK_FRAC) - limit_w, full_w - limit_w
    was_under = np.zeros(full_w.shape, dtype=bool)
    is_last = over_w <= 0
    for index in range(_NUM_CUTS):
        span_w = over_w - under_w
        middle = np.where(span_w > 0, (low * over_w - high * under_w) / np.where(span_w > 0, span_w, 1.0), low)
        middle = np.clip(middle, low, high)
        error_w = load.power_w(chip, middle) - limit_w
        is_close = np.abs(error_w) <= CLOSE_FRAC * limit_w
        is_under = (error_w <= 0) | is_close
        is_again = (is_under == was_under) & (index > 0)
        under_w = np.where(is_under, error_w, np.where(is_again, under_w / 2, under_w))
        over_w = np.where(is_under, np.where(is_again, over_w / 2, over_w), error_w)
        low, high = np.where(is_under, middle, low), np.where(is_under, high, middle)
        was_under = is_under
        is_last = is_last | is_close | (high <= low)
        if bool(is_last.all()):
            break
    return low
