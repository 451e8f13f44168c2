"""Operators as PyTorch's dispatcher sees them: name, tensors with their layout, plain arguments, phase and module."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from dovetail.errors import NotModelled, did_you_mean

FORWARD, BACKWARD, OPTIMIZER = PHASES = ("forward", "backward", "optimizer")
ITEM_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8,
    "fp8": 1, "bf16": 2, "fp16": 2, "fp32": 4, "fp64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip

Argument: TypeAlias = "bool | int | float | str | tuple[Argument, ...] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMeta:
    """Shape, strides in elements and dtype (a key of `ITEM_BYTES`) of one tensor."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str

    def __post_init__(self) -> None:
        if self.dtype not in ITEM_BYTES:
            raise NotModelled(f"dtype {self.dtype!r} is not modelled{did_you_mean(self.dtype, ITEM_BYTES)}")

    @property
    def num_elements(self) -> int:
        return prod(self.shape)

    @property
    def num_bytes(self) -> int:
        return self.num_elements * ITEM_BYTES[self.dtype]


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchedOp:
    """One call that reaches the dispatcher below autograd, such as `aten.mul.Tensor`.

    `inputs` has the tensors in the order of the schema, lists of tensors opened, and `None` for an optional tensor that
    is absent. `arguments` has the others by their name in the schema, those at their default included.
    """

    name: str
    inputs: tuple[TensorMeta | None, ...]
    outputs: tuple[TensorMeta, ...]
    arguments: tuple[tuple[str, Argument], ...] = ()
    phase: str = FORWARD
    module: str = ""
    is_compiled: bool = False  # launched by a graph of torch.compile, and not by PyTorch's dispatcher
    line: str = ""  # of the code that is neither PyTorch's nor ours, as file:line


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchedStep:
    """One whole training step in the order in which PyTorch dispatches it.

    `module_calls` are, by operator, how many modules were entered since the one before it. `live_bytes` are those that
    the allocator holds when an operator has its outputs and has freed nothing yet; `state_bytes` of them were there
    when the step began: weights, moments and inputs.
    """

    ops: tuple[DispatchedOp, ...]
    module_calls: tuple[int, ...]
    live_bytes: tuple[int, ...]
    state_bytes: int
    num_parameters: int
    num_updated: int = 0  # tensors that the optimizer writes
    state_allocations: tuple[int, ...] = ()  # bytes of each tensor that was there when the step began
    allocations: tuple[int, ...] = ()  # in order: bytes of a new tensor, or -n where the n-th of them (from 1) is freed
    notes: tuple[str, ...] = ()
