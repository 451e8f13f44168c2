"""Hypothetical systems: what more of anything takes, and where buffers are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.cost.area import silicon
from dovetail.cost.engines import engines_of
from dovetail.cost.inventory import inventory
from dovetail.cost.price import price
from dovetail.cost.tdp import tdp
from dovetail.errors import NotModelled
from dovetail.hardware.catalog import chips
from dovetail.hardware.template import has_own_buffers
from dovetail.search.codesign.question import system_space
from dovetail.search.codesign.system_labels import as_labels, space_labels
from dovetail.search.codesign.systems import built_systems, system_chip, system_of, taken
from dovetail.units import GIBI, KIBI, MEBI

BASE = chips["tpuv4-like"]()
SHARED = chips["tpuv2-like"]()
OWN = system_of(BASE, 8)


def varied(name: str, *values: float):
    systems = {knob: np.full(len(values), value) for knob, value in OWN.items()} | {name: np.array(values)}
    return built_systems(BASE, systems)


@pytest.mark.parametrize("name", ["num_tensor", "num_rows", "num_vector", "num_lanes", "sram_mib", "hbm_stacks"])
def test_more_of_anything_on_the_die_takes_area_power_and_money(name):
    found = varied(name, OWN[name], 2 * OWN[name], 4 * OWN[name])
    for column in (found.area_mm2, found.power_w, found.price_usd):
        assert (np.diff(column) > 0).all()


def test_larger_stacks_cost_money_but_no_area_and_faster_links_take_lanes():
    stacks, links = varied("stack_gib", 8.0, 16.0), varied("link_gb_per_s", 300.0, 600.0)
    assert stacks.area_mm2[0] == stacks.area_mm2[1]
    assert stacks.price_usd[0] < stacks.price_usd[1]
    assert stacks.hbm_bytes.tolist() == [4 * 8 * GIBI, 4 * 16 * GIBI]
    assert links.area_mm2[0] < links.area_mm2[1]
    assert links.power_w[0] < links.power_w[1]


def test_a_faster_clock_takes_more_than_its_share_of_power():
    slow, fast = varied("clock_mhz", OWN["clock_mhz"], 2 * OWN["clock_mhz"]).chips.tensor_j_per_flop
    assert fast > 1.5 * slow  # the voltage rises with it


def test_bandwidth_follows_stacks_and_clock():
    chip = system_chip(BASE, OWN | {"hbm_stacks": 8.0, "clock_mhz": 2100.0, "link_gb_per_s": 3 * OWN["link_gb_per_s"]})
    assert chip.hbm.bandwidth_bytes_per_s == pytest.approx(2 * BASE.hbm.bandwidth_bytes_per_s)
    assert chip.sram.bandwidth_bytes_per_s == pytest.approx(2 * BASE.sram.bandwidth_bytes_per_s)
    assert chip.interconnect_bytes_per_s == pytest.approx(3 * BASE.interconnect_bytes_per_s)
    assert chip.die.num_link_lanes == 3 * BASE.die.num_link_lanes


def test_a_core_has_a_buffer_of_its_own_where_the_base_has_and_a_part_of_the_sram_else():
    assert has_own_buffers(BASE)
    assert not has_own_buffers(SHARED)
    small = system_chip(BASE, OWN | {"num_rows": 4.0, "num_cols": 4.0})
    large = system_chip(BASE, OWN | {"num_rows": 128.0, "num_cols": 128.0})
    assert (small.core_buffer_bytes, large.core_buffer_bytes) == (KIBI, 128 * 128 / 64 * KIBI)
    parts = system_chip(SHARED, system_of(SHARED, 8) | {"sram_mib": 32.0, "num_vector": 4.0})
    assert parts.core_buffer_bytes == 8 * MEBI


@pytest.mark.parametrize("base", [BASE, SHARED])
@pytest.mark.parametrize("die", [{}, {"spare_core_frac": 0.25}, {"num_fp64_lanes": 64}, {"spare_sram_frac": 0.2}])
def test_systems_have_the_silicon_of_their_chips(base, die):
    base = replace(base, die=replace(base.die, **die))
    system = system_of(base, 8) | {"num_tensor": 4.0, "num_vector": 3.0, "num_lanes": 64.0}
    built = built_systems(base, {name: np.array([value]) for name, value in system.items()})
    chip = system_chip(base, system)
    assert built.area_mm2[0] == pytest.approx(silicon(inventory(chip)).total_mm2, rel=1e-12)
    assert built.power_w[0] == pytest.approx(tdp(chip).total_w, rel=1e-12)
    assert built.price_usd[0] == pytest.approx(price(chip).total_usd, rel=1e-12)


def test_a_base_with_an_area_model_that_systems_are_not_sized_by_is_refused():
    odd = replace(BASE, die=replace(BASE.die, area_model="phaze-22nm"))
    with pytest.raises(NotModelled, match="area model dovetail"):
        system_chip(odd, OWN)


def test_some_of_many_are_taken_in_order():
    systems = {"num_tensor": np.array([1.0, 2.0, 4.0])}
    assert taken(systems, np.array([2, 0]))["num_tensor"].tolist() == [4.0, 1.0]


def test_a_buffer_that_is_chosen_is_that_of_every_core_and_takes_area():
    sizes = varied("core_buffer_kib", 0.0, 64.0, 256.0, 1024.0)
    assert sizes.chips.core_buffer_bytes.tolist() == [256 * KIBI, 64 * KIBI, 256 * KIBI, 1024 * KIBI]
    assert sizes.area_mm2[0] == sizes.area_mm2[2]  # a KiB for every 64 multipliers of 128 x 128
    assert (np.diff(sizes.area_mm2[1:]) > 0).all()
    assert (np.diff(sizes.price_usd[1:]) > 0).all()
    chip = system_chip(BASE, OWN | {"core_buffer_kib": 64.0})
    assert chip.core_buffer_bytes == 64 * KIBI
    assert silicon(inventory(chip)).total_mm2 == pytest.approx(sizes.area_mm2[1], rel=1e-12)


def test_an_endpoint_adds_its_engines_and_nothing_else():
    found = varied("endpoint", 1.0, 2.0, 3.0)
    assert found.area_mm2[0] == found.area_mm2[1] < found.area_mm2[2]
    assert found.power_w[0] == found.power_w[1] < found.power_w[2]
    assert found.price_usd[0] == found.price_usd[1] < found.price_usd[2]
    assert found.chips.tensor_j_per_flop[0] == found.chips.tensor_j_per_flop[2]
    chip = system_chip(BASE, OWN | {"endpoint": 3.0})
    assert chip.endpoint == "ace"
    assert chip.energy.idle_w == found.rows.energy.idle_w[2] > found.rows.energy.idle_w[0] + engines_of(chip)[1]
    twice = varied("link_gb_per_s", 300.0, 600.0)
    ended = built_systems(
        BASE,
        {knob: np.full(2, value) for knob, value in OWN.items()}
        | {"endpoint": np.full(2, 3.0), "link_gb_per_s": np.array([300.0, 600.0])},
    )
    one, two = ended.area_mm2 - twice.area_mm2
    assert two == pytest.approx(2 * one, rel=0.05)  # an engine for every 300 GB/s; wires grow with the die


def test_people_read_endpoints_by_name_and_buffers_as_large_as_they_are():
    assert as_labels(BASE, OWN)["core_buffer_kib"] == 256.0
    assert as_labels(BASE, OWN | {"core_buffer_kib": 32.0, "endpoint": 3.0}) == OWN | {
        "core_buffer_kib": 32.0,
        "dataflow": "weight+input",
        "endpoint": "ace",
        "network": "given",
    }
    shared = system_of(SHARED, 8) | {"sram_mib": 32.0, "num_vector": 4.0}
    assert as_labels(SHARED, shared)["core_buffer_kib"] == 8 * 1024
    told = space_labels(system_space(BASE, 8, {"endpoint": (1, 3)}))
    assert (told["endpoint"], told["core_buffer_kib"], told["num_devices"]) == (["sm", "ace"], ["by size"], [8.0])
