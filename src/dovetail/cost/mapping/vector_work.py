"""Vector work that a product's operands need at every visit of a tile, and what a compiler loses beyond the mapper.

Where the vector unit converts operands each time a tile of results asks for them, its work follows tile visits and is
added to that of the arrays: on 100 profiles of a TPU v4, XLA's tiles known, the sum is 3.7 % off, the longer of the two
10 %. The mapper's tiles visit least; a compiler visits more, by a constant that is stated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.cost.mapping.memory_level import PARTIAL_BYTES, SLAB, tile_counts
from dovetail.cost.mapping.tables import ProductShapes
from dovetail.units import MICRO
from dovetail.workload.graph import FloatArray


def operand_visits(shapes: ProductShapes, num_tiles_m: FloatArray, num_tiles_n: FloatArray) -> FloatArray:
    """Operand elements brought in for all tiles of results: inputs for each column of tiles, weights for each row."""
    s = shapes
    return np.asarray(s.b * (s.m * s.k * num_tiles_n + s.k * s.n * num_tiles_m))


def least_visit_tiles(shapes: ProductShapes, capacity_bytes: float) -> tuple[FloatArray, FloatArray]:
    """How many tiles of results m and n are cut into for the fewest operand visits, in a memory of that size."""
    s = shapes
    counts = tile_counts(float(s.m.max()))
    num_m = np.minimum(counts, s.m[:, None])
    tile_m = np.ceil(s.m[:, None] / num_m)
    slab = 2 * (s.operand_bytes * np.minimum(s.k, SLAB))[:, None]
    tile_n = np.minimum(np.floor((capacity_bytes - slab * tile_m) / (PARTIAL_BYTES * tile_m + slab)), s.n[:, None])
    num_n = np.where(tile_n >= 1, np.ceil(s.n[:, None] / np.maximum(tile_n, 1.0)), np.inf)
    chosen = (s.m[:, None] * num_n + s.n[:, None] * num_m).argmin(axis=1)[:, None]
    num_tiles_m, num_tiles_n = (np.take_along_axis(table, chosen, axis=1)[:, 0] for table in (num_m, num_n))
    return num_tiles_m, num_tiles_n


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedProducts:
    """Constants of a chip whose vector unit converts operands at every visit, in clocks of one core."""

    visit_cycles_per_element: float
    result_cycles_per_element: float
    visits_ratio: float  # the compiler's visits along an extent, over the mapper's
    launch_s: float
    visit_tile: float  # no tile is smaller along an extent


REGISTER_ELEMENTS = 8 * 128  # of a vector register of a TPU, 8 sublanes of 128 lanes
# Fitted by `python -m benchmarks.mapping_accuracy`, which prints errors and intervals beside each.
TPU_V4_FP16 = ConvertedProducts(
    visit_cycles_per_element=7.95
    / REGISTER_ELEMENTS,  # 100 XLA profiles of one TPU v4, tiles known (SCALE-Sim-validation, 45818f1)
    result_cycles_per_element=11.95 / REGISTER_ELEMENTS,  # 615 products of the same chip, means of 20 runs (the same)
    visits_ratio=1.68,  # the same 615; the compiler's loss beyond the mapper's bound
    launch_s=1.04 * MICRO,  # the same 615: what products below 128 cubed take
    visit_tile=128.0,  # lanes of a TPU's vector register, and the width of its array
)
# Measured time over the mapper's bound (its own tiles, all else equal), least, median and most of the middle 80 %: what
# XLA loses. On 615 products of multiples of 16, and on 100 profiles most of whose extents are odd.
COMPILER_LOSS = (0.98, 1.12, 1.39)
COMPILER_LOSS_UNALIGNED = (1.23, 1.72, 3.03)
TPU_V4_CORES = 2.0  # each with its vector unit (Jouppi et al., ISCA 2023, table 4)


def converted_product_s(
    shapes: ProductShapes,
    num_tiles: tuple[FloatArray, FloatArray],
    constants: ConvertedProducts,
    macs_per_s: float,
    clock_hz: float,
    num_cores: float = TPU_V4_CORES,
) -> FloatArray:
    """Launch, products at peak, and the vector unit's visits and results, one after another."""
    visits = operand_visits(shapes, *num_tiles)
    results = shapes.b * shapes.m * shapes.n
    vector_cycles = (
        constants.visit_cycles_per_element * visits + constants.result_cycles_per_element * results
    ) / num_cores
    return np.asarray(constants.launch_s + shapes.macs / macs_per_s + vector_cycles / clock_hz)


def compiler_tiles(
    shapes: ProductShapes, capacity_bytes: float, constants: ConvertedProducts
) -> tuple[FloatArray, FloatArray]:
    """Tiles that a compiler is taken to choose: more visits than the mapper's by a constant, down to its least tile."""
    least = least_visit_tiles(shapes, capacity_bytes)
    most = (np.ceil(extent / constants.visit_tile) for extent in (shapes.m, shapes.n))
    num_m, num_n = (np.minimum(limit, constants.visits_ratio * count) for limit, count in zip(most, least, strict=True))
    return num_m, num_n
