"""Dispatched operators for tests: tensors by shape, calls by name, and the kernels that they become."""

from __future__ import annotations

from dovetail.cost.eager.launches import launched
from dovetail.workload.dispatched import Argument, DispatchedOp, TensorMeta

BF16 = "bf16"


def dense(*shape: int, dtype: str = BF16) -> TensorMeta:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return TensorMeta(shape=shape, strides=tuple(reversed(strides)), dtype=dtype)


def last(n: int, c: int, h: int, w: int, dtype: str = BF16) -> TensorMeta:
    """Images with channels last."""
    return TensorMeta(shape=(n, c, h, w), strides=(c * h * w, 1, c * w, c), dtype=dtype)


def turned(tensor: TensorMeta) -> TensorMeta:
    shape, strides = tensor.shape, tensor.strides
    return TensorMeta(
        shape=(*shape[:-2], shape[-1], shape[-2]), strides=(*strides[:-2], strides[-1], strides[-2]), dtype=tensor.dtype
    )


def call(name: str, inputs: tuple[TensorMeta | None, ...], out: TensorMeta, **arguments: Argument) -> DispatchedOp:
    return DispatchedOp(name=f"aten.{name}", inputs=inputs, outputs=(out,), arguments=tuple(arguments.items()))


def kernel_names(op: DispatchedOp) -> list[str]:
    return [launch.name for launch in launched(op)]
