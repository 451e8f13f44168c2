from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.cost.area import silicon
from dovetail.cost.inventory import inventory
from dovetail.cost.price import good_die_usd, gross_dies_per_wafer, price, yield_frac
from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.catalog import chips
from dovetail.report.silicon import silicon_record, silicon_tables

H100, H200 = chips["h100-sxm"](), chips["h200-sxm"]()


def test_a_wafer_holds_about_63_dies_of_the_size_of_an_h100() -> None:
    assert float(gross_dies_per_wafer(814.0)) == pytest.approx(63.5, abs=0.5)


def test_a_wafer_holds_at_least_one_die() -> None:
    assert float(gross_dies_per_wafer(60_000.0)) == 1.0


def test_a_die_of_no_area_is_refused() -> None:
    with pytest.raises(InvalidInput, match="must be above 0; got 0 mm2"):
        gross_dies_per_wafer(np.array([100.0, 0.0]))


def test_nothing_to_break_never_breaks_and_large_dies_break_more() -> None:
    assert float(yield_frac(0.0)) == 1.0
    assert np.all(np.diff(yield_frac(np.linspace(10, 800, 20))) < 0)


def test_twice_the_die_costs_more_than_twice() -> None:
    areas_mm2 = np.linspace(50, 400, 8)
    assert np.all(good_die_usd(2 * areas_mm2, 2 * areas_mm2, 9346.0) > 2 * good_die_usd(areas_mm2, areas_mm2, 9346.0))


def test_spare_cores_save_dies() -> None:
    without = replace(H100, die=replace(H100.die, spare_core_frac=0.0))
    built = replace(without, tensor=replace(H100.tensor, num_units=144), vector=replace(H100.vector, num_units=144))
    assert price(built).dies_usd > 1.3 * float(price(H100).dies_usd)


def test_more_memory_costs_memory_and_package() -> None:
    assert float(price(H200).dies_usd) == pytest.approx(float(price(H100).dies_usd))
    assert price(H200).hbm_usd > price(H100).hbm_usd


def test_an_h100_costs_what_analysts_think() -> None:
    """Estimates of its bill of materials in 2023 were near 3,300 USD, boards included; ours is the package."""
    assert 2000 < float(price(H100).total_usd) < 3500
    assert sum(part for _, part in price(H100).components()) == pytest.approx(float(price(H100).total_usd))


def test_io_dies_are_paid_for() -> None:
    mi300x = chips["mi300x"]()
    assert price(mi300x).dies_usd > price(replace(mi300x, die=replace(mi300x.die, num_io_dies=0))).dies_usd * 0.5


def test_a_wafer_holds_its_area_of_dies_less_those_that_its_edge_cuts() -> None:
    whole = np.pi * 150**2 / 100
    cut = np.pi * 300 / np.sqrt(200)
    assert float(gross_dies_per_wafer(100.0)) == pytest.approx(whole - cut)


def test_defects_come_in_clusters() -> None:
    # a tenth of a defect a cm2: 0.3 on 300 mm2, spread as by three clusters
    assert float(yield_frac(300.0)) == pytest.approx(1.1**-3)


def test_a_failed_package_takes_its_dies_and_stacks_along() -> None:
    area = silicon(inventory(H100))
    found = price(H100)
    assembly_usd = 0.50 * (float(area.total_mm2) + 86 * H100.die.num_hbm_stacks)
    bought_usd = float(found.dies_usd) + float(found.hbm_usd) + assembly_usd
    assert float(found.total_usd) == pytest.approx(bought_usd / 0.95)


def test_a_die_beside_memory_that_is_not_stacked_has_no_price_and_says_so() -> None:
    card = replace(H100, die=replace(H100.die, hbm_generation="GDDR6", num_hbm_stacks=24))
    with pytest.raises(NotModelled, match=r"beside GDDR6 are not modelled; they are for HBM2, HBM2e"):
        price(card)
    assert set(silicon_record(card)) == {"why_not"}
    [table] = silicon_tables(silicon_record(card))
    assert "GDDR6" in table.notes[0]
