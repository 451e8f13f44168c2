from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.cost.inventory import Inventory, inventory
from dovetail.cost.tdp import Power, busy_power, part_energies, tdp
from dovetail.hardware.catalog import chips
from dovetail.hardware.memory import Memory
from dovetail.hardware.part_energy import ACTIVITY
from dovetail.hardware.template import design_of, template_chip
from dovetail.units import MEBI, NANO, TERA

H100 = chips["h100-sxm"]()


def test_components_add_up_to_the_total() -> None:
    power = tdp(H100)
    assert sum(part for _, part in power.components()) == pytest.approx(float(power.total_w))


def test_faster_memory_costs_its_own_power_and_its_way_through_the_shared_sram() -> None:
    faster = replace(H100, hbm=Memory(capacity_bytes=H100.hbm.capacity_bytes, bandwidth_bytes_per_s=6.7 * TERA))
    assert tdp(faster).hbm_w == pytest.approx(2 * float(tdp(H100).hbm_w))
    sram_w = float(tdp(faster).sram_w - tdp(H100).sram_w)  # what it brings passes the shared SRAM
    assert tdp(faster).total_w - tdp(H100).total_w == pytest.approx(float(tdp(H100).hbm_w) + sram_w)


def test_the_same_rate_from_larger_units_needs_less_operand_power() -> None:
    def operand_w(num_units: int, num_rows: int) -> float:
        tensor = replace(H100.tensor, num_units=num_units, num_rows=num_rows)
        return float(tdp(replace(H100, tensor=tensor)).operand_w)

    assert operand_w(33, 256) == pytest.approx(operand_w(132, 64) / 2)


def test_a_newer_node_does_the_same_on_less() -> None:
    older = replace(H100, die=replace(H100.die, node_m=7 * NANO))
    assert tdp(older).arithmetic_w > tdp(H100).arithmetic_w
    assert tdp(older).static_w > tdp(H100).static_w  # for its larger die


def test_rates_may_be_arrays() -> None:
    parts = inventory(H100)
    rates = np.array([1.0, 2.0]) * TERA

    def power_w(macs_per_s):
        return busy_power(
            parts,
            800.0,
            macs_per_s=macs_per_s,
            lane_macs_per_s=0.0,
            num_macs_per_unit=2048,
            sram_bytes_per_s=TERA,
            hbm_bytes_per_s=TERA,
            link_bytes_per_s=TERA,
        ).total_w

    assert power_w(rates) == pytest.approx([float(power_w(rate)) for rate in rates])


def busy(parts: Inventory, lane_macs_per_s: float = 0.0) -> Power:
    return busy_power(
        parts,
        800.0,
        macs_per_s=TERA,
        lane_macs_per_s=lane_macs_per_s,
        num_macs_per_unit=64**2,
        sram_bytes_per_s=TERA,
        hbm_bytes_per_s=TERA,
        link_bytes_per_s=TERA,
    )


def test_power_is_energy_of_what_is_done_at_its_rate() -> None:
    parts = replace(inventory(H100), node_m=7 * NANO, adder_ratio=1.0, sram_bytes=128 * MEBI)
    power = busy(parts, TERA)
    assert power.static_w == pytest.approx(800 * 118.3 / 814)
    assert power.arithmetic_w == pytest.approx(ACTIVITY * (0.21 + 0.38))  # a MAC, in pJ, at a tera a second
    assert power.operand_w == pytest.approx(ACTIVITY * 7.5 / 8 * 2 * 2 / 64)  # bf16, two operands along each side
    assert power.lane_w == pytest.approx(ACTIVITY * (1.31 + 0.38 + 4 * 32 * 0.11))  # an FMA, four 32-bit registers
    assert power.sram_w == pytest.approx(ACTIVITY * (1.88 + 2.36) / 2 * 8 * 2)  # what is read, and what HBM brings
    assert power.hbm_w == pytest.approx(4.5 * 8)
    assert power.link_w == pytest.approx(1.3 * 8 * 2)  # both ways


def test_products_lanes_memories_and_links_add_up() -> None:
    parts = inventory(chips["tpu-v4"]())
    alone, both = busy(parts), busy(parts, TERA)
    assert both.total_w - alone.total_w == pytest.approx(float(both.lane_w))
    assert sum(watts for _, watts in both.components()) == pytest.approx(float(both.total_w))


def test_a_chip_with_vector_memory_pays_for_its_bandwidth() -> None:
    v4 = chips["tpu-v4"]()
    assert tdp(v4).vector_memory_w == pytest.approx(ACTIVITY * 0.271 * 8 * 22 * 1.228)  # 4 MiB slices, 22 times HBM
    assert tdp(replace(v4, vector_memory=None)).vector_memory_w == 0


def test_catalogue_and_rating_have_the_same_energy_by_level() -> None:
    for name in ("tpu-v2", "tpu-v4", "tpu-v4i", "tpu-v5e", "tpu-v6e", "tpu-v7", "tpuv4-like", "tpuv2-like"):
        chip = chips[name]()
        macs = chip.tensor.num_rows * chip.tensor.num_cols
        energies = part_energies(inventory(chip), macs, link_j_per_byte=chip.energy.link_j_per_byte)
        assert chip.energy.sram_j_per_byte == pytest.approx(float(energies.sram_j_per_byte))
        assert chip.energy.tensor_j_per_flop == pytest.approx(float(energies.mac_j + energies.operand_j) / 2)
        assert chip.energy.vector_j_per_flop == pytest.approx(float(energies.lane_j) / 2)
        assert chip.energy.hbm_j_per_byte == energies.hbm_j_per_byte
        if chip.vector_memory is not None:
            assert chip.energy.vector_memory_j_per_byte == pytest.approx(float(energies.vector_memory_j_per_byte))


def test_lanes_are_not_free_in_power() -> None:
    """Sixty-four times the lanes of a chip draw as much more as they compute."""
    base = chips["tpuv4-like"]()
    few, many = (tdp(template_chip(base, replace(design_of(base), num_vector=n, num_lanes=256))) for n in (1, 64))
    lanes_w = ACTIVITY * (1.31 + 0.38 + 4 * 32 * 0.11) * 63 * 256 * base.clock_hz / TERA
    assert float(many.lane_w - few.lane_w) == pytest.approx(lanes_w)
    assert many.total_w > few.total_w + lanes_w  # for the area that leaks


def test_the_shared_sram_of_a_package_with_io_dies_is_on_their_node() -> None:
    parts = inventory(chips["mi300x"]())
    older = replace(parts, io_node_m=16 * NANO)
    assert busy(older).sram_w > busy(parts).sram_w
    assert busy(older).arithmetic_w == busy(parts).arithmetic_w
    alone = replace(parts, num_io_dies=0)
    assert busy(replace(alone, io_node_m=16 * NANO)).sram_w == busy(alone).sram_w


def test_a_tree_of_adders_saves_their_energy() -> None:
    parts = replace(inventory(H100), node_m=7 * NANO)
    assert busy(replace(parts, adder_ratio=0.5)).arithmetic_w == pytest.approx(ACTIVITY * (0.21 + 0.38 / 2))
