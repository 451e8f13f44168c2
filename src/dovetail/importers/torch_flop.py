"""What the products of a run compute, counted from the operators that PyTorch runs: a check on derived gradients."""

from __future__ import annotations

import math
from typing import Any


def product_flop(name: str, args: Any, kwargs: Any) -> int:
    """Two for each multiplication with its addition; nothing for operators that are no products."""
    formula = FORMULAS.get(name)
    return formula(*args, **kwargs) if formula else 0


def _mm(left: Any, right: Any, **_more: Any) -> int:
    return int(2 * left.numel() * right.shape[-1])


def _product_of_vectors(left: Any, _right: Any) -> int:
    return int(2 * left.numel())


def _addmm(_bias: Any, left: Any, right: Any, **_more: Any) -> int:
    return _mm(left, right)


def _grouped(left: Any, right: Any, *_rest: Any, **_more: Any) -> int:
    """Rows by experts' weights, or for the gradient of the weights: inner sizes of groups add up to the whole."""
    if left.dim() == 3 and right.dim() == 2:
        return int(2 * left.shape[1] * left.shape[2] * right.shape[1])
    return int(2 * left.numel() * right.shape[-1])


def _convolution(
    x: Any, weight: Any, _bias: Any, stride: Any, padding: Any, dilation: Any, turned: bool, *_rest: Any
) -> int:
    """Each element of the larger side meets one window of weights."""
    if turned:
        return int(2 * x.numel() * math.prod(weight.shape[1:]))
    rank = x.dim() - 2
    padding, dilation, stride = (list(given) * (rank // len(given)) for given in (padding, dilation, stride))
    sides = [
        (side + 2 * pad - gap * (window - 1) - 1) // step + 1
        for side, pad, gap, window, step in zip(x.shape[2:], padding, dilation, weight.shape[2:], stride, strict=True)
    ]
    return int(2 * x.shape[0] * math.prod(sides) * weight.numel())


def _convolution_backward(
    gradient: Any, x: Any, weight: Any, _sizes: Any, _stride: Any, _pad: Any, _gap: Any, turned: bool, *rest: Any
) -> int:
    wanted = rest[2]
    once = x.numel() if turned else gradient.shape[0] * math.prod(gradient.shape[2:])
    per_element = math.prod(weight.shape[1:]) if turned else weight.numel()
    return int(2 * once * per_element * (bool(wanted[0]) + bool(wanted[1])))


FORMULAS: dict[str, Any] = {
    "aten::mm": _mm,
    "aten::mv": _product_of_vectors,
    "aten::dot": _product_of_vectors,
    "aten::addmm": _addmm,
    "aten::bmm": _mm,
    "aten::baddbmm": _addmm,
    "aten::_grouped_mm": _grouped,
    "aten::convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
}
