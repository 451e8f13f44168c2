"""Chips as columns: every figure the costs read, one array entry a chip, so that thousands are costed in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.chip import STATIONARY, Calibration, Chip
from dovetail.hardware.memory import Memory
from dovetail.workload.graph import BoolArray, FloatArray, IntArray
from dovetail.workload.operators import DTYPES

_NUMBERS = tuple(field.name for field in fields(Calibration) if field.name not in ("fitted_on", "family"))
_ENERGIES = ("tensor_j_per_flop", "vector_j_per_flop", "sram_j_per_byte", "hbm_j_per_byte", "idle_w")
NameArray = npt.NDArray[np.object_]
NOT_MODELLED = 0.0  # a chip has no rate for a dtype


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChipColumns:
    """Figures of many chips that are tiled the same way: the same number of tile sizes, all systolic arrays or none.

    All arrays have one entry a chip; `tile_rows` and `tile_cols` also one row a tile, `dataflows` one row for each of
    `STATIONARY`, and `dtype_flop_per_s` and `is_converted` one row a dtype, the former 0 where a chip cannot multiply
    in it. Of a chip without vector memory, that is the shared SRAM itself.
    """

    name: NameArray
    are_arrays: bool  # lanes a pool beside them; else as on GPUs
    fill: str
    dataflows: BoolArray
    num_units: FloatArray
    tile_rows: FloatArray
    tile_cols: FloatArray
    num_steps: FloatArray
    staging_bytes: FloatArray
    is_output_hidden: BoolArray
    dtype_flop_per_s: FloatArray
    is_converted: BoolArray
    num_loaded_rows: FloatArray
    array_buffer_bytes: FloatArray
    num_lanes: FloatArray
    register_bytes_per_lane: FloatArray
    vector_flop_per_s: FloatArray
    clock_hz: FloatArray
    core_buffer_bytes: FloatArray
    has_vmem: BoolArray
    vector_memory_bytes: FloatArray
    vector_memory_bytes_per_s: FloatArray
    sram_bytes: FloatArray
    sram_bytes_per_s: FloatArray
    hbm_bytes_per_s: FloatArray
    tdp_w: FloatArray
    tensor_j_per_flop: FloatArray
    vector_j_per_flop: FloatArray
    vector_memory_j_per_byte: FloatArray
    sram_j_per_byte: FloatArray
    hbm_j_per_byte: FloatArray
    idle_w: FloatArray
    calibration: dict[str, FloatArray]

    def __len__(self) -> int:
        return len(self.num_units)

    def rate_flop_per_s(self, dtype: int) -> FloatArray:
        """Peak FLOP/s in a dtype; raises where a chip has none."""
        rate = self.dtype_flop_per_s[dtype]
        if not bool((rate > NOT_MODELLED).all()):
            known = ", ".join(
                name for name, row in zip(DTYPES, self.dtype_flop_per_s, strict=True) if bool((row > 0).all())
            )
            raise NotModelled(f"this chip's tensor units have no rate for {DTYPES[dtype]}; it has {known}")
        return np.asarray(rate)

    def at(self, rows: slice | IntArray) -> ChipColumns:
        """Some of the chips, in the order given."""
        changes: dict[str, Any] = {"calibration": {k: v[rows] for k, v in self.calibration.items()}}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                changes[field.name] = value[..., rows]
        return replace(self, **changes)


def chip_columns(chips: Sequence[Chip]) -> ChipColumns:
    """Columns of `chips`, all tiled the same way; `grouped` sorts others into such groups."""
    keys = {_key(chip) for chip in chips}
    if len(keys) != 1:
        raise InvalidInput(f"chips of one table must have the same tiles; got {len(keys)} ways; group them first")
    tilings = [chip.tensor.tiling for chip in chips]
    sizes = np.array([_tiles(chip) for chip in chips], dtype=np.float64)
    return ChipColumns(
        name=np.array([chip.name for chip in chips], dtype=object),
        are_arrays=tilings[0].is_array,
        fill=tilings[0].fill,
        dataflows=np.array([[held in tiling.stationary for tiling in tilings] for held in STATIONARY]),
        num_units=_array(chip.tensor.num_units for chip in chips),
        tile_rows=sizes[:, :, 0].T,
        tile_cols=sizes[:, :, 1].T,
        num_steps=_array(tiling.num_steps for tiling in tilings),
        staging_bytes=_array(tiling.staging_bytes for tiling in tilings),
        is_output_hidden=np.array([tiling.is_output_hidden for tiling in tilings]),
        dtype_flop_per_s=np.array(
            [[dict(chip.tensor.rates).get(dtype, NOT_MODELLED) for chip in chips] for dtype in DTYPES]
        ),
        is_converted=np.array([[dtype in chip.tensor.converted for chip in chips] for dtype in DTYPES]),
        num_loaded_rows=_array(tiling.num_loaded_rows for tiling in tilings),
        array_buffer_bytes=_array(array_buffer_bytes(chip) for chip in chips),
        num_lanes=_array(chip.vector.num_units * chip.vector.num_lanes for chip in chips),
        register_bytes_per_lane=_array(chip.die.register_bytes / chip.vector.num_lanes for chip in chips),
        vector_flop_per_s=_array(chip.vector.peak_flop_per_s for chip in chips),
        clock_hz=_array(chip.clock_hz for chip in chips),
        core_buffer_bytes=_array(chip.core_buffer_bytes for chip in chips),
        has_vmem=np.array([chip.vector_memory is not None for chip in chips]),
        vector_memory_bytes=_array(_nearest(chip).capacity_bytes for chip in chips),
        vector_memory_bytes_per_s=_array(_nearest(chip).bandwidth_bytes_per_s for chip in chips),
        sram_bytes=_array(chip.sram.capacity_bytes for chip in chips),
        sram_bytes_per_s=_array(chip.sram.bandwidth_bytes_per_s for chip in chips),
        hbm_bytes_per_s=_array(chip.hbm.bandwidth_bytes_per_s for chip in chips),
        tdp_w=_array(chip.tdp_w for chip in chips),
        vector_memory_j_per_byte=_array(_nearest_j_per_byte(chip) for chip in chips),
        **{name: _array(getattr(chip.energy, name) for chip in chips) for name in _ENERGIES},
        calibration={name: _array(getattr(chip.calibration, name) for chip in chips) for name in _NUMBERS},
    )


def array_buffer_bytes(chip: Chip) -> float:
    """What an array keeps for itself: the core buffer where each has one of its own, else its accumulators."""
    return chip.core_buffer_bytes if chip.die.buffered_units == "tensor" else chip.tensor.buffer_bytes


def _nearest(chip: Chip) -> Memory:
    """The memory that feeds the arrays."""
    return chip.vector_memory or chip.sram


def _nearest_j_per_byte(chip: Chip) -> float:
    return chip.energy.sram_j_per_byte if chip.vector_memory is None else chip.energy.vector_memory_j_per_byte


def grouped(chips: Sequence[Chip]) -> list[tuple[list[int], ChipColumns]]:
    """Chips that are tiled the same way, together: where each group's chips stand in `chips`, and their columns."""
    order = sorted(range(len(chips)), key=lambda index: _key(chips[index]))
    groups = [list(group) for _, group in groupby(order, key=lambda index: _key(chips[index]))]
    return [(group, chip_columns([chips[index] for index in group])) for group in groups]


