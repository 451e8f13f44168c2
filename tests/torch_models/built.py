"""What a reference model is here: a PyTorch module without memory, in bf16 and training, and inputs for its loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

Inputs = dict[str, Tensor]
Built = tuple[nn.Module, Inputs]
BATCH = 2


class Build(Protocol):
    """Builds a model, and inputs of `batch` samples; `seq` positions each, 0 for as many as the catalogue says."""

    def __call__(self, *, batch: int = BATCH, seq: int = 0) -> Built: ...


class _NoValues(TorchFunctionMode):
    """Draws no first values, which tensors without memory do not have: that takes most of the time of building one."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        named = dict(kwargs or {})
        if getattr(func, "__module__", "") == nn.init.__name__:
            return args[0] if args else named["tensor"]
        return func(*args, **named)


def on_meta(make: Callable[[], nn.Module]) -> nn.Module:
    """The module `make` returns, none of whose tensors has memory."""
    with torch.device("meta"), _NoValues():
        return make().to(torch.bfloat16).train()


def indices(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.long, device="meta")


def numbers(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.bfloat16, device="meta")
