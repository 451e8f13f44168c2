"""PHAZE's space of chips as columns: all 75,712 of them, the 29,360 that its area rule keeps, and each as a chip.

Ranges, per-core buffers and the area rule are those of its released code (MIT, commit fed7cde). A chip
is the TPUv4-like one with other cores and another global buffer, so HBM bandwidth, clock, links and node are the same
for all, and the global buffer gives 4096 bytes a clock whatever its size, as PHAZE has it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from dovetail.accuracy.reproduce import phaze_cases
from dovetail.cost.area import silicon
from dovetail.cost.area_models import area_models
from dovetail.cost.columns import ChipColumns, varied
from dovetail.cost.inventory import Inventory, inventory
from dovetail.cost.phaze_area import ELEMENTS_PER_KIBI, phaze_mm2
from dovetail.cost.tdp import Power, busy_power
from dovetail.hardware.catalog import chips
from dovetail.hardware.catalog._templates import template_tensor, template_vector
from dovetail.hardware.chip import Chip
from dovetail.hardware.memory import Memory
from dovetail.hardware.template import REGISTER_BYTES_PER_LANE, Design
from dovetail.units import KIBI, MEBI
from dovetail.workload.graph import BoolArray, FloatArray, IntArray
from dovetail.workload.operators import DTYPES

AnyColumn = FloatArray | IntArray
BASE = "tpuv4-like"
COUNTS = tuple(2**power for power in range(13))  # of tensor cores, and of vector cores: 1, 2 ... 4096
SIDES = tuple(2**power for power in range(1, 9))  # of arrays: 2, 4 ... 256; a vector core is as wide as its array
BUFFERS_BYTES = tuple(2**power * MEBI for power in range(1, 8))  # 2, 4 ... 128 MiB
HBM_BYTES = phaze_cases.HBM_BYTES
LEAST_AREA_FRAC = 0.3  # of the most; smaller chips stay only where they have one core of a kind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhazeChips:
    """Chips as columns, one entry each; vector cores have `width` lanes. Areas are those of PHAZE's own model."""

    num_tensor: IntArray
    num_vector: IntArray
    width: IntArray
    depth: IntArray
    sram_bytes: FloatArray
    area_mm2: FloatArray

    def __len__(self) -> int:
        return len(self.num_tensor)

    def at(self, rows: IntArray | BoolArray) -> PhazeChips:
        """Some of them, in the order given."""
        return PhazeChips(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def design(self, row: int) -> Design:
        return Design(
            num_tensor=int(self.num_tensor[row]),
            num_rows=int(self.depth[row]),
            num_cols=int(self.width[row]),
            num_vector=int(self.num_vector[row]),
            num_lanes=int(self.width[row]),
        )

    @property
    def core_buffer_bytes(self) -> FloatArray:
        """Of each tensor core: a KiB for every 64 of its multipliers, and at least one."""
        return np.maximum(1.0, self.width * self.depth / ELEMENTS_PER_KIBI) * KIBI


def raw_chips() -> PhazeChips:
    """Every combination of the ranges, whatever its area."""
    grid = np.meshgrid(COUNTS, COUNTS, SIDES, SIDES, BUFFERS_BYTES, indexing="ij")
    num_tensor, num_vector, width, depth = (column.ravel().astype(np.int64) for column in grid[:4])
    sram_bytes = grid[4].ravel().astype(np.float64)
    area_mm2 = _area_mm2(num_tensor, depth, width, num_vector, width, sram_bytes)
    return PhazeChips(
        num_tensor=num_tensor, num_vector=num_vector, width=width, depth=depth, sram_bytes=sram_bytes, area_mm2=area_mm2
    )


def _area_mm2(*figures: AnyColumn) -> FloatArray:
    """Of tensor cores, their rows and columns, vector cores, their lanes, and the global buffer in bytes."""
    names = ("num_tensor_units", "num_rows", "num_cols", "num_vector_units", "num_lanes", "sram_bytes")
    columns = (np.asarray(figure, dtype=np.float64) for figure in figures)
    return phaze_mm2(**dict(zip(names, columns, strict=True)))


def most_mm2() -> float:
    """The TPUv4-like chip's area in PHAZE's model, which no chip of its space exceeds."""
    return area_models["phaze-22nm"](chips[BASE]())


def phaze_chips() -> PhazeChips:
    """The chips that PHAZE's area rule keeps: not above the most, and not far below unless one kind has one core."""
    every = raw_chips()
    return every.at(_is_kept(every.area_mm2, every.num_tensor, every.num_vector))


def _is_kept(area_mm2: FloatArray, num_tensor: AnyColumn, num_vector: AnyColumn) -> BoolArray:
    limit_mm2 = most_mm2()
    has_one_core = (num_tensor == 1) | (num_vector == 1)
    return np.asarray((area_mm2 <= limit_mm2) & ((area_mm2 >= LEAST_AREA_FRAC * limit_mm2) | has_one_core))


def row_of(every: PhazeChips, design: Design, sram_bytes: float) -> int:
    """Where a chip stands among `every`; it must be there."""
    is_it = (every.num_tensor == design.num_tensor) & (every.num_vector == design.num_vector)
    is_it &= (every.depth == design.num_rows) & (every.width == design.num_cols) & (every.sram_bytes == sram_bytes)
    [row] = np.flatnonzero(is_it)
    return int(row)


def chip_at(base: Chip, every: PhazeChips, row: int, hbm_bytes: float) -> Chip:
    """One of `every` as a chip; see `chips_at`."""
    [chip] = chips_at(base, every.at(np.array([row])), hbm_bytes)
    return chip


def chips_at(base: Chip, every: PhazeChips, hbm_bytes: float) -> list[Chip]:
    """Each as a chip: `base` with its cores, buffers and HBM, and the power that our model gives it.

    Each tensor core has a buffer and, where there are more of them than vector cores, a sequencer of its own.
    """
    power = power_of(base, every)
    columns = (every.sram_bytes, every.core_buffer_bytes, _joules_per_flop(base, every, power), power.static_w)
    figures = zip(*(np.asarray(column).tolist() for column in (*columns, power.total_w)), strict=True)
    hbm = replace(base.hbm, capacity_bytes=hbm_bytes)
    return [_chip(base, every.design(row), hbm, *figure) for row, figure in enumerate(figures)]


def _chip(
    base: Chip,
    design: Design,
    hbm: Memory,
    sram_bytes: float,
    core_buffer_bytes: float,
    tensor_j_per_flop: float,
    idle_w: float,
    tdp_w: float,
) -> Chip:
    dtypes = tuple(dtype for dtype, _ in base.tensor.rates)
    return replace(
        base,
        name=f"{design}, {sram_bytes / MEBI:g} MiB",
        tensor=template_tensor(design.num_tensor, design.num_rows, design.num_cols, base.clock_hz, dtypes),
        vector=template_vector(design.num_vector, design.num_lanes, base.clock_hz),
        core_buffer_bytes=core_buffer_bytes,
        sram=replace(base.sram, capacity_bytes=sram_bytes),
        hbm=hbm,
        energy=replace(base.energy, tensor_j_per_flop=tensor_j_per_flop, idle_w=idle_w),
        tdp_w=tdp_w,
        die=replace(
            base.die,
            register_bytes=REGISTER_BYTES_PER_LANE * design.num_lanes,
            num_schedulers=-(-max(design.num_tensor, design.num_vector) // design.num_vector),
            buffered_units="tensor",
        ),
    )


def without_power_limit(chip: Chip) -> Chip:
    """`chip` as PHAZE sees it: it runs at its clock whatever it draws."""
    return replace(chip, tdp_w=phaze_cases.NO_LIMIT_W)


def cost_columns(base: Chip, every: PhazeChips, *, has_power_limit: bool = True) -> ChipColumns:
    """What `chip_columns` gives for `chip_at` of each, made without the chips: some 100 times faster.

    HBM capacity decides what fits and no cost, so that it is not among the columns.
    """
    num_macs = (every.num_tensor * every.width * every.depth).astype(np.float64)
    num_lanes = (every.num_vector * every.width).astype(np.float64)
    power = power_of(base, every)
    dtypes = [dtype for dtype, _ in base.tensor.rates]
    flop_per_s = 2 * num_macs * base.clock_hz
    return varied(
        base,
        len(every),
        num_units=every.num_tensor.astype(np.float64),
        tile_rows=every.depth.astype(np.float64)[None, :],
        tile_cols=every.width.astype(np.float64)[None, :],
        dtype_flop_per_s=np.array([flop_per_s if dtype in dtypes else np.zeros(len(every)) for dtype in DTYPES]),
        num_lanes=num_lanes,
        vector_flop_per_s=2 * num_lanes * base.clock_hz,
        core_buffer_bytes=every.core_buffer_bytes,
        sram_bytes=every.sram_bytes,
        tdp_w=np.asarray(power.total_w) if has_power_limit else np.full(len(every), phaze_cases.NO_LIMIT_W),
        tensor_j_per_flop=_joules_per_flop(base, every, power),
        idle_w=np.asarray(power.static_w),
    )


def power_of(base: Chip, every: PhazeChips) -> Power:
    """What each draws with everything busy, by the models of area and power that all our chips go by."""
    parts = _inventories(base, every)
    num_macs_per_unit = (every.width * every.depth).astype(np.float64)
    return busy_power(
        parts,
        silicon(parts).total_mm2,
        macs_per_s=every.num_tensor * num_macs_per_unit * base.clock_hz,
        num_macs_per_unit=num_macs_per_unit,
        sram_bytes_per_s=base.sram.bandwidth_bytes_per_s,
        hbm_bytes_per_s=base.hbm.bandwidth_bytes_per_s,
        link_bytes_per_s=base.interconnect_bytes_per_s,
    )


def own_mm2(base: Chip, every: PhazeChips) -> FloatArray:
    """The die of each by our own area model: with network, PHYs, control and I/O, at the node of `base`."""
    return np.asarray(silicon(_inventories(base, every)).total_mm2)


def _inventories(base: Chip, every: PhazeChips) -> Inventory:
    num_lanes = (every.num_vector * every.width).astype(np.float64)
    return replace(
        inventory(base),
        num_macs=(every.num_tensor * every.width * every.depth).astype(np.float64),
        num_lanes=num_lanes,
        num_schedulers=np.ceil(np.maximum(every.num_tensor, every.num_vector) / every.num_vector) * every.num_vector,
        register_bytes=num_lanes * REGISTER_BYTES_PER_LANE,
        buffer_bytes=every.num_tensor * every.core_buffer_bytes,
        sram_bytes=every.sram_bytes,
    )


def _joules_per_flop(base: Chip, every: PhazeChips, power: Power) -> FloatArray:
    """Of a product: small arrays fetch more operands for each."""
    flop_per_s = 2 * every.num_tensor * every.width * every.depth * base.clock_hz
    return np.asarray((power.arithmetic_w + power.operand_w) / flop_per_s)
