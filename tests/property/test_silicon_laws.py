"""Laws of area, power and price: more of anything is never less, nothing is free, and two dies are twice one."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.cost.area import silicon
from dovetail.cost.inventory import Inventory
from dovetail.cost.price import packaged_usd
from dovetail.units import GIGA, KIBI, MEBI, NANO

# what is counted over the whole package, so that two packages side by side have twice of it
# (slices of a memory are a part of it that is counted already)
COUNTED = [
    f.name
    for f in fields(Inventory)
    if f.name.startswith("num_") or ("bytes" in f.name and not f.name.endswith("_slice_bytes"))
]
COMPONENT = [name for name in COUNTED if name not in ("num_dies", "num_io_dies")]


@st.composite
def inventories(draw: st.DrawFn) -> Inventory:
    def count(largest: int, smallest: int = 0) -> float:
        return float(draw(st.integers(smallest, largest)))

    return Inventory(
        node_m=draw(st.sampled_from([16, 12, 7, 5, 4, 3])) * NANO,
        io_node_m=draw(st.sampled_from([16, 7, 6])) * NANO,
        num_dies=count(8, 1),
        num_io_dies=count(4),
        num_macs=count(300_000),
        multiplier_ratio=draw(st.floats(0.25, 4)),
        adder_ratio=draw(st.sampled_from([0.5, 1.0])),
        num_lanes=count(20_000),
        num_fp64_lanes=count(10_000),
        num_schedulers=count(600),
        register_bytes=count(150_000) * KIBI,
        buffer_bytes=count(64) * MEBI,
        sram_bytes=count(256) * MEBI,
        noc_bytes_per_clock=count(8192),
        num_hbm_phys=count(12),
        num_link_lanes=count(128),
        num_pcie_lanes=count(32, 1),
        has_spare_cores=count(1),
        accumulator_bytes=count(1_000_000),
        vector_memory_bytes=count(64) * MEBI,
        vector_memory_bytes_per_clock=count(65_536),
        sram_bytes_per_clock=count(65_536),
    )


def total_usd(parts: Inventory, num_stacks: float = 4.0, hbm_bytes: float = 64 * GIGA) -> float:
    price = packaged_usd(parts, silicon(parts), num_stacks=num_stacks, hbm_bytes=hbm_bytes, hbm_usd_per_byte=15 / GIGA)
    return float(price.total_usd)


@given(inventories(), st.sampled_from(COMPONENT), st.floats(1.01, 3))
def test_more_of_a_component_takes_more_area_and_no_other_component_less(parts, name, factor):
    more = replace(parts, **{name: getattr(parts, name) * factor + 1})
    before, after = dict(silicon(parts).components()), dict(silicon(more).components())
    assert all(after[part] >= before[part] * (1 - 1e-12) for part in before)
    assert silicon(more).total_mm2 > silicon(parts).total_mm2


@given(inventories())
def test_what_is_not_there_takes_no_area(parts):
    empty = replace(parts, **dict.fromkeys(COMPONENT, 0.0))
    assert float(silicon(empty).total_mm2) == 0.0


@given(inventories())
def test_twice_the_dies_with_twice_of_everything_take_twice_the_area(parts):
    twice = replace(parts, **{name: 2 * getattr(parts, name) for name in COUNTED})
    assert float(silicon(twice).total_mm2) == pytest.approx(2 * float(silicon(parts).total_mm2))


@given(inventories())
def test_a_newer_node_is_never_larger(parts):
    assert silicon(replace(parts, node_m=3 * NANO)).total_mm2 <= silicon(parts).total_mm2 * (1 + 1e-12)


@given(inventories(), st.sampled_from(COMPONENT))
def test_a_larger_chip_costs_more(parts, name):
    more = replace(parts, **{name: getattr(parts, name) * 2 + 1})
    assert total_usd(more) > total_usd(parts)


@given(inventories())
def test_the_silicon_of_a_larger_die_costs_more_than_in_proportion(parts):
    alone = replace(parts, num_dies=1.0, num_io_dies=0.0, has_spare_cores=0.0)
    larger = replace(alone, **{name: 2 * getattr(alone, name) for name in COMPONENT})
    small, large = silicon(alone), silicon(larger)
    if float(large.total_mm2) > 800:  # beyond a reticle nobody asks
        return

    def dies_usd(of: Inventory) -> float:
        return float(packaged_usd(of, silicon(of), num_stacks=0, hbm_bytes=0, hbm_usd_per_byte=0).dies_usd)

    assert dies_usd(larger) / dies_usd(alone) > float(large.total_mm2 / small.total_mm2)


@given(st.lists(inventories(), min_size=2, max_size=5))
def test_arrays_of_chips_cost_what_each_costs(everyone):
    together = Inventory(**{f.name: np.array([getattr(p, f.name) for p in everyone]) for f in fields(Inventory)})
    prices = packaged_usd(together, silicon(together), num_stacks=4.0, hbm_bytes=64 * GIGA, hbm_usd_per_byte=15 / GIGA)
    assert np.asarray(prices.total_usd) == pytest.approx([total_usd(parts) for parts in everyone])
