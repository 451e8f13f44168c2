"""How calls of PyTorch's operators become rows: by kind of operator, a function that reads the shapes it was given."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from dovetail.accuracy.columns import convolution_ops
from dovetail.files.profiles.aten_calls import Call, NotOurs, Row
from dovetail.hardware.measured import BACKWARD, FORWARD
from dovetail.workload.graph import Phase

Maker = Callable[[Call], Row]


def product(first: int) -> Maker:
    """A[m,k] B[k,n], arguments `first` and the next; all of them once more for each of a batch."""

    def made(call: Call) -> Row:
        *batch, m, k = call.shape(first)
        *same, inner, n = call.shape(first + 1)
        if batch != same or inner != k or len(batch) > 1:
            raise NotOurs("shapes that are no product")
        phase = BACKWARD if call.is_backward else FORWARD
        kind = "matmul" if batch else "linear"
        return Row(kind=kind, phase=phase, dtype=call.dtype(first), extents=(*(batch or (1,)), m, n, k, 1))

    return made


def linear(call: Call) -> Row:
    """x[..., k] times W[n, k] turned."""
    *rows, k = call.shape(0)
    n, inner = call.shape(1, 2)
    if inner != k:
        raise NotOurs("shapes that are no product")
    phase = BACKWARD if call.is_backward else FORWARD
    return Row(kind="linear", phase=phase, dtype=call.dtype(0), extents=(1, prod(rows), n, k, 1))


def attention(query: int, causal: int, phase: str = FORWARD, *, heads_first: bool = True) -> Maker:
    """Queries, keys and values from argument `query` on; of each batch, heads, positions and width."""

    def made(call: Call) -> Row:
        queries, keys, values = (call.shape(query + offset, 4) for offset in range(3))
        if not heads_first:
            queries, keys, values = ((b, h, s, d) for b, s, h, d in (queries, keys, values))
        b, heads, m, k = queries
        _, kv_heads, n, v = values
        if heads % kv_heads or keys[1:3] != (kv_heads, n) or keys[3] != k:
            raise NotOurs("shapes that are no attention")
        return Row(
            kind="attention",
            phase=phase,
            dtype=call.dtype(query),
            extents=(b * heads, m, n, k, v),
            work_frac=0.5 if call.flag(causal, "whether attention is causal") else 1.0,
            distinct_frac=(1.0, kv_heads / heads, 1.0),
        )

    return made


def convolution(image: int, options: int, phase: str = FORWARD) -> Maker:
    """Square windows centred on the pixels of square images; `options` is where stride, padding and so on begin."""

    def made(call: Call) -> Row:
        batch, in_channels, side, other = call.shape(image, 4)
        out_channels, group_channels, window, across = call.shape(image + 1, 4)
        stride, padding, dilation = (call.wholes(options + offset) for offset in range(3))
        if call.flag(options + 3, "whether it is transposed") or group_channels != in_channels:
            raise NotOurs("grouped and transposed convolutions have no row of ours")
        if side != other or window != across or set(dilation) != {1} or len(set(stride)) > 1:
            raise NotOurs("only convolutions of square windows and images have a row of ours")
        if set(padding) != {(window - 1) // 2}:
            raise NotOurs("only convolutions whose windows are centred on pixels have a row of ours")
        ops = convolution_ops(
            batch=_one(batch), in_channels=_one(in_channels), out_channels=_one(out_channels), window=_one(window),
            stride=_one(stride[0]), side=_one(side), phase=_one(Phase.FORWARD), dtypes=[call.dtype(image)],
        )  # fmt: skip
        a_frac, b_frac, c_frac = (float(frac) for frac in ops.distinct_frac[0])
        return Row(
            kind="convolution",
            phase=phase,
            dtype=call.dtype(image),
            extents=tuple(int(size) for size in ops.extents[0]),
            stride=stride[0],
            distinct_frac=(a_frac, b_frac, c_frac),
        )

    return made


def _one(count: int) -> Any:
    return np.array([count], dtype=np.int64)


def rows(kind: str, phase: str = FORWARD, tensor: int = 0) -> Maker:
    """Rows of a tensor's last dim."""

    def made(call: Call) -> Row:
        *rows, cols = call.shape(tensor)
        return Row(kind=kind, phase=phase, dtype=call.dtype(tensor), extents=(1, prod(rows), cols, 1, 1))

    return made


def channels(kind: str, phase: str = FORWARD, tensor: int = 0) -> Maker:
    """Pixels by channels, of images."""

    def made(call: Call) -> Row:
        batch, channels, *sides = call.shape(tensor)
        extents = (1, batch * prod(sides), channels, 1, 1)
        return Row(kind=kind, phase=phase, dtype=call.dtype(tensor), extents=extents)

    return made


def binary(kind: str) -> Maker:
    """Two tensors of one shape; one and a number is a `scale`, one and a row a `bias_add`."""

    def made(call: Call) -> Row:
        *rows, cols = call.shape(0)
        other = tuple(call.dims[1]) if len(call.dims) > 1 and isinstance(call.dims[1], list | tuple) else ()
        own = kind
        if prod(other) == 1:
            own = "scale"
        elif other != (*rows, cols):
            if kind != "add" or other != (cols,):
                raise NotOurs("shapes are broadcast, which no row of ours is")
            own = "bias_add"
        elif call.dtype(1) != call.dtype(0):
            raise NotOurs("dtypes are mixed, which no row of ours has")
        return Row(kind=own, phase=FORWARD, dtype=call.dtype(0), extents=(1, prod(rows), cols, 1, 1))

    return made


def copy(call: Call) -> Row:
    """To where it is copied, from what; to another dtype it is a cast, which we have to fp32 alone and back."""
    *rows, cols = call.shape(0)
    to, source = call.dtype(0), call.dtype(1)
    if call.shape(1) != (*rows, cols):
        raise NotOurs("shapes are broadcast, which no row of ours is")
    extents = (1, prod(rows), cols, 1, 1)
    if to == source:
        return Row(kind="copy", phase=FORWARD, dtype=to, extents=extents)
    if "fp32" not in (to, source):
        raise NotOurs(f"a cast from {source} to {to} has no row of ours")
    phase = FORWARD if to == "fp32" else BACKWARD
    return Row(kind="cast", phase=phase, dtype=source if to == "fp32" else to, extents=extents)


def embedding(call: Call) -> Row:
    table, width = call.shape(0, 2)
    extents = (1, prod(call.shape(1)), width, table, 1)
    return Row(kind="embedding", phase=FORWARD, dtype=call.dtype(0), extents=extents)


def embedding_backward(call: Call) -> Row:
    *rows, width = call.shape(0)
    [table] = call.wholes(2)
    return Row(kind="embedding", phase=BACKWARD, dtype=call.dtype(0), extents=(1, prod(rows), width, table, 1))


def unrecorded(call: Call) -> Row:
    raise NotOurs(f"profilers do not record the dtype of {call.name}'s lists of tensors")
