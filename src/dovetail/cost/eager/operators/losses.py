"""Negative log-likelihood over logits that are log-probabilities already."""

from __future__ import annotations

from dovetail.cost.eager.launches import Launched, VectorKernel, first, register, result
from dovetail.cost.eager.operators.pointwise import fill_launch
from dovetail.cost.kernels import Access
from dovetail.workload.dispatched import DispatchedOp

REDUCE_BARRIERS = 4  # one block adds up all rows (Loss.cu)


@register("aten.nll_loss_forward", "aten.nll_loss2d_forward", "aten.nll_loss")
def nll_loss(op: DispatchedOp) -> Launched:
    source = first(op)
    rows = source.num_elements / max(source.shape[1] if len(source.shape) > 1 else 1, 1)
    return (VectorKernel(name="nll_loss", access=Access.PICK, rows=rows, num_barriers=REDUCE_BARRIERS),)


@register("aten.nll_loss_backward", "aten.nll_loss2d_backward")
def nll_loss_backward(op: DispatchedOp) -> Launched:
    """Zeros all over, then one element a row."""
    out = result(op)
    rows = out.num_elements / max(out.shape[1] if len(out.shape) > 1 else 1, 1)
    return (*fill_launch(out), VectorKernel(name="nll_loss backward", access=Access.PICK, rows=rows))
