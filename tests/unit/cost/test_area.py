from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pytest

from dovetail.cost.area import FITTED_AREA, Area, memory_mm2, silicon
from dovetail.cost.area_models import area_models
from dovetail.cost.inventory import Inventory, inventory, multiplier_ratio
from dovetail.cost.node import node
from dovetail.errors import InvalidInput
from dovetail.hardware.catalog import chips
from dovetail.units import KIBI, MEBI, NANO

H100, V4I, MI300X = (chips[name]() for name in ("h100-sxm", "tpu-v4i", "mi300x"))


def stacked(*parts: Inventory) -> Inventory:
    """Several chips as one inventory of arrays."""
    return Inventory(**{f.name: np.array([getattr(part, f.name) for part in parts]) for f in fields(Inventory)})


def test_the_known_parts_of_a_tpu_v4i_come_out() -> None:
    area = silicon(inventory(V4I))
    assert area.tensor_mm2 == pytest.approx(4 * 14)
    assert area.sram_mm2 == pytest.approx(112, rel=1e-3)  # at the 2048 GB/s and 1.05 GHz that the catalogue has


def test_the_register_files_and_l1_of_an_a100_come_out() -> None:
    area = silicon(inventory(chips["a100-80gb-sxm"]()))
    assert area.register_mm2 == pytest.approx(41.4)
    assert area.buffer_mm2 == pytest.approx(30.0)


def test_components_add_up_to_the_total() -> None:
    area = silicon(inventory(H100))
    assert sum(part for _, part in area.components()) == pytest.approx(float(area.total_mm2))
    assert {name for name, _ in area.components()} == {f.name.removesuffix("_mm2") for f in fields(Area)}


def test_switched_off_cores_and_sram_are_on_the_die() -> None:
    parts = inventory(H100)
    assert parts.num_macs == pytest.approx(144 * 2048)
    assert parts.sram_bytes == pytest.approx(60 * MEBI)
    assert parts.num_hbm_phys == 6


def test_many_chips_at_once_equal_each_alone() -> None:
    everyone = [inventory(chip) for chip in (entry() for _, entry in chips.items()) if chip.die.has_stacks]
    together = silicon(stacked(*everyone))
    for place, parts in enumerate(everyone):
        alone = silicon(parts)
        for (name, one), (_, many) in zip(alone.components(), together.components(), strict=True):
            assert np.asarray(many)[place] == pytest.approx(float(one)), name


def test_io_dies_take_what_is_not_a_core() -> None:
    area = silicon(inventory(MI300X))
    assert 0 < area.core_dies_mm2 < area.total_mm2
    on_one = silicon(inventory(replace(MI300X, die=replace(MI300X.die, num_io_dies=0))))
    assert on_one.sram_mm2 < area.sram_mm2  # 5 nm in place of 6 nm
    assert on_one.core_mm2 == area.core_mm2


@pytest.mark.parametrize(
    ("rates", "ratio"),
    [
        ((("bf16", 1.0),), 1.0),
        ((("fp16", 1.0),), 121 / 64),
        ((("bf16", 1.0), ("int8", 2.0)), 2.0),
        ((("bf16", 4.0), ("fp32", 1.0)), 576 / 4 / 64),
        ((("bf16", 1.0), ("fp8", 2.0)), 1.0),
        ((("int8", 2.0),), 1.0),
    ],
)
def test_the_widest_dtype_at_its_rate_sizes_the_multiplier(rates, ratio) -> None:
    assert multiplier_ratio(rates) == pytest.approx(ratio)


def test_a_tree_of_adders_is_smaller_than_an_accumulator_a_multiplier() -> None:
    systolic = replace(H100, die=replace(H100.die, has_dot_products=False))
    assert silicon(inventory(systolic)).tensor_mm2 > silicon(inventory(H100)).tensor_mm2


def test_a_smaller_node_shrinks_logic_more_than_sram() -> None:
    seven, five = node(7 * NANO), node(5 * NANO)
    assert [seven.logic_ratio, seven.sram_ratio, seven.energy_ratio] == pytest.approx([1.0, 1.0, 1.0])
    assert five.logic_ratio < five.sram_ratio < 1


def test_a_node_between_two_lies_between_them() -> None:
    eight = node(8 * NANO)
    assert 1 < eight.logic_ratio < node(10 * NANO).logic_ratio


