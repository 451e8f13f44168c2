"""Engines that run collectives: what they add to area, power and price of a chip."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.cost.area import silicon
from dovetail.cost.engines import engines_mm2_and_w, engines_of, with_endpoint
from dovetail.cost.inventory import inventory
from dovetail.cost.price import price
from dovetail.cost.tdp import tdp
from dovetail.hardware.catalog import chips
from dovetail.hardware.endpoints import endpoints
from dovetail.units import GIGA, NANO

CHIP = chips["tpuv4-like"]()
ACE = endpoints["ace"]


def test_an_engine_takes_what_its_paper_says_on_its_node_and_less_on_a_denser_one():
    assert engines_mm2_and_w(ACE, 300 * GIGA, 28 * NANO) == pytest.approx((5.3, 4.3))
    area_mm2, power_w = engines_mm2_and_w(ACE, 600 * GIGA, 7 * NANO)
    assert area_mm2 == pytest.approx(2 * 5.3 * 0.027 / 0.127)  # cells of SRAM, N7 over 28 nm
    assert 0 < power_w < 2 * 4.3


@pytest.mark.parametrize("name", ["sm", "dma"])
def test_sms_and_copy_engines_add_nothing(name):
    assert engines_of(replace(CHIP, endpoint=name)) == (0.0, 0.0)
    assert inventory(replace(CHIP, endpoint=name)) == inventory(CHIP)


def test_an_engine_adds_area_power_and_money_and_is_always_on():
    plain, ended = CHIP, with_endpoint(CHIP, "ace")
    area_mm2, power_w = engines_of(ended)
    before, after = (silicon(inventory(chip)) for chip in (plain, ended))
    assert after.link_mm2 == pytest.approx(before.link_mm2 + area_mm2)
    assert after.total_mm2 > before.total_mm2 + area_mm2  # with what surrounds it
    assert tdp(ended).static_w > tdp(plain).static_w + power_w
    assert price(ended).total_usd > price(plain).total_usd
    assert ended.energy.idle_w == pytest.approx(plain.energy.idle_w + power_w)
    assert ended.tdp_w == plain.tdp_w
    assert with_endpoint(ended, "sm").energy.idle_w == pytest.approx(plain.energy.idle_w)
