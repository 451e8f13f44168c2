"""Parts between devices: counted by hand for a few fat trees."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.cost.network_parts import (
    COPPER_THEN_OPTICS,
    NICS,
    OPTICAL_CIRCUITS,
    OPTICS,
    SWITCH_PORT,
    TRANSCEIVER,
    NetworkParts,
    num_tiers,
    switched_latency_s,
)
from dovetail.units import GIGA, NANO


def test_tiers_of_switches_of_64_ports_join_64_then_2048_then_65536_devices():
    assert num_tiers(np.array([1, 64, 65, 2048, 2049, 65536, 65537])).tolist() == [1, 1, 2, 2, 3, 3, 4]
    assert switched_latency_s(64) == pytest.approx(150 * NANO)
    assert switched_latency_s(65) == pytest.approx(450 * NANO)


def test_a_device_of_six_ports_takes_a_switch_port_for_each_and_two_transceivers_of_optics():
    six = 270 * GIGA  # 5.4 ports of 50 GB/s, so six
    copper, optics = (NetworkParts(needed=needed) for needed in (COPPER_THEN_OPTICS, OPTICS))
    assert copper.device_w(six, 64, 300.0) == pytest.approx(6 * SWITCH_PORT.power_w)
    assert optics.device_w(six, 64, 300.0) == pytest.approx(6 * (SWITCH_PORT.power_w + 2 * TRANSCEIVER.power_w))
    assert copper.device_usd(six, 65, 900.0) == pytest.approx(
        6 * (3 * SWITCH_PORT.price_usd + 2 * TRANSCEIVER.price_usd)
    )


def test_optical_circuits_are_a_share_of_the_whole():
    assert OPTICAL_CIRCUITS.device_w(1.0, 64, 97.0) == pytest.approx(3.0)
    assert OPTICAL_CIRCUITS.device_usd(1.0, 64, 95.0) == pytest.approx(5.0)
    assert NetworkParts().device_w(1.0, 64, 97.0) == 0


def test_what_nobody_has_published_a_price_of_has_none():
    nics = NetworkParts(needed=NICS)
    assert np.isnan(nics.device_usd(50 * GIGA, 8, 900.0))
    assert nics.device_w(50 * GIGA, 8, 300.0) == pytest.approx(20 + SWITCH_PORT.power_w + 2 * TRANSCEIVER.power_w)
