"""Element-wise operators, copies, casts, fills and random numbers."""

from __future__ import annotations

from functools import partial
from math import prod

from dovetail.cost.eager.iterator import APART_SLOTS, apart_frac, iteration, pointwise
from dovetail.cost.eager.launches import (
    Launched,
    VectorKernel,
    argument,
    distinct_bytes,
    first,
    is_channels_last,
    is_dense,
    item_bytes,
    number,
    register,
    result,
    tensors,
)
from dovetail.workload.dispatched import DispatchedOp, TensorMeta

# Lane slots of an element's function beside loads and stores: special functions fill eight a clock and lane, and come
# several to a function. Those of silu and gelu were set from rates where lanes bind (silu, hardswish, dropout: 48 rows
# of eager_ops.csv; 176 of vector.csv); the others are counted from the same instructions.
PLAIN = (
    "abs", "add", "sub", "rsub", "mul", "neg", "relu", "threshold", "threshold_backward", "clamp", "clamp_min",
    "clamp_max", "hardtanh", "hardtanh_backward", "hardswish", "hardswish_backward", "hardsigmoid",
    "hardsigmoid_backward", "leaky_relu", "leaky_relu_backward", "maximum", "minimum", "lerp", "square", "sign",
    "sgn", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_not", "logical_xor",
    "bitwise_and", "bitwise_or", "bitwise_not", "bitwise_xor", "__and__", "__or__", "__xor__", "bitwise_left_shift",
    "bitwise_right_shift", "__lshift__", "__rshift__", "isnan", "isinf", "isfinite", "floor", "ceil", "round",
    "trunc", "frac", "addcmul", "sigmoid_backward", "tanh_backward", "mse_loss_backward", "smooth_l1_loss_backward",
    "huber_loss_backward", "nan_to_num", "heaviside", "fmax", "fmin", "positive", "signbit", "copysign", "isposinf",
    "isneginf", "relu6", "conj_physical", "complex", "softshrink", "hardshrink", "_masked_scale",
    "_prelu_kernel", "_prelu_kernel_backward",
)  # fmt: skip
FUNCTIONS: dict[float, tuple[str, ...]] = {
    10.0: (
        "div", "true_divide", "floor_divide", "fmod", "remainder", "reciprocal", "rsqrt", "sqrt", "addcdiv", "hypot",
    ),
    22.0: ("exp", "exp2", "log", "log2", "log10"),
    34.0: (
        "silu", "sigmoid", "tanh", "erf", "sin", "cos", "atan", "expm1", "log1p", "elu", "elu_backward", "celu", "selu",
        "glu", "xlogy",
    ),
    43.0: (
        "gelu", "silu_backward", "erfc", "erfinv", "tan", "asin", "acos", "atan2", "sinh", "cosh", "softplus",
        "softplus_backward", "log_sigmoid_forward", "log_sigmoid_backward", "logaddexp", "logit", "glu_backward",
        "sinc",
    ),
    57.0: ("gelu_backward", "mish", "mish_backward", "binary_cross_entropy_with_logits", "angle", "polar", "i0"),
    80.0: ("lgamma", "digamma"),
}  # fmt: skip
POWER_SLOTS = 60.0  # a power that is no small whole number
# Philox, by bytes of an element: four or eight numbers of a draw are used (5 rows of eager_ops.csv, 29 kernels of
# profiles).
DROPOUT_SLOTS = {2: 54.0, 4: 92.0}
DROPOUT_STEPS = 2.0  # the state of the generator is read first
CHEAP_POWERS = (0.0, 0.5, 1.0, 2.0, 3.0, -0.5, -1.0, -2.0)  # kernels of their own in PyTorch
RANDOM_SLOTS = 54.0  # Philox and a transformation, as in dropout
CAT_SLOTS, CAT_DIM_SLOTS = (
    3.0,
    36.0,
)  # CatArrayBatchedCopy: places in and out by division (cat_halves, rope_rotate: 7 rows)
CAT_ALIGNED_SLOTS = 74.0  # inputs contiguous, channels last (12 kernels of profiled steps)
CAT_DENSE_SLOTS = 31.0  # inputs contiguous: copied in vectors, at the pace of HBM (60 kernels of those)
CAT_UNEVEN = 0.38  # inputs get as many blocks each; what an input of more than its share adds (67 kernels of those)


def operands(op: DispatchedOp) -> tuple[TensorMeta, ...]:
    """Inputs that are walked: one without dims is a number that the kernel is given, unless all are."""
    found = tensors(op)
    return tuple(one for one in found if one.shape) or found


