"""What a chip costs to make: good dies, memory, package. No margin and no design; for one chip or arrays of chips."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from dovetail.cost.area import Area, silicon
from dovetail.cost.inventory import Inventory, inventory
from dovetail.cost.node import Amount, node
from dovetail.errors import InvalidInput
from dovetail.hardware.chip import Chip
from dovetail.units import GIGA
from dovetail.workload.graph import FloatArray

WAFER_MM = 300.0
DEFECTS_PER_MM2 = 0.1 / 100  # N7 0.09 and N5 0.10 to 0.11 a cm2 (TSMC, 2019 and 2020 symposia); taken for every node
CLUSTERING = 3.0  # of defects, negative binomial; estimate: ITRS and Hennessy & Patterson use 2 to 4
# Market estimates of 2024: HBM3e 15 to 18 USD a GB; the older ones an estimate by the same proportion as their DRAM.
HBM_USD_PER_BYTE = {"HBM2": 8 / GIGA, "HBM2e": 10 / GIGA, "HBM3": 15 / GIGA, "HBM3e": 16 / GIGA}
STACK_MM2 = 86.0  # footprint of one HBM stack (DeepFlow, die photograph)
PACKAGE_USD_PER_MM2 = 0.50  # interposer, substrate, assembly, test; estimate: CoWoS of an H100 near 720 USD (recalled)
PACKAGE_YIELD_FRAC = 0.95  # estimate: good dies and stacks lost when the package fails


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Dollars by what they buy; numbers for one chip, arrays for many."""

    dies_usd: Amount
    hbm_usd: Amount
    package_usd: Amount  # with what a failed package takes along

    @property
    def total_usd(self) -> Amount:
        return self.dies_usd + self.hbm_usd + self.package_usd

    def components(self) -> tuple[tuple[str, Amount], ...]:
        """(name, dollars) of every component, in the order of the fields."""
        return tuple((field.name.removesuffix("_usd"), getattr(self, field.name)) for field in fields(self))


def gross_dies_per_wafer(die_mm2: Amount) -> FloatArray:
    """Whole dies on a 300 mm wafer: its area over theirs, less those that its edge cuts; one if they are that large."""
    die = np.asarray(die_mm2, dtype=np.float64)
    if np.any(~(die > 0)):
        raise InvalidInput(f"the area of a die must be above 0; got {np.min(die):g} mm2", "die")
    num_dies: FloatArray = np.pi * WAFER_MM**2 / 4 / die - np.pi * WAFER_MM / np.sqrt(2 * die)
    return np.maximum(num_dies, 1.0)


def yield_frac(critical_mm2: Amount) -> FloatArray:
    """Share of dies without a defect in `critical_mm2`: negative binomial, so that defects come in clusters."""
    share: FloatArray = (1 + np.asarray(critical_mm2) * DEFECTS_PER_MM2 / CLUSTERING) ** -CLUSTERING
    return share


def good_die_usd(die_mm2: Amount, critical_mm2: Amount, wafer_usd: Amount) -> FloatArray:
    """One working die; a defect outside `critical_mm2` is switched off and harms nothing."""
    price_usd: FloatArray = wafer_usd / (gross_dies_per_wafer(die_mm2) * yield_frac(critical_mm2))
    return price_usd


def dies_usd(parts: Inventory, area: Area) -> FloatArray:
    """All dies of a package. With spare cores, a defect in a core costs a spare and not the die."""
    has_io = np.asarray(parts.num_io_dies) > 0
    main_mm2 = np.where(has_io, area.core_dies_mm2, area.total_mm2) / parts.num_dies
    main_core_mm2 = area.core_mm2 / parts.num_dies
    critical_mm2 = main_mm2 - np.where(parts.has_spare_cores, main_core_mm2, 0.0)
    main_usd = parts.num_dies * good_die_usd(main_mm2, critical_mm2, node(parts.node_m).wafer_usd)
    num_io = np.maximum(parts.num_io_dies, 1)
    # Without I/O dies the second term is computed for a stand-in and left out.
    io_mm2 = np.where(has_io, area.total_mm2 - area.core_dies_mm2, main_mm2) / num_io
    io_usd = num_io * good_die_usd(io_mm2, io_mm2, node(parts.io_node_m).wafer_usd)
    return main_usd + np.where(has_io, io_usd, 0.0)


def packaged_usd(
    parts: Inventory, area: Area, *, num_stacks: Amount, hbm_bytes: Amount, hbm_usd_per_byte: Amount
) -> Price:
    """A tested package of the dies in `parts` with `num_stacks` of HBM."""
    silicon_usd = dies_usd(parts, area)
    hbm_usd = hbm_bytes * hbm_usd_per_byte
    assembly_usd = PACKAGE_USD_PER_MM2 * (area.total_mm2 + STACK_MM2 * num_stacks)
    whole_usd = (silicon_usd + hbm_usd + assembly_usd) / PACKAGE_YIELD_FRAC
    return Price(dies_usd=silicon_usd, hbm_usd=hbm_usd, package_usd=whole_usd - silicon_usd - hbm_usd)


def price(chip: Chip) -> Price:
    """What `chip` costs to make, in dollars of the years its constants are from (2020 to 2024)."""
    parts = inventory(chip)
    return packaged_usd(
        parts,
        silicon(parts),
        num_stacks=chip.die.num_hbm_stacks,
        hbm_bytes=chip.hbm.capacity_bytes,
        hbm_usd_per_byte=HBM_USD_PER_BYTE[chip.die.hbm_generation],
    )
