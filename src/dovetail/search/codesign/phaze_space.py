"""PHAZE's space of chips as columns: all 75,712 of them, and the 29,360 that its area rule keeps.

Ranges and the area rule are those of its released code (MIT, commit fed7cde). What each is as a chip `codesign/systems`
says: PHAZE's TPU v4 with other cores and another global buffer, so HBM bandwidth, clock, links and node are the
same for all, and the global buffer gives 4096 bytes a clock whatever its size, as PHAZE has it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from dovetail.cost.area_models import area_models
from dovetail.cost.phaze_area import phaze_mm2
from dovetail.hardware.catalog import chips
from dovetail.hardware.template import Design
from dovetail.units import MEBI
from dovetail.workload.graph import BoolArray, FloatArray, IntArray

AnyColumn = FloatArray | IntArray
BASE = "phaze-tpuv4"
COUNTS = tuple(2**power for power in range(13))  # of tensor cores, and of vector cores: 1, 2 ... 4096
SIDES = tuple(2**power for power in range(1, 9))  # of arrays: 2, 4 ... 256; a vector core is as wide as its array
BUFFERS_BYTES = tuple(2**power * MEBI for power in range(1, 8))  # 2, 4 ... 128 MiB
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
    """PHAZE's TPU v4's area in PHAZE's model, which no chip of its space exceeds."""
    return area_models["phaze-22nm"](chips[BASE]())


def phaze_chips() -> PhazeChips:
    """The chips that PHAZE's area rule keeps: not above the most, and not far below unless one kind has one core."""
    raw = raw_chips()
    return raw.at(_is_kept(raw.area_mm2, raw.num_tensor, raw.num_vector))


def _is_kept(area_mm2: FloatArray, num_tensor: AnyColumn, num_vector: AnyColumn) -> BoolArray:
    limit_mm2 = most_mm2()
    has_one_core = (num_tensor == 1) | (num_vector == 1)
    return np.asarray((area_mm2 <= limit_mm2) & ((area_mm2 >= LEAST_AREA_FRAC * limit_mm2) | has_one_core))
