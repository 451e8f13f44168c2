"""What one repeat of a block holds on one device: the part of a memory count that repeats from plan to plan.

Everything here follows from the block as it is cut (tp, sp, cp, ep, microbatch), its recompute policy and the
conventions of the run; nothing depends on stages, replicas, ZeRO or the schedule. `plan.memory` assembles stages of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.plan.frameworks import Framework
from dovetail.workload.graph import Axis, Block, FloatArray, IntArray, K, N, Need, Ops, Phase
from dovetail.workload.operators import DTYPE_BYTES, LIGHT, Unit, code_of, dtype_bytes
from dovetail.workload.optimizer import Precision
from dovetail.workload.recompute import saved_frac

_EXPERT_AXES = int(Axis.EXPERT | Axis.EXPERT_TENSOR)
_LOSSES = tuple(code_of(kind) for kind in ("cross_entropy", "inplace_cross_entropy", "fused_cross_entropy"))
Shape = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockMemory:
    """One repeat of a block on one device.

    `kept_bytes` stay from a microbatch's forward pass to its backward pass, `passing_bytes` are held for a moment of
    the latter, and `stranded_bytes` are free again by then, in blocks of the allocator that nothing else fits into.
    `placeholders` are the unused gradients a framework keeps, by shape of weight.
    """

    is_layer: bool
    is_loss: bool
    kept_bytes: float
    passing_bytes: float
    stranded_bytes: float
    placeholders: tuple[tuple[Shape, float], ...]


def block_memory(
    block: Block, recompute: str, precision: Precision, framework: Framework, *, is_vocab_cut: bool
) -> BlockMemory:
    policy = recompute if block.is_layer else "none"
    losses = _loss_rows(block.ops)
    split_copies = framework.num_split_loss_copies if is_vocab_cut else 0
    kept, passing = kept_bytes(block, recompute), _backward_buffers_bytes(block, policy, split_copies)
    if framework.keeps_gathered_inputs and block.is_layer:
        wholes, part = _gathered(block.ops)
        if policy in ("full", "alternate"):  # gathered anew with the rest of the layer, and as wide a gradient with it
            passing += sum(wholes) + max(wholes, default=0.0)
        else:
            kept += sum(whole - part for whole in wholes)
    return BlockMemory(
        is_layer=block.is_layer,
        is_loss=not block.is_layer and len(losses) > 0,
        kept_bytes=kept,
        passing_bytes=passing + _arriving_bytes(block, precision, framework),
        stranded_bytes=max((_stranded_bytes(block.ops, row) for row in losses), default=0.0),
        placeholders=_placeholders(block, precision) if framework.has_placeholder_gradients else (),
    )


def block_parameters(block: Block) -> tuple[float, float]:
    """One device's parameters of one repeat: ordinary ones, and those of experts; tied ones included."""
    ops = block.ops
    return _by_owner(ops, ops.weight_elements, ops.weight_split)


def block_gradients(block: Block) -> tuple[float, float]:
    """One device's gradients of one repeat, as `block_parameters`; of bags of embeddings only rows looked up."""
    ops = block.ops
    return _by_owner(ops, ops.gradient_elements, ops.gradient_split)


def block_sparse_gradients(block: Block) -> tuple[float, float]:
    """Those of `block_gradients` that belong to tables of which only looked-up rows have one."""
    ops = block.ops
    is_sparse = ops.gradient_elements < ops.weight_elements
    is_expert = (ops.gradient_split & _EXPERT_AXES) != 0
    plain, experts = is_sparse & ~is_expert, is_sparse & is_expert
    return float(ops.gradient_elements[plain].sum()), float(ops.gradient_elements[experts].sum())


def tied_elements(block: Block) -> float:
    """One device's parameters that an earlier block owns."""
    return float(block.ops.weight_elements[block.ops.is_tied].sum())


def _by_owner(ops: Ops, elements: IntArray, split: IntArray) -> tuple[float, float]:
    is_expert, is_expert_bias = (split & _EXPERT_AXES) != 0, (ops.bias_split & _EXPERT_AXES) != 0
    plain = elements[~is_expert].sum() + ops.bias_elements[~is_expert_bias].sum()
    experts = elements[is_expert].sum() + ops.bias_elements[is_expert_bias].sum()
    return float(plain), float(experts)


def kept_bytes(block: Block, recompute: str) -> float:
    """Activations one microbatch leaves in one repeat of `block` between its forward and its backward pass."""
    policy = recompute if block.is_layer else "none"
    ops = block.ops
    forward = ops.phase == Phase.FORWARD
    is_input = forward & (ops.kind == code_of("input"))
    side_bytes = ops.output_elements * ops.kept_bytes_per_element
    if policy == "full":
        return float(_output_bytes(ops)[is_input].sum())
    if policy == "alternate":
        saved = saved_frac(ops) * forward
        return float(_output_bytes(ops)[is_input].sum() + ((_output_bytes(ops) + side_bytes) * saved).sum())
    needed = ops.need != Need.NOBODY
    has_side = np.ones(len(ops), dtype=bool)
    if policy == "light":
        needed = needed & ~np.isin(ops.kind, LIGHT)
    if policy == "selective":
        needed = np.where(ops.is_core, (ops.need & Need.OUTSIDE) != 0, needed)
        has_side = ~ops.is_core
    tensors = _output_bytes(ops)[forward & needed].sum()
    return float(tensors + side_bytes[forward & has_side].sum())


