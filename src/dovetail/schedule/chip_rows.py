"""What the clock, the host and the network need to know of many chips at once, beside what operators cost on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dovetail.cost.columns import ChipColumns
from dovetail.cost.power import Powered
from dovetail.hardware.chip import Calibration
from dovetail.units import Amount
from dovetail.workload.graph import FloatArray, IntArray


class Running(Powered, Protocol):
    """A chip, or many that are calibrated alike."""

    @property
    def calibration(self) -> Calibration: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EnergyRows:
    """What chips draw idle, and what a byte sent costs all of them."""

    idle_w: FloatArray
    link_j_per_byte: Amount


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChipRows:
    """Many chips that are calibrated alike: an entry each."""

    tdp_w: FloatArray
    energy: EnergyRows
    calibration: Calibration

    def at(self, rows: IntArray) -> ChipRows:
        """Of `rows`, in whatever shape these have."""
        energy = EnergyRows(idle_w=self.energy.idle_w[rows], link_j_per_byte=self.energy.link_j_per_byte)
        return ChipRows(tdp_w=self.tdp_w[rows], energy=energy, calibration=self.calibration)


def chip_rows(chips: ChipColumns, calibration: Calibration, link_j_per_byte: float) -> ChipRows:
    energy = EnergyRows(idle_w=chips.idle_w, link_j_per_byte=link_j_per_byte)
    return ChipRows(tdp_w=chips.tdp_w, energy=energy, calibration=calibration)
