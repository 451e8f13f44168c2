"""One stage, one microbatch: the host that enters it, and the clock that the power limit and its peers leave it."""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist

from dovetail.cost.power import at_clock, sustained_clock_frac
from dovetail.schedule.chip_rows import Running
from dovetail.schedule.work import StageWork, Work
from dovetail.units import Amount


def slowest_frac(num_devices: int, clock_spread_frac: float) -> float:
    """Clock of the slowest of `num_devices` against the mean: what all wait for (Blom's expectation of the extreme)."""
    if num_devices == 1:
        return 1.0
    return 1.0 / (1.0 + clock_spread_frac * NormalDist().inv_cdf((num_devices - 0.375) / (num_devices + 0.25)))


def entered(work: StageWork, chip: Running) -> StageWork:
    """The stage with what the host takes to enter each of its passes."""
    calibration = chip.calibration
    calls_s = (calibration.host_call_s, calibration.host_backward_s)
    forward, backward = (
        replace(way, cost=replace(way.cost, host_s=way.cost.host_s + call_s))
        for way, call_s in zip((work.forward, work.backward), calls_s, strict=True)
    )
    return replace(work, forward=forward, backward=backward)


def sustained(work: StageWork, chip: Running, num_devices: int) -> StageWork:
    """The stage at the clock that microbatch after microbatch leaves it, as long as the slowest of all devices takes.

    What it draws is that of a device of the mean, which waits for the slowest. It cools in waits for the host that the
    slowest has too, no more: else a faster host would lower the clock of a device that never waited for it.
    """
    behind_frac = slowest_frac(num_devices, chip.calibration.clock_spread_frac)
    limit_frac = sustained_clock_frac(work.draw(chip, behind_frac), chip)
    clock_frac = behind_frac * limit_frac
    forward, backward = (_drawing(way, clock_frac, limit_frac) for way in (work.forward, work.backward))
    return StageWork(forward=forward, backward=backward, clock_frac=clock_frac)


def _drawing(work: Work, clock_frac: Amount, limit_frac: Amount) -> Work:
    """`work` with the time of one clock and the energy of another."""
    slow, drawn = work.at_clock(clock_frac), at_clock(work.cost, limit_frac)
    return replace(slow, cost=replace(slow.cost, energy_j=drawn.energy_j, core_j=drawn.core_j))
