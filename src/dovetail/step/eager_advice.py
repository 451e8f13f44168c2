"""What a change of the code would gain: the operators of a recorded step as they would then be, priced again.

Each change is a function from a recorded step to the step that it would be, or to none where there is nothing to
change. An operator that falls away stands as a view, which takes the device no time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dovetail.hardware.chip import Chip
from dovetail.step.eager import EagerStep, HostPace, eager_step
from dovetail.units import GIGA
from dovetail.workload.dispatched import BACKWARD, FORWARD, OPTIMIZER, DispatchedOp, DispatchedStep, TensorMeta

LEAST_FRAC = 0.005  # of a step: less is not worth a word
COLUMN_MULTIPLE = 64  # to which frameworks pad a vocabulary (Megatron-LM's make-vocab-size-divisible-by is 128)
LEAST_VOCAB = 1024  # rows of a table below which a head is no large product
PRODUCTS = ("aten.mm", "aten.addmm", "aten.linear", "aten.bmm", "aten.matmul")
CONVOLUTIONS = ("aten.convolution", "aten.convolution_backward", "aten.cudnn_convolution")
FLASH = "aten._scaled_dot_product_flash_attention"
EFFICIENT = "aten._scaled_dot_product_efficient_attention"
FREE = "aten.alias.default"
NORM_PARTS = {"aten.pow", "aten.mean", "aten.rsqrt"}
IMMEDIATE = 1 / GIGA  # of a host that launches ahead of the device: it takes no time of the step

Change = Callable[[DispatchedStep], DispatchedStep | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One change in words, the seconds of a step that it gains, and the module that gains the most of them."""

    change: str
    gain_s: float
    gain_frac: float
    module: str = ""


def advice_of(step: DispatchedStep, chip: Chip, host: HostPace | None = None) -> tuple[Advice, ...]:
    """What would make `step` shorter on `chip`, the largest gain first; each change by itself.

    Nothing of a compiled step, whose kernels are no longer those of the code.
    """
    if any(op.is_compiled for op in step.ops):
        return ()
    host = host or HostPace()
    now = eager_step(step, chip, host)
    found = []
    for words, change in _changes(step):
        changed = change(step)
        if changed is None:
            continue
        then = eager_step(changed, chip, host)
        found.append(
            Advice(
                change=words,
                gain_s=now.step_s - then.step_s,
                gain_frac=1 - then.step_s / now.step_s,
                module=_where(now, then),
            )
        )
    ahead_s = eager_step(step, chip, replace(host, slowdown=IMMEDIATE)).step_s
    words = "launch kernels ahead of the device, by torch.compile or CUDA graphs"
    found.append(Advice(change=words, gain_s=now.step_s - ahead_s, gain_frac=1 - ahead_s / now.step_s))
    worthwhile = [one for one in found if one.gain_frac >= LEAST_FRAC]
    return tuple(sorted(worthwhile, key=lambda one: -one.gain_s))


def _where(now: EagerStep, then: EagerStep) -> str:
    """The module whose operators gain the most."""
    gains: dict[str, float] = {}
    for op, gain_s in zip(now.step.ops, np.asarray(now.operator_s - then.operator_s).tolist(), strict=True):
        if op.module:
            gains[op.module] = gains.get(op.module, 0.0) + gain_s
    return max(gains, key=lambda name: gains[name], default="")


