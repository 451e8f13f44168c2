"""What is known of systems before any plan is evaluated: a bound, what they take, and how many are ruled out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.workload.graph import FloatArray, IntArray

NUM_COUNTS = 4  # systems, beyond a limit, that no plan cuts, that nothing fits


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bounds:
    """Of points: a loss that no plan comes below, infinite where there is no system within the limits or nothing fits.

    What a device and its share of the network take and cost, and joules of a step that no plan takes less than, by
    being on alone; of `counts` see `Scorer.lows`.
    """

    low: FloatArray
    area_mm2: FloatArray
    power_w: FloatArray
    price_usd: FloatArray
    network_w: FloatArray
    network_usd: FloatArray
    num_devices: FloatArray
    energy_j: FloatArray
    counts: IntArray

    @classmethod
    def of_nothing(cls, num: int) -> Bounds:
        columns = np.full((8, num), np.inf)
        low, area_mm2, power_w, price_usd, network_w, network_usd, num_devices, energy_j = columns
        return cls(
            low=low,
            area_mm2=area_mm2,
            power_w=power_w,
            price_usd=price_usd,
            network_w=network_w,
            network_usd=network_usd,
            num_devices=num_devices,
            energy_j=energy_j,
            counts=np.zeros(NUM_COUNTS, dtype=np.int64),
        )
