"""What a change of the code would gain: the operators of a recorded step as they would then be, priced again.

Each change is a function from a recorded step to the step that it would be, or to none where there is nothing to
change. An operator that falls away stands as a view, which takes the device no time.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dovetail.hardware.chip import Chip
from dovetail.step.eager import EagerStep, HostPace, eager_step
from dovetail.step.eager_fusions import (
    PRODUCTS,
    freed,
    packet_of,
    with_fused_attention,
    with_fused_gelu,
    with_fused_loss,
    with_fused_norms,
    with_fused_rotary,
    with_fused_update,
    with_ops,
)
from dovetail.units import GIGA
from dovetail.workload.dispatched import (
    BACKWARD,
    CAUSAL_MASK,
    FORWARD,
    OPTIMIZER,
    DispatchedOp,
    DispatchedStep,
    TensorMeta,
)

LEAST_FRAC = 0.005  # of a step: less is not worth a word
COLUMN_MULTIPLE = 64  # to which frameworks pad a vocabulary (Megatron-LM's make-vocab-size-divisible-by is 128)
LEAST_VOCAB = 1024  # rows of a table below which a head is no large product
NARROW = ("bf16", "fp16")
CONVOLUTIONS = ("aten.convolution", "aten.convolution_backward", "aten.cudnn_convolution")
FLASH = "aten._scaled_dot_product_flash_attention"
EFFICIENT = "aten._scaled_dot_product_efficient_attention"
CUDNN = "aten._scaled_dot_product_cudnn_attention"
IMMEDIATE = 1 / GIGA  # of a host that launches ahead of the device: it takes no time of the step

Change = Callable[[DispatchedStep], DispatchedStep | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One change in words, the seconds of a step that it gains, and where: the module and line that gain the most.

    Numbers of repeated layers are left open in `module`; `line` is file:line, empty where the recording has none.
    """

    change: str
    gain_s: float
    gain_frac: float
    module: str = ""
    line: str = ""


def advice_of(step: DispatchedStep, chip: Chip, host: HostPace | None = None) -> tuple[Advice, ...]:
    """What would make `step` shorter on `chip`, the largest gain first; each change by itself.

    Nothing of a compiled step, whose kernels are no longer those of the code.
    """
    if any(op.is_compiled for op in step.ops):
        return ()
    host = host or HostPace()
    now = eager_step(step, chip, host)
    found = []
    for words, change in _changes(step, chip):
        changed = change(step)
        if changed is None:
            continue
        then = eager_step(changed, chip, host)
        module, line = _upcast_at(step) if change is with_narrow_logits else _where(now, then)
        gain_s = now.step_s - then.step_s
        found.append(Advice(change=words, gain_s=gain_s, gain_frac=gain_s / now.step_s, module=module, line=line))
    ahead_s = eager_step(step, chip, replace(host, slowdown=IMMEDIATE)).step_s
    words = "host-bound: CUDA graphs or torch.compile(mode='reduce-overhead')"
    found.append(Advice(change=words, gain_s=now.step_s - ahead_s, gain_frac=1 - ahead_s / now.step_s))
    return worthwhile(found)


def worthwhile(found: Iterable[Advice]) -> tuple[Advice, ...]:
    """Those that gain enough for a word, the largest gain first."""
    return tuple(sorted((one for one in found if one.gain_frac >= LEAST_FRAC), key=lambda one: -one.gain_s))


def _upcast_at(step: DispatchedStep) -> tuple[str, str]:
    """The module and line of the first cast of logits to fp32: the code that would change."""
    op = next(step.ops[cast] for cast, _ in _upcasts(step))
    return layers_open(op.module), op.line


def _where(now: EagerStep, then: EagerStep) -> tuple[str, str]:
    """The module, over all layers, and within it the line, whose operators gain the most."""
    gains: dict[str, float] = defaultdict(float)
    lines: dict[tuple[str, str], float] = defaultdict(float)
    for op, gain_s in zip(now.step.ops, np.asarray(now.operator_s - then.operator_s).tolist(), strict=True):
        module = layers_open(op.module)
        gains[module] += gain_s if op.module else 0.0
        lines[module, op.line] += gain_s if op.line else 0.0
    module = max(gains, key=lambda name: gains[name], default="")
    module = module if gains.get(module, 0.0) > 0 else ""
    own = {line: gain_s for (where, line), gain_s in lines.items() if where == module or not module}
    line = max(own, key=lambda name: own[name], default="")
    return module, line if own.get(line, 0.0) > 0 else ""