def _elementwise(op: DispatchedOp, slots: float, name: str) -> Launched:
    """Comparisons give truth values by themselves; other results of another dtype than the inputs' are cast."""
    out, walked = result(op), operands(op)
    inputs = {one.dtype for one in walked}
    is_cast = len(inputs) > 1 or (out.dtype not in inputs and out.dtype != "bool")
    return pointwise(name, out, walked, slots=slots, outputs=op.outputs[1:], is_cast=is_cast)


for _name in PLAIN:
    register(f"aten.{_name}")(partial(_elementwise, slots=0.0, name=_name))
for _slots, _names in FUNCTIONS.items():
    for _name in _names:
        register(f"aten.{_name}")(partial(_elementwise, slots=_slots, name=_name))


@register("aten.pow")
def power(op: DispatchedOp) -> Launched:
    exponent = argument(op, "exponent")
    is_cheap = isinstance(exponent, int | float) and float(exponent) in CHEAP_POWERS
    return _elementwise(op, 0.0 if is_cheap else POWER_SLOTS, "pow")


@register("aten.masked_fill", "aten.masked_fill_")
def masked_fill(op: DispatchedOp) -> Launched:
    """Out of place, the tensor is copied first."""
    out = result(op)
    filled = pointwise("masked_fill", out, (out, *tensors(op)[1:2]), is_cast=False)
    return filled if op.name.startswith("aten.masked_fill_") else (*copy_launch(out, first(op)), *filled)


@register("aten.where.self", "aten.where")
def where(op: DispatchedOp) -> Launched:
    """A value without dims is expanded, and so nothing is vectorised."""
    return pointwise("where", result(op), tensors(op), is_cast=False)


def copy_launch(out: TensorMeta, source: TensorMeta) -> Launched:
    """A copy to `out`: one stream where both lie in the same way, else as TensorIterator walks."""
    is_narrowed = source.dtype == "fp32" and out.dtype in NARROWED  # kernels of their own, vectorised
    return pointwise("copy", out, (source,), is_cast=False if is_narrowed else None)


NARROWED = ("bf16", "fp16")  # bfloat16_copy_kernel_cuda and its like (Copy.cu)


@register("aten.clone", "aten.contiguous", "aten._to_copy", "aten.to", "aten.repeat_interleave.self_int")
def copied(op: DispatchedOp) -> Launched:
    if not op.outputs:  # to the host
        return (VectorKernel(name="copy to host", read_bytes=distinct_bytes(first(op)), streams=1),)
    return copy_launch(result(op), first(op))


@register("aten.copy_", "aten.copy")
def copy_into(op: DispatchedOp) -> Launched:
    found = tensors(op)
    return copy_launch(found[0], found[-1])


@register("aten._local_scalar_dense", "aten.item")
def read_scalar(_op: DispatchedOp) -> Launched:
    return (VectorKernel(name="copy to host"),)


