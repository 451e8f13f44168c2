"""What the clock, the host and the network need to know of many chips at once, beside what operators cost on them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from dovetail.cost.columns import ChipColumns
from dovetail.cost.power import Powered
from dovetail.hardware.chip import Calibration, Chip
from dovetail.hardware.endpoints import Endpoint
from dovetail.units import Amount
from dovetail.workload.graph import FloatArray, IntArray


class Running(Powered, Protocol):
    """A chip, or many that are calibrated alike."""

    @property
    def calibration(self) -> Calibration: ...

    @property
    def endpoint_kind(self) -> Endpoint: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EnergyRows:
    """What chips draw idle, and what a byte sent costs all of them."""

    idle_w: FloatArray
    link_j_per_byte: Amount


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChipRows:
    """Many chips that are calibrated alike, with one kind of endpoint: an entry each."""

    tdp_w: FloatArray
    energy: EnergyRows
    calibration: Calibration
    endpoint_kind: Endpoint

    def at(self, rows: IntArray) -> ChipRows:
        """Of `rows`, in whatever shape these have."""
        energy = EnergyRows(idle_w=self.energy.idle_w[rows], link_j_per_byte=self.energy.link_j_per_byte)
        return replace(self, tdp_w=self.tdp_w[rows], energy=energy)


def chip_rows(chips: ChipColumns, base: Chip) -> ChipRows:
    """`chips`, which are calibrated as `base` and have its endpoint."""
    energy = EnergyRows(idle_w=chips.idle_w, link_j_per_byte=base.energy.link_j_per_byte)
    return ChipRows(tdp_w=chips.tdp_w, energy=energy, calibration=base.calibration, endpoint_kind=base.endpoint_kind)
