"""Masks of attention in recorded steps: which of them are known to be causal."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from dovetail.importers.torch_step import StepJob, recorded_step
from dovetail.workload.dispatched import CAUSAL_MASK

SEQ, WIDTH = 1280, 64  # more numbers in a mask than the step itself follows


class Masked(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        batch, seq, _ = x.shape
        query, key, value = self.qkv(x).view(batch, seq, 3, 1, WIDTH).permute(2, 0, 3, 1, 4)
        mask = self.mask(torch.arange(seq, device=x.device), keep)
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask).sum()

    def mask(self, at: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        causal = at[None, :] <= at[:, None]
        seq = len(at)
        match self.kind:
            case "compared":
                return causal
            case "expanded":
                return causal[None, None].expand(len(keep), 1, seq, seq)
            case "triangle":
                return torch.ones(seq, seq, dtype=torch.bool, device=at.device).tril()
            case "added":
                return torch.full((seq, seq), -torch.inf, device=at.device).triu(1).to(torch.bfloat16)
            case "padding":
                return keep[:, None, None, :].expand(len(keep), 1, seq, seq)
            case "padded":
                return causal & keep[:, None, None, :]
            case "window":
                return (at[:, None] - at[None, :]).abs() < 128
            case "causal window":
                return causal & (at[:, None] - at[None, :] < 128)
            case "written":
                causal = causal.clone()
                causal[:, 0] = keep[0]
                return causal
            case "reversed":
                return torch.where(causal, -torch.inf, 0.0).to(torch.bfloat16)
        raise ValueError(self.kind)


def recorded_masks(kind: str) -> list[bool]:
    with torch.device("meta"):
        module = Masked(kind).bfloat16()
        x, keep = torch.empty(2, SEQ, WIDTH, dtype=torch.bfloat16), torch.empty(2, SEQ, dtype=torch.bool)
    step = recorded_step(module, (x, keep), {}, StepJob())
    return [CAUSAL_MASK in dict(op.arguments) for op in step.ops if "_attention" in op.name]


@pytest.mark.parametrize("kind", ["compared", "expanded", "triangle", "added"])
def test_a_mask_whose_numbers_are_a_lower_triangle_is_causal(kind: str) -> None:
    assert recorded_masks(kind) == [True, True]


@pytest.mark.parametrize("kind", ["padding", "padded", "window", "causal window", "written", "reversed"])
def test_any_other_mask_or_one_with_unknown_numbers_is_not(kind: str) -> None:
    assert recorded_masks(kind) == [False, False]
