"""Convolutions and their gradients in both layouts, depthwise ones, and pooling."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

from dovetail.cost.eager.iterator import pointwise
from dovetail.cost.eager.launches import (
    ConvolutionKernel,
    Launched,
    ProductKernel,
    VectorKernel,
    argument,
    first,
    flag,
    is_channels_last,
    item_bytes,
    number,
    numbers,
    register,
    result,
    tensors,
)
from dovetail.cost.eager.operators.reductions import reduction
from dovetail.cost.families.rows import VECTOR_BYTES
from dovetail.cost.vector import LANES_OF_CORE, SECTOR_BYTES
from dovetail.errors import NotModelled
from dovetail.workload.dispatched import DispatchedOp, TensorMeta
from dovetail.workload.graph import Phase

# Fitted on conv of eager_ops.csv (one H200, cuDNN 9 through PyTorch 2.11, 72 rows) and on the convolutions of 20
# profiled steps, kernel by kernel.
TURNED_SRAM = 2.5  # cache traffic of a layout conversion, in its bytes: 2.2 TB/s read and written
PADDED_CHANNELS = 8  # fewer are padded to it when the layout is converted, a sector an element
# Depthwise, contiguous: PyTorch's own kernel, a thread an output. Slots an output and a product of its window.
DEPTHWISE_SLOTS, DEPTHWISE_TAP_SLOTS, GENERAL_TAP_SLOTS = 174.0, 16.4, 20.1  # windows of 1, 3 and 5 are unrolled
DEPTHWISE_GRAD_SLOTS, DEPTHWISE_GRAD_TAP_SLOTS, GENERAL_GRAD_TAP_SLOTS = 470.0, 9.4, 21.0
# Its weight gradient: a block for each element of a window and channel, a warp an image. Slots of an image, and of 32
# pixels; share of a block's time that its lanes are busy, and that it waits, where four blocks run at once.
WEIGHT_IMAGE_SLOTS, WEIGHT_STEP_SLOTS, WEIGHT_BUSY, WEIGHT_WAIT = 2375.0, 1438.0, 0.6, 1.6
UNROLLED = (1, 3, 5)
WARP = 32
# Depthwise, channels last: cuDNN. Slots a product of the window; a stride of two loads as much for a quarter of
# outputs.
NHWC_TAP_SLOTS, NHWC_STRIDED_RATIO = 5.75, 1.9
NHWC_GRAD_TAP_SLOTS, NHWC_GRAD_FIVE_SLOTS = 12.1, 9.2  # the second where windows are 5 x 5
NHWC_WEIGHT_SLOTS, NHWC_WEIGHT_TAP_SLOTS = 40.0, 3.3
NHWC_REDUCE_STEPS = 0.06  # an image: its part of the weights' gradient is added in turn
# Few channels in: kernels that do not use tensor units for small windows, and padded ones for large. Slots a product.
DIRECT_WINDOW, DIRECT_OUTPUTS = 16, 32  # largest window; outputs are padded to it
DIRECT_SLOTS = {False: 4.95, True: 5.8}  # by whether channels are last
PADDED_SLOTS = {False: 0.64, True: 1.04}  # a product of padded channels, by whether the window is small
WEIGHT_TAP_SLOTS, WEIGHT_OUTPUTS = 268.0, 175.0  # weight gradient: a pixel and element of the window, 8 ps; 7 kernels
WEIGHT_REDUCE_STEPS = 30.0
# Groups that do not fit whole into 16 channels, or the other way round: cuDNN slices each out in channels-last layout,
# convolves it alone, and puts it back. Slots of an element sliced, forward (1 row) and backward, and round trips of a
# group's weight gradient, which fills few units (5 rows: RegNetY-8GF, 56 channels a group, batch 128).
GROUP_CHANNELS = 16
SLICE_SLOTS, SLICE_GRAD_SLOTS, GROUP_STEPS = 65.0, 425.0, 60.0
# Pooling: slots an output, and an element of its window (max_pool3s2, avg_pool3s1: 48 rows; 24 kernels of profiles).
MAX_POOL_SLOTS = {False: (291.0, 27.2), True: (245.0, 38.0)}  # by whether channels are last
AVERAGE_POOL_SLOTS = {False: (384.0, 2.8), True: (700.0, 4.8)}
AVERAGE_POOL_BACKWARD_SLOTS = {False: (555.0, 50.7), True: (630.0, 56.4)}  # an input, and a window that holds it
MAX_POOL_BACKWARD_SLOTS = {False: (295.0, 19.0), True: (75.0, 69.0)}  # the same (24 kernels of profiled steps)
ADAPTIVE_SLOTS = 90.0  # an element of an adaptive pool (4 kernels of profiles)


def _tf32(dtype: str) -> str:
    """cuDNN may take TF32 for fp32 by PyTorch's default."""
    return "tf32" if dtype == "fp32" else dtype