def layers_open(module: str) -> str:
    """A module's path with numbers of repeated layers left open."""
    return re.sub(r"\b\d+\b", "*", module)


def _changes(step: DispatchedStep, chip: Chip) -> Iterable[tuple[str, Change]]:
    for vocab in _uneven_vocabularies(step):
        padded = _padded(vocab)
        yield f"pad the vocabulary from {vocab:,} to {padded:,}", partial(with_side, side=vocab, padded=padded)
    yield "lay images out with channels last (memory_format=torch.channels_last)", with_channels_last
    if any(dtype == "tf32" for dtype, _ in chip.tensor.rates):
        yield "run fp32 products in TF32: torch.set_float32_matmul_precision('high')", with_tf32
    yield "keep logits in the dtype of the model up to the loss, not in fp32", with_narrow_logits
    yield "use torch.nn.functional.rms_norm instead of a norm in separate operators", with_fused_norms
    yield "use a fused rotary kernel (Liger, Transformer Engine) instead of separate operators", with_fused_rotary
    yield "use gelu(approximate='tanh') instead of separate operators", with_fused_gelu
    yield "use a fused cross-entropy (Liger, Apex), which keeps no fp32 logits", with_fused_loss
    yield "pass fused=True to the optimizer", with_fused_update
    yield "pass is_causal=True instead of a causal mask, so that attention skips what is masked", without_masks
    fused = "use scaled_dot_product_attention, or FlexAttention where scores have a learned bias"
    yield f"{fused}, so that scores are not written out", partial(with_fused_attention, is_math=False)
    needs = "use FlexAttention: the mask of scaled_dot_product_attention needs a gradient"
    yield f"{needs}, so PyTorch falls back to the math backend", partial(with_fused_attention, is_math=True)


def _tables(step: DispatchedStep) -> set[int]:
    """First sides of two-dimensional parameters, as the optimizer sees them."""
    tensors = (tensor for op in step.ops if op.phase == OPTIMIZER for tensor in op.inputs if tensor is not None)
    return {tensor.shape[0] for tensor in tensors if len(tensor.shape) == 2 and tensor.shape[0] > tensor.shape[1]}


