"""Kernels that PyTorch launches for one dispatched operator, each with what its time follows from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from dovetail.cost.kernels import Access
from dovetail.errors import NotModelled, did_you_mean
from dovetail.registry import Registry
from dovetail.workload.dispatched import ITEM_BYTES, Argument, DispatchedOp, TensorMeta
from dovetail.workload.graph import Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorKernel:
    """A kernel on the vector lanes: bytes, lane slots, sectors of the shared cache, blocks, and steps one by one."""

    name: str
    read_bytes: float = 0.0
    write_bytes: float = 0.0
    streams: int = 2  # tensors read side by side
    slots: float = 0.0  # of the lanes, all elements together
    sram_bytes: float = 0.0  # through the shared cache, where that is more than the bytes moved: whole sectors
    steps: float = 0.0  # memory round trips one after another, beside the traffic
    is_cold: bool = False  # it finds nothing in the shared cache, whatever ran before
    is_counted: bool = False  # its slots are instructions of a function, not fitted to a rate that waits decide
    waits_frac: float = 0.0  # of its slots, those that wait for memory, and less for the shared cache
    access: Access = Access.STREAM  # rows of norms, softmax and losses wait as `cost.vector` has it
    rows: float = 1.0
    cols: float = 1.0
    element_bytes: float = 1.0
    reads: float = 1.0
    num_sweeps: int = 0
    num_sums: int = 0
    num_barriers: int = 0
    num_blocks: float = 0.0  # of a kernel that gives each channel one block of threads
    block_cycles: float = 0.0  # such a block keeps its core's lanes busy for
    block_wait_cycles: float = 0.0  # and waits for memory, while other blocks of the core run

    @property
    def elements(self) -> float:
        return self.rows * self.cols


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductKernel:
    """`b` products C[m,n] = A[m,k] B[k,n]; rows of all operands start at multiples of `load_bytes`."""

    name: str
    b: int
    m: int
    n: int
    k: int
    dtype: str
    load_bytes: int = 16
    is_row_by_row: bool = False  # both operands hold the contraction side by side: the layout of a linear layer
    in_bytes: float = 0.0
    out_bytes: float = 0.0
    pace: float = 1.0  # times as long as a plain batched product
    is_tensor: bool = True  # false: the vector lanes multiply


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionKernel:
    """Fused attention of one direction, and what PyTorch's choice of kernel, masks and dropout add."""

    name: str
    heads: int
    queries: int
    keys: int
    key_width: int
    value_width: int
    kv_frac: float
    work_frac: float
    is_backward: bool
    dtype: str
    in_bytes: float
    out_bytes: float
    pace_frac: float = 1.0  # of the best kernel's pace
    score_slots: float = 0.0  # further lane slots a score
    num_kernels: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionKernel:
    """An implicit product in channels-last layout, as in `cost.families.convolution`."""

    name: str
    phase: Phase
    pixels: int
    outputs: int  # channels of a group
    channels: int  # of a group
    window: int
    stride: int
    groups: int
    dtype: str
    in_bytes: float
    out_bytes: float


Launch: TypeAlias = VectorKernel | ProductKernel | AttentionKernel | ConvolutionKernel
Launched: TypeAlias = tuple[Launch, ...]
Lowering: TypeAlias = Callable[[DispatchedOp], Launched]

# By the operator's name without its overload (`aten.mul`), or with it where overloads differ.
lowerings: Registry[Lowering] = Registry("dispatched operator", "dovetail.cost.eager.operators")


def register(*names: str) -> Callable[[Lowering], Lowering]:
    def remember(lowering: Lowering) -> Lowering:
        for name in names:
            lowerings.register(name)(lowering)
        return lowering

    return remember


def packet_of(name: str) -> str:
    """An operator's name without its overload."""
    return name.rpartition(".")[0] if name.count(".") > 1 else name


def lowering_of(name: str) -> Lowering:
    """What turns a dispatched operator into kernels: by its whole name, without its overload, not in place."""
    packet = packet_of(name)
    for known in (name, packet, packet.removesuffix("_")):
        if known in lowerings:
            return lowerings[known]
    hint = did_you_mean(packet, lowerings.names())
    raise NotModelled(f"the operator {name} is not modelled: no kernels are known of it{hint}")


def launched(op: DispatchedOp) -> Launched:
    """The kernels of `op`, in order; nothing for views. Raises `NotModelled` for an operator that is not described."""
    return lowering_of(op.name)(op)


def argument(op: DispatchedOp, name: str, default: Argument = None) -> Argument:
    return next((value for known, value in op.arguments if known == name), default)


def number(op: DispatchedOp, name: str, default: float = 0.0) -> float:
    value = argument(op, name, default)
    return float(value) if isinstance(value, int | float) else default


def flag(op: DispatchedOp, name: str) -> bool:
    return bool(argument(op, name, False))


def numbers(op: DispatchedOp, name: str) -> tuple[int, ...]:
    """A list of whole numbers; one number is a list of it."""
    value = argument(op, name, ())
    if isinstance(value, int):
        return (value,)
    return tuple(int(one) for one in value if isinstance(one, int)) if isinstance(value, tuple) else ()


def tensors(op: DispatchedOp) -> tuple[TensorMeta, ...]:
    """The inputs that are there."""
    return tuple(one for one in op.inputs if one is not None)


def first(op: DispatchedOp) -> TensorMeta:
    found = tensors(op)
    if not found:
        raise NotModelled(f"{op.name} was recorded without an input")
    return found[0]


def given(op: DispatchedOp, place: int) -> TensorMeta | None:
    return op.inputs[place] if place < len(op.inputs) else None


def result(op: DispatchedOp) -> TensorMeta:
    """What the operator makes; of one in place that returns nothing, what it writes to."""
    return op.outputs[0] if op.outputs else first(op)


def item_bytes(tensor: TensorMeta) -> int:
    return ITEM_BYTES[tensor.dtype]


def distinct_bytes(tensor: TensorMeta) -> float:
    """Bytes behind a tensor: what is expanded is there once."""
    found = float(item_bytes(tensor))
    for size, stride in zip(tensor.shape, tensor.strides, strict=True):
        found *= size if stride or size == 0 else 1
    return found


def is_dense(tensor: TensorMeta) -> bool:
    """Whether a tensor is contiguous, as PyTorch says it."""
    pairs = [(size, stride) for size, stride in zip(tensor.shape, tensor.strides, strict=True) if size != 1]
    if not pairs:
        return True
    return pairs[-1][1] == 1 and all(left[1] == right[0] * right[1] for left, right in pairwise(pairs))


def is_channels_last(tensor: TensorMeta) -> bool:
    """Whether channels are the fastest dim of images, and not by having one channel or one pixel alone."""
    if len(tensor.shape) not in (4, 5):
        return False
    order = (0, *range(2, len(tensor.shape)), 1)
    turned = TensorMeta(
        shape=tuple(tensor.shape[dim] for dim in order),
        strides=tuple(tensor.strides[dim] for dim in order),
        dtype=tensor.dtype,
    )
    return is_dense(turned) and not is_dense(tensor)