def _changes(step: DispatchedStep) -> Iterable[tuple[str, Change]]:
    for vocab in _uneven_vocabularies(step):
        padded = -(-vocab // COLUMN_MULTIPLE) * COLUMN_MULTIPLE
        yield f"pad the vocabulary from {vocab:,} to {padded:,}", partial(with_side, side=vocab, padded=padded)
    yield "lay images out with channels last (memory_format=torch.channels_last)", with_channels_last
    yield "keep logits in the dtype of the model up to the loss, not in fp32", with_narrow_logits
    yield "take torch.nn.functional.rms_norm in place of a norm written out", with_fused_norms
    yield "say is_causal in place of a mask, so that attention skips what is masked", without_masks


def _packet(op: DispatchedOp) -> str:
    return op.name.rpartition(".")[0]


def _with_ops(step: DispatchedStep, ops: list[DispatchedOp]) -> DispatchedStep | None:
    """None where nothing is another; memory is that of the step as it was recorded."""
    return None if tuple(ops) == step.ops else replace(step, ops=tuple(ops))


def _tables(step: DispatchedStep) -> set[int]:
    """First sides of two-dimensional parameters, as the optimizer sees them."""
    tensors = (tensor for op in step.ops if op.phase == OPTIMIZER for tensor in op.inputs if tensor is not None)
    return {tensor.shape[0] for tensor in tensors if len(tensor.shape) == 2 and tensor.shape[0] > tensor.shape[1]}


def _uneven_vocabularies(step: DispatchedStep) -> list[int]:
    """Columns of heads that are no multiple: their rows do not begin where loads of 16 bytes can."""
    heads = {
        op.outputs[0].shape[-1] for op in step.ops if op.phase == FORWARD and _packet(op) in PRODUCTS and op.outputs
    }
    return sorted(side for side in _tables(step) & heads if side >= LEAST_VOCAB and side % COLUMN_MULTIPLE)


def with_side(step: DispatchedStep, side: int, padded: int) -> DispatchedStep | None:
    """Every tensor with a side of `side` with one of `padded` in its place."""
    return _with_ops(step, [_mapped(op, lambda tensor: _resized(tensor, side, padded)) for op in step.ops])


def _mapped(op: DispatchedOp, change: Callable[[TensorMeta], TensorMeta]) -> DispatchedOp:
    return replace(
        op,
        inputs=tuple(None if tensor is None else change(tensor) for tensor in op.inputs),
        outputs=tuple(change(tensor) for tensor in op.outputs),
    )


def _resized(tensor: TensorMeta, side: int, padded: int) -> TensorMeta:
    if side not in tensor.shape:
        return tensor
    return replace(
        tensor,
        shape=tuple(padded if size == side else size for size in tensor.shape),
        strides=tuple(
            stride // side * padded if stride and stride % side == 0 else stride for stride in tensor.strides
        ),
    )


def with_channels_last(step: DispatchedStep) -> DispatchedStep | None:
    """Images of convolutional networks; where attention runs too, those of convolutions alone."""
    if not any(_packet(op) in CONVOLUTIONS for op in step.ops):
        return None
    has_attention = any("scaled_dot_product" in op.name for op in step.ops)
    return _with_ops(
        step,
        [_mapped(op, _channels_last) if _packet(op) in CONVOLUTIONS or not has_attention else op for op in step.ops],
    )


def _channels_last(tensor: TensorMeta) -> TensorMeta:
    if len(tensor.shape) != 4:
        return tensor
    _, c, h, w = tensor.shape
    if tensor.strides != (c * h * w, h * w, w, 1):
        return tensor
    return replace(tensor, strides=(c * h * w, 1, c * w, c))


def with_narrow_logits(step: DispatchedStep) -> DispatchedStep | None:
    """Tensors of a vocabulary's columns in bf16 that a cast has made fp32; the cast falls away."""
    tables = _tables(step)
    ops = []
    for op in step.ops:
        is_logits = op.phase != OPTIMIZER and any(_is_wide(tensor, tables) for tensor in (*op.inputs, *op.outputs))
        changed = _mapped(op, lambda tensor: _narrowed(tensor, tables)) if is_logits else op
        is_cast = is_logits and _packet(op) == "aten._to_copy"
        ops.append(replace(changed, name=FREE, arguments=()) if is_cast else changed)
    has_cast = any(_packet(old) == "aten._to_copy" and new.name == FREE for old, new in zip(step.ops, ops, strict=True))
    return _with_ops(step, ops) if has_cast else None


def _is_wide(tensor: TensorMeta | None, tables: set[int]) -> bool:
    return (
        tensor is not None
        and tensor.dtype == "fp32"
        and len(tensor.shape) > 1
        and tensor.shape[-1] in tables
        and tensor.shape[-1] >= LEAST_VOCAB
    )


def _narrowed(tensor: TensorMeta, tables: set[int]) -> TensorMeta:
    return replace(tensor, dtype="bf16") if _is_wide(tensor, tables) else tensor


def with_fused_norms(step: DispatchedStep) -> DispatchedStep | None:
    """Runs of operators in one module that square, average and invert a root: one kernel forward, one backward."""
    norms = {
        module
        for module in {op.module for op in step.ops if _packet(op) == "aten.rsqrt" and op.module}
        if {_packet(op) for op in step.ops if op.module == module and op.phase == FORWARD} >= NORM_PARTS
        and not any(_packet(op) in PRODUCTS for op in step.ops if op.module == module)
    }
    ops, is_open = list(step.ops), ("", "")
    for index, op in enumerate(step.ops):
        if op.module not in norms or op.phase not in (FORWARD, BACKWARD):
            is_open = ("", "")
            continue
        if (op.module, op.phase) == is_open:
            ops[index] = replace(op, name=FREE, arguments=())
            continue
        is_open = (op.module, op.phase)
        ops[index] = _fused_norm(op, [each for each in step.ops[index:] if each.module == op.module])
    return _with_ops(step, ops)


def _fused_norm(first: DispatchedOp, run: list[DispatchedOp]) -> DispatchedOp:
    """One norm over the last side of what `first` reads, in the dtype of what comes in and goes out of the module."""
    whole = max((tensor for tensor in first.inputs if tensor is not None), key=lambda tensor: tensor.num_elements)
    dtypes = [tensor.dtype for op in run if op.phase == first.phase for tensor in (*op.inputs, *op.outputs) if tensor]
    narrow = replace(whole, dtype="bf16" if "bf16" in dtypes else whole.dtype)
    arguments = (("normalized_shape", (narrow.shape[-1],)),)
    name = "aten._fused_rms_norm.default" if first.phase == FORWARD else "aten._fused_rms_norm_backward.default"
    inputs = (narrow,) if first.phase == FORWARD else (narrow, narrow)
    return replace(first, name=name, inputs=inputs, outputs=(narrow,), arguments=arguments)


def without_masks(step: DispatchedStep) -> DispatchedStep | None:
    """Attention of a mask of queries by keys as flash attention that is causal."""
    return _with_ops(step, [_causal(op) for op in step.ops])


def _causal(op: DispatchedOp) -> DispatchedOp:
    packet = _packet(op)
    if packet not in (EFFICIENT, f"{EFFICIENT}_backward"):
        return op
    at = 3 if packet == EFFICIENT else 4
    mask = op.inputs[at] if at < len(op.inputs) else None
    if mask is None or len(mask.shape) < 2 or mask.shape[-1] != mask.shape[-2]:
        return op
    inputs = (*op.inputs[:at], None, *op.inputs[at + 1 :])
    arguments = tuple((name, True if name == "is_causal" else value) for name, value in op.arguments)
    if "is_causal" not in dict(arguments):
        arguments += (("is_causal", True),)
    return replace(op, name=op.name.replace(EFFICIENT, FLASH), inputs=inputs, arguments=arguments)