@pytest.mark.parametrize("node_m", [2 * NANO, 45 * NANO, np.array([7, 65]) * NANO])
def test_a_node_without_figures_is_refused(node_m) -> None:
    with pytest.raises(InvalidInput, match="node must be from 3 to 28 nm"):
        node(node_m)


def test_a_template_like_tpu_v4_is_of_its_size() -> None:
    """8 arrays of 128x128, 2 cores of 128 lanes and 128 MiB at 7 nm: between a TPU v4i and a reticle."""
    area_mm2 = area_models["dovetail"](chips["tpuv4-like"]())
    assert 400 < area_mm2 < 750
    assert area_mm2 > 1.9 * area_models["phaze-22nm"](chips["tpuv4-like"]())  # which leaves most of a die out, at 22 nm


def test_area_models_are_found_by_name() -> None:
    assert area_models.names() == ("dovetail", "phaze-22nm")
    with pytest.raises(InvalidInput, match="no area model is named 'phaze'; did you mean phaze-22nm"):
        area_models["phaze"]


def test_what_no_source_names_is_the_same_share_of_every_die() -> None:
    for chip in (H100, V4I, MI300X):
        area = silicon(inventory(chip))
        assert float(area.other_mm2) == pytest.approx(FITTED_AREA.other_frac * float(area.total_mm2))


@pytest.mark.parametrize(("chip", "num_axes"), [(H100, 2), (V4I, 1)], ids=lambda given: getattr(given, "name", given))
def test_wires_run_a_third_of_the_side_of_the_die_along_each_axis(chip, num_axes: int) -> None:
    parts = inventory(chip)
    area = silicon(parts)
    side_mm = np.sqrt(float(area.total_mm2))
    pitch_mm = 80e-6  # style: 80 nm in mm
    tracks = float(parts.noc_bytes_per_clock) * 8 * 2
    assert float(area.noc_mm2) == pytest.approx(tracks * pitch_mm * side_mm * num_axes / 3)


def test_ports_and_cells_give_back_the_two_memories_they_were_read_from() -> None:
    assert memory_mm2(128 * MEBI, 2048 / 1.05) == pytest.approx(112)  # CMEM of the TPU v4i
    assert memory_mm2(192 * KIBI, 128) == pytest.approx(30 / 128)  # an L1 of the A100


def test_vector_memory_is_counted_once_and_its_bandwidth_costs_area() -> None:
    v4 = chips["tpu-v4"]()
    parts = inventory(v4)
    assert parts.vector_memory_bytes == 32 * MEBI
    assert parts.buffer_bytes == 8 * v4.tensor.buffer_bytes
    without = inventory(replace(v4, vector_memory=None))
    assert (without.buffer_bytes, without.vector_memory_bytes) == (parts.buffer_bytes + 32 * MEBI, 0)
    memory = v4.vector_memory
    assert memory is not None
    faster = replace(v4, vector_memory=replace(memory, bandwidth_bytes_per_s=2 * memory.bandwidth_bytes_per_s))
    more_mm2 = silicon(inventory(faster)).vector_memory_mm2 - silicon(parts).vector_memory_mm2
    assert float(more_mm2) == pytest.approx(14.4, rel=0.01)  # 25,700 bytes a clock more


def test_a_dtype_that_the_lanes_convert_needs_no_multipliers() -> None:
    v4 = chips["tpu-v4"]()
    assert inventory(v4).multiplier_ratio == 1
    assert inventory(replace(v4, tensor=replace(v4.tensor, converted=()))).multiplier_ratio > 1


def test_an_array_that_holds_its_results_pays_for_their_registers() -> None:
    flexible = replace(V4I.tensor.tiling, stationary=("weight", "output"))
    parts = inventory(replace(V4I, tensor=replace(V4I.tensor, tiling=flexible)))
    assert parts.accumulator_bytes == 4 * 4 * 128**2
    more_mm2 = silicon(parts).tensor_mm2 - silicon(inventory(V4I)).tensor_mm2
    assert float(more_mm2) == pytest.approx(4 * 128**2 * 4 * 8.5e-6)  # style: 8.5 um2 a byte


def test_a_wider_multiplier_takes_its_share_of_a_mac() -> None:
    parts = inventory(V4I)
    wider = silicon(replace(parts, multiplier_ratio=parts.multiplier_ratio + 1))
    share = 0.21 / (0.21 + 0.38)
    assert float(wider.tensor_mm2) - float(silicon(parts).tensor_mm2) == pytest.approx(4 * 14 * share)


