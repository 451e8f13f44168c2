"""Operators as eager PyTorch dispatches them, one call each: a kind, its extents in words, a pass and microseconds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Prepared, TableContext, chip_for, promise_for
from dovetail.accuracy.sets import Format, sets
from dovetail.cost.eager.operators.attention import sdpa_backend
from dovetail.cost.eager.times import START_FRAC, eager_times
from dovetail.cost.op_cost import Setting
from dovetail.hardware.chip import Chip
from dovetail.units import MICRO
from dovetail.workload.dispatched import BACKWARD, FORWARD, Argument, DispatchedOp, TensorMeta
from dovetail.workload.graph import FloatArray

NEEDED = ("kind", "what", "pass", "time_us")
Calls = tuple[DispatchedOp, ...]
_BATCH_NORM = {"training": True, "momentum": 0.1, "eps": 1e-5}  # style: PyTorch's defaults, which no kernel depends on
_POOLS = {"max_pool3s2": (3, 2, 1), "avg_pool3s1": (3, 1, 1)}  # window, stride and padding


def dense(*shape: int, dtype: str = "bf16") -> TensorMeta:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return TensorMeta(shape=shape, strides=tuple(reversed(strides)), dtype=dtype)


def channels_last(n: int, c: int, h: int, w: int, dtype: str = "bf16") -> TensorMeta:
    return TensorMeta(shape=(n, c, h, w), strides=(h * w * c, 1, w * c, c), dtype=dtype)


def turned(tensor: TensorMeta, first: int = -2, second: int = -1) -> TensorMeta:
    shape, strides = list(tensor.shape), list(tensor.strides)
    shape[first], shape[second] = shape[second], shape[first]
    strides[first], strides[second] = strides[second], strides[first]
    return TensorMeta(shape=tuple(shape), strides=tuple(strides), dtype=tensor.dtype)


def part(tensor: TensorMeta, dim: int, extent: int) -> TensorMeta:
    shape = list(tensor.shape)
    shape[dim] = extent
    return TensorMeta(shape=tuple(shape), strides=tensor.strides, dtype=tensor.dtype)


def call(name: str, inputs: Sequence[TensorMeta | None], *outputs: TensorMeta, **arguments: Argument) -> DispatchedOp:
    return DispatchedOp(
        name=f"aten.{name}",
        inputs=tuple(inputs),
        outputs=outputs,
        arguments=tuple(arguments.items()),
        phase=BACKWARD if "backward" in name else FORWARD,
    )


def _head(kind: str, extents: list[int], way: str) -> Calls:
    tokens, hidden, vocab = extents
    x, weight, gradient = dense(tokens, hidden), dense(vocab, hidden), dense(tokens, vocab)
    if way == "dgrad":
        return (call("mm.default", (gradient, weight), x),)
    if way == "wgrad":
        return (call("mm.default", (turned(gradient), x), weight),)
    if kind == "head_bias":
        return (call("addmm.default", (dense(vocab), x, turned(weight)), gradient),)
    return (call("mm.default", (x, turned(weight)), gradient),)


def _piece(kind: str, extents: list[int], _way: str) -> Calls:
    r, c = extents
    x, xf, row = dense(r, c), dense(r, c, dtype="fp32"), dense(c)
    half = part(x, 1, c // 2)
    found: dict[str, Callable[[], Calls]] = {
        "to_fp32": lambda: (call("_to_copy.default", (x,), xf, dtype="fp32"),),
        "logits_float": lambda: (call("_to_copy.default", (x,), xf, dtype="fp32"),),
        "to_bf16": lambda: (call("_to_copy.default", (xf,), x, dtype="bf16"),),
        "pow2_fp32": lambda: (call("pow.Tensor_Scalar", (xf,), xf, exponent=2),),
        "pow3": lambda: (call("pow.Tensor_Scalar", (x,), x, exponent=3.0),),
        "mean_last_fp32": lambda: (call("mean.dim", (xf,), dense(r, 1, dtype="fp32"), dim=(-1,), keepdim=True),),
        "mul_row_fp32": lambda: (call("mul.Tensor", (xf, part(xf, 1, 1)), xf),),
        "mul_col_bf16": lambda: (call("mul.Tensor", (row, x), x),),
        "mul_mixed": lambda: (call("mul.Tensor", (xf, row), xf),),
        "neg": lambda: (call("neg.default", (x,), x),),
        "cat_halves": lambda: (
            call("neg.default", (half,), dense(r, c // 2)),
            call("cat.default", (dense(r, c // 2), half), x, dim=-1),
        ),
        "dropout": lambda: (call("native_dropout.default", (x,), x, dense(r, c, dtype="bool"), p=0.1, train=True),),
        "tanh": lambda: (call("tanh.default", (x,), x),),
        "add_scalar": lambda: (call("add.Tensor", (x,), x, other=1.0, alpha=1),),
        "softmax_fp32": lambda: (call("_softmax.default", (xf,), xf, dim=-1, half_to_float=False),),
        "sum_rows_fp32": lambda: (call("sum.dim_IntList", (xf,), dense(c, dtype="fp32"), dim=(0,), keepdim=False),),
        "sum_rows_bf16": lambda: (call("sum.dim_IntList", (x,), row, dim=(0,), keepdim=False),),
        "gather_rows": lambda: (
            call("randperm.default", (), dense(r, dtype="int64"), n=r),
            call("index.Tensor", (x, dense(r, dtype="int64")), x),
        ),
        "contiguous_t": lambda: (call("clone.default", (turned(x),), dense(c, r)),),
    }
    return found[kind]()


def _rotary(kind: str, extents: list[int], _way: str) -> Calls:
    b, h, s, d = extents
    x = turned(dense(b, s, h, d), 1, 2)
    whole = dense(b, h, s, d)
    half = part(x, 3, d // 2)
    if kind == "rope_mul":
        return (call("mul.Tensor", (x, dense(b, 1, s, d)), x),)
    if kind == "rope_rotate":
        negated = turned(dense(b, s, h, d // 2), 1, 2)
        return (call("neg.default", (half,), negated), call("cat.default", (negated, half), whole, dim=-1))
    if kind == "repeat_kv":
        spread = TensorMeta(shape=(b, h, 4, s, d), strides=(*x.strides[:2], 0, *x.strides[2:]), dtype=x.dtype)
        return (call("clone.default", (spread,), dense(b, h, 4, s, d)),)
    return (call("clone.default", (x,), whole),)


def _cross_entropy(_kind: str, extents: list[int], way: str) -> Calls:
    rows, vocab = extents
    logits, labels = dense(rows, vocab, dtype="fp32"), dense(rows, dtype="int64")
    loss = dense(dtype="fp32")
    if way == "fwd":
        return (
            call("_log_softmax.default", (logits,), logits, dim=1, half_to_float=False),
            call("nll_loss_forward.default", (logits, labels, None), loss, loss),
        )
    return (
        call("nll_loss_backward.default", (loss, logits, labels, None, loss), logits),
        call("_log_softmax_backward_data.default", (logits, logits), logits, dim=1),
    )


def _grouped(_kind: str, extents: list[int], _way: str) -> Calls:
    rows, hidden, wide, experts = extents
    offsets = dense(experts, dtype="int32")
    return (
        call("_grouped_mm.default", (dense(rows, hidden), dense(experts, hidden, wide), offsets), dense(rows, wide)),
    )


def _indexed(kind: str, extents: list[int], _way: str) -> Calls:
    tokens, hidden, count = extents
    x, index, rows = dense(tokens, hidden), dense(count, dtype="int64"), dense(count, hidden)
    if kind == "index_select":
        return (call("index.Tensor", (x, index), rows),)
    if kind == "index_add":
        return (call("index_add_.default", (x, index, rows), x, dim=0, alpha=1),)
    return (call("index_put_.default", (x, index, rows), x, accumulate=True),)


def _attention(kind: str, extents: list[int], way: str) -> Calls:
    b, h, s, d = extents
    q = dense(b, h, s, d)
    mask = dense(b, 1, s, s) if "mask" in kind else None
    arguments: dict[str, Argument] = {
        "dropout_p": 0.1 if "dropout" in kind else 0.0,
        "is_causal": "causal" in kind,
    }
    name = sdpa_backend(q, q)
    sums, seed = dense(b, h, s, dtype="fp32"), dense(dtype="int64")
    if way == "fwd":
        return (
            call(f"_scaled_dot_product_{name}_attention.default", (q, q, q, mask), q, sums, seed, seed, **arguments),
        )
    middle = (mask, q, sums, seed, seed) if name == "efficient" else (q, sums, seed, seed, mask)
    return (
        call(f"_scaled_dot_product_{name}_attention_backward.default", (q, q, q, q, *middle), q, q, q, **arguments),
    )


def _images(kind: str, what: str, way: str) -> Calls:
    n, c, r = (int(word) for word in re.findall(r"[0-9]+", what))
    made = channels_last if what.startswith("nhwc") else dense
    x, scale = made(n, c, r, r), dense(c)
    if kind == "batch_norm":
        sums = dense(c, dtype="fp32")
        if way == "fwd":
            return (call("native_batch_norm.default", (x, scale, scale, scale, scale), x, sums, sums, **_BATCH_NORM),)
        inputs = (x, x, scale, scale, scale, sums, sums)
        return (
            call(
                "native_batch_norm_backward.default",
                inputs,
                x,
                scale,
                scale,
                train=True,
                output_mask=(True, True, True),
            ),
        )
    if kind in _POOLS:
        window, stride, padding = _POOLS[kind]
        side = (r + 2 * padding - window) // stride + 1
        out = made(n, c, side, side)
        extents: dict[str, Argument] = {
            "kernel_size": (window,) * 2,
            "stride": (stride,) * 2,
            "padding": (padding,) * 2,
        }
        name = "max_pool2d_with_indices" if kind.startswith("max") else "avg_pool2d"
        places = made(n, c, side, side, dtype="int64")
        if way == "fwd":
            return (call(f"{name}.default", (x,), *((out, places) if kind.startswith("max") else (out,)), **extents),)
        return (
            call(f"{name}_backward.default", (out, x, places) if kind.startswith("max") else (out, x), x, **extents),
        )
    backward = {"relu": "threshold_backward", "hardswish": "hardswish_backward", "silu": "silu_backward"}
    if way == "fwd":
        return (call(f"{kind}.default", (x,), x),)
    return (call(f"{backward[kind]}.default", (x, x), x),)


def _convolution(_kind: str, what: str, way: str) -> Calls:
    n, ci, co, height, width, stride, r, groups = (int(word) for word in re.findall(r"[0-9]+", what))
    made = channels_last if what.startswith("nhwc") else dense
    pad = ((height - 1) // 2, (width - 1) // 2)
    sides = [(r + 2 * p - k) // stride + 1 for p, k in zip(pad, (height, width), strict=True)]
    x, out, weight = made(n, ci, r, r), made(n, co, sides[0], sides[1]), made(co, ci // groups, height, width)
    arguments: dict[str, Argument] = {
        "stride": (stride,) * 2, "padding": pad, "dilation": (1, 1), "transposed": False, "output_padding": (0, 0),
        "groups": groups,
    }  # fmt: skip
    if way == "fwd":
        return (call("convolution.default", (x, weight, None), out, **arguments),)
    wanted = (way == "dgrad", way == "wgrad", False)
    result = x if way == "dgrad" else weight
    return (call("convolution_backward.default", (out, x, weight), result, **arguments, output_mask=wanted),)


_PIECES = (
    "to_fp32", "to_bf16", "pow2_fp32", "mean_last_fp32", "mul_row_fp32", "mul_col_bf16", "mul_mixed", "neg",
    "cat_halves", "dropout", "tanh", "pow3", "add_scalar", "softmax_fp32", "sum_rows_fp32", "sum_rows_bf16",
    "gather_rows", "contiguous_t", "logits_float",
)  # fmt: skip
_SIZED: dict[str, tuple[Callable[[str, list[int], str], Calls], int]] = {
    **dict.fromkeys(("head", "head_bias"), (_head, 3)),
    **dict.fromkeys(_PIECES, (_piece, 2)),
    **dict.fromkeys(("rope_mul", "rope_rotate", "repeat_kv", "permute_contiguous"), (_rotary, 4)),
    **dict.fromkeys(("index_select", "index_add", "index_put_acc"), (_indexed, 3)),
    **{
        f"sdpa_{kind}": (_attention, 4)
        for kind in ("causal", "full", "mask", "dropout_causal", "mask_dropout", "dropout")
    },
    "cross_entropy_fp32": (_cross_entropy, 2),
    "grouped_mm": (_grouped, 4),
}
_WORDED: dict[str, tuple[Callable[[str, str, str], Calls], int]] = {
    **dict.fromkeys(("batch_norm", "relu", "hardswish", "silu", *_POOLS), (_images, 3)),
    "conv": (_convolution, 8),
}
_PASSES = ("fwd", "bwd", "dgrad", "wgrad")


def calls(kind: str, what: str, way: str) -> Calls:
    """The dispatched operators of one row; nothing where its kind, pass or extents are not known."""
    extents = [int(word) for word in re.findall(r"[0-9]+", what)]
    made = _SIZED.get(kind) or _WORDED.get(kind)
    if made is None or way not in _PASSES or len(extents) != made[1] or min(extents) < 1:
        return ()
    return _SIZED[kind][0](kind, extents, way) if kind in _SIZED else _WORDED[kind][0](kind, what, way)


def _left_out(kind: str) -> str:
    """Words on rows of a kind that give no call."""
    made = _SIZED.get(kind) or _WORDED.get(kind)
    if made is None:
        return f"rows of {kind[:40]}, which is not modelled"
    return f"rows of {kind} without its {made[1]} sizes, or with a pass other than {', '.join(_PASSES)}"


def alone_s(rows: Sequence[Calls], is_backward: Sequence[bool], num_gradients: Sequence[int], chip: Chip) -> FloatArray:
    """Seconds of each call from an idle queue with cold caches; a gradient is no sooner than autograd hands it out."""
    times = eager_times(list(chain.from_iterable(rows)), chip, Setting.ALONE)
    owner = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    own = chip.calibration
    launches = np.bincount(owner, weights=times.launches, minlength=len(rows))
    # queued in good time, kernels follow each other sooner than in a step: a launch each, part of it within the kernel
    kernels_s = (
        np.bincount(owner, weights=times.kernel_s, minlength=len(rows)) + launches * (1 - START_FRAC) * own.launch_s
    )
    # one gradient by one kernel is queued within the hand-over; what more there is comes on top
    more_s = own.host_gradient_s * (np.array(num_gradients) - 1) + own.host_kernel_s * np.maximum(launches - 1, 0)
    host_s = own.host_autograd_s + more_s
    return np.asarray(np.maximum(kernels_s + own.alone_s, np.where(is_backward, host_s, 0.0)))


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    chip = chip_for(given)
    words = list(zip(*(measurements.words(name) for name in NEEDED[:3]), strict=True))
    found = [calls(*row) for row in words]
    is_known = np.array([bool(row) for row in found])
    unknown = Counter(kind for (kind, _, _), known in zip(words, is_known, strict=True) if not known)
    table = measurements.where(is_known)
    rows = [row for row in found if row]
    kept = [word for word, known in zip(words, is_known, strict=True) if known]
    is_backward = [way != "fwd" and not kind.startswith("head") for kind, _, way in kept]
    num_gradients = [3 if kind.startswith("sdpa") else 1 for kind, _, _ in kept]

    def predicted(chip: Chip) -> FloatArray:
        return alone_s(rows, is_backward, num_gradients, chip)

    return (
        Prepared(
            name=table.name,
            chip=chip,
            unit="s",
            kinds=tuple(kind for kind, _, _ in kept),
            whats=tuple(f"{what} {way}" for _, what, way in kept),
            measured=table.positive("time_us") * MICRO,
            predicted=predicted,
            promise=promise_for(chip, "h200 eager operators"),
            skipped=tuple((_left_out(kind), count) for kind, count in sorted(unknown.items())),
        ),
    )


sets.register("eager-ops")(
    Format(needed=NEEDED, summary=f"operators as eager PyTorch dispatches them: {', '.join(NEEDED)}", prepare=prepare)
)
