"""Operators of a whole table as columns: one `Ops` without edges, weights or splits, built without a loop over rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import chain
from typing import Any

import numpy as np

from dovetail.workload.graph import NUM_EXTENTS, FloatArray, IntArray, Ops, Phase
from dovetail.workload.operators import SIDE_BYTES_PER_ELEMENT, UNIT, Unit, code_of, dtype_code

Codes = IntArray | int


def bare_ops(
    *,
    kind: Codes,
    phase: Codes,
    dtypes: list[str],
    extents: tuple[IntArray | int, ...],
    distinct_frac: tuple[FloatArray | float, FloatArray | float, FloatArray | float] = (1.0, 1.0, 1.0),
    work_frac: FloatArray | float = 1.0,
    side_bytes_per_element: FloatArray | float = 0.0,
) -> Ops:
    """Rows that stand alone. Vector operators move their own side bytes on top of `side_bytes_per_element`."""
    n = len(dtypes)
    kinds, phases, dtype = _whole(kind, n), _whole(phase, n), np.array([dtype_code(d) for d in dtypes], dtype=np.int64)
    is_backward = ((phases == Phase.INPUT_GRAD) | (phases == Phase.WEIGHT_GRAD)).astype(np.int64)
    own_bytes = np.where(UNIT[kinds] == Unit.VECTOR, SIDE_BYTES_PER_ELEMENT[is_backward, kinds], 0.0)
    return Ops(
        names=("",) * n,
        kind=kinds,
        phase=phases,
        dtype=dtype,
        math=dtype,
        extents=np.stack([_whole(extent, n) for extent in extents], axis=1),
        distinct_frac=np.stack([_floats(frac, n) for frac in distinct_frac], axis=1),
        work_frac=_floats(work_frac, n),
        side_bytes_per_element=_floats(side_bytes_per_element, n) + own_bytes,
        **_nothing(n),
    )


def stacked(parts: Sequence[Ops]) -> Ops:
    """The rows of all parts, one part after another, without edges."""
    columns: dict[str, Any] = {name: _nothing(sum(map(len, parts)))[name] for name in ("edge_start", "edge_to")}
    columns["names"] = tuple(chain.from_iterable(part.names for part in parts))
    for name in (field.name for field in fields(Ops) if field.name not in columns):
        columns[name] = np.concatenate([getattr(part, name) for part in parts])
    return Ops(**columns)


def _nothing(num_rows: int) -> dict[str, Any]:
    """The columns of rows that have no weight, keep nothing, are not divided and feed no other."""
    zeros, no = np.zeros(num_rows, dtype=np.int64), np.zeros(num_rows, dtype=np.bool_)
    names = ("weight", "gradient", "bias")
    weights = {f"{name}_{column}": zeros for name in names for column in ("elements", "split")}
    edges = {"edge_start": np.zeros(num_rows + 1, dtype=np.int64), "edge_to": np.zeros(0, dtype=np.int64)}
    splits = np.zeros((num_rows, NUM_EXTENTS), dtype=np.int64)
    flags = {
        "is_tied": no,
        "is_core": no,
        "is_fused": no,
        "is_compiled": no,
        "need": zeros,
        "kept_bytes_per_element": np.zeros(num_rows),
    }
    return {"splits": splits, "stride": np.ones(num_rows, dtype=np.int64), **weights, **edges, **flags}


# fp8 products are written out in bf16: one byte an element more than the operands have (torch._scaled_mm).
_WIDER_BYTES = {"fp8": 1.0, "int8": 3.0}


def product_ops(
    batch: Codes, m: IntArray, n: IntArray, k: IntArray, *, kind: str, phase: Codes, dtypes: list[str]
) -> Ops:
    """C[m,n] = A[m,k] B[k,n], `batch` times; 8-bit operands give a wider product."""
    wider_bytes = np.array([_WIDER_BYTES.get(dtype, 0.0) for dtype in dtypes])
    return bare_ops(
        kind=code_of(kind),
        phase=phase,
        dtypes=dtypes,
        extents=(batch, m, n, k, 1),
        side_bytes_per_element=wider_bytes,
    )


def attention_ops(
    batch_heads: IntArray,
    seq: IntArray,
    head_width: IntArray,
    *,
    kv_frac: FloatArray,
    work_frac: FloatArray,
    phase: IntArray,
    dtypes: list[str],
) -> Ops:
    """Fused self-attention over `seq` positions."""
    return bare_ops(
        kind=code_of("attention"),
        phase=phase,
        dtypes=dtypes,
        extents=(batch_heads, seq, seq, head_width, head_width),
        distinct_frac=(1.0, kv_frac, 1.0),
        work_frac=work_frac,
    )


def convolution_ops(
    *,
    batch: IntArray,
    in_channels: IntArray,
    out_channels: IntArray,
    window: IntArray,
    stride: IntArray,
    side: IntArray,
    phase: IntArray,
    dtypes: list[str],
) -> Ops:
    """Square convolutions whose windows are centred on the pixels of square images, as products."""
    padding = (window - 1) // 2
    outputs = (side + 2 * padding - window) // stride + 1
    covered = np.where(window < stride, outputs * window, np.minimum((outputs - 1) * stride - padding + window, side))
    input_frac = covered**2 / (outputs * window).astype(np.float64) ** 2
    m, n, k = batch * outputs**2, out_channels, window**2 * in_channels
    a_frac, ones = input_frac, np.ones(len(dtypes))
    is_dx, is_dw = phase == Phase.INPUT_GRAD, phase == Phase.WEIGHT_GRAD
    # as workload.training has it: dA[m,k] = dC[m,n] B^T and dB[k,n] = A^T dC
    ops = bare_ops(
        kind=code_of("convolution"),
        phase=phase,
        dtypes=dtypes,
        extents=(1, np.where(is_dw, k, m), np.where(is_dx, k, n), np.where(is_dx, n, np.where(is_dw, m, k)), window**2),
        distinct_frac=(np.where(is_dx, ones, a_frac), ones, np.where(is_dx, a_frac, ones)),
    )
    return replace(ops, stride=stride)


def _whole(values: Codes, length: int) -> IntArray:
    return np.broadcast_to(np.asarray(values, dtype=np.int64), (length,)).copy()


def _floats(values: FloatArray | float, length: int) -> FloatArray:
    return np.broadcast_to(np.asarray(values, dtype=np.float64), (length,)).copy()
