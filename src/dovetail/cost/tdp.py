"""Power of a chip with everything busy at its highest clock, from what it has; for one chip or for arrays of chips."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from dovetail.cost.area import MULTIPLIER_FRAC, silicon
from dovetail.cost.inventory import Inventory, inventory
from dovetail.cost.node import Amount, node
from dovetail.hardware.chip import Chip
from dovetail.units import BITS_PER_BYTE, PICO

STATIC_W_PER_MM2 = 118.3 / 814  # measured: an H200 idle with its clocks up, over its die; leakage, clock tree, HBM idle
MAC_J = (0.21 + 0.38) * PICO  # 7 nm bf16 multiply and fp32 add (Jouppi et al., ISCA 2021 table 2, recalled)
SRAM_J_PER_BYTE = 1.88 * BITS_PER_BYTE * PICO  # 7 nm, CMEM of the TPU v4i, across the die (AccelForge)
HBM_J_PER_BYTE = 4.5 * BITS_PER_BYTE * PICO  # HBM2e and HBM3 (DeepFlow's A100 and H100 configurations)
LINK_J_PER_BYTE = 1.3 * BITS_PER_BYTE * PICO  # NVLink4 (NVIDIA, Hot Chips 34, 2022, recalled)
OPERAND_J_PER_BYTE = 4.7 * PICO  # 7 nm; fitted on V100, A100, H100, H200 and TPU v4i
OPERAND_BYTES = 2  # bf16
FP32_J = (1.31 + 0.38) * PICO  # 7 nm fp32 multiply and add (Jouppi et al., ISCA 2021 table 2, recalled)
REGISTER_J_PER_BYTE = 0.11 * BITS_PER_BYTE * PICO  # 7 nm, register file (DeepFlow)
LANE_REGISTER_BYTES = 4 * 4  # a fused multiply-add of fp32: three operands read, one result written


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """Watts by component; numbers for one chip, arrays for many."""

    static_w: Amount  # with engines that run collectives, taken as on all the time
    arithmetic_w: Amount
    operand_w: Amount
    sram_w: Amount
    hbm_w: Amount
    link_w: Amount
    lane_w: Amount  # of all vector lanes busy from their registers, what is beyond the five above: nothing, mostly

    @property
    def total_w(self) -> Amount:
        product_w = self.arithmetic_w + self.operand_w + self.sram_w + self.hbm_w + self.link_w
        return self.static_w + product_w + self.lane_w

    def components(self) -> tuple[tuple[str, Amount], ...]:
        """(name, watts) of every component, in the order of the fields."""
        return tuple((field.name.removesuffix("_w"), getattr(self, field.name)) for field in fields(self))


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
    operand_j_per_byte: float = OPERAND_J_PER_BYTE,
) -> Power:
    """Power at those rates: of products with all memories and links busy, or of all lanes, whichever is more.

    `link_bytes_per_s` is one direction, and both are in use. Products and vector kernels take turns. A vector kernel
    that keeps every lane busy works from registers, as exponentials of attention do; one that streams is held up by
    memory long before that. So a chip draws what the hungrier of the two kinds does, and not their sum.

    A tensor unit of n multiply-accumulates takes in 2 sqrt(n) operands a clock, however it is shaped: that is why large
    units need less a FLOP. Assumes full voltage: a chip that its maker limits to less power lowers its clock.
    """
    energy_ratio = node(parts.node_m).energy_ratio
    edge_ratio = node(np.where(np.asarray(parts.num_io_dies) > 0, parts.io_node_m, parts.node_m)).energy_ratio
    mac_j = MAC_J * (MULTIPLIER_FRAC + (1 - MULTIPLIER_FRAC) * parts.adder_ratio)
    operand_bytes_per_s = macs_per_s * 2 * OPERAND_BYTES / np.sqrt(num_macs_per_unit)
    products = Power(
        static_w=STATIC_W_PER_MM2 * area_mm2 + parts.endpoint_w,
        arithmetic_w=energy_ratio * mac_j * macs_per_s,
        operand_w=energy_ratio * operand_j_per_byte * operand_bytes_per_s,
        sram_w=edge_ratio * SRAM_J_PER_BYTE * sram_bytes_per_s,
        hbm_w=HBM_J_PER_BYTE * hbm_bytes_per_s,
        link_w=LINK_J_PER_BYTE * 2 * link_bytes_per_s,
        lane_w=0.0,
    )
    lanes_w = energy_ratio * (FP32_J + LANE_REGISTER_BYTES * REGISTER_J_PER_BYTE) * lane_macs_per_s
    return replace(products, lane_w=np.maximum(0.0, lanes_w - (products.total_w - products.static_w)))


def tdp(chip: Chip, operand_j_per_byte: float = OPERAND_J_PER_BYTE) -> Power:
    """What `chip` would draw at its peak rates; to lay beside the TDP on its datasheet."""
    parts, tensor = inventory(chip), chip.tensor
    num_macs_per_unit = tensor.num_rows * tensor.num_cols
    return busy_power(
        parts,
        silicon(parts).total_mm2,
        macs_per_s=tensor.num_units * num_macs_per_unit * chip.clock_hz,
        lane_macs_per_s=chip.vector.peak_flop_per_s / 2,
        num_macs_per_unit=num_macs_per_unit,
        sram_bytes_per_s=parts.noc_bytes_per_clock * chip.clock_hz,
        hbm_bytes_per_s=chip.hbm.bandwidth_bytes_per_s,
        link_bytes_per_s=chip.interconnect_bytes_per_s,
        operand_j_per_byte=operand_j_per_byte,
    )