def _output_bytes(ops: Ops) -> FloatArray:
    output_bytes: FloatArray = ops.output_elements * DTYPE_BYTES[ops.dtype]
    return output_bytes


def _loss_rows(ops: Ops) -> tuple[int, ...]:
    return tuple(int(row) for row in np.flatnonzero(np.isin(ops.kind, _LOSSES) & (ops.phase == Phase.FORWARD)))


def _backward_buffers_bytes(block: Block, policy: str, num_split_loss_copies: int) -> float:
    """What the backward pass of one repeat holds for a moment.

    What recompute brings back, and the largest output and its gradient, or what the loss kernel takes.
    """
    ops = block.ops
    brought_back = kept_bytes(block, "none") - kept_bytes(block, policy)
    is_moving = (ops.phase == Phase.FORWARD) & ((ops.unit == Unit.TENSOR) | (ops.unit == Unit.VECTOR))
    copies = 1.0 + (ops.need == Need.NOBODY)
    passing = float((_output_bytes(ops) * copies)[is_moving].max(initial=0.0))
    losses = _loss_rows(ops)
    if losses:
        passing = max(_loss_buffer_bytes(ops, row, num_split_loss_copies) for row in losses)
        # the output projection's input, gathered again for its weight's gradient, and the input's own gradient
        passing += 2.0 * max(_gathered(ops)[0], default=0.0)
    return brought_back + passing


def _arriving_bytes(block: Block, precision: Precision, framework: Framework) -> float:
    """The largest weight gradient before it is added to one that stands in another dtype.

    Where a framework keeps placeholders, products of layers add to the standing gradient themselves.
    """
    is_added = precision.are_gradients_standing and precision.gradients != precision.storage
    is_added = is_added and not precision.has_compute_gradients
    if not is_added or (block.is_layer and framework.has_placeholder_gradients):
        return 0.0
    return float(block.ops.gradient_elements.max(initial=0)) * dtype_bytes(precision.storage)


def _loss_buffer_bytes(ops: Ops, row: int, num_split_copies: int) -> float:
    """Logits and gradients beside what the loss keeps.

    Out of place: the logits, the gradient in the loss's dtype, and again in the logits' if that differs. With the
    gradient in place of the probabilities, or in one kernel over the logits: nothing.
    """
    elements = float(ops.output_elements[row])
    stored, lost = float(DTYPE_BYTES[ops.dtype[row]]), float(ops.kept_bytes_per_element[row])
    if ops.kind[row] == code_of("cross_entropy"):
        return elements * (stored + lost * (1 + num_split_copies) + (stored if lost != stored else 0.0))
    return 0.0


def _stranded_bytes(ops: Ops, row: int) -> float:
    """Logits freed before their wider gradients are made, which do not fit where they were."""
    stored, lost = float(DTYPE_BYTES[ops.dtype[row]]), float(ops.kept_bytes_per_element[row])
    is_stranded = ops.kind[row] == code_of("cross_entropy") and lost > stored
    return float(ops.output_elements[row]) * stored if is_stranded else 0.0


def _gathered(ops: Ops) -> tuple[tuple[float, ...], float]:
    """Bytes of each tensor that is gathered from parts, and of a part."""
    is_forward = ops.phase == Phase.FORWARD
    part = float(_output_bytes(ops)[is_forward & (ops.kind == code_of("input"))].max(initial=0.0))
    wholes = _output_bytes(ops)[is_forward & (ops.kind == code_of("gather"))]
    return tuple(float(whole) for whole in wholes if whole > part), part


def _placeholders(block: Block, precision: Precision) -> tuple[tuple[Shape, float], ...]:
    """An unused gradient for each shape of weight in a layer: experts of one shape share theirs.

    Queries, keys and values come of one weight there, also where we take two products.
    """
    ops = block.ops
    if not block.is_layer:
        return ()
    has_weight = (ops.phase == Phase.FORWARD) & (ops.unit == Unit.TENSOR) & (ops.weight_elements > 0)
    weights = {
        ops.names[row]: (int(ops.extents[row, K]), int(ops.extents[row, N])) for row in np.flatnonzero(has_weight)
    }
    if "q" in weights and "kv" in weights:
        (depth, num_queries), (_, num_keys) = weights.pop("q"), weights.pop("kv")
        weights["qkv"] = (depth, num_queries + num_keys)
    return tuple((shape, shape[0] * shape[1] * dtype_bytes(precision.storage)) for shape in sorted({*weights.values()}))
