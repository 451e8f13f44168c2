"""Operators of PyTorch whose operands or numbers matter: products, sums, norms, pools and tables."""

from __future__ import annotations

import math
from typing import Any

from dovetail.importers.torch_operators import Call, Reading, as_numbered, torch_operators
from dovetail.workload.recorded.record import Attribute


def _dims(call: Call) -> tuple[int, ...]:
    """The dims that a call reduces over, counted from the first; all of them where none is named."""
    rank = call.arguments["self"].dim()
    given = call.arguments.get("dim")
    if given is None or given == [] or given == ():
        return tuple(range(rank))
    listed = [given] if isinstance(given, int) else list(given)
    return tuple(sorted(int(dim) % max(rank, 1) for dim in listed))


def _cast(call: Call) -> Reading:
    tensor, dtype = call.arguments["self"], call.arguments.get("dtype")
    moved = dtype is None or dtype == tensor.dtype
    return Reading(word="copy" if moved else "cast", inputs=call.inputs)


def _pow(call: Call) -> Reading:
    exponent = call.arguments.get("exponent", 2)
    if len(call.inputs) > 1:
        return Reading(word="binary", inputs=call.inputs)
    if not isinstance(exponent, int | float):  # a number to the power of a tensor
        return Reading(word="exp", inputs=call.inputs)
    return Reading(word="pow", inputs=call.inputs, attributes=(("exponent", exponent),))


def _summed(word: str) -> Any:
    def reading(call: Call) -> Reading:
        return Reading(word=word, inputs=call.inputs, attributes=(("dims", _dims(call)),))

    return reading


def _along(word: str) -> Any:
    def reading(call: Call) -> Reading:
        rank = call.arguments["self"].dim()
        dim = int(call.arguments.get("dim", 0)) % max(rank, 1)
        return Reading(word=word, inputs=call.inputs, attributes=(("dim", dim),))

    return reading


def _concat(call: Call) -> Reading:
    dim = int(call.arguments.get("dim", 0))
    shapes = [tensor.dim() for tensor in call.arguments["tensors"]]
    rank = max(shapes) + (call.name == "aten::stack")
    return Reading(word="concat", inputs=call.inputs, attributes=(("dim", dim % max(rank, 1)),))


def _copy_into(call: Call) -> Reading:
    return Reading(word="copy", inputs=call.inputs, attributes=(("write", True),))


def _product(call: Call) -> Reading:
    """A matrix by a matrix: `linear` where the second is a parameter or its transpose."""
    left, right = ("self", "mat2") if "mat2" in call.arguments else ("self", "other")
    if "mat1" in call.arguments:
        left = "mat1"
    return _multiplied(
        call, call.arguments[left], call.arguments[right], call.arguments["self"] if left == "mat1" else None
    )


def _multiplied(call: Call, left: Any, right: Any, bias: Any) -> Reading:
    weight, turned = call.weight(right)
    if weight >= 0 and right.dim() == 2:
        inputs = (call.number(left), weight)
        if bias is None or bias.dim() == 1:
            more = () if bias is None else (call.number(bias),)
            return Reading(word="linear", inputs=inputs + more, attributes=(("turned", turned),))
        return Reading(word="linear", inputs=inputs, attributes=(("turned", turned),), added=call.number(bias))
    inputs = (call.number(left), call.number(right))
    return Reading(word="matmul", inputs=inputs, added=-1 if bias is None else call.number(bias))


def _batched_product(call: Call) -> Reading:
    if "batch1" in call.arguments:
        return _multiplied(call, call.arguments["batch1"], call.arguments["batch2"], call.arguments["self"])
    return _multiplied(call, call.arguments["self"], call.arguments["mat2"], None)


def _matrix_by_vector(call: Call) -> Reading:
    weight, turned = call.weight(call.arguments["self"])
    if weight >= 0:  # its rows meet the vector, so it lies as the weight of a linear layer does
        return Reading(
            word="linear", inputs=(call.number(call.arguments["vec"]), weight), attributes=(("turned", not turned),)
        )
    return Reading(word="matmul", inputs=call.numbers("self", "vec"), is_column=True)


def _grouped(call: Call) -> Reading:
    return Reading(word="grouped_linear", inputs=call.numbers("self", "mat2", "offs"))


def _solved(call: Call) -> Reading:
    """X of A X = B, or of X A = B: half of the product with a matrix as large as A."""
    names = ("self", "B") if call.arguments.get("left", True) else ("B", "self")
    return Reading(word="matmul", inputs=call.numbers(*names), attributes=(("triangular", True),))


def _sides(given: Any, rank: int) -> tuple[int, ...]:
    listed = [given] if isinstance(given, int) else [int(side) for side in given]
    return tuple(listed * rank if len(listed) == 1 else listed)


