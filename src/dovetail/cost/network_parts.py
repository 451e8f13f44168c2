"""NICs, switches and optics between devices: watts and dollars for each device, by its links and how many there are.

A device's links are cut into ports of 400 Gb/s. Where switches join them, they are a fat tree of full bisection: with
one tier a port of the device meets one of a switch, and each further tier adds two ports of switches and an optical
link with an end at each. Prices are street prices, not costs to make as those of chips are; both are dollars that a
buyer of a cluster pays at the least. Another price or power is a network of one's own (docs/howto/plugins.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dovetail.units import BITS_PER_BYTE, GIGA, KILO, NANO, Amount
from dovetail.workload.graph import FloatArray, IntArray

PORT_BYTES_PER_S = 400 * GIGA / BITS_PER_BYTE
RADIX = 64  # ports of a switch: NVIDIA QM9700, 64 x 400 Gb/s
SWITCH_S = 150 * NANO  # through one switch, at most: Quantum-2 (router-switch.com, QM9700 against SN5400)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPart:
    """One part that a port of 400 Gb/s needs; `price_usd` is nan where none is published."""

    name: str
    power_w: float
    price_usd: float
    source: str


NIC = NetworkPart(
    name="NIC",
    power_w=20.0,
    price_usd=math.nan,
    source="ConnectX-7 of 400 Gb/s: 20 W, measured as the power of a DGX Spark with and without it; no price published",
)
SWITCH_PORT = NetworkPart(
    name="switch port",
    power_w=1 * KILO / 256,
    price_usd=200_000 / 128,
    source="Marvell Teralynx T100: 102.4 Tb/s below 1,000 W, the chip alone; 64 x 800G switches 150,000 to 250,000 USD"
    " (luxoptx.com, 2025)",
)
TRANSCEIVER = NetworkPart(
    name="transceiver",
    power_w=9.0,
    price_usd=700.0,
    source="NVIDIA MMS4X00-NS400, 400 Gb/s: 9 W; 400G modules 600 to 800 USD at volume (luxoptx.com, 2025)",
)
CO_PACKAGED = NetworkPart(
    name="co-packaged optics",
    power_w=3.0,
    price_usd=math.nan,
    source="below 6 W for 800 Gb/s, where pluggable modules have 15 to 16 (mapyourtech.com, 2026); no price published",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """A part, how many a port of a device needs with one tier of switches, and how many more with each further one."""

    part: NetworkPart
    first: int = 0
    each_more: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkParts:
    """All that joins devices beyond their own dies: nothing by default. Shares are of the device's power and price."""

    needed: tuple[Needed, ...] = ()
    power_frac: float = 0.0
    price_frac: float = 0.0

    def device_w(self, link_bytes_per_s: Amount, num_devices: Amount, device_w: Amount) -> FloatArray:
        """Watts for each device."""
        return self._each(link_bytes_per_s, num_devices, "power_w") + self.power_frac * np.asarray(device_w)

    def device_usd(self, link_bytes_per_s: Amount, num_devices: Amount, device_usd: Amount) -> FloatArray:
        """Dollars for each device; nan where a part has no known price."""
        return self._each(link_bytes_per_s, num_devices, "price_usd") + self.price_frac * np.asarray(device_usd)

    def _each(self, link_bytes_per_s: Amount, num_devices: Amount, figure: str) -> FloatArray:
        ports = np.ceil(np.asarray(link_bytes_per_s) / PORT_BYTES_PER_S * (1 - 1e-12))  # style: against rounding
        more = num_tiers(num_devices) - 1
        total = np.zeros(np.broadcast_shapes(np.shape(ports), np.shape(more)))
        for one in self.needed:
            total = total + ports * (one.first + one.each_more * more) * getattr(one.part, figure)
        return np.asarray(total)


def num_tiers(num_devices: Amount) -> IntArray:
    """Tiers of switches of `RADIX` ports that join so many devices at full bisection: one joins RADIX of them."""
    tiers = np.ones(np.shape(num_devices), dtype=np.int64)
    while np.any(joined := num_devices > RADIX * (RADIX // 2) ** (tiers - 1)):
        tiers = tiers + joined
    return tiers


def switched_latency_s(num_devices: int) -> float:
    """Of a way up through all tiers and down again."""
    return (2 * int(num_tiers(num_devices)) - 1) * SWITCH_S


COPPER_THEN_OPTICS = (Needed(part=SWITCH_PORT, first=1, each_more=2), Needed(part=TRANSCEIVER, each_more=2))
OPTICS = (Needed(part=SWITCH_PORT, first=1, each_more=2), Needed(part=TRANSCEIVER, first=2, each_more=2))
# In the switches and, at the other end of a device's links, in its package.
CO_PACKAGED_OPTICS = (Needed(part=SWITCH_PORT, first=1, each_more=2), Needed(part=CO_PACKAGED, first=2, each_more=2))
NICS = (Needed(part=NIC, first=1), *OPTICS)
# Optical circuit switches, fibres and transceivers of a TPU v4 pod: below 5 % of its cost and 3 % of its power (Jouppi
# et al., ISCA 2023); the bounds, over a device's own.
OPTICAL_CIRCUITS = NetworkParts(power_frac=0.03 / (1 - 0.03), price_frac=0.05 / (1 - 0.05))
