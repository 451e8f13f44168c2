"""Power of a chip with everything busy at its highest clock, from what it has; for one chip or for arrays of chips."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from dovetail.cost.area import silicon
from dovetail.cost.inventory import Inventory, inventory
from dovetail.cost.node import Amount, node
from dovetail.hardware.chip import Chip
from dovetail.hardware.part_energy import (
    ACTIVITY,
    ADD_J,
    HBM_J_PER_BYTE,
    LANE_J,
    LINK_J_PER_BYTE,
    MULTIPLY_J,
    access_j_per_byte,
    operand_j,
)

STATIC_W_PER_MM2 = 118.3 / 814  # measured: an H200 idle with its clocks up, over its die; leakage, clock tree, HBM idle


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """Watts by component; numbers for one chip, arrays for many."""

    static_w: Amount  # with engines that run collectives, taken as on all the time
    arithmetic_w: Amount
    operand_w: Amount
    lane_w: Amount
    vector_memory_w: Amount
    sram_w: Amount
    hbm_w: Amount
    link_w: Amount

    @property
    def total_w(self) -> Amount:
        on_chip_w = self.arithmetic_w + self.operand_w + self.lane_w + self.vector_memory_w + self.sram_w
        return self.static_w + on_chip_w + self.hbm_w + self.link_w

    def components(self) -> tuple[tuple[str, Amount], ...]:
        """(name, watts) of every component, in the order of the fields."""
        return tuple((field.name.removesuffix("_w"), getattr(self, field.name)) for field in fields(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartEnergies:
    """Joules by part on the nodes of a chip; numbers for one chip, arrays for many."""

    mac_j: Amount
    operand_j: Amount  # of one multiply-accumulate
    lane_j: Amount  # of one lane, in one clock
    vector_memory_j_per_byte: Amount
    sram_j_per_byte: Amount
    hbm_j_per_byte: Amount
    link_j_per_byte: Amount


def part_energies(
    parts: Inventory,
    num_macs_per_unit: Amount,
    *,
    link_j_per_byte: Amount = LINK_J_PER_BYTE,
    activity: float = ACTIVITY,
) -> PartEnergies:
    """What each part of a chip with `parts` draws for what it does, at full voltage."""
    core = activity * node(parts.node_m).energy_ratio
    edge = activity * node(np.where(np.asarray(parts.num_io_dies) > 0, parts.io_node_m, parts.node_m)).energy_ratio
    is_sliced = np.asarray(parts.sram_slice_bytes) > 0
    return PartEnergies(
        mac_j=core * (MULTIPLY_J + ADD_J * parts.adder_ratio),
        operand_j=core * operand_j(num_macs_per_unit),
        lane_j=core * LANE_J,
        vector_memory_j_per_byte=core * access_j_per_byte(parts.vector_memory_slice_bytes),
        sram_j_per_byte=edge * access_j_per_byte(np.where(is_sliced, parts.sram_slice_bytes, parts.sram_bytes)),
        hbm_j_per_byte=HBM_J_PER_BYTE,
        link_j_per_byte=link_j_per_byte,
    )


def busy_power(
    parts: Inventory,
    area_mm2: Amount,
    *,
    macs_per_s: Amount,
    lane_macs_per_s: Amount,
    num_macs_per_unit: Amount,
    sram_bytes_per_s: Amount,
    hbm_bytes_per_s: Amount,
    link_bytes_per_s: Amount,
    vector_memory_bytes_per_s: Amount = 0.0,
    link_j_per_byte: Amount = LINK_J_PER_BYTE,
    activity: float = ACTIVITY,
) -> Power:
    """Power at those rates, all at once: products, lanes, memories and links run side by side.

    So no schedule of the chip draws more at any moment. `link_bytes_per_s` is one direction, and both are in use; what
    comes from HBM passes the shared SRAM beside what cores read there. Assumes full voltage: a chip that its maker
    limits to less power lowers its clock.
    """
    energies = part_energies(parts, num_macs_per_unit, link_j_per_byte=link_j_per_byte, activity=activity)
    return Power(
        static_w=static_w(parts, area_mm2),
        arithmetic_w=energies.mac_j * macs_per_s,
        operand_w=energies.operand_j * macs_per_s,
        lane_w=energies.lane_j * lane_macs_per_s,
        vector_memory_w=energies.vector_memory_j_per_byte * vector_memory_bytes_per_s,
        sram_w=energies.sram_j_per_byte * (sram_bytes_per_s + hbm_bytes_per_s),
        hbm_w=energies.hbm_j_per_byte * hbm_bytes_per_s,
        link_w=energies.link_j_per_byte * 2 * link_bytes_per_s,
    )


def static_w(parts: Inventory, area_mm2: Amount) -> Amount:
    """What silicon of that area draws as long as it is on, with the engines that run its collectives."""
    return STATIC_W_PER_MM2 * area_mm2 + parts.endpoint_w


def idle_w(chip: Chip) -> float:
    """What `chip` draws idle by its silicon: the same that its rated power and systems built on it have."""
    parts = inventory(chip)
    return float(static_w(parts, silicon(parts).total_mm2))


def tdp(chip: Chip, activity: float = ACTIVITY) -> Power:
    """What `chip` would draw at its peak rates; to lay beside the TDP on its datasheet."""
    parts, tensor = inventory(chip), chip.tensor
    num_macs_per_unit = tensor.num_rows * tensor.num_cols
    memory = chip.vector_memory
    return busy_power(
        parts,
        silicon(parts).total_mm2,
        macs_per_s=tensor.num_units * num_macs_per_unit * chip.clock_hz,
        lane_macs_per_s=chip.vector.peak_flop_per_s / 2,
        num_macs_per_unit=num_macs_per_unit,
        sram_bytes_per_s=chip.sram.bandwidth_bytes_per_s,
        hbm_bytes_per_s=chip.hbm.bandwidth_bytes_per_s,
        link_bytes_per_s=chip.interconnect_bytes_per_s,
        vector_memory_bytes_per_s=0.0 if memory is None else memory.bandwidth_bytes_per_s,
        link_j_per_byte=chip.energy.link_j_per_byte,
        activity=activity,
    )
