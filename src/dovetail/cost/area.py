"""Area of a package's silicon from what is on it: one field a component, for one chip or for arrays of chips."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from dovetail.cost.inventory import Inventory
from dovetail.cost.node import Amount, node
from dovetail.hardware.part_energy import MULTIPLIER_FRAC
from dovetail.units import BITS_PER_BYTE, KIBI, MEBI, MICRO, MILLI, NANO

# All at 7 nm unless noted otherwise; a constant read from one real die carries what surrounds the bare circuit there.
MAC_MM2 = 14 / 128**2  # TPU v4i: a 128x128 bf16 array is 14 mm2 (AccelForge, from Jouppi et al., ISCA 2021, fig. 6)
N6_TRANSISTORS_PER_MM2 = 114.2 / MICRO  # LLMCompass cost model
N7_OVER_N6 = 1.18  # TSMC: N6 is 18 % denser
LANE_MM2 = 134_070 / N6_TRANSISTORS_PER_MM2 * N7_OVER_N6  # fp32 unit, transistors (LLMCompass cost model)
FP64_LANE_MM2 = 685_300 / N6_TRANSISTORS_PER_MM2 * N7_OVER_N6  # fp64 unit, transistors (LLMCompass cost model)
REGISTER_MM2_PER_BYTE = 41.4 / (32 * MEBI)  # A100: 128 x 256 KiB on 41.4 mm2 (DeepFlow, die photograph)
BUFFER_MM2_PER_BYTE = 30.0 / (24 * MEBI)  # A100: 128 x 192 KiB of L1 on 30 mm2 (DeepFlow, die photograph)
# A memory takes area for what it holds and for what its ports deliver in a clock; wide ports are banks, each with its
# decoders and sense amplifiers. Both constants from two memories of unlike width, as (bytes, bytes a clock, mm2): CMEM
# of the TPU v4i at 2048 GB/s and 1.05 GHz (AccelForge, from ISCA 2021, fig. 6), and an L1 of the A100 (DeepFlow).
_CMEM, _L1 = (128 * MEBI, 2048 / 1.05, 112.0), (192 * KIBI, 128, 30.0 / 128)
_L1_OF_CMEM = _L1[0] / _CMEM[0]
PORT_MM2_PER_BYTE = (_L1[2] - _L1_OF_CMEM * _CMEM[2]) / (_L1[1] - _L1_OF_CMEM * _CMEM[1])  # style: for a byte a clock
SRAM_MM2_PER_BYTE = (_CMEM[2] - PORT_MM2_PER_BYTE * _CMEM[1]) / _CMEM[0]
# A register inside an array is flip-flops: 85 um2 of a TPU v4i's element (AccelForge) hold an input, the weight that is
# used and the next one in bf16 and a partial sum in fp32.
FLIP_FLOP_MM2_PER_BYTE = 85 / (3 * 2 + 4) * MICRO  # style: um2 are MICRO mm2
HBM_PHY_MM2 = 10.45  # one stack of 1024 bits, any node (LLMCompass cost model, from a die photograph)
HBM_CONTROLLER_MM2 = 552.7 / 114.2 * N7_OVER_N6  # million transistors a stack (LLMCompass cost model)
LINK_LANE_MM2 = 0.48  # NVLink3 1.888 mm2 for 4 lanes, NVLink4 0.965 for 2, any node (LLMCompass cost model)
PCIE_LANE_MM2 = 0.64  # any node (LLMCompass cost model)
WIRE_PITCH_MM = 80 * NANO / MILLI  # intermediate metal of N7 and N5 (recalled); one track each way for every bit
NUM_WAYS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedArea:
    """The two constants that no source gives, and what they were fitted on."""

    scheduler_mm2: float = 0.1448  # fitted on V100, A100 and H100; fetch, dispatch, load-store and texture units
    other_frac: float = 0.3061  # fitted on the same: clocks, test, power grid, pads, display and video, white space


FITTED_AREA = FittedArea()


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """Silicon of one package by component; numbers for one chip, arrays for many."""

    tensor_mm2: Amount
    vector_mm2: Amount
    control_mm2: Amount
    register_mm2: Amount
    buffer_mm2: Amount
    vector_memory_mm2: Amount
    sram_mm2: Amount
    noc_mm2: Amount
    hbm_mm2: Amount
    link_mm2: Amount  # with the engines at their ends
    other_mm2: Amount

    @property
    def core_mm2(self) -> Amount:
        units_mm2 = self.tensor_mm2 + self.vector_mm2 + self.control_mm2 + self.register_mm2
        return units_mm2 + self.buffer_mm2 + self.vector_memory_mm2

    @property
    def uncore_mm2(self) -> Amount:
        """What moves to I/O dies where a package has them."""
        return self.sram_mm2 + self.noc_mm2 + self.hbm_mm2 + self.link_mm2

    @property
    def total_mm2(self) -> Amount:
        return self.core_mm2 + self.uncore_mm2 + self.other_mm2

    @property
    def core_dies_mm2(self) -> Amount:
        """The cores with their share of the rest: the area of the compute dies where there are I/O dies."""
        return self.core_mm2 * self.total_mm2 / (self.core_mm2 + self.uncore_mm2)

    def components(self) -> tuple[tuple[str, Amount], ...]:
        """(name, mm2) of every component, in the order of the fields."""
        return tuple((field.name.removesuffix("_mm2"), getattr(self, field.name)) for field in fields(self))


def silicon(parts: Inventory, fitted: FittedArea = FITTED_AREA) -> Area:
    """Area of everything in `parts`, all dies of the package together.

    Assumes that a die is a square crossed once by its network, and that what the model does not name is the same share
    of every die. Cores are on `node_m`, the rest on `io_node_m` where there are I/O dies.
    """
    core, edge = node(parts.node_m), node(np.where(np.asarray(parts.num_io_dies) > 0, parts.io_node_m, parts.node_m))
    mac_ratio = MULTIPLIER_FRAC * parts.multiplier_ratio + (1 - MULTIPLIER_FRAC) * parts.adder_ratio
    array_mm2 = MAC_MM2 * mac_ratio * parts.num_macs + FLIP_FLOP_MM2_PER_BYTE * parts.accumulator_bytes
    tensor_mm2 = core.logic_ratio * array_mm2
    vector_mm2 = core.logic_ratio * (LANE_MM2 * parts.num_lanes + FP64_LANE_MM2 * parts.num_fp64_lanes)
    control_mm2 = core.logic_ratio * fitted.scheduler_mm2 * parts.num_schedulers
    register_mm2 = core.sram_ratio * REGISTER_MM2_PER_BYTE * (parts.register_bytes + parts.accumulator_bytes)
    buffer_mm2 = core.sram_ratio * BUFFER_MM2_PER_BYTE * parts.buffer_bytes
    vector_memory_mm2 = core.sram_ratio * memory_mm2(parts.vector_memory_bytes, parts.vector_memory_bytes_per_clock)
    sram_mm2 = edge.sram_ratio * memory_mm2(parts.sram_bytes, parts.sram_bytes_per_clock)
    hbm_mm2 = (HBM_PHY_MM2 + HBM_CONTROLLER_MM2 * edge.logic_ratio) * parts.num_hbm_phys
    link_mm2 = LINK_LANE_MM2 * parts.num_link_lanes + PCIE_LANE_MM2 * parts.num_pcie_lanes + parts.endpoint_mm2
    cores_mm2 = tensor_mm2 + vector_mm2 + control_mm2 + register_mm2 + buffer_mm2 + vector_memory_mm2
    noc_mm2 = _noc_mm2(parts, cores_mm2, sram_mm2 + hbm_mm2 + link_mm2, fitted)
    named_mm2 = cores_mm2 + sram_mm2 + hbm_mm2 + link_mm2 + noc_mm2
    return Area(
        tensor_mm2=tensor_mm2,
        vector_mm2=vector_mm2,
        control_mm2=control_mm2,
        register_mm2=register_mm2,
        buffer_mm2=buffer_mm2,
        vector_memory_mm2=vector_memory_mm2,
        sram_mm2=sram_mm2,
        noc_mm2=noc_mm2,
        hbm_mm2=hbm_mm2,
        link_mm2=link_mm2,
        other_mm2=named_mm2 * fitted.other_frac / (1 - fitted.other_frac),
    )


def memory_mm2(capacity_bytes: Amount, bytes_per_clock: Amount) -> Amount:
    """A large memory at 7 nm: its cells, and ports of that width."""
    return SRAM_MM2_PER_BYTE * capacity_bytes + PORT_MM2_PER_BYTE * bytes_per_clock


def _noc_mm2(parts: Inventory, core_mm2: Amount, uncore_mm2: Amount, fitted: FittedArea) -> Amount:
    """Wires along their share of the side of the die they lie on, which they make larger: it solves a quadratic."""
    on_io_dies = np.asarray(parts.num_io_dies) > 0
    num_dies = np.where(on_io_dies, np.maximum(parts.num_io_dies, 1), parts.num_dies)
    beside_mm2 = np.where(on_io_dies, uncore_mm2, core_mm2 + uncore_mm2) / num_dies
    wires_mm = parts.noc_bytes_per_clock * BITS_PER_BYTE * NUM_WAYS * parts.crossed_frac * WIRE_PITCH_MM / num_dies
    named_frac = 1 - fitted.other_frac
    side_mm = (wires_mm + np.sqrt(wires_mm**2 + 4 * named_frac * beside_mm2)) / (2 * named_frac)
    return wires_mm * side_mm * num_dies