def _convolution(call: Call) -> Reading:
    arguments = call.arguments
    rank = arguments["weight"].dim() - 2
    attributes: tuple[tuple[str, Attribute], ...] = (
        ("groups", int(arguments["groups"])),
        ("padding", _sides(arguments["padding"], rank)),
        ("stride", _sides(arguments["stride"], rank)),
        ("turned", bool(arguments["transposed"])),
    )
    dilation = _sides(arguments["dilation"], rank)
    if any(side != 1 for side in dilation):
        attributes += (("dilation", dilation),)
    return Reading(word="convolution", inputs=call.numbers("input", "weight", "bias"), attributes=attributes)


def _pool(word: str) -> Any:
    def reading(call: Call) -> Reading:
        window = call.arguments["kernel_size"]
        stride = call.arguments.get("stride") or window
        return Reading(word=word, inputs=call.numbers("self"), attributes=pooling(window, stride))

    return reading


def pooling(window: Any, stride: Any) -> tuple[tuple[str, Attribute], ...]:
    """Windows that are no squares count as the square of the same number of elements, rounded up."""
    return (("stride", _one_side(stride)), ("window", _one_side(window)))


def _one_side(given: Any) -> int:
    listed = [given] if isinstance(given, int) else [int(side) for side in given]
    if len(set(listed)) == 1:
        return int(listed[0])
    side: float = math.prod(listed) ** (1 / len(listed))
    return math.ceil(side)


def _adaptive(word: str) -> Any:
    def reading(call: Call) -> Reading:
        tensor, size = call.arguments["self"], call.arguments["output_size"]
        rank = len(size) if not isinstance(size, int) else tensor.dim() - 2
        wanted = _sides(size, rank)
        window = [-(-int(side) // max(want, 1)) for side, want in zip(tensor.shape[-rank:], wanted, strict=True)]
        return Reading(word=word, inputs=call.numbers("self"), attributes=pooling(window, window))

    return reading


def _interpolated(window: int) -> Any:
    def reading(call: Call) -> Reading:
        return Reading(word="avgpool", inputs=call.inputs, attributes=pooling(window, 1))

    return reading


def _norm(word: str) -> Any:
    def reading(call: Call) -> Reading:
        return Reading(word=word, inputs=call.numbers("input", "weight", "bias"))

    return reading


def _embedding(call: Call) -> Reading:
    return Reading(word="embedding", inputs=call.numbers("weight", "indices"))


def _embedding_bag(call: Call) -> Reading:
    pool = -(-call.arguments["indices"].numel() // max(call.arguments["offsets"].numel(), 1))
    inputs = call.numbers("weight", "indices", "offsets", "per_sample_weights")
    return Reading(word="embedding_bag", inputs=inputs, attributes=(("pool", pool),))


def _linear(call: Call) -> Reading:
    return Reading(word="linear", inputs=call.numbers("input", "weight", "bias"), attributes=(("turned", True),))


READERS = {
    "_to_copy": _cast,
    "add": as_numbered("add"),
    "pow square": _pow,
    "sum": _summed("sum"),
    "mean": _summed("mean"),
    "_softmax _safe_softmax softmax": _along("softmax"),
    "_log_softmax log_softmax": _along("log_softmax"),
    "cat concat stack": _concat,
    "copy slice_scatter select_scatter diagonal_scatter as_strided_scatter": _copy_into,
    "mm addmm matmul": _product,
    "bmm baddbmm": _batched_product,
    "mv": _matrix_by_vector,
    "_grouped_mm": _grouped,
    "linalg_solve_triangular": _solved,
    "convolution _convolution": _convolution,
    "max_pool2d_with_indices max_pool3d_with_indices max_pool1d max_pool2d max_pool3d "
    "fractional_max_pool2d fractional_max_pool3d": _pool("maxpool"),
    "avg_pool1d avg_pool2d avg_pool3d": _pool("avgpool"),
    "_adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d": _adaptive("avgpool"),
    "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d": _adaptive("maxpool"),
    "upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact2d": _interpolated(1),
    "upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d": _interpolated(2),
    "upsample_bicubic2d _upsample_bicubic2d_aa": _interpolated(4),
    "native_layer_norm layer_norm": _norm("layernorm"),
    "_fused_rms_norm rms_norm": _norm("rmsnorm"),
    "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training cudnn_batch_norm "
    "_batch_norm_with_update _batch_norm_no_update batch_norm": _norm("batchnorm"),
    "native_group_norm group_norm": _norm("groupnorm"),
    "embedding": _embedding,
    "_embedding_bag _embedding_bag_forward_only": _embedding_bag,
    "linear": _linear,
}
for _names, _reader in READERS.items():
    for _name in _names.split():
        torch_operators.register(f"aten::{_name}")(_reader)