def test_cells_of_sram_shrink_with_their_own_ratio() -> None:
    assert node(16 * NANO).sram_ratio == pytest.approx(0.070 / 0.027)
    assert node(16 * NANO).logic_ratio == pytest.approx(90 * 64 / (57 * 40))
    assert node(16 * NANO).energy_ratio == pytest.approx(1.84)


@pytest.mark.parametrize(
    ("node_nm", "pitches"),
    [
        (28, 117 * 90),
        (22, 0.9 * 117 * 90),
        (12, 90 * 64),
        (10, 66 * 44),
        (6, 57 * 40 / 1.18),
        (5, 51 * 30),
        (4, 0.94 * 51 * 30),
        (3, 48 * 23),
    ],
    ids=str,
)
def test_logic_shrinks_as_gate_pitch_times_metal_pitch(node_nm: int, pitches: float) -> None:
    """Contacted gate and minimum metal pitch in nm, as foundries disclosed them (WikiChip), over N7's 57 and 40.

    22 nm is a shrink of 28 by a tenth; 6 nm is 18 % denser than 7 and 4 nm takes 6 % less than 5 (TSMC).
    """
    assert node(node_nm * NANO).logic_ratio == pytest.approx(pitches / (57 * 40))


def test_a_smaller_node_is_never_larger_or_hungrier_and_its_wafer_never_cheaper() -> None:
    nodes = [node(size * NANO) for size in (28, 22, 16, 12, 10, 7, 6, 5, 4, 3)]
    for older, newer in pairwise(nodes):
        assert newer.logic_ratio <= older.logic_ratio
        assert newer.sram_ratio <= older.sram_ratio
        assert newer.energy_ratio <= older.energy_ratio
        assert newer.wafer_usd >= older.wafer_usd


BUILT = (
    "num_macs",
    "num_lanes",
    "num_fp64_lanes",
    "num_schedulers",
    "register_bytes",
    "buffer_bytes",
    "sram_bytes",
    "noc_bytes_per_clock",
    "num_hbm_phys",
    "num_link_lanes",
    "num_pcie_lanes",
    "endpoint_mm2",
    "accumulator_bytes",
    "vector_memory_bytes",
    "vector_memory_bytes_per_clock",
    "sram_bytes_per_clock",
)


@pytest.mark.parametrize("name", BUILT)
@pytest.mark.parametrize("chip", [H100, MI300X], ids=lambda chip: chip.name)
def test_more_of_any_part_takes_more_silicon(name: str, chip) -> None:
    parts = replace(inventory(chip), endpoint_mm2=1.0, accumulator_bytes=1.0, vector_memory_bytes=1.0)
    parts = replace(parts, vector_memory_bytes_per_clock=1.0)
    more = replace(parts, **{name: 2 * getattr(parts, name)})
    assert float(silicon(more).total_mm2) > float(silicon(parts).total_mm2)


def test_lanes_of_links_and_of_the_host_take_their_own_area_each() -> None:
    parts = replace(inventory(H100), endpoint_mm2=0.0)
    assert float(silicon(parts).link_mm2) == pytest.approx(
        0.48 * float(parts.num_link_lanes) + 0.64 * float(parts.num_pcie_lanes)  # LLMCompass cost model
    )


def test_lanes_take_the_transistors_of_their_units_and_doubles_five_times_those() -> None:
    """At 7 nm: 134,070 transistors an fp32 unit and 685,300 an fp64 one, at 114.2 million a mm2 on N6 (LLMCompass)."""
    parts = inventory(chips["a100-80gb-sxm"]())
    expected_mm2 = (
        (134_070 * float(parts.num_lanes) + 685_300 * float(parts.num_fp64_lanes)) / 114.2e6 * 1.18
    )  # style: per mm2
    assert float(silicon(parts).vector_mm2) == pytest.approx(expected_mm2)


def test_a_stack_of_hbm_takes_its_phy_and_its_controller() -> None:
    """10.45 mm2 on any node, and 552.7 million transistors that shrink with it (LLMCompass)."""
    parts = inventory(chips["a100-80gb-sxm"]())
    expected_mm2 = (10.45 + 552.7 / 114.2 * 1.18) * float(parts.num_hbm_phys)
    assert float(silicon(parts).hbm_mm2) == pytest.approx(expected_mm2)
