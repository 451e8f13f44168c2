"""Operators as PyTorch's dispatcher sees them: name, tensors with their layout, plain arguments, phase and module."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

from dovetail.errors import NotModelled, did_you_mean

FORWARD, BACKWARD, OPTIMIZER = PHASES = ("forward", "backward", "optimizer")
ITEM_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8,
    "fp8": 1, "bf16": 2, "fp16": 2, "fp32": 4, "fp64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip

# The operations of a process group; sends and receives name the other rank.
COLLECTIVES = (
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "reduce", "gather", "scatter", "barrier",
    "send", "recv",
)  # fmt: skip
CAUSAL_MASK = "is_mask_causal"  # an argument that no schema has: the mask is known to show keys up to the query's own
COMPUTE_STREAM = ""  # the stream that code runs on unless it enters another

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
class CollectiveCall:
    """One call of a process group, by one of its ranks.

    `ranks` are the group's, numbered over the whole job, in the group's own order. `num_bytes` is the message as
    nccl-tests count it: the buffer of an all-reduce, broadcast, reduce or send, the output of an all-gather, the input
    of a reduce-scatter, and what one rank sends to all, itself included, in an all-to-all. `bytes_by_rank` is there
    where an all-to-all is given how much goes to each. `peer` is the other rank of a send or receive.
    """

    kind: str
    ranks: tuple[int, ...]
    num_bytes: int
    group: str = ""  # a label for people, such as the dim of a device mesh
    bytes_by_rank: tuple[int, ...] = ()
    peer: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in COLLECTIVES:
            raise NotModelled(f"collective {self.kind!r} is not modelled{did_you_mean(self.kind, COLLECTIVES)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchedOp:
    """One call that reaches the dispatcher below autograd, such as `aten.mul.Tensor`.

    `inputs` has the tensors in the order of the schema, lists of tensors opened, and `None` for an optional tensor that
    is absent. `arguments` has the others by their name in the schema, those at their default included.

    On the device it starts when the operators before it on its stream and those that it `waits` for have ended.
    """

    name: str
    inputs: tuple[TensorMeta | None, ...]
    outputs: tuple[TensorMeta, ...]
    arguments: tuple[tuple[str, Argument], ...] = ()
    phase: str = FORWARD
    module: str = ""
    is_compiled: bool = False  # launched by a graph of torch.compile, and not by PyTorch's dispatcher
    line: str = ""  # of the code that is neither PyTorch's nor ours, as file:line
    stream: str = COMPUTE_STREAM
    waits: tuple[int, ...] = ()  # places in the step of operators on other streams that end before this one starts
    collective: CollectiveCall | None = None


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
    has_tf32: bool = False  # whether the code lets products of fp32 run in TF32
    notes: tuple[str, ...] = ()

    def without_update(self) -> DispatchedStep:
        """The forward and the backward pass alone; memory is still that of the whole step."""
        kept = [place for place, op in enumerate(self.ops) if op.phase != OPTIMIZER]
        return replace(
            self,
            ops=tuple(self.ops[place] for place in kept),
            module_calls=tuple(self.module_calls[place] for place in kept),
            live_bytes=tuple(self.live_bytes[place] for place in kept),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStep:
    """The step of one rank, and how many ranks of the job run the same operators, this one included."""

    rank: int
    step: DispatchedStep
    num_ranks: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedStep:
    """One training step of a job of `world_size` processes: one rank of each kind, such as one per pipeline stage.

    `mesh` has the dims of the device mesh that the code builds, outermost first, with their sizes; it is empty where
    there is none.
    """

    world_size: int
    ranks: tuple[RankStep, ...]
    mesh: tuple[tuple[str, int], ...] = ()
    notes: tuple[str, ...] = ()