def _along_dims(op: DispatchedOp, name: str, ndim: int, default: int) -> tuple[int, ...]:
    found = numbers(op, name) or (default,)
    return found if len(found) == ndim else found[:1] * ndim


def _turned(tensor: TensorMeta, name: str) -> VectorKernel:
    """One layout to the other; few channels are padded on the way, and written a sector an element."""
    moved = float(tensor.num_bytes)
    channels = tensor.shape[1]
    if channels >= PADDED_CHANNELS:
        return VectorKernel(name=name, read_bytes=moved, write_bytes=moved, sram_bytes=TURNED_SRAM * 2 * moved)
    padded = moved * PADDED_CHANNELS / channels
    sectors = SECTOR_BYTES * padded / item_bytes(tensor)
    return VectorKernel(name=name, read_bytes=moved, write_bytes=padded, sram_bytes=sectors)


def _made_and_read(
    source: TensorMeta, weight: TensorMeta, out: TensorMeta, phase: Phase
) -> tuple[TensorMeta, TensorMeta, TensorMeta]:
    """What a pass writes, and the two that it reads."""
    if phase == Phase.FORWARD:
        return out, source, weight
    return (source, weight, out) if phase == Phase.INPUT_GRAD else (weight, source, out)


def _is_last(*found: TensorMeta) -> bool:
    return any(is_channels_last(one) for one in found)


def _convolved(op: DispatchedOp, source: TensorMeta, weight: TensorMeta, out: TensorMeta, phase: Phase) -> Launched:
    """One pass of a convolution from `source` (a transposed one: its output) to `out`, whatever is computed."""
    ndim = len(weight.shape) - 2
    groups = int(number(op, "groups", 1.0))
    stride = _along_dims(op, "stride", ndim, 1)
    window = prod(weight.shape[2:])
    is_transposed = flag(op, "transposed")
    if is_transposed:
        source, out = out, source
        phase = {Phase.FORWARD: Phase.INPUT_GRAD, Phase.INPUT_GRAD: Phase.FORWARD}.get(phase, phase)
    is_last = _is_last(source, weight)
    channels, outputs = weight.shape[1], weight.shape[0] // groups
    if groups > 1 and channels == 1 and not is_transposed:
        return _depthwise(op, source, weight, out, phase, is_last=is_last)
    if groups > 1 and is_last and not is_transposed and _is_sliced(channels):
        return _sliced(op, source, weight, out, phase, groups)
    pixels = out.num_elements // max(out.shape[1], 1)
    made, *read = _made_and_read(source, weight, out, phase)
    in_bytes, out_bytes = sum(float(one.num_bytes) for one in read), float(made.num_bytes)
    is_plain = window == 1 and all(one == 1 for one in stride) and groups == 1
    dtype = _tf32(source.dtype)
    if channels < PADDED_CHANNELS and phase != Phase.INPUT_GRAD and groups == 1:
        if phase == Phase.WEIGHT_GRAD:
            return _few_channels_weight(source, weight, out, is_last=is_last)
        return _few_channels(source, weight, out, is_last=is_last, is_strided=max(stride) > 1)
    if is_plain:
        m, n, k = pixels, outputs, channels
        if phase == Phase.INPUT_GRAD:
            n, k = k, n
        elif phase == Phase.WEIGHT_GRAD:
            m, k = k, m
        kernel: Launched = (
            ProductKernel(name="conv 1x1", b=1, m=m, n=n, k=k, dtype=dtype, in_bytes=in_bytes, out_bytes=out_bytes),
        )
    else:
        kernel = (
            ConvolutionKernel(
                name=f"conv {phase.name.lower()}", phase=phase, pixels=pixels, outputs=outputs, channels=channels,
                window=window, stride=max(round(prod(stride) ** (1 / max(ndim, 1))), 1), groups=groups, dtype=dtype,
                in_bytes=in_bytes, out_bytes=out_bytes,
            ),
        )  # fmt: skip
    if is_last and channels < PADDED_CHANNELS:  # padded first
        kernel = (_padded(source), *kernel)
    plane_bytes = prod(out.shape[2:]) * item_bytes(out)
    if is_last or (is_plain and not plane_bytes % VECTOR_BYTES):
        return kernel
    before = tuple(_turned(one, "nchw to nhwc") for one in read)
    return (*before, *kernel, _turned(made, "nhwc to nchw"))


