"""Energy of the parts of a chip at 7 nm: one set that the catalogue's energies and the rated power both follow from.

On-chip figures are published for operands that change at random; of them a busy chip draws the share ACTIVITY. HBM and
links are published as measured and taken whole.
"""

from __future__ import annotations

import numpy as np

from dovetail.units import BITS_PER_BYTE, KIBI, MEBI, PICO, Amount

# Fitted on the TDP of V100, A100, H100, H200 and TPU v4i, with products, lanes, memories and links busy at once: what
# toggles of a part that is busy, over what would toggle with random operands in every clock.
ACTIVITY = 0.626
MULTIPLY_J, ADD_J = 0.21 * PICO, 0.38 * PICO  # bf16 multiply, fp32 add (Jouppi et al., ISCA 2021 table 2, recalled)
MULTIPLIER_FRAC = MULTIPLY_J / (MULTIPLY_J + ADD_J)
FP32_MULTIPLY_J = 1.31 * PICO  # (same table)
REGISTER_J_PER_BYTE = 0.11 * BITS_PER_BYTE * PICO  # register file (DeepFlow)
LANE_REGISTER_BYTES = 4 * 4  # a fused multiply-add of fp32: three operands read, one result written
LANE_J = FP32_MULTIPLY_J + ADD_J + LANE_REGISTER_BYTES * REGISTER_J_PER_BYTE  # of a lane, in a clock
OPERAND_BYTES = 2  # bf16
HBM_J_PER_BYTE = 4.5 * BITS_PER_BYTE * PICO  # HBM2e and HBM3 (DeepFlow's A100 and H100); 3.9 to 7 pJ/bit published
LINK_J_PER_BYTE = 1.3 * BITS_PER_BYTE * PICO  # NVLink4 (NVIDIA, Hot Chips 34, 2022, recalled)
# Of an access to a memory of some capacity, the mean of reading and writing. 8 KiB, 32 KiB and 1 MiB: 7.5, 8.5 and 14
# pJ per 64 bits (ISCA 2021 table 2, recalled); a 4 MiB slice of TPU v4i's VMEM 0.249 and 0.293 pJ/bit, its CMEM of 128
# MiB 1.88 and 2.36 pJ/bit (AccelForge). Larger memories are further away: between two, in proportion of logarithms.
SLICE_BYTES = 4 * MEBI  # of a vector memory, beside its lanes: an access goes no further, however large it is
_CAPACITY_BYTES = np.array([8 * KIBI, 32 * KIBI, MEBI, SLICE_BYTES, 128 * MEBI])
_ACCESS_J_PER_BYTE = np.array([7.5 / 8, 8.5 / 8, 14 / 8, 0.271 * BITS_PER_BYTE, 2.12 * BITS_PER_BYTE]) * PICO
_SLOPE = np.log(_ACCESS_J_PER_BYTE[-1] / _ACCESS_J_PER_BYTE[-2]) / np.log(_CAPACITY_BYTES[-1] / _CAPACITY_BYTES[-2])


def access_j_per_byte(capacity_bytes: Amount) -> Amount:
    """A byte in or out of a memory of that capacity; as 8 KiB below, and beyond 128 MiB by the last slope."""
    capacity = np.maximum(np.asarray(capacity_bytes, dtype=np.float64), _CAPACITY_BYTES[0])
    known_j = np.exp(np.interp(np.log(capacity), np.log(_CAPACITY_BYTES), np.log(_ACCESS_J_PER_BYTE)))
    return np.asarray(known_j * np.maximum(1.0, capacity / _CAPACITY_BYTES[-1]) ** _SLOPE)[()]


def slice_bytes(capacity_bytes: Amount, num_cores: Amount) -> Amount:
    """The part that an access goes to of a memory that is cut among vector cores and lies beside their lanes."""
    return np.minimum(SLICE_BYTES, np.asarray(capacity_bytes) / num_cores)[()]


def operand_j(num_macs_per_unit: Amount) -> Amount:
    """Operands of one multiply-accumulate from a buffer beside the unit.

    A unit of n of them takes in 2 sqrt(n) operands a clock, however it is shaped: large units need less a FLOP.
    """
    return access_j_per_byte(0.0) * 2 * OPERAND_BYTES / np.sqrt(num_macs_per_unit)
