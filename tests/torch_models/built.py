"""What a reference model is here: a PyTorch module without memory, in bf16 and training, and inputs for its loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

Inputs = dict[str, Tensor]
Built = tuple[nn.Module, Inputs]
BATCH = 2


class Build(Protocol):
    """Builds a model, and inputs of `batch` samples; `seq` positions each, 0 for as many as the catalogue says."""

    def __call__(self, *, batch: int = BATCH, seq: int = 0) -> Built: ...


def on_meta(make: Callable[[], nn.Module]) -> nn.Module:
    """The module `make` returns, none of whose tensors has memory."""
    with torch.device("meta"):
        return make().to(torch.bfloat16).train()


def indices(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.long, device="meta")


def numbers(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.bfloat16, device="meta")