def _is_sliced(channels: int) -> bool:
    """Whether the channels of a group neither fill whole tiles nor share one with other groups."""
    return bool(channels % GROUP_CHANNELS and GROUP_CHANNELS % channels)


def _sliced(
    op: DispatchedOp, source: TensorMeta, weight: TensorMeta, out: TensorMeta, phase: Phase, groups: int
) -> Launched:
    """One group after another: its channels sliced out, convolved and put back."""
    own_source, own_out = (_group_of(one, 1, groups) for one in (source, out))
    alone = replace(op, arguments=tuple((key, 1 if key == "groups" else value) for key, value in op.arguments))
    own = _convolved(alone, own_source, _group_of(weight, 0, groups), own_out, phase)
    if phase == Phase.FORWARD:
        each: Launched = (_slice(own_source, SLICE_SLOTS), *own, _slice(own_out, SLICE_SLOTS))
    elif phase == Phase.INPUT_GRAD:
        each = (*own, _slice(own_source, SLICE_GRAD_SLOTS))
    else:
        each = (_slice(own_out, SLICE_GRAD_SLOTS), *own, VectorKernel(name="conv reduce", steps=GROUP_STEPS))
    return each * groups


def _group_of(tensor: TensorMeta, dim: int, groups: int) -> TensorMeta:
    """One group's part of a tensor, by itself and channels last."""
    n, c, *sides = (size // groups if at == dim else size for at, size in enumerate(tensor.shape))
    strides = [c]
    for side in reversed(sides[1:]):
        strides.insert(0, strides[0] * side)
    return TensorMeta(shape=(n, c, *sides), strides=(c * prod(sides), 1, *strides), dtype=tensor.dtype)


def _slice(tensor: TensorMeta, slots: float) -> VectorKernel:
    moved = float(tensor.num_bytes)
    return VectorKernel(name="slice group", read_bytes=moved, write_bytes=moved, slots=slots * tensor.num_elements)


def _padded(source: TensorMeta) -> VectorKernel:
    """Channels padded in channels-last layout."""
    moved = float(source.num_bytes)
    padded = moved * PADDED_CHANNELS / source.shape[1]
    return VectorKernel(
        name="pad channels", read_bytes=moved, write_bytes=padded, sram_bytes=TURNED_SRAM * (moved + padded)
    )


def _few_channels(
    source: TensorMeta, weight: TensorMeta, out: TensorMeta, *, is_last: bool, is_strided: bool
) -> Launched:
    window = prod(weight.shape[2:])
    moved: dict[str, Any] = {
        "read_bytes": float(source.num_bytes + weight.num_bytes),
        "write_bytes": float(out.num_bytes),
    }
    pixels, outputs = out.num_elements / out.shape[1], weight.shape[0]
    if window <= DIRECT_WINDOW and is_strided:
        padded = -(-outputs // DIRECT_OUTPUTS) * DIRECT_OUTPUTS
        slots = pixels * padded * window * weight.shape[1] * DIRECT_SLOTS[is_last]
        return (VectorKernel(name="conv direct", slots=slots, **moved),)
    slots = pixels * outputs * window * PADDED_CHANNELS * PADDED_SLOTS[window <= DIRECT_WINDOW]
    kernel = VectorKernel(name="conv padded", slots=slots, **moved)
    if is_last:
        return (_padded(source), kernel)
    return (_turned(source, "nchw to nhwc"), _turned(weight, "nchw to nhwc"), kernel, _turned(out, "nhwc to nchw"))


def _few_channels_weight(source: TensorMeta, weight: TensorMeta, out: TensorMeta, *, is_last: bool) -> Launched:
    """Pixels stream past the window of padded channels; beyond so many outputs they stream again."""
    window, pixels = prod(weight.shape[2:]), out.num_elements / out.shape[1]
    slots = pixels * window * WEIGHT_TAP_SLOTS * max(1.0, weight.shape[0] / WEIGHT_OUTPUTS)
    kernel = VectorKernel(
        name="conv padded weight_grad", read_bytes=float(source.num_bytes + out.num_bytes), slots=slots
    )
    reduce = VectorKernel(name="conv reduce", steps=WEIGHT_REDUCE_STEPS)
    if is_last:
        return (_padded(source), kernel, reduce)
    turned = _turned(weight, "nhwc to nchw")
    return (_turned(source, "nchw to nhwc"), _turned(out, "nchw to nhwc"), kernel, reduce, turned)


def _depthwise(
    op: DispatchedOp, source: TensorMeta, weight: TensorMeta, out: TensorMeta, phase: Phase, *, is_last: bool
) -> Launched:
    made, *read = _made_and_read(source, weight, out, phase)
    moved: dict[str, Any] = {
        "read_bytes": sum(float(one.num_bytes) for one in read),
        "write_bytes": float(made.num_bytes),
    }
    word = f"depthwise {phase.name.lower()}"
    if is_last:
        return _depthwise_last(op, source, weight, out, phase, word, moved)
    window = prod(weight.shape[2:])
    is_unrolled = all(size in UNROLLED for size in weight.shape[2:])
    if phase == Phase.WEIGHT_GRAD:
        steps = -(-prod(out.shape[2:]) // WARP)
        clocks = out.shape[0] * (WEIGHT_IMAGE_SLOTS + WEIGHT_STEP_SLOTS * steps) / LANES_OF_CORE
        return (
            VectorKernel(
                name=f"{word} nchw", num_blocks=float(out.shape[1] * window), block_cycles=WEIGHT_BUSY * clocks,
                block_wait_cycles=WEIGHT_WAIT * clocks, **moved,
            ),
        )  # fmt: skip
    if phase == Phase.INPUT_GRAD:
        tap = DEPTHWISE_GRAD_TAP_SLOTS if is_unrolled else GENERAL_GRAD_TAP_SLOTS
        slots = source.num_elements * (DEPTHWISE_GRAD_SLOTS + tap * window)
    else:
        tap = DEPTHWISE_TAP_SLOTS if is_unrolled else GENERAL_TAP_SLOTS
        slots = out.num_elements * (DEPTHWISE_SLOTS + tap * window)
    return (VectorKernel(name=f"{word} nchw", slots=slots, **moved),)


def _depthwise_last(
    op: DispatchedOp,
    source: TensorMeta,
    weight: TensorMeta,
    out: TensorMeta,
    phase: Phase,
    word: str,
    moved: dict[str, Any],
) -> Launched:
    window = prod(weight.shape[2:])
    strided = NHWC_STRIDED_RATIO if max(_along_dims(op, "stride", 2, 1)) > 1 else 1.0
    if phase == Phase.FORWARD:
        slots = out.num_elements * window * NHWC_TAP_SLOTS * strided
        return (VectorKernel(name=f"{word} nhwc", slots=slots, **moved),)
    if phase == Phase.INPUT_GRAD:
        tap = NHWC_GRAD_FIVE_SLOTS if tuple(weight.shape[2:]) == (5, 5) else NHWC_GRAD_TAP_SLOTS
        return (VectorKernel(name=f"{word} nhwc", slots=source.num_elements * window * tap, **moved),)
    slots = out.num_elements * (NHWC_WEIGHT_SLOTS + NHWC_WEIGHT_TAP_SLOTS * window) * strided
    reduce = VectorKernel(name=f"{word} reduce", steps=NHWC_REDUCE_STEPS * out.shape[0])
    return (VectorKernel(name=f"{word} nhwc", slots=slots, **moved), reduce)


@register("aten.convolution", "aten.cudnn_convolution", "aten._convolution", "aten.convolution_overrideable")
def convolution(op: DispatchedOp) -> Launched:
    bias = op.inputs[2] if len(op.inputs) > 2 else None
    if not result(op).num_elements:
        return ()
    source, weight, out = (_four_dims(one) for one in (*tensors(op)[:2], result(op)))
    own = _convolved(op, source, weight, out, Phase.FORWARD)
    return own if bias is None else (*own, *_biased(out, bias))


def _biased(out: TensorMeta, bias: TensorMeta) -> Launched:
    """The bias is added in place by a broadcast kernel, a channel each."""
    ndim = len(out.shape)
    shape = (1, out.shape[1], *(1,) * (ndim - 2))
    spread = TensorMeta(shape=shape, strides=(out.shape[1], 1, *(1,) * (ndim - 2)), dtype=bias.dtype)
    return pointwise("add", out, (out, spread))


def _four_dims(tensor: TensorMeta) -> TensorMeta:
    """Signals of one dim are images of one row."""
    if len(tensor.shape) != 3:
        return tensor
    shape, strides = tensor.shape, tensor.strides
    return TensorMeta(
        shape=(*shape[:2], 1, shape[2]), strides=(*strides[:2], shape[2] * strides[2], strides[2]), dtype=tensor.dtype
    )


@register("aten._conv_depthwise2d", "aten.conv_depthwise3d")
def depthwise(op: DispatchedOp) -> Launched:
    source, weight = tensors(op)[:2]
    out = result(op)
    return _depthwise(op, source, weight, out, Phase.FORWARD, is_last=_is_last(source, weight))


@register("aten.convolution_backward", "aten.cudnn_convolution_backward", "aten.convolution_backward_overrideable")
def convolution_backward(op: DispatchedOp) -> Launched:
    """The gradients that are wanted, each a pass of its own; the bias's is a sum over all but channels."""
    gradient, source, weight = (_four_dims(one) for one in tensors(op)[:3])
    mask = argument(op, "output_mask", (True, True, False))
    wanted = tuple(bool(one) for one in mask) if isinstance(mask, tuple) else (True, True, False)
    found: tuple[Launched, ...] = ()
    if wanted[0]:
        found += (_convolved(op, source, weight, gradient, Phase.INPUT_GRAD),)
    if wanted[1]:
        found += (_convolved(op, source, weight, gradient, Phase.WEIGHT_GRAD),)
    if (
        len(weight.shape) == 4
        and weight.shape[1] == 1
        and number(op, "groups", 1.0) > 1
        and not _is_last(source, weight)
    ):
        found = found[::-1]  # PyTorch's own kernels: weights first
    own = tuple(launch for one in found for launch in one)
    if len(wanted) > 2 and wanted[2]:
        channels = TensorMeta(shape=(gradient.shape[1],), strides=(1,), dtype=gradient.dtype)
        dims = tuple(dim for dim in range(len(gradient.shape)) if dim != 1)
        own = (*own, reduction("sum", gradient, channels, dims))
    return own


def _pooled(op: DispatchedOp, slots: dict[bool, tuple[float, float]], name: str) -> Launched:
    """Each output looks at its whole window."""
    source, out = first(op), result(op)
    window = prod(_along_dims(op, "kernel_size", 2, 1))
    is_last = is_channels_last(source)
    return (
        VectorKernel(
            name=name,
            read_bytes=float(source.num_bytes),
            write_bytes=sum(float(one.num_bytes) for one in op.outputs),
            slots=out.num_elements * (slots[is_last][0] + slots[is_last][1] * window),
        ),
    )


register("aten.max_pool2d_with_indices", "aten.max_pool3d_with_indices")(
    partial(_pooled, slots=MAX_POOL_SLOTS, name="max pool")
)
register("aten.avg_pool2d", "aten.avg_pool3d", "aten.avg_pool1d")(
    partial(_pooled, slots=AVERAGE_POOL_SLOTS, name="average pool")
)


def _pooled_backward(op: DispatchedOp, slots: dict[bool, tuple[float, float]], name: str) -> Launched:
    """Each input looks at all windows that it may be in: those of a window over the stride."""
    gradient, source, out = tensors(op)[0], tensors(op)[1], result(op)
    kernel = _along_dims(op, "kernel_size", 2, 1)
    stride = numbers(op, "stride") or kernel
    stride = stride if len(stride) == len(kernel) else stride[:1] * len(kernel)
    windows = prod(-(-size // step) for size, step in zip(kernel, stride, strict=True))
    is_last = is_channels_last(source)
    pass_kernel = VectorKernel(
        name=name,
        read_bytes=float(gradient.num_bytes) + sum(float(one.num_bytes) for one in tensors(op)[2:]),
        write_bytes=float(out.num_bytes),
        slots=out.num_elements * (slots[is_last][0] + slots[is_last][1] * windows),
    )
    return (pass_kernel,)


register("aten.max_pool2d_with_indices_backward", "aten.max_pool3d_with_indices_backward")(
    partial(_pooled_backward, slots=MAX_POOL_BACKWARD_SLOTS, name="max pool backward")
)
register("aten.avg_pool2d_backward", "aten.avg_pool3d_backward")(
    partial(_pooled_backward, slots=AVERAGE_POOL_BACKWARD_SLOTS, name="average pool backward")
)


@register(
    "aten._adaptive_avg_pool2d", "aten._adaptive_avg_pool3d", "aten.adaptive_max_pool2d", "aten.adaptive_avg_pool1d"
)
def adaptive_pool(op: DispatchedOp) -> Launched:
    """A thread or block an output, which reads its part of the image once."""
    source, out = first(op), result(op)
    slots = source.num_elements * ADAPTIVE_SLOTS
    return (
        VectorKernel(
            name="adaptive pool", read_bytes=float(source.num_bytes), write_bytes=float(out.num_bytes), slots=slots
        ),
    )


@register(
    "aten._adaptive_avg_pool2d_backward", "aten._adaptive_avg_pool3d_backward", "aten.adaptive_max_pool2d_backward"
)
def adaptive_pool_backward(op: DispatchedOp) -> Launched:
    gradient, out = first(op), result(op)
    slots = out.num_elements * ADAPTIVE_SLOTS
    return (
        VectorKernel(
            name="adaptive pool backward",
            read_bytes=float(gradient.num_bytes),
            write_bytes=float(out.num_bytes),
            slots=slots,
        ),
    )


@register(
    "aten.im2col",
    "aten.col2im",
    "aten.reflection_pad2d",
    "aten.replication_pad2d",
    "aten.reflection_pad1d",
    "aten.pixel_shuffle",
    "aten.pixel_unshuffle",
    "aten.channel_shuffle",
)
def rearranged(op: DispatchedOp) -> Launched:
    """Every output element finds its place in the input by divisions."""
    out = result(op)
    slots = out.num_elements * REARRANGED_SLOTS
    return (
        VectorKernel(
            name="rearrange", read_bytes=float(first(op).num_bytes), write_bytes=float(out.num_bytes), slots=slots
        ),
    )


REARRANGED_SLOTS = 92.0  # as a strided copy of four dims (iterator.py)


@register("aten.grid_sampler_2d", "aten.grid_sampler_2d_backward", "aten.slow_conv3d_forward")
def not_modelled(op: DispatchedOp) -> Launched:
    raise NotModelled(f"the operator {op.name} is not modelled: no kernel of it was measured")