def _padded(vocab: int) -> int:
    return -(-vocab // COLUMN_MULTIPLE) * COLUMN_MULTIPLE


def _uneven_vocabularies(step: DispatchedStep) -> list[int]:
    """Columns of heads that are no multiple: their rows do not begin where loads of 16 bytes can."""
    heads = {
        op.outputs[0].shape[-1] for op in step.ops if op.phase == FORWARD and packet_of(op) in PRODUCTS and op.outputs
    }
    return sorted(side for side in _tables(step) & heads if side >= LEAST_VOCAB and side % COLUMN_MULTIPLE)


def uneven_vocabulary_s(step: DispatchedStep, chip: Chip, host: HostPace | None = None) -> float:
    """Seconds of `step` that its heads take for having columns of no multiple."""
    padded = step
    for vocab in _uneven_vocabularies(step):
        padded = with_side(padded, vocab, _padded(vocab)) or padded
    return eager_step(step, chip, host).step_s - eager_step(padded, chip, host).step_s if padded is not step else 0.0


def with_side(step: DispatchedStep, side: int, padded: int) -> DispatchedStep | None:
    """Every tensor with a side of `side` with one of `padded` in its place."""
    return with_ops(step, [_mapped(op, lambda tensor: _resized(tensor, side, padded)) for op in step.ops])


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
    if not any(packet_of(op) in CONVOLUTIONS for op in step.ops):
        return None
    has_attention = any("scaled_dot_product" in op.name for op in step.ops)
    return with_ops(
        step,
        [_mapped(op, _channels_last) if packet_of(op) in CONVOLUTIONS or not has_attention else op for op in step.ops],
    )


def _channels_last(tensor: TensorMeta) -> TensorMeta:
    if len(tensor.shape) != 4:
        return tensor
    _, c, h, w = tensor.shape
    if tensor.strides != (c * h * w, h * w, w, 1):
        return tensor
    return replace(tensor, strides=(c * h * w, 1, c * w, c))


def with_narrow_logits(step: DispatchedStep) -> DispatchedStep | None:
    """Logits up to the loss, and their gradient, in the dtype of the product that made them; the casts fall away."""
    ops = list(step.ops)
    for cast, loss in _upcasts(step):
        wide, narrow = step.ops[cast].outputs[0], step.ops[cast].inputs[0]
        back = _cast_back(step, loss, wide)
        to_narrow = partial(_narrowed, columns=wide.shape[-1], dtype="" if narrow is None else narrow.dtype)
        for place in range(cast, back + 1):
            ops[place] = _mapped(ops[place], to_narrow)
        ops[cast] = freed(ops[cast])
        if step.ops[back].phase == BACKWARD:
            ops[back] = freed(ops[back])
    return with_ops(step, ops)


def _upcasts(step: DispatchedStep) -> Iterator[tuple[int, int]]:
    """Places of casts to fp32 of logits that a product has made, each with the softmax of the loss that reads them.

    None where the head has fp32 weights: it runs under autocast, which casts logits for the loss whatever the code
    does.
    """
    for loss, op in enumerate(step.ops):
        if packet_of(op) != "aten._log_softmax" or op.phase != FORWARD or op.outputs[0].shape[-1] < LEAST_VOCAB:
            continue
        columns = op.outputs[0].shape[-1]
        updated = (tensor for one in step.ops if one.phase == OPTIMIZER for tensor in one.inputs if tensor is not None)
        if any(tensor.dtype == "fp32" and len(tensor.shape) > 1 and columns in tensor.shape for tensor in updated):
            continue
        for place in range(loss - 1, -1, -1):
            one = step.ops[place]
            if not one.outputs or one.outputs[0].shape[-1:] != (columns,):
                continue
            if packet_of(one) in PRODUCTS:
                break  # in this dtype from the start
            given = one.inputs[0] if one.inputs else None
            if packet_of(one) == "aten._to_copy" and _is_upcast(given, one.outputs[0]):
                yield place, loss
                break


def _is_upcast(given: TensorMeta | None, made: TensorMeta) -> bool:
    return given is not None and given.dtype in NARROW and made.dtype == "fp32"


def _cast_back(step: DispatchedStep, loss: int, wide: TensorMeta) -> int:
    """The place of the cast of the logits' gradient to the dtype that they had; the loss's own where there is none."""
    for place in range(loss, len(step.ops)):
        op = step.ops[place]
        if op.phase != BACKWARD or packet_of(op) != "aten._to_copy" or op.inputs[0] is None:
            continue
        if op.inputs[0].shape == wide.shape and _is_upcast(op.outputs[0], op.inputs[0]):
            return place
    return loss


def _narrowed(tensor: TensorMeta, columns: int, dtype: str) -> TensorMeta:
    is_logits = len(tensor.shape) > 1 and tensor.shape[-1] == columns and tensor.dtype == "fp32"
    return replace(tensor, dtype=dtype) if is_logits else tensor


def with_tf32(step: DispatchedStep) -> DispatchedStep | None:
    """Products of fp32 in TF32; none where they run in it already, or there are none."""
    products = (op for op in step.ops if packet_of(op) in PRODUCTS)
    has_fp32 = any(tensor is not None and tensor.dtype == "fp32" for op in products for tensor in op.inputs)
    return replace(step, has_tf32=True) if has_fp32 and not step.has_tf32 else None


def without_masks(step: DispatchedStep) -> DispatchedStep | None:
    """Attention under a mask that is known to be causal as flash attention that is causal."""
    return with_ops(step, [_causal(op) for op in step.ops])


MASKED = {EFFICIENT: 3, f"{EFFICIENT}_backward": 4, CUDNN: 3, f"{CUDNN}_backward": 8}  # place of the mask


def _causal(op: DispatchedOp) -> DispatchedOp:
    at = MASKED.get(packet_of(op), len(op.inputs))
    arguments = dict(op.arguments)
    if at >= len(op.inputs) or op.inputs[at] is None or not arguments.pop(CAUSAL_MASK, False):
        return op
    inputs = (*op.inputs[:at], None, *op.inputs[at + 1 :])
    arguments["is_causal"] = True
    return replace(op, name=op.name.replace(EFFICIENT, FLASH), inputs=inputs, arguments=tuple(arguments.items()))
