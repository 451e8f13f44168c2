"""What a process node does to area, energy and price, all against TSMC's 7 nm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.errors import InvalidInput
from dovetail.hardware.node_energy import ENERGY_RATIO
from dovetail.units import NANO
from dovetail.workload.graph import FloatArray

Amount = float | FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One process, or an array of them. Analogue circuits (PHYs, SerDes) are taken not to shrink."""

    logic_ratio: Amount  # area of a gate: contacted gate pitch x metal pitch, over 57 nm x 40 nm
    sram_ratio: Amount  # area of the high-density 6T cell, over 0.027 um2
    energy_ratio: Amount  # dynamic energy of logic
    wafer_usd: Amount


# node: (gate pitch x metal pitch, SRAM cell um2, wafer)
# Pitches: foundry disclosures collected by WikiChip (recalled). That they, and not the foundries' claims for logic
# (1.84 times from N7 to N5), tell what dies get shows in NVIDIA's densities: 25.9, 65.6 and 98.3 million transistors a
# mm2 on 12, 7 and 4 nm are ratios of 2.53 and 0.67. 6 nm: 18 % denser than 7; 4 nm: 6 % less area than 5 (TSMC).
# SRAM cells: N7 TSMC at IEDM 2016 (recalled), N5 and N3E WikiChip on IEDM 2022, older ones TSMC (recalled).
# Wafers: CSET, AI Chips (2020), 28 to 5 nm; 3 nm DigiTimes (2022); 6, 4 and 22 nm take their neighbour's.
_TABLE: dict[int, tuple[float, float, float]] = {
    28: (117 * 90, 0.127, 2891.0),
    22: (0.9 * 117 * 90, 0.110, 2891.0),
    16: (90 * 64, 0.070, 3984.0),
    12: (90 * 64, 0.070, 3984.0),
    10: (66 * 44, 0.042, 5992.0),
    7: (57 * 40, 0.027, 9346.0),
    6: (57 * 40 / 1.18, 0.027, 9346.0),
    5: (51 * 30, 0.021, 16988.0),
    4: (0.94 * 51 * 30, 0.021, 16988.0),
    3: (48 * 23, 0.021, 20000.0),
}
_SIZES_M = np.array(sorted(_TABLE)) * NANO
_ROWS = np.array([(*_TABLE[size][:2], ENERGY_RATIO[size], _TABLE[size][2]) for size in sorted(_TABLE)])
_REFERENCE = _ROWS[sorted(_TABLE).index(7)]


def node(node_m: Amount) -> Node:
    """The process of that name, or one for each of an array; between two of the table, in proportion of logarithms."""
    wanted_m = np.asarray(node_m, dtype=np.float64)
    if not np.all((wanted_m >= 0.99 * _SIZES_M[0]) & (wanted_m <= 1.01 * _SIZES_M[-1])):
        smallest, largest = np.min(wanted_m) / NANO, np.max(wanted_m) / NANO
        got = f"{smallest:g}" if smallest == largest else f"{smallest:g} to {largest:g}"
        raise InvalidInput(f"node must be from 3 to 28 nm, for which there are figures; got {got} nm", "node")
    pitch, cell, energy, wafer_usd = (
        np.exp(np.interp(np.log(wanted_m), np.log(_SIZES_M), np.log(column))) for column in _ROWS.T
    )
    return Node(
        logic_ratio=pitch / _REFERENCE[0],
        sram_ratio=cell / _REFERENCE[1],
        energy_ratio=energy / _REFERENCE[2],
        wafer_usd=wafer_usd,
    )
