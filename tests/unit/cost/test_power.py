from __future__ import annotations

from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest

from dovetail.cost.cost import Cost
from dovetail.cost.op_cost import Setting
from dovetail.cost.power import MIN_CLOCK_FRAC, VOLTAGE_POWER, Load, at_clock, sustained_clock_frac
from dovetail.units import PICO
from tests.unit.cost.paper import NO_ENERGY, RATE, close, costs, op, paper, time_s

# ten seconds, of which six wait for the cores; 500 W at full clock, of which 40 W idle
COST = Cost(compute_s=10.0, clocked_s=6.0, energy_j=4600.0, core_j=4000.0, flop=7.0, hbm_bytes=8.0, host_s=9.0)
LOAD = Load(cost=COST)
QUEUED = Load(cost=replace(COST, host_s=20.0))  # its host takes longer than it does


def chip_of(tdp_w: float):
    return paper(energy=replace(NO_ENERGY, idle_w=40.0), tdp_w=tdp_w)


def test_at_full_clock_nothing_changes():
    assert at_clock(COST, 1.0) == COST


def test_half_the_clock_stretches_what_waits_for_the_cores_and_saves_their_energy():
    half = at_clock(COST, 0.5)
    saved_j = 4000 * (1 - 0.5**VOLTAGE_POWER)
    assert half.compute_s == close(4 + 12)
    assert half.clocked_s == close(12)
    assert half.energy_j == close(4600 - saved_j)
    assert half.core_j == close(4000 - saved_j)
    assert (half.flop, half.hbm_bytes, half.host_s) == (7.0, 8.0, 9.0)


def test_energy_falls_with_the_clock():
    energies_j = [at_clock(COST, step / 10).energy_j for step in range(1, 11)]
    assert energies_j == sorted(energies_j)


def test_power_is_idle_power_and_energy_over_time():
    assert LOAD.power_w(chip_of(500), 1.0) == close(40 + 4600 / 10)
    assert QUEUED.power_w(chip_of(500), 1.0) == close(40 + 4600 / 20)
    assert LOAD.time_s(0.5) == close(16)
    assert QUEUED.time_s(0.5) == close(20)


def test_no_load_draws_idle_power():
    assert Load(cost=Cost()).power_w(chip_of(500), 1.0) == 40.0
    assert sustained_clock_frac(Load(cost=Cost()), chip_of(500)) == 1.0


def test_a_load_within_its_limit_runs_at_full_clock():
    assert sustained_clock_frac(LOAD, chip_of(500.0)) == 1.0
    assert sustained_clock_frac(LOAD, chip_of(501.0)) == 1.0


@pytest.mark.parametrize("tdp_w", [499.0, 450.0, 400.0, 300.0, 250.0])
def test_a_load_above_its_limit_slows_until_it_meets_it(tdp_w):
    clock_frac = sustained_clock_frac(LOAD, chip_of(tdp_w))
    assert MIN_CLOCK_FRAC < clock_frac < 1
    assert LOAD.power_w(chip_of(tdp_w), clock_frac) == pytest.approx(tdp_w, rel=1e-6)  # style: a tolerance
    assert LOAD.power_w(chip_of(tdp_w), clock_frac) <= tdp_w


def test_a_higher_limit_never_slows():
    fracs = [sustained_clock_frac(LOAD, chip_of(tdp_w)) for tdp_w in range(50, 600, 10)]
    assert fracs == sorted(fracs)
    assert fracs[0] == MIN_CLOCK_FRAC
    assert fracs[-1] == 1.0


def test_memory_does_not_slow_with_the_clock():
    bound = Cost(compute_s=10.0, energy_j=5000.0, core_j=4000.0, hbm_bytes=100.0)
    assert at_clock(bound, 0.5).compute_s == 10.0
    assert sustained_clock_frac(Load(cost=bound), chip_of(500.0)) < 1


def test_waiting_for_the_host_leaves_power_for_the_clock():
    assert sustained_clock_frac(QUEUED, chip_of(250.0)) > sustained_clock_frac(LOAD, chip_of(250.0))


# A product run again and again: what the power limit takes of it, in parts.

TILE = op("linear", m=8, n=8, k=16)
TILE_S = 2 * 8 * 8 * 16 / (RATE / 4)
HOT = replace(NO_ENERGY, tensor_j_per_flop=4000 * PICO, idle_w=10.0)
FULL_W = 1000.0  # one of four units


def test_a_product_again_and_again_slows_to_the_power_limit():
    chip = paper(energy=HOT, tdp_w=10 + FULL_W / 4)
    assert time_s(TILE, chip) == close(TILE_S)  # in a stream, power is the step's affair
    throttled_s = TILE_S * 4 ** (1 / (1 + VOLTAGE_POWER))
    assert time_s(TILE, chip, Setting.KERNEL) == close(throttled_s)
    assert time_s(TILE, chip, Setting.ALONE) == close(throttled_s)


def test_a_product_that_slows_saves_energy_with_its_voltage():
    chip = paper(energy=HOT, tdp_w=10 + FULL_W / 4)
    full_j, slowed_j = (costs(TILE, chip, setting).energy_j[0] for setting in (Setting.STREAM, Setting.KERNEL))
    assert full_j == close(FULL_W * TILE_S)
    assert slowed_j == close(full_j / 4 ** (VOLTAGE_POWER / (1 + VOLTAGE_POWER)))
    slowed_s = time_s(TILE, chip, Setting.KERNEL)
    assert slowed_j / slowed_s == close(FULL_W / 4)  # what the limit leaves above idle


def test_a_short_product_is_over_before_the_limit_shows():
    chip = paper(energy=HOT, tdp_w=10 + FULL_W / 4, power_loop_s=TILE_S)
    over = 4 ** (1 / (1 + VOLTAGE_POWER)) - 1
    assert time_s(TILE, chip, Setting.KERNEL) == close(TILE_S * (1 + over / 2))


def test_a_product_within_the_limit_is_not_slowed():
    assert time_s(TILE, paper(energy=HOT, tdp_w=10 + FULL_W), Setting.KERNEL) == close(TILE_S)
    assert time_s(TILE, paper(energy=HOT, tdp_w=2000.0), Setting.KERNEL) == close(TILE_S)


def test_a_convolution_slows_as_a_product_does():
    row = op("convolution", m=8, n=8, k=9 * 64, v=9)
    chip = paper(energy=HOT, tdp_w=10 + FULL_W / 4)
    ratio = time_s(row, chip, Setting.KERNEL) / time_s(row, chip)
    assert ratio == close(4 ** (1 / (1 + VOLTAGE_POWER)))


def test_many_limits_at_once_settle_where_each_does_alone():
    limits_w = np.array([600.0, 499.0, 450.0, 300.0, 250.0, 60.0])
    several = SimpleNamespace(tdp_w=limits_w, energy=chip_of(500).energy)
    loads = Load(cost=Cost(**{name: np.full(len(limits_w), amount) for name, amount in asdict(COST).items()}))
    together = np.asarray(sustained_clock_frac(loads, several))
    alone = [float(sustained_clock_frac(LOAD, chip_of(tdp_w))) for tdp_w in limits_w.tolist()]
    assert together.tolist() == pytest.approx(alone, rel=1e-9)
    assert together[0] == 1.0
    assert together[-1] == MIN_CLOCK_FRAC  # of 60 W, 40 are idle