@register("aten.repeat")
def repeated(op: DispatchedOp) -> Launched:
    """A copy of the input, expanded, into a view of the output that has twice as many dims."""
    out, source = result(op), first(op)
    lead = len(out.shape) - len(source.shape)
    shape, source_strides, out_strides = [], [], []
    own = (1,) * lead + source.shape
    strides = (0,) * lead + source.strides
    for size, own_size, stride, out_stride in zip(out.shape, own, strides, out.strides, strict=True):
        shape += [size // max(own_size, 1), own_size]
        source_strides += [0, stride]
        out_strides += [out_stride * own_size, out_stride]
    given_view = TensorMeta(shape=tuple(shape), strides=tuple(source_strides), dtype=source.dtype)
    return copy_launch(TensorMeta(shape=tuple(shape), strides=tuple(out_strides), dtype=out.dtype), given_view)


FILLS = (
    "aten.fill_", "aten.fill", "aten.zero_", "aten.zeros", "aten.zeros_like", "aten.ones", "aten.ones_like",
    "aten.full", "aten.full_like", "aten.new_zeros", "aten.new_ones", "aten.new_full", "aten.arange", "aten.linspace",
    "aten.scalar_tensor", "aten.eye", "aten._efficientzerotensor", "aten.range", "aten.logspace",
)  # fmt: skip


@register(*FILLS)
def filled(op: DispatchedOp) -> Launched:
    return fill_launch(result(op))


def fill_launch(out: TensorMeta) -> Launched:
    return pointwise("fill", out, ())


RANDOM = (
    "aten.bernoulli", "aten.bernoulli_", "aten.uniform_", "aten.uniform", "aten.normal_", "aten.rand", "aten.rand_like",
    "aten.randn", "aten.randn_like", "aten.random_", "aten.randint", "aten.randint_like", "aten.exponential_",
    "aten.normal", "aten.log_normal_", "aten.cauchy_", "aten.geometric_", "aten.normal_functional", "aten.exponential",
)  # fmt: skip


@register(*RANDOM)
def random_numbers(op: DispatchedOp) -> Launched:
    out = result(op)
    if not out.num_elements:
        return ()
    return (VectorKernel(name="random", write_bytes=out.num_bytes, streams=0, slots=out.num_elements * RANDOM_SLOTS),)


@register("aten.native_dropout")
def dropout(op: DispatchedOp) -> Launched:
    """The result and a byte of mask an element."""
    given_tensor = first(op)
    return (
        VectorKernel(
            name="dropout",
            is_counted=True,
            read_bytes=given_tensor.num_bytes,
            write_bytes=sum(float(one.num_bytes) for one in op.outputs),
            slots=given_tensor.num_elements * DROPOUT_SLOTS[min(max(item_bytes(given_tensor), 2), 4)],
            steps=DROPOUT_STEPS,
        ),
    )


@register("aten.native_dropout_backward")
def dropout_backward(op: DispatchedOp) -> Launched:
    """One kernel of its own for a gradient and a mask (masked_scale), vectorised though their dtypes differ."""
    moved = sum(float(one.num_bytes) for one in tensors(op))
    return (VectorKernel(name="masked_scale", read_bytes=moved, write_bytes=result(op).num_bytes),)


@register("aten.cat", "aten.concat", "aten.hstack", "aten.vstack", "aten._cat")
def concatenated(op: DispatchedOp) -> Launched:
    return _joined(result(op), list(tensors(op)))


@register("aten.stack")
def stacked(op: DispatchedOp) -> Launched:
    """Inputs are concatenated along the dim they are stacked before; behind the last, they get a dim of one.

    So four dims become five by a kernel of four (TensorShape.cpp, stack).
    """
    out = result(op)
    dim = int(number(op, "dim")) % max(len(out.shape), 1)
    if dim < len(out.shape) - 1:
        shape = (*out.shape[:dim], out.shape[dim] * out.shape[dim + 1], *out.shape[dim + 2 :])
        strides = (*out.strides[:dim], *out.strides[dim + 1 :])
        return _joined(TensorMeta(shape=shape, strides=strides, dtype=out.dtype), list(tensors(op)))
    return _joined(out, [_with_dim(one, dim) for one in tensors(op)])


def _with_dim(tensor: TensorMeta, dim: int) -> TensorMeta:
    stride = prod(tensor.shape[dim:])
    shape = (*tensor.shape[:dim], 1, *tensor.shape[dim:])
    return TensorMeta(shape=shape, strides=(*tensor.strides[:dim], stride, *tensor.strides[dim:]), dtype=tensor.dtype)


def _joined(out: TensorMeta, found: list[TensorMeta]) -> Launched:
    """One kernel of up to 128 inputs, which finds the place of every element by divisions; empty ones have a share."""
    inputs = [one for one in found if one.num_elements]
    if not inputs:
        return ()
    if len(found) == 1:
        return copy_launch(out, inputs[0])
    if len({one.dtype for one in inputs}) > 1 or len(out.shape) > CAT_MAX_DIMS:
        return tuple(launch for one in inputs for launch in copy_launch(_like(out, one), one))
    is_dense_all, is_last_all = all(is_dense(one) for one in inputs), all(is_channels_last(one) for one in inputs)
    dims = sum(1 for size in out.shape if size > 1)
    slots = CAT_SLOTS + CAT_DIM_SLOTS * max(dims, 1)
    slots = CAT_DENSE_SLOTS if is_dense_all else CAT_ALIGNED_SLOTS if is_last_all else slots
    if not is_last_all:
        share = max(one.num_elements for one in inputs) * len(found) / out.num_elements
        slots *= 1 + CAT_UNEVEN * (share - 1)
    if not is_dense_all and not is_last_all:
        apart = [apart_frac(iteration(_like(out, one), (one,)), (_like(out, one), one)) for one in inputs]
        weight = [one.num_elements / out.num_elements for one in inputs]
        slots += APART_SLOTS * sum(a * w for a, w in zip(apart, weight, strict=True))
    kernel = VectorKernel(
        name="cat",
        read_bytes=sum(distinct_bytes(one) for one in inputs),
        write_bytes=float(out.num_bytes),
        slots=out.num_elements * slots,
    )
    return (kernel,) * -(-len(inputs) // CAT_MAX_INPUTS)


CAT_MAX_DIMS, CAT_MAX_INPUTS = 4, 128  # of CatArrayBatchedCopy (ATen/native/cuda/Shape.cu)


def _like(out: TensorMeta, one: TensorMeta) -> TensorMeta:
    """The part of `out` that an input goes to."""
    return TensorMeta(shape=one.shape, strides=out.strides, dtype=out.dtype)


@register("aten.slice_backward", "aten.select_backward", "aten.diagonal_backward", "aten.unfold_backward")
def placed_in_zeros(op: DispatchedOp) -> Launched:
    """Zeros all over, then the gradient copied into its place."""
    out, gradient = result(op), first(op)
    strides = out.strides[-len(gradient.shape) :] if gradient.shape else ()
    part = TensorMeta(shape=gradient.shape, strides=strides, dtype=out.dtype)
    if op.name.startswith("aten.select_backward"):
        dim = int(number(op, "dim")) % len(out.shape)
        part = TensorMeta(shape=gradient.shape, strides=out.strides[:dim] + out.strides[dim + 1 :], dtype=out.dtype)
    return (*fill_launch(out), *copy_launch(part, gradient))


@register("aten.constant_pad_nd")
def padded(op: DispatchedOp) -> Launched:
    out, source = result(op), first(op)
    part = TensorMeta(shape=source.shape, strides=out.strides, dtype=out.dtype)
    return (*fill_launch(out), *copy_launch(part, source))


@register("aten.slice_scatter", "aten.select_scatter", "aten.as_strided_scatter", "aten.diagonal_scatter")
def scattered_view(op: DispatchedOp) -> Launched:
    """A copy of all, then the source copied into its place."""
    out, source = result(op), tensors(op)[-1]
    strides = out.strides[-len(source.shape) :] if source.shape else ()
    part = TensorMeta(shape=source.shape, strides=strides, dtype=out.dtype)
    return (*copy_launch(out, first(op)), *copy_launch(part, source))


@register("aten.flip", "aten.roll", "aten.rot90")
def rolled(op: DispatchedOp) -> Launched:
    out = result(op)
    slots = ROLL_SLOTS * out.num_elements
    return (VectorKernel(name="roll", read_bytes=out.num_bytes, write_bytes=out.num_bytes, slots=slots),)


ROLL_SLOTS = 159.0  # a remainder a dim beside the places (roll_cuda_kernel, 24 kernels of profiled steps)
STRIDED_VIEW_SLOTS = 92.0  # a place found by division for each of four dims, as of a strided copy (iterator.py)


@register("aten.tril", "aten.triu")
def triangle(op: DispatchedOp) -> Launched:
    """Rows and columns of every element by division."""
    out = result(op)
    slots = STRIDED_VIEW_SLOTS * out.num_elements
    return (VectorKernel(name="triangle", read_bytes=out.num_bytes, write_bytes=out.num_bytes, slots=slots),)


@register(
    "aten.upsample_nearest2d",
    "aten.upsample_bilinear2d",
    "aten.upsample_bicubic2d",
    "aten._upsample_nearest_exact2d",
    "aten.upsample_nearest1d",
)
def upsampled(op: DispatchedOp) -> Launched:
    out = result(op)
    taps = 16.0 if "bicubic" in op.name else 4.0 if "bilinear" in op.name else 1.0
    slots = out.num_elements * (STRIDED_VIEW_SLOTS + TAP_SLOTS * taps)
    return (VectorKernel(name="upsample", read_bytes=first(op).num_bytes, write_bytes=out.num_bytes, slots=slots),)


TAP_SLOTS = 16.4  # a product of a window, as of depthwise convolutions (convolutions.py)


@register(
    "aten.upsample_nearest2d_backward",
    "aten.upsample_bilinear2d_backward",
    "aten.upsample_bicubic2d_backward",
    "aten.upsample_nearest1d_backward",
)
def upsampled_backward(op: DispatchedOp) -> Launched:
    out, gradient = result(op), first(op)
    taps = 16.0 if "bicubic" in op.name else 4.0 if "bilinear" in op.name else 1.0
    slots = gradient.num_elements * (STRIDED_VIEW_SLOTS + TAP_SLOTS * taps)
    moved = VectorKernel(name="upsample", read_bytes=gradient.num_bytes, write_bytes=out.num_bytes, slots=slots)
    return (*fill_launch(out), moved) if taps > 1 else (moved,)
