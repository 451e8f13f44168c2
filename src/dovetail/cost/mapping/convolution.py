"""Convolutions as products that a mapping may lay out in two ways."""

from __future__ import annotations

import numpy as np

from dovetail.cost.mapping.tables import ProductShapes, product_shapes
from dovetail.workload.graph import FloatArray


def convolution_shapes(
    num_pixels: FloatArray,
    window: tuple[FloatArray, FloatArray],
    in_channels: FloatArray,
    out_channels: FloatArray,
    stride: FloatArray,
    *,
    operand_bytes: FloatArray | float = 2.0,
    result_bytes: FloatArray | float = 2.0,
) -> ProductShapes:
    """The products that convolutions unroll to, `num_pixels` of output in all samples; `WindowMapping` lays them out.

    An input element is used in as many unrolled rows as windows cover it; a window narrower than the stride skips some
    elements, which are not stored here. Halos at the edge are not counted.
    """
    height, width = (np.asarray(side, dtype=np.float64) for side in window)
    positions = height * width
    stored = np.minimum(height, stride) * np.minimum(width, stride)
    return product_shapes(
        num_pixels,
        out_channels,
        positions * in_channels,
        operand_bytes=operand_bytes,
        result_bytes=result_bytes,
        window=positions,
        input_reuse=positions / stored,
    )
