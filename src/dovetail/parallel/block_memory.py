"""What one repeat of a block holds on one device: the part of a memory count that repeats from plan to plan.

Everything here follows from the block as it is cut (tp, sp, cp, ep, microbatch), its recompute policy and the
conventions of the run; nothing depends on stages, replicas, ZeRO or the schedule. `parallel.memory` assembles stages.
Many cuts and policies are counted at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.columns import is_among
from dovetail.parallel.frameworks import Framework
from dovetail.parallel.sharding import forward_ops
from dovetail.units import Amount
from dovetail.workload.checkpoint_policies import is_by_tensor
from dovetail.workload.graph import Axis, Block, BoolArray, FloatArray, IntArray, K, M, N, Need, Ops, Phase, V
from dovetail.workload.operators import ATTENTION_CODES, DTYPE_BYTES, RECOMPUTED_FROM_INPUT, Unit, code_of, dtype_bytes
from dovetail.workload.optimizer import Precision
from dovetail.workload.recompute import num_weights, saved_frac
from dovetail.workload.rematerialisation import forward_edges, rematerialised

_LOSSES = tuple(code_of(kind) for kind in ("cross_entropy", "inplace_cross_entropy", "fused_cross_entropy"))
_PERMUTATIONS = tuple(code_of(kind) for kind in ("permute", "unpermute"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockMemory:
    """One repeat of a block on one device.

    `kept_bytes` stay from a microbatch's forward pass to its backward pass, `passing_bytes` are held for a moment of
    the latter, and `fragmentation_bytes` are free by then, in blocks of the allocator that nothing else fits into.
    `host_bytes` are on the host between the passes. `largest_weight` are the elements of its largest matrix.
    `placeholders` has a row (depth, width) for each weight that a framework keeps an unused gradient in the shape of.
    Of many cuts at once, what is kept, passes or is on the host is cuts by recompute policies, the others by cut.
    """

    is_layer: bool
    is_loss: bool
    kept_bytes: Amount
    passing_bytes: Amount
    host_bytes: Amount
    fragmentation_bytes: Amount
    largest_weight: Amount
    placeholders: IntArray

    def at(self, cut: int | IntArray, policy: int | IntArray) -> BlockMemory:
        """Under one cut and policy, or under as many as there are plans."""
        return replace(
            self,
            kept_bytes=self.kept_bytes[cut, policy],
            passing_bytes=self.passing_bytes[cut, policy],
            host_bytes=self.host_bytes[cut, policy],
            fragmentation_bytes=self.fragmentation_bytes[cut],
            largest_weight=self.largest_weight[cut],
            placeholders=self.placeholders[cut],
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Rows:
    """Forward rows of a block: in `ops` what no cut changes, else cuts by rows."""

    ops: Ops
    output_bytes: FloatArray
    beside_bytes: FloatArray  # kept beside the output: masks and statistics
    weight_elements: IntArray
    gradient_elements: IntArray
    extents: IntArray


def block_memories(
    block: Block,
    ops: Ops,
    local: Ops,
    policies: tuple[str, ...],
    precision: Precision,
    framework: Framework,
    degrees: dict[Axis, IntArray],
) -> BlockMemory:
    """Of `block`, whose forward rows are `ops` and under each cut that `degrees` make `local`, one after the other."""
    rows = _rows(ops, local, num_cuts=len(degrees[Axis.DATA]))
    is_loss = is_among(ops.kind, _LOSSES)
    if not block.is_layer:
        policies = ("none",) * len(policies)
    shares = [_kept_fracs(block, ops, policy) for policy in policies]
    kept, host = (_bytes_of(rows, each) for each in zip(*shares, strict=True))
    split_copies = framework.num_split_loss_copies * (degrees[Axis.TENSOR] > 1)
    buffers = _backward_buffers_bytes(rows, is_loss, split_copies, degrees)
    if framework.has_loss_gradients:
        buffers = buffers + (rows.output_bytes * (ops.kind == code_of("fused_cross_entropy"))).max(axis=1)
    brought_back = _brought_back_bytes(rows, policies, shares, _device_fracs(ops, "none"), kept)
    passing = brought_back + buffers[:, None] + _formed_again_bytes(rows, policies)
    if framework.has_static_buffers and block.is_layer:
        passing = _live_bytes(block, rows, shares, _device_fracs(ops, "none"), degrees)
        passing = passing + _context_bytes(rows, degrees)[:, None]
    if framework.keeps_gathered_inputs and block.is_layer:
        more_kept, more_passing = _kept_whole_bytes(rows, policies)
        kept, passing = kept + more_kept, passing + more_passing
    arriving = _arriving_bytes(rows, precision, framework, is_layer=block.is_layer)
    has_placeholders = framework.has_placeholder_gradients and block.is_layer
    return BlockMemory(
        is_layer=block.is_layer,
        is_loss=not block.is_layer and bool(is_loss.any()),
        kept_bytes=kept,
        passing_bytes=passing + arriving[:, None],
        host_bytes=host,
        fragmentation_bytes=_fragmentation_bytes(rows),
        largest_weight=_largest_weight(rows),
        placeholders=_weight_shapes(rows) if has_placeholders else np.zeros((len(kept), 0, 2), dtype=np.int64),
    )


def kept_bytes(block: Block, recompute: str) -> float:
    """Activations one microbatch leaves in one repeat of `block` between its forward and its backward pass."""
    ops = forward_ops(block)
    on_device, _ = _kept_fracs(block, ops, recompute if block.is_layer else "none")
    return float(_bytes_of(_rows(ops, ops, 1), [on_device])[0, 0])


def _rows(ops: Ops, local: Ops, num_cuts: int) -> _Rows:
    output_elements = local.output_elements.reshape(num_cuts, -1)
    return _Rows(
        ops=ops,
        output_bytes=output_elements * DTYPE_BYTES[ops.dtype],
        beside_bytes=output_elements * ops.kept_bytes_per_element,
        weight_elements=local.weight_elements.reshape(num_cuts, -1),
        gradient_elements=local.gradient_elements.reshape(num_cuts, -1),
        extents=local.extents.reshape(num_cuts, len(ops), -1),
    )


Shares = tuple[FloatArray, FloatArray]  # of each row's output, and of what is kept beside it


def _bytes_of(rows: _Rows, policies: Sequence[Shares]) -> FloatArray:
    """What shares of rows come to: cuts by policies."""
    outputs, beside = (np.stack(fracs, axis=1) for fracs in zip(*policies, strict=True))
    total: FloatArray = rows.output_bytes @ outputs + rows.beside_bytes @ beside
    return total


def _kept_fracs(block: Block, ops: Ops, policy: str) -> tuple[Shares, Shares]:
    """What `policy` keeps on the device and on the host of `ops`, the forward rows of `block`."""
    if not is_by_tensor(policy):
        return _device_fracs(ops, policy), (np.zeros(len(ops)), np.zeros(len(ops)))
    found, forward = rematerialised(block.ops, policy), np.flatnonzero(block.ops.phase == Phase.FORWARD)
    # an attention kernel's statistics are named as its output is, and so kept with it (splash attention's residuals)
    device, host = (frac[forward] for frac in (found.device_frac, found.host_frac))
    return (device, device), (host, host)


def _device_fracs(ops: Ops, policy: str) -> Shares:
    """What a policy that keeps everything on the device keeps."""
    is_input = (ops.kind == code_of("input")).astype(np.float64)
    if policy == "full":
        return is_input, np.zeros(len(ops))
    if policy == "selective-op":
        saved = saved_frac(ops)
        return is_input + saved, saved
    needed = ops.need != Need.NONE
    has_side = np.ones(len(ops))
    if policy == "norm-activation":
        needed = needed & ~is_among(ops.kind, RECOMPUTED_FROM_INPUT)
    if policy == "selective":
        needed = np.where(ops.is_core, (ops.need & Need.OUTSIDE) != 0, needed)
        has_side = (~ops.is_core).astype(np.float64)
    return (needed & ((ops.need & Need.BY_NEXT) == 0)).astype(np.float64), has_side


def _brought_back_bytes(
    rows: _Rows, policies: tuple[str, ...], shares: Sequence[tuple[Shares, Shares]], whole: Shares, kept: FloatArray
) -> FloatArray:
    """What is there in the backward pass of a layer and was not kept on the device, cuts by policies.

    What comes back from the host is none of it: that is in transit. Nor does it make room where a policy by tensor
    keeps what no policy else would.
    """
    found = _bytes_of(rows, [whole]) - kept
    for column, (policy, (device, host)) in enumerate(zip(policies, shares, strict=True)):
        if is_by_tensor(policy):
            output, beside = (np.maximum(w - d - h, 0.0) for w, d, h in zip(whole, device, host, strict=True))
            found[:, [column]] = _bytes_of(rows, [(output, beside)])
    return found


def _live_bytes(
    block: Block,
    rows: _Rows,
    shares: Sequence[tuple[Shares, Shares]],
    whole: Shares,
    degrees: dict[Axis, IntArray],
) -> FloatArray:
    """What a layer's backward pass holds beside what was kept, where a compiler shares memory among buffers that never
    live at once: the fullest of its operators, cuts by policies.

    What was not kept is all formed again first, and lives to the backward pass of the first operator that reads it, an
    attention kernel's to its own. The gradient of a tensor lives from the backward pass of the last operator that reads
    it to that of the one that made it. Element by element, gradients are written where what dies then was.
    """
    forward = np.flatnonzero(block.ops.phase == Phase.FORWARD)
    place = {row: index for index, row in enumerate(forward.tolist())}
    feeds, _ = forward_edges(block.ops, forward)
    readers = [[place[later] for later in feeds[row]] or [len(place)] for row in place]
    at, last_reader = np.arange(len(place)), np.array([max(own) for own in readers])
    freed_by = np.where(np.isin(rows.ops.kind, ATTENTION_CODES), at, [min(own) for own in readers])
    # tensors by operators whose backward pass runs
    is_formed, is_freed = at >= freed_by[:, None], at == freed_by[:, None]
    has_gradient = (at[:, None] <= at) & (at <= last_reader[:, None])
    gradients, begun = rows.output_bytes @ has_gradient, rows.output_bytes @ (at == last_reader[:, None])
    is_in_place = _is_in_place(rows.ops, degrees)
    found = []
    for device, host in shares:
        output, beside = (np.maximum(w - d - h, 0.0) for w, d, h in zip(whole, device, host, strict=True))
        formed = rows.output_bytes * output + rows.beside_bytes * beside
        shared = np.where(is_in_place, np.minimum(begun, rows.output_bytes + formed @ is_freed), 0.0)
        found.append((formed @ is_formed + gradients - shared).max(axis=1))
    return np.stack(found, axis=1)


def _is_in_place(ops: Ops, degrees: dict[Axis, IntArray]) -> BoolArray:
    """Whether the backward pass of an operator works element by element, or moves nothing: cuts by rows."""
    is_by_element = (ops.unit == Unit.VECTOR) & ~np.isin(ops.kind, _PERMUTATIONS)
    is_alone = np.all([degrees[axis] == 1 for axis in (Axis.TENSOR, Axis.CONTEXT, Axis.EXPERT)], axis=0)
    return np.asarray(is_by_element | ((ops.unit == Unit.NETWORK) & is_alone[:, None]))


def _formed_again_bytes(rows: _Rows, policies: tuple[str, ...]) -> FloatArray:
    """Outputs that the next block keeps, which a block that is recomputed has formed again; cuts by policies."""
    is_by_next = (rows.ops.need & Need.BY_NEXT) != 0
    is_anew = np.array([_is_anew(policy) for policy in policies])
    return np.where(is_anew, (rows.output_bytes @ is_by_next.astype(np.float64))[:, None], 0.0)


def _is_anew(policy: str) -> bool:
    """Whether a layer runs again from its input on."""
    return policy in ("full", "selective-op") or is_by_tensor(policy)


def _backward_buffers_bytes(
    rows: _Rows, is_loss: BoolArray, split_copies: IntArray, degrees: dict[Axis, IntArray]
) -> FloatArray:
    """What the backward pass of one repeat holds for a moment beside what recompute brings back, by cut.

    The largest output and its gradient, in attention with what context parallelism exchanges, or what the loss takes.
    """
    if is_loss.any():
        in_loss = _loss_buffers_bytes(rows, split_copies)[:, is_loss].max(axis=1)
        # the output projection's input, gathered again for its weight's gradient, and the input's own gradient
        return np.asarray(in_loss + 2.0 * _gathered_bytes(rows)[0].max(axis=1, initial=0.0))
    is_moving = (rows.ops.unit == Unit.TENSOR) | (rows.ops.unit == Unit.VECTOR)
    held = rows.output_bytes * (1.0 + (rows.ops.need == Need.NONE))
    anywhere = held[:, is_moving].max(axis=1, initial=0.0)
    in_attention = held[:, is_moving & rows.ops.is_core].max(axis=1, initial=0.0)
    return np.asarray(np.maximum(anywhere, in_attention + _context_bytes(rows, degrees)))


def _context_bytes(rows: _Rows, degrees: dict[Axis, IntArray]) -> FloatArray:
    """What the backward pass of attention holds of other devices' or for them, by cut.

    Gathered: all keys and values, and their gradients before these are summed. Round a ring: of both, a part in use and
    one that arrives. Heads dealt out: gradients of queries, keys and values that arrive while those sent still stand.
    """
    exchanged = np.flatnonzero(rows.ops.kind == code_of("context_gather"))
    queries, heads, hops = (degrees[axis][:, None] for axis in (Axis.QUERIES, Axis.HEADS, Axis.HOPS))
    num_parts = np.where(hops > 1, 4, np.where(queries > 1, 2 * queries, np.where(heads > 1, 1, 0)))
    tokens, pairs, others = (rows.extents[:, exchanged, extent] for extent in (M, N, V))
    cols = num_parts * pairs + np.where(heads > 1, others / 2, 0.0)  # of queries and outputs, queries
    return np.asarray((tokens * cols * DTYPE_BYTES[rows.ops.dtype[exchanged]]).max(axis=1, initial=0.0))


def _arriving_bytes(rows: _Rows, precision: Precision, framework: Framework, *, is_layer: bool) -> FloatArray:
    """The largest weight gradient before it is added to one that stands in another dtype, by cut.

    Where a framework keeps placeholders, products of layers add to the standing gradient themselves.
    """
    is_added = precision.has_persistent_gradients and precision.gradients != precision.storage
    is_added = is_added and not precision.has_compute_gradients
    if not is_added or (is_layer and framework.has_placeholder_gradients):
        return np.zeros(len(rows.gradient_elements))
    largest = rows.gradient_elements.max(axis=1, initial=0)
    return np.asarray(largest * dtype_bytes(precision.storage))


def _loss_buffers_bytes(rows: _Rows, split_copies: IntArray) -> FloatArray:
    """Logits and gradients beside what the loss keeps, cuts by rows.

    Out of place: the logits, the gradient in the loss's dtype, and again in the logits' if that differs. With the
    gradient in place of the probabilities, or in one kernel over the logits: nothing.
    """
    ops = rows.ops
    num_stored = 1.0 + (ops.kept_bytes_per_element != DTYPE_BYTES[ops.dtype])
    out_of_place = rows.output_bytes * num_stored + rows.beside_bytes * (1 + split_copies)[:, None]
    return np.where(ops.kind == code_of("cross_entropy"), out_of_place, 0.0)


def _fragmentation_bytes(rows: _Rows) -> FloatArray:
    """Logits freed before their wider gradients are made, which do not fit where they were; by cut."""
    ops = rows.ops
    is_stranded = (ops.kind == code_of("cross_entropy")) & (ops.kept_bytes_per_element > DTYPE_BYTES[ops.dtype])
    return np.asarray(rows.output_bytes[:, is_stranded].max(axis=1, initial=0.0))


def _gathered_bytes(rows: _Rows) -> tuple[FloatArray, FloatArray]:
    """Bytes of each tensor that is gathered from parts, cuts by tensors, and of a part; 0 where nothing is gathered."""
    part = rows.output_bytes[:, rows.ops.kind == code_of("input")].max(axis=1, initial=0.0)
    wholes = rows.output_bytes[:, rows.ops.kind == code_of("gather")]
    return np.where(wholes > part[:, None], wholes, 0.0), np.asarray(part)


def _kept_whole_bytes(rows: _Rows, policies: tuple[str, ...]) -> tuple[FloatArray, FloatArray]:
    """What keeping gathered tensors whole adds to what is kept and to what passes, cuts by policies.

    Where the layer is recomputed they are gathered again with the rest of it, and as wide a gradient with them.
    """
    wholes, part = _gathered_bytes(rows)
    is_anew = np.array([_is_anew(policy) for policy in policies])
    others = np.where(wholes > 0.0, wholes - part[:, None], 0.0).sum(axis=1)
    again = wholes.sum(axis=1) + wholes.max(axis=1, initial=0.0)
    return np.where(is_anew, 0.0, others[:, None]), np.where(is_anew, again[:, None], 0.0)


def _largest_weight(rows: _Rows) -> FloatArray:
    """Elements of the largest matrix, by cut; of several that one product of ours holds, of one."""
    parts = np.array([num_weights(rows.ops, row) for row in range(len(rows.ops))])
    frozen = (rows.ops.weight_elements > 0) & (rows.ops.gradient_elements == 0)
    held = np.where(frozen, rows.weight_elements, rows.gradient_elements)
    return np.asarray((held / parts).max(axis=1, initial=0.0))


def _weight_shapes(rows: _Rows) -> IntArray:
    """Depth and width of each weight of a layer: cuts by weights by these two.

    Queries, keys and values come of one weight where placeholders are kept, also where we take two products.
    """
    ops = rows.ops
    has_weight = (ops.unit == Unit.TENSOR) & (ops.gradient_elements > 0)
    weights = {ops.names[row]: rows.extents[:, row, [K, N]] for row in np.flatnonzero(has_weight)}
    if "q" in weights and "kv" in weights:
        queries, keys = weights.pop("q"), weights.pop("kv")
        weights["qkv"] = np.stack([queries[:, 0], queries[:, 1] + keys[:, 1]], axis=1)
    return np.stack([*weights.values()], axis=1) if weights else np.zeros((len(rows.extents), 0, 2), dtype=np.int64)