def varied(chip: Chip, num_chips: int, **columns: FloatArray | BoolArray) -> ChipColumns:
    """`num_chips` copies of one chip, with the columns given in place of its own."""
    copies = chip_columns((chip,))
    changes: dict[str, Any] = {"calibration": {k: np.repeat(v, num_chips) for k, v in copies.calibration.items()}}
    for field in fields(copies):
        value = getattr(copies, field.name)
        if isinstance(value, np.ndarray):
            changes[field.name] = columns.get(field.name, np.repeat(value, num_chips, axis=-1))
            if changes[field.name].shape != (*value.shape[:-1], num_chips):
                shape = changes[field.name].shape
                raise InvalidInput(f"column {field.name} must have {num_chips} chips; got shape {shape}", field.name)
    unknown = sorted(set(columns) - set(changes))
    if unknown:
        raise InvalidInput(f"no column of a chip is named {unknown[0]!r}", unknown[0])
    return replace(copies, **changes)


def _key(chip: Chip) -> tuple[int, bool, str]:
    return len(_tiles(chip)), chip.tensor.tiling.is_array, chip.tensor.tiling.fill


def _tiles(chip: Chip) -> tuple[tuple[int, int], ...]:
    """Those of a GPU's products; of an array, its sides."""
    tensor = chip.tensor
    return ((tensor.num_rows, tensor.num_cols),) if tensor.tiling.is_array else tensor.tiling.tiles


def _array(values: Any) -> FloatArray:
    return np.array(list(values), dtype=np.float64)
