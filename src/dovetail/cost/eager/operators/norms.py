"""Softmax, layer, RMS, group and batch norms, forward and backward, in both layouts of images."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, log2, prod
from typing import Any

from dovetail.cost.eager.iterator import pointwise
from dovetail.cost.eager.launches import (
    Launch,
    Launched,
    VectorKernel,
    argument,
    first,
    flag,
    is_channels_last,
    is_dense,
    item_bytes,
    number,
    numbers,
    register,
    result,
    tensors,
)
from dovetail.cost.eager.operators.products import dense_like
from dovetail.cost.eager.operators.reductions import reduction
from dovetail.cost.families.rows import VECTOR_BYTES
from dovetail.cost.kernels import Access
from dovetail.units import KIBI
from dovetail.workload.dispatched import DispatchedOp, TensorMeta

SMEM_BYTES = 48 * KIBI  # a row longer than this does not stay in a block's shared memory (SoftMax.cu, can_use_smem)
WARP_COLS = 2048  # softmax of rows up to here is one warp a row, padded to a power of two (PersistentSoftmax.cuh)
# Slots of such a row and of an element of it, padding included (14 kernels of profiled steps).
WARP_ROW_SLOTS, WARP_SLOTS, WARP_BACKWARD_SLOTS = 2270.0, 46.6, 52.0
WARP_WIDE_RATIO = 1.5  # elements of fp32
WARP_LONG_COLS, WARP_LONG_RATIO = 1024, 1.4  # registers run short

# Batch norm, contiguous (NCHW): a block of 512 threads a channel. Clocks an element of a plane padded to the block's
# threads: lanes busy and, beside that, waiting for memory (16 rows of eager_ops.csv, 250 kernels of profiled steps).
BLOCK_THREADS = (32, 64, 128, 256, 512)  # getNumThreads (Normalization.cuh)
NCHW_STATISTICS_CLOCKS, NCHW_STATISTICS_WAIT = 0.15, 1.33
NCHW_BACKWARD_CLOCKS, NCHW_BACKWARD_WAIT = 0.40, 2.85
NCHW_APPLY_SLOTS, NCHW_PLANE_SLOTS, NCHW_MAX_PLANES = (
    69.0,
    20_600.0,
    262_144.0,
)  # an element; a block, of so many at most
# Channels last: slots an element, more where few channels leave lanes of a warp empty (the same sources).
NHWC_FEW_CHANNELS = 64
NHWC_STATISTICS_SLOTS, NHWC_SUMS_SLOTS = (
    {False: 103.0, True: 200.0},
    {False: 58.0, True: 96.0},
)  # by few channels or not
NHWC_APPLY_SLOTS, NHWC_APPLY_CHANNELS = 45.0, 40.0
NHWC_BACKWARD_SLOTS, NHWC_BACKWARD_CHANNELS = 60.0, 28.0
NHWC_STEPS = 6.0  # partial sums staged in memory and handed in

# Sums down few columns of many rows are staged: each block a part of the rows (layer_norm_kernel.cu, 2.11). Share of
# HBM and round trips fitted on 8 kernels of profiled steps (Swin, ConvNeXt).
MANY_ROWS, FEW_COLS = 65536, 2112
STAGED_FRAC, STAGED_STEPS = 0.75, 6.0


def rows_of(tensor: TensorMeta, dim: int) -> tuple[float, float]:
    cols = float(tensor.shape[dim]) if tensor.shape else 1.0
    return tensor.num_elements / max(cols, 1.0), cols


def _padded(cols: float) -> float:
    return 2.0 ** ceil(log2(max(cols, 1.0)))


def _softmax(op: DispatchedOp, *, passes: float, name: str) -> VectorKernel:
    out = result(op)
    dim = int(number(op, "dim", -1.0))
    rows, cols = rows_of(out, dim)
    source = first(op)
    size = float(item_bytes(source))
    is_long, is_part = cols * size > SMEM_BYTES, cols * size % VECTOR_BYTES != 0
    moved = sum(float(one.num_bytes) for one in tensors(op)[:2] if one.num_elements == out.num_elements)
    is_inner = not out.shape or dim % len(out.shape) == len(out.shape) - 1
    if is_inner and cols <= WARP_COLS:
        each = (
            WARP_SLOTS * (WARP_WIDE_RATIO if size >= 4 else 1.0) * (WARP_LONG_RATIO if cols > WARP_LONG_COLS else 1.0)
        )
        slots = rows * (WARP_ROW_SLOTS + each * _padded(cols))
        return VectorKernel(name=f"{name} warp", read_bytes=moved, write_bytes=float(out.num_bytes), slots=slots)
    return VectorKernel(
        name=name if is_inner else f"spatial {name}",
        read_bytes=moved * passes,
        write_bytes=float(out.num_bytes),
        access=(Access.LONG_SOFTMAX if is_long else Access.SOFTMAX) if is_inner else Access.STREAM,
        streams=1,
        slots=out.num_elements * (UNALIGNED_SLOTS if is_part and not is_long else SOFTMAX_SLOTS),
        rows=rows,
        cols=cols,
        element_bytes=size,
    )


UNALIGNED_SLOTS = 107.0  # rows that are no whole vectors: loads one by one (rows of 2,049, one kernel of profiles)
SOFTMAX_SLOTS = 24.0  # exponential, maximum and sum of an element; below what memory hides but for short rows


@register("aten._safe_softmax")
def safe_softmax(op: DispatchedOp) -> Launched:
    """Then rows of nothing but -inf are found, and made zeros (SoftMax.cpp; 5 kernels of Falcon's profile)."""
    out = result(op)
    if not out.num_elements:
        return ()
    masked = replace(out, dtype="bool")
    dim = int(number(op, "dim", -1.0)) % max(len(out.shape), 1)
    found = TensorMeta(
        shape=tuple(1 if at == dim else size for at, size in enumerate(out.shape)),
        strides=tuple(
            max(stride // out.shape[dim], 1) if at < dim else stride for at, stride in enumerate(out.strides)
        ),
        dtype="bool",
    )
    zero = TensorMeta(shape=(), strides=(), dtype=out.dtype)
    return (
        *softmax(op),
        *pointwise("isneginf", masked, (out,), is_cast=False),
        reduction("all", masked, found, (dim,)),
        *pointwise("where", out, (found, zero, out), is_cast=False),
    )


@register("aten._softmax", "aten._log_softmax")
def softmax(op: DispatchedOp) -> Launched:
    """Into fp32 in one kernel from fp16 alone: bf16 is cast first (SoftMax.cpp; 24 kernels of BLOOM's profile)."""
    out, source = result(op), first(op)
    if not out.num_elements:
        return ()
    if op.name.startswith("aten._softmax") and _is_cast_apart(source.dtype, out.dtype):
        wide = replace(source, dtype=out.dtype)
        return (*pointwise("copy", wide, (source,)), _softmax(replace(op, inputs=(wide,)), passes=1.0, name="softmax"))
    return (_softmax(op, passes=1.0, name="softmax"),)


def _is_cast_apart(narrow: str, wide: str) -> bool:
    return narrow == "bf16" and wide == "fp32"


@register("aten._softmax_backward_data")
def softmax_backward(op: DispatchedOp) -> Launched:
    """Gradient times result first (softmax_backward_cuda_out), then a row stays in the core between sum and difference.

    A gradient for bf16 is cast after it, as the forward pass casts before.
    """
    gradient, saved, out = tensors(op)[0], tensors(op)[1], result(op)
    if not out.num_elements:
        return ()
    is_cast = _is_cast_apart(out.dtype, gradient.dtype)
    made = replace(out, dtype=gradient.dtype) if is_cast else out
    rows, cols = rows_of(out, int(number(op, "dim", -1.0)))
    is_part = cols * item_bytes(gradient) % VECTOR_BYTES != 0
    slots = out.num_elements * (UNALIGNED_SLOTS if is_part else 0.0)
    slots = WARP_BACKWARD_SLOTS * rows * _padded(cols) if cols <= WARP_COLS else slots
    moved = float(gradient.num_bytes + saved.num_bytes)
    own = VectorKernel(name="softmax backward", read_bytes=moved, write_bytes=float(made.num_bytes), slots=slots)
    cast = pointwise("copy", out, (made,), is_cast=False) if is_cast else ()
    return (*pointwise("mul", gradient, (gradient, saved)), own, *cast)


@register("aten._log_softmax_backward_data")
def log_softmax_backward(op: DispatchedOp) -> Launched:
    """The gradient is read for its sum, then again beside the result; short rows stay in the core."""
    gradient, saved, out = tensors(op)[0], tensors(op)[1], result(op)
    if not out.num_elements:
        return ()
    _, cols = rows_of(out, int(number(op, "dim", -1.0)))
    sweeps = 2.0 if cols * item_bytes(gradient) > SMEM_BYTES else 1.0
    return (
        VectorKernel(
            name="log_softmax backward",
            read_bytes=sweeps * gradient.num_bytes + saved.num_bytes,
            write_bytes=float(out.num_bytes),
        ),
    )


def _norm(op: DispatchedOp, name: str, *, num_inner: int, **more: Any) -> VectorKernel:
    source = first(op)
    cols = float(prod(source.shape[len(source.shape) - num_inner :]))
    return VectorKernel(
        name=name,
        rows=source.num_elements / max(cols, 1.0),
        cols=cols,
        element_bytes=float(item_bytes(source)),
        **more,
    )


def _made_contiguous(*found: TensorMeta) -> Launched:
    """Rows that are not one behind another are copied first (layer_norm_kernel.cu; 60 kernels of ViT's profile)."""
    return tuple(launch for one in found if not is_dense(one) for launch in pointwise("copy", dense_like(one), (one,)))


@register("aten.native_layer_norm", "aten._fused_rms_norm", "aten.rms_norm")
def layer_norm(op: DispatchedOp) -> Launched:
    source, out = first(op), result(op)
    moved: dict[str, Any] = {"read_bytes": float(source.num_bytes), "write_bytes": float(out.num_bytes), "streams": 1}
    barriers = 0 if "rms" in op.name else 3  # Welford's merge over warps
    inner = len(numbers(op, "normalized_shape")) or 1
    copied = _made_contiguous(source)
    return (
        *copied,
        _norm(op, "norm", num_inner=inner, access=Access.NORM, num_sweeps=1, num_barriers=barriers, **moved),
    )


@register("aten.native_layer_norm_backward", "aten._fused_rms_norm_backward")
def layer_norm_backward(op: DispatchedOp) -> Launched:
    """The input's gradient row by row; the weights' by sums down the columns."""
    gradient = first(op)
    inner = len(numbers(op, "normalized_shape")) or 1
    both = 2.0 * gradient.num_bytes
    mask = argument(op, "output_mask", (True, True, True))
    wanted = tuple(bool(one) for one in mask) if isinstance(mask, tuple) else (True, True, True)
    found: list[Launch] = list(_made_contiguous(*tensors(op)[:2]))
    if wanted[0]:
        found.append(
            _norm(
                op, "norm backward", num_inner=inner, access=Access.NORM, num_sweeps=2,
                read_bytes=both, write_bytes=float(gradient.num_bytes), reads=2.0,
            )
        )  # fmt: skip
    if any(wanted[1:]):
        sums = 1 if "rms" in op.name else 2
        cols = float(prod(gradient.shape[len(gradient.shape) - inner :]))
        rows = gradient.num_elements / max(cols, 1.0)
        if rows > MANY_ROWS and cols <= FEW_COLS:
            part = VectorKernel(name="norm columns sum", steps=STAGED_STEPS)
            staged = VectorKernel(
                name="norm columns", read_bytes=both / STAGED_FRAC, write_bytes=0.0, steps=STAGED_STEPS
            )
            return (*found, staged, *(part,) * sums)
        found.append(
            _norm(
                op, "norm columns", num_inner=inner, access=Access.COLUMNS, num_sums=sums, read_bytes=both, reads=2.0
            )
        )  # fmt: skip
    return tuple(found)


@register("aten.native_group_norm")
def group_norm(op: DispatchedOp) -> Launched:
    """Moments of every group, weights folded into them, then one pass that applies both."""
    source, out = first(op), result(op)
    groups = float(source.shape[0] * number(op, "group", 1.0))
    size = float(source.num_bytes)
    moments = VectorKernel(name="moments", read_bytes=size, streams=1, num_blocks=groups,
                           block_cycles=GROUP_CLOCKS * source.num_elements / groups)  # fmt: skip
    return (moments, VectorKernel(name="fold weights"), _applied(source, out))


GROUP_CLOCKS = 0.64  # an element of a group, by one block of 512 threads, as a channel of batch norm


def _applied(source: TensorMeta, out: TensorMeta) -> VectorKernel:
    """x * a + b with a factor a channel: broadcast."""
    slots = APPLY_SLOTS * source.num_elements
    return VectorKernel(name="apply", read_bytes=float(source.num_bytes), write_bytes=float(out.num_bytes), slots=slots)


APPLY_SLOTS = 92.0  # three broadcast operands (iterator.py: strided, two or three dims)


@register("aten.native_group_norm_backward")
def group_norm_backward(op: DispatchedOp) -> Launched:
    """Two sums a channel of a sample, weights and factors folded, the gradient applied, weights' gradients summed."""
    gradient, out = first(op), result(op)
    channels = float(gradient.shape[0] * gradient.shape[1])
    sums = VectorKernel(name="group sums", read_bytes=2.0 * gradient.num_bytes, num_blocks=channels,
                        block_cycles=GROUP_CLOCKS * gradient.num_elements / channels)  # fmt: skip
    small = VectorKernel(name="fold weights")
    slots = APPLY_SLOTS * gradient.num_elements
    moved: dict[str, Any] = {"read_bytes": 2.0 * gradient.num_bytes, "write_bytes": float(out.num_bytes)}
    return (sums, small, VectorKernel(name="apply backward", slots=slots, **moved), small)


def _padded_plane(source: TensorMeta) -> float:
    """Elements of a channel's planes, each padded to the threads of a block that walk it."""
    plane = prod(source.shape[2:])
    threads = next((count for count in BLOCK_THREADS if count >= plane), BLOCK_THREADS[-1])
    return float(source.shape[0] * -(-plane // threads) * threads)


def _waiting(source: TensorMeta) -> float:
    """A plane that the threads of a block take in one go waits once."""
    return SMALL_PLANE_FRAC if prod(source.shape[2:]) <= BLOCK_THREADS[-1] else 1.0


SMALL_PLANE_FRAC = 0.85
BATCH_NORMS = (
    "aten.native_batch_norm", "aten._native_batch_norm_legit", "aten._batch_norm_with_update", "aten.cudnn_batch_norm",
    "aten._native_batch_norm_legit_functional", "aten._batch_norm_with_update_functional", "aten.batch_norm_stats",
    "aten._native_batch_norm_legit_no_training", "aten._batch_norm_no_update", "aten.miopen_batch_norm",
)  # fmt: skip


@register(*BATCH_NORMS)
def batch_norm(op: DispatchedOp) -> Launched:
    source, out = first(op), result(op)
    if len(source.shape) < 3:
        source = out = _as_images(source)
    size, channels = float(source.num_bytes), source.shape[1]
    moved: dict[str, Any] = {"read_bytes": size, "write_bytes": float(out.num_bytes)}
    if is_channels_last(source):
        slots = NHWC_APPLY_SLOTS * (1 + NHWC_APPLY_CHANNELS / channels)
        apply = VectorKernel(name="batch norm apply nhwc", slots=source.num_elements * slots, **moved)
        slots = NHWC_STATISTICS_SLOTS[channels < NHWC_FEW_CHANNELS]
        statistics = VectorKernel(name="batch norm statistics nhwc", read_bytes=size, streams=1, steps=NHWC_STEPS,
                                  slots=source.num_elements * slots)  # fmt: skip
    else:
        planes = min(float(source.shape[0] * channels), NCHW_MAX_PLANES)
        padded = _padded_plane(source)
        slots = max(planes * NCHW_PLANE_SLOTS, NCHW_APPLY_SLOTS * padded * channels)
        apply = VectorKernel(name="batch norm apply nchw", slots=slots, **moved)
        statistics = VectorKernel(name="batch norm statistics nchw", read_bytes=size, streams=1,
                                  num_blocks=float(channels), block_cycles=padded * NCHW_STATISTICS_CLOCKS,
                                  block_wait_cycles=padded * NCHW_STATISTICS_WAIT * _waiting(source))  # fmt: skip
    is_training = flag(op, "training") or flag(op, "train") or "with_update" in op.name
    if not is_training or "no_training" in op.name or "no_update" in op.name:
        return (apply,)
    return (statistics, VectorKernel(name="running statistics"), apply)


def _as_images(source: TensorMeta) -> TensorMeta:
    """Rows of channels are images of one pixel."""
    rows, channels = source.shape
    return TensorMeta(
        shape=(1, channels, rows, 1), strides=(rows * channels, 1, channels, channels), dtype=source.dtype
    )


@register("aten.native_batch_norm_backward", "aten.batch_norm_backward", "aten.cudnn_batch_norm_backward")
def batch_norm_backward(op: DispatchedOp) -> Launched:
    gradient, source = first(op), tensors(op)[1]
    if len(source.shape) < 3:
        gradient = source = _as_images(source)
    size, channels = float(source.num_bytes), source.shape[1]
    if is_channels_last(source):
        slots = NHWC_SUMS_SLOTS[channels < NHWC_FEW_CHANNELS]
        sums = VectorKernel(name="batch norm sums nhwc", read_bytes=2 * size, steps=NHWC_STEPS,
                            slots=source.num_elements * slots)  # fmt: skip
        slots = NHWC_BACKWARD_SLOTS * (1 + NHWC_BACKWARD_CHANNELS / channels)
        apply = VectorKernel(name="batch norm apply nhwc", read_bytes=2 * size, write_bytes=size,
                             slots=source.num_elements * slots)  # fmt: skip
        return (sums, apply)
    padded = _padded_plane(gradient)
    return (
        VectorKernel(name="batch norm backward nchw", read_bytes=4 * size, write_bytes=size, num_blocks=float(channels),
                     block_cycles=padded * NCHW_BACKWARD_CLOCKS,
                     block_wait_cycles=padded * NCHW_BACKWARD_WAIT * _waiting(source)),
    )  # fmt: skip
