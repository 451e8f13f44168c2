"""A cluster's own pace: how its devices and links do beside what the chip's calibration says."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from dovetail.errors import InvalidInput
from dovetail.hardware.chip import Calibration, EnergyCosts
from dovetail.hardware.cluster import Cluster

MAX_SCALE = 4.0  # either way; further off, another thing than pace is wrong
_COMPUTE_FRACTIONS = ("tensor_frac", "vector_frac", "hbm_frac")
_LINK_FRACTIONS, _LINK_TIMES, _LINK_ENERGIES = ("link_frac",), ("exchange_s",), ("link_j_per_byte",)
_NO_WORK = ("power_loop_s",)  # a time of the power limit's control, not of work


@dataclass(frozen=True, slots=True, kw_only=True)
class Scales:
    """1 is as the chip's calibration says, less is slower."""

    compute_scale: float = 1.0
    link_scale: float = 1.0

    def __post_init__(self) -> None:
        for label, scale in (("compute", self.compute_scale), ("links", self.link_scale)):
            if not 1 / MAX_SCALE <= scale <= MAX_SCALE:
                raise InvalidInput(f"{label} must be from {1 / MAX_SCALE:g} to {MAX_SCALE:g}; got {scale:g}", label)


def scaled(cluster: Cluster, scales: Scales) -> Cluster:
    """`cluster` with every rate of its devices times one scale and of its links times the other, times likewise.

    No rate goes beyond the datasheet's: a share of peak stays at most 1. Work that takes longer draws the same power,
    so its energy grows and the clock that the power limit leaves stays where it was. Where a library times
    collectives, the links themselves have another pace.
    """
    chip = cluster.chip
    calibration, topology = _scaled(chip.calibration, scales), cluster.topology
    if all(dimension.has_measured_library for dimension in topology.dimensions):
        calibration = replace(calibration, link_frac=chip.calibration.link_frac)
        bandwidth_ratio = min(scales.link_scale, 1 / chip.calibration.link_frac)
        topology = topology.with_links_scaled(bandwidth_ratio, scales.link_scale)
    changed = replace(chip, calibration=calibration, energy=_scaled_energy(chip.energy, scales))
    return replace(cluster, chip=changed, topology=topology)


def _scaled_energy(energy: EnergyCosts, scales: Scales) -> EnergyCosts:
    names = [field.name for field in fields(energy) if "_j_per_" in field.name]
    paces = {name: scales.link_scale if name in _LINK_ENERGIES else scales.compute_scale for name in names}
    return replace(energy, **{name: getattr(energy, name) / pace for name, pace in paces.items()})


def _scaled(calibration: Calibration, scales: Scales) -> Calibration:
    shares = dict.fromkeys(_COMPUTE_FRACTIONS, scales.compute_scale)
    shares |= dict.fromkeys(_LINK_FRACTIONS, scales.link_scale)
    names = [field.name for field in fields(calibration) if field.name.endswith("_s")]
    paces = {name: scales.link_scale if name in _LINK_TIMES else scales.compute_scale for name in names}
    numbers = {name: min(1.0, getattr(calibration, name) * scale) for name, scale in shares.items()}
    numbers |= {name: getattr(calibration, name) / scale for name, scale in paces.items() if name not in _NO_WORK}
    return replace(calibration, **numbers)
