"""Many chips and the network between them."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.hardware.chip import Chip
from dovetail.hardware.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Equal devices joined by one topology; `sources` names where each figure comes from."""

    name: str
    chip: Chip
    topology: Topology
    sources: tuple[tuple[str, str], ...]

    @property
    def num_devices(self) -> int:
        return self.topology.num_devices

    @property
    def hbm_bytes(self) -> float:
        return self.chip.hbm.capacity_bytes
