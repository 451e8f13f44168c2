"""A recurrent layer in the place of PyTorch's, which on meta would run its positions one by one, for minutes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import Function

Count = Callable[[int], None]


class _Recurrence(Function):
    """Outputs and gradients of the right shapes. What its products compute is counted by `count`, both ways."""

    @staticmethod
    def forward(ctx: Any, count: Count, num_directions: int, x: Any, hidden: Any, cell: Any, *weights: Any) -> Any:
        num_rows = x.numel() // x.shape[-1]
        ctx.flop = sum(2 * num_rows * weight.numel() for weight in weights if weight.dim() == 2)
        ctx.count = count
        ctx.save_for_backward(x, hidden, cell, *weights)
        count(ctx.flop)
        made = x.new_empty((*x.shape[:-1], hidden.shape[-1] * num_directions))
        return made, torch.empty_like(hidden), torch.empty_like(cell)

    @staticmethod
    def backward(ctx: Any, *_gradients: Any) -> Any:
        """As much again for the gradient of each operand of a product."""
        ctx.count(2 * ctx.flop)
        wanted = ctx.needs_input_grad[2:]
        gradients = [
            torch.empty_like(tensor) if is_wanted else None
            for tensor, is_wanted in zip(ctx.saved_tensors, wanted, strict=True)
        ]
        return None, None, *gradients


def run_lstm(count: Count, args: Any) -> Any:
    """What `torch.lstm` would return: all hidden states, and the last hidden state and cell of each layer."""
    x, (hidden, cell), weights, *_settings, is_bidirectional, _batch_first = args
    return _Recurrence.apply(count, 1 + bool(is_bidirectional), x, hidden, cell, *weights)
