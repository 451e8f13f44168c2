"""Cycles of a matrix product on systolic arrays, in closed form, for the three classic dataflows.

The exact forms equal what SCALE-Sim 3 counts, cycle for cycle, with unlimited memory bandwidth. `is_overlapped` leaves
out the fill and drain of all but the first tile, as arrays with double-buffered operands do.
"""

from __future__ import annotations

import numpy as np

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.workload.graph import FloatArray, IntArray

DATAFLOWS = ("output-stationary", "weight-stationary", "input-stationary")


def systolic_cycles(
    m: FloatArray,
    n: FloatArray,
    k: FloatArray,
    *,
    num_rows: FloatArray | int,
    num_cols: FloatArray | int,
    dataflow: str,
    is_overlapped: bool = False,
    num_arrays: int = 1,
) -> FloatArray:
    """Cycles of C[m,n] = A[m,k] B[k,n], tile after tile, tiles dealt out evenly over `num_arrays`.

    Output stationary: each tile of C streams k steps through an array that takes rows + cols - 2 to fill and drain.
    Weight stationary: each tile of B is loaded (rows steps), then m rows stream past it. Input stationary: the same
    with A in place of B and n columns. Source: Samajdar et al., ISPASS 2020; checked against SCALE-Sim 3.0.
    """
    if dataflow not in DATAFLOWS:
        raise InvalidInput(f"no dataflow is named {dataflow!r}{did_you_mean(dataflow, DATAFLOWS)}", "dataflow")
    r, c = np.asarray(num_rows, dtype=np.float64), np.asarray(num_cols, dtype=np.float64)
    if dataflow == "output-stationary":
        tiles, stream, edge = np.ceil(m / r) * np.ceil(n / c), k, r + c - 2
    elif dataflow == "weight-stationary":
        tiles, stream, edge = np.ceil(k / r) * np.ceil(n / c), m, 2 * r + c - 2
    else:
        tiles, stream, edge = np.ceil(k / r) * np.ceil(m / c), n, 2 * r + c - 2
    rounds = np.ceil(tiles / num_arrays)
    if is_overlapped:
        return np.asarray(rounds * stream + edge - 1, dtype=np.float64)
    return np.asarray(rounds * (stream + edge) - 1, dtype=np.float64)


def convolution_product(
    height: IntArray,
    width: IntArray,
    window: tuple[IntArray, IntArray],
    in_channels: IntArray,
    out_channels: IntArray,
    stride: IntArray,
) -> tuple[IntArray, IntArray, IntArray]:
    """(m, n, k) of a convolution over a padded input as SCALE-Sim unrolls it; it rounds output sizes up."""
    out_height = -((window[0] - stride - height) // stride)
    out_width = -((window[1] - stride - width) // stride)
    return out_height * out_width, out_channels, window[0] * window[1] * in_channels
