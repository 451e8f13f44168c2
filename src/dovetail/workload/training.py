"""From a forward graph to a training step: gradients, recompute and update, as rows of the same columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.columns import is_among
from dovetail.workload.checkpoint_policies import is_by_tensor
from dovetail.workload.graph import Axis, Block, BoolArray, FloatArray, Graph, Need, Ops, Phase
from dovetail.workload.matrices import are_matrices, matrix_shapes
from dovetail.workload.operators import (
    ATTENTIONS,
    DTYPES,
    OPERATORS,
    RECOMPUTED_FROM_INPUT,
    SIDE_BYTES_PER_ELEMENT,
    Unit,
    code_of,
    dtype_bytes,
)
from dovetail.workload.optimizer import Precision
from dovetail.workload.optimizers import Optimizer
from dovetail.workload.recompute import AGAIN, saved_frac
from dovetail.workload.rematerialisation import run_again_frac
from dovetail.workload.rows import ONE, TABLES, Extent, Row, have_gradients, rows_to_ops

_WITHOUT_GRADIENT = ("constant",)
_WEIGHTED = ("linear", "expert_linear", "convolution", "recurrent_linear")
NARROW = ("fp8", "fp4")  # what products are taken in but nothing is kept in
UNSCALED = ("router_gate", "shared_gate")
_NORMS = ("rmsnorm", "layernorm")
_EXPERT_AXES = Axis.EXPERT | Axis.EXPERT_TENSOR


def training_graph(forward: Graph, precision: Precision) -> Graph:
    """`forward` with input gradients, weight gradients, recompute rows and the optimizer's update.

    Recompute rows are all there; which of them run is a plan's choice (see `with_recompute`).
    """
    return forward.with_blocks(tuple(training_block(block, precision) for block in forward.blocks))


def evaluation_graph(forward: Graph, precision: Precision) -> Graph:
    """`forward` as an evaluation step runs it: no gradients, no update, and nothing kept for a backward pass."""
    return forward.with_blocks(tuple(_evaluation_block(block, precision) for block in forward.blocks))


def _evaluation_block(block: Block, precision: Precision) -> Block:
    forward = [_with_precision(row, precision, is_layer=block.is_layer) for row in ops_to_rows(block.ops)]
    beside = (*_cast_rows(forward, precision, is_rerun=False), *_quantize_rows(forward, precision, is_rerun=False))
    kept = [replace(row, need=Need.NONE, kept_bytes_per_element=0.0) for row in forward]
    return replace(block, ops=rows_to_ops([*kept, *(row for row in beside if row.phase == Phase.FORWARD)]))


def with_recompute(ops: Ops, policy: str) -> Ops:
    """The rows that run under recompute `policy`.

    'none'; 'norm-activation': norms and activations, from inputs that are kept anyway; 'selective': the attention core;
    'selective-op': all but attention and every second product with a weight; 'full'; or a policy by tensor, for which
    `ops` must have the edges of their layer.
    """
    frac = run_frac(ops, policy)
    return replace(ops, work_frac=ops.work_frac * frac).where(frac > 0.0)


def run_frac(ops: Ops, policy: str) -> FloatArray:
    """Share of each row that runs under recompute `policy`.

    Under 'selective-op', rows that were saved whole do not run again, and those saved in part run for the rest.
    """
    again = ops.phase == Phase.RECOMPUTE
    if is_by_tensor(policy):
        return run_again_frac(ops, policy) if again.any() else np.ones(len(ops))
    if policy == "selective-op":
        saved = dict(zip(ops.names, saved_frac(ops), strict=True))
        left = np.array([1.0 - saved.get(name.removesuffix(AGAIN), 0.0) for name in ops.names])
        return np.where(again, left, 1.0)
    runs_again = {
        "none": False,
        "norm-activation": is_among(ops.kind, RECOMPUTED_FROM_INPUT),
        "selective": ops.is_core,
        "full": True,
    }[policy]
    return np.where(~again | runs_again, 1.0, 0.0)


def policy_rows(ops: Ops, policies: tuple[str, ...]) -> tuple[Ops, BoolArray]:
    """Rows for all of `policies` in one, without edges, and which of them run: policies by rows.

    A row of which a policy runs a part stands there once more for every such part.
    """
    fracs = np.stack([run_frac(ops, policy) for policy in policies])
    policy_of, row_of = np.nonzero((fracs > 0) & (fracs < 1))
    parts = sorted(set(zip(row_of.tolist(), fracs[policy_of, row_of].tolist(), strict=True)))
    rows = np.array([*range(len(ops)), *(row for row, _ in parts)], dtype=np.int64)
    wide = ops.taken(rows)
    scale = np.array([*np.ones(len(ops)), *(frac for _, frac in parts)])
    runs = fracs[:, rows] == scale
    return replace(wide, work_frac=wide.work_frac * scale), np.asarray(runs)


def training_block(block: Block, precision: Precision) -> Block:
    forward = [_with_precision(row, precision, is_layer=block.is_layer) for row in ops_to_rows(block.ops)]
    rows = list(forward)
    rows.extend(_cast_rows(forward, precision, is_rerun=block.is_layer))
    rows.extend(_quantize_rows(forward, precision, is_rerun=block.is_layer))
    again = _recompute_rows(rows, forward, stops_early=block.stops_early) if block.is_layer else {}
    consumers: list[list[int]] = [[] for _ in forward]
    for index, row in enumerate(forward):
        for source in row.inputs:
            consumers[source].append(index)
    gradients: list[list[int]] = [[] for _ in forward]  # rows that give the gradient of a row's inputs
    has_gradient = have_gradients(forward, is_input_data=block.is_input_data)
    for index in reversed(range(len(forward))):
        if not has_gradient[index]:
            continue
        arriving = [g for consumer in consumers[index] for g in gradients[consumer]]
        kept = [index, *([again[index]] if index in again else [])]
        is_first = block.is_input_data and forward[index].inputs == (0,)
        is_first = is_first or not any(has_gradient[source] for source in forward[index].inputs)
        needs_whole = any(not _is_frozen_product(forward[consumer]) for consumer in consumers[index])
        for row in _backward_rows(forward[index], is_first, needs_whole=needs_whole):
            rows.append(replace(_accumulating(row, precision), inputs=(*kept, *arriving)))
            if row.phase == Phase.INPUT_GRAD:
                gradients[index].append(len(rows) - 1)
    updates = _update_rows(block, precision, rows)
    rows.extend([*updates, *_weight_rows(forward, precision, range(len(rows), len(rows) + len(updates)))])
    return replace(block, ops=rows_to_ops(rows))


def ops_to_rows(ops: Ops) -> list[Row]:
    """The rows behind columns, for rewriting."""
    inputs: list[list[int]] = [[] for _ in range(len(ops))]
    for source in range(len(ops)):
        for target in ops.edge_to[ops.edge_start[source] : ops.edge_start[source + 1]]:
            inputs[target].append(source)
    return [_row(ops, i, tuple(inputs[i])) for i in range(len(ops))]


def _row(ops: Ops, i: int, inputs: tuple[int, ...]) -> Row:
    a_frac, b_frac, c_frac = (float(frac) for frac in ops.distinct_frac[i])
    return Row(
        name=ops.names[i],
        kind=OPERATORS[ops.kind[i]].name,
        inputs=inputs,
        extents=tuple((int(size), Axis(int(axes))) for size, axes in zip(ops.extents[i], ops.splits[i], strict=True)),
        dtype=DTYPES[ops.dtype[i]],
        math=DTYPES[ops.math[i]],
        distinct_frac=(a_frac, b_frac, c_frac),
        work_frac=float(ops.work_frac[i]),
        stride=int(ops.stride[i]),
        weight=(int(ops.weight_elements[i]), Axis(int(ops.weight_split[i]))),
        gradient=(int(ops.gradient_elements[i]), Axis(int(ops.gradient_split[i]))),
        bias=(int(ops.bias_elements[i]), Axis(int(ops.bias_split[i]))),
        is_tied=bool(ops.is_tied[i]),
        is_core=bool(ops.is_core[i]),
        is_fused=bool(ops.is_fused[i]),
        is_compiled=bool(ops.is_compiled[i]),
        kept_bytes_per_element=float(ops.kept_bytes_per_element[i]),
        phase=Phase(int(ops.phase[i])),
        side_bytes_per_element=float(ops.side_bytes_per_element[i]),
        need=Need(int(ops.need[i])),
    )


def _cast_rows(forward: list[Row], precision: Precision, *, is_rerun: bool) -> list[Row]:
    """Weights cast for use, forward and again; their gradients cast to what they are kept in, and to what is sent."""
    if not precision.has_autocast_weights:
        return []
    uses = (Phase.FORWARD, *((Phase.RECOMPUTE,) if is_rerun else ()))
    return [
        _bare(
            row,
            phase,
            kind="cast",
            name=f"{row.name}:cast",
            math="",
            extents=(ONE, row.weight, ONE, ONE, ONE),
            distinct_frac=(1.0, 1.0, 1.0),
            work_frac=1.0,
            side_bytes_per_element=dtype_bytes(precision.weights),
        )
        for row in forward
        if row.kind in _WEIGHTED
        for phase in (*uses, *(() if row.is_frozen else (Phase.WEIGHT_GRAD, Phase.WEIGHT_GRAD)))
    ]


def _quantize_rows(forward: list[Row], precision: Precision, *, is_rerun: bool) -> list[Row]:
    """What narrow products read is scaled and cast, inputs and gradients, by rows and by columns for the next product.

    A tensor that several products read is cast once. Where the recipe lets a norm write its output narrow there is
    nothing left to cast. Kernels are queued from within the product's own operator: they are none of their own.
    """
    recipe = precision.scaling
    if recipe is None:
        return []
    found, cast = [], set()
    for row in forward:
        if row.kind not in _WEIGHTED or row.math not in NARROW:
            continue
        b, m, n, k, _ = row.extents
        phases = [(Phase.INPUT_GRAD, n)]
        is_written_narrow = recipe.is_norm_fused and row.is_fused and _producer(forward, row).kind in _NORMS
        if not is_written_narrow and (row.inputs, k) not in cast:
            phases += [(Phase.FORWARD, k), *([(Phase.RECOMPUTE, k)] if is_rerun else [])]
        cast.add((row.inputs, k))
        rows = (ONE, (b[0] * m[0], b[1] | m[1])) if recipe.is_grouped and row.kind == "expert_linear" else (b, m)
        for phase, cols in phases:
            shape: dict[str, object] = {
                "extents": (*rows, cols, ONE, ONE),
                "distinct_frac": (1.0, 1.0, 1.0),
                "is_compiled": True,
                "math": "",
            }
            if recipe.num_sweeps:
                found.append(_bare(row, phase, kind="amax", name=f"{row.name}:amax", **shape))
            written: dict[str, object] = {"side_bytes_per_element": recipe.written_bytes}
            found.append(_bare(row, phase, kind="quantize", name=f"{row.name}:quantize", **shape, **written))
    return found


def _weight_rows(forward: list[Row], precision: Precision, updates: range) -> list[Row]:
    """Weights of narrow products are cast once they are updated, and the copies serve all microbatches of a step."""
    recipe = precision.scaling
    if recipe is None:
        return []
    sums: dict[Axis, int] = {}
    for row in forward:
        if row.kind in _WEIGHTED and row.math in NARROW:
            sums[row.weight[1]] = sums.get(row.weight[1], 0) + row.weight[0]
    moved_bytes = recipe.written_bytes + recipe.num_sweeps * dtype_bytes(precision.storage)
    return [
        Row(
            name="weights:quantize",
            kind="quantize",
            inputs=tuple(updates),
            extents=(ONE, (num_elements, axes), ONE, ONE, ONE),
            dtype=precision.storage,
            phase=Phase.UPDATE,
            is_compiled=True,
            side_bytes_per_element=moved_bytes,
        )
        for axes, num_elements in sorted(sums.items())
    ]


def _producer(forward: list[Row], row: Row) -> Row:
    """The operator that makes what `row` reads, gathered from other devices or not."""
    source = forward[row.inputs[0]]
    while source.kind == "gather" and source.inputs:
        source = forward[source.inputs[0]]
    return source


def _with_precision(row: Row, precision: Precision, *, is_layer: bool) -> Row:
    """Products with weights are taken in the compute dtype; loss probabilities are kept in the loss's."""
    if row.kind in ("cross_entropy", "inplace_cross_entropy"):
        return replace(row, kept_bytes_per_element=dtype_bytes(precision.loss))
    # 8-bit math is for products with weights; tf32 is how fp32 products of any kind are taken
    takes_it = row.kind in _WEIGHTED or (precision.compute == "tf32" and row.kind in (*ATTENTIONS, "matmul"))
    # and the products of embedding and head stay as they are stored (Transformer Engine's layers; TorchTitan's filter),
    # so do those of a router and of a shared expert's gate (Megatron-LM, moe/router.py: torch's own linear)
    takes_it = takes_it and (precision.compute not in NARROW or (is_layer and row.name not in UNSCALED))
    return replace(row, math=precision.compute) if takes_it else row


def _accumulating(row: Row, precision: Precision) -> Row:
    """A weight gradient that is added to one that stands: read and written in its dtype, not only written."""
    if row.phase != Phase.WEIGHT_GRAD or row.kind not in _WEIGHTED or not precision.has_persistent_gradients:
        return row
    apart_bytes = 2 * dtype_bytes(row.dtype) if precision.has_unfused_accumulation else 0.0
    return replace(row, side_bytes_per_element=2 * precision.reduce_bytes - dtype_bytes(row.dtype) + apart_bytes)


def _bare(row: Row, phase: Phase, **changes: object) -> Row:
    """`row` in another phase, without what only its forward pass owns."""
    side_bytes = float(SIDE_BYTES_PER_ELEMENT[int(phase != Phase.RECOMPUTE), code_of(row.kind)])
    nothing: Extent = (0, Axis.NONE)
    bare: dict[str, object] = {
        "phase": phase,
        "weight": nothing,
        "gradient": nothing,
        "bias": nothing,
        "need": Need.NONE,
        "kept_bytes_per_element": 0.0,
        "side_bytes_per_element": side_bytes,
    }
    return replace(row, **bare | changes)  # type: ignore[arg-type]


def _recompute_rows(rows: list[Row], forward: list[Row], *, stops_early: bool) -> dict[int, int]:
    """Appends a second forward pass to `rows`; where each forward row's copy stands."""
    copies: dict[int, int] = {}
    for index, row in enumerate(forward[: _num_rerun(forward) if stops_early else len(forward)]):
        if OPERATORS[code_of(row.kind)].unit == Unit.NONE:
            continue
        # both the copy and the original of an input: under selective recompute only the core has copies
        inputs = tuple(i for source in row.inputs for i in (source, copies.get(source, source)))
        rows.append(_bare(row, Phase.RECOMPUTE, name=f"{row.name}{AGAIN}", inputs=tuple(dict.fromkeys(inputs))))
        copies[index] = len(rows) - 1
    return copies


def _num_rerun(forward: list[Row]) -> int:
    """Rows of a second forward pass: eager PyTorch ends it at the last tensor a gradient needs; fused layers do not.

    A feed-forward layer's last product is left out so (torch.utils.checkpoint stops early; Megatron-LM runs it all).
    """
    return max((index + 1 for index, row in enumerate(forward) if row.need != Need.NONE), default=len(forward))


def _is_frozen_product(row: Row) -> bool:
    return row.is_frozen and row.kind in _WEIGHTED


def _backward_rows(row: Row, is_first: bool, *, needs_whole: bool) -> list[Row]:
    """The gradient operators of one forward row; `is_first`: its input is data and needs no gradient.

    `needs_whole`: the gradient of a weight needs what it gathers once more.
    """
    operator = OPERATORS[code_of(row.kind)]
    if operator.unit == Unit.NONE or row.kind in _WITHOUT_GRADIENT:
        return []
    if operator.unit == Unit.NETWORK:
        return _backward_exchange(row, needs_whole=needs_whole)
    if row.kind in TABLES:
        return [] if row.is_frozen else [_bare(row, Phase.WEIGHT_GRAD, name=f"{row.name}:dw")]
    if operator.unit == Unit.VECTOR or row.kind in ATTENTIONS:
        return [_bare(row, Phase.INPUT_GRAD, name=f"{row.name}:dx")]
    return _backward_products(row, is_first)


def _backward_products(row: Row, is_first: bool) -> list[Row]:
    """dA[m,k] = dC[m,n] B^T[n,k] and dB[k,n] = A^T[k,m] dC[m,n], and the sum over rows that is a bias's gradient."""
    b, m, n, k, v = row.extents
    a_frac, b_frac, c_frac = row.distinct_frac
    has_weight = row.kind != "matmul"
    gradients = []
    if not (is_first and has_weight):
        dx: dict[str, object] = {"extents": (b, m, k, n, v), "distinct_frac": (c_frac, b_frac, a_frac)}
        gradients.append(_bare(row, Phase.INPUT_GRAD, name=f"{row.name}:dx", **dx))
    if not (has_weight and row.is_frozen):
        dw: dict[str, object] = {"extents": (b, k, n, m, v), "distinct_frac": (a_frac, c_frac, b_frac)}
        gradients.append(_bare(row, Phase.WEIGHT_GRAD if has_weight else Phase.INPUT_GRAD, name=f"{row.name}:dw", **dw))
    if row.bias[0]:
        rows = (b[0] * m[0], b[1] | m[1]) if row.kind == "expert_linear" else m  # those of every expert
        db: dict[str, object] = {"extents": (ONE, rows, n, ONE, ONE), "distinct_frac": (1.0, 1.0, 1.0), "math": ""}
        gradients.append(_bare(row, Phase.WEIGHT_GRAD, kind="bias_grad", name=f"{row.name}:db", **db))
    return gradients


def _backward_exchange(row: Row, *, needs_whole: bool) -> list[Row]:
    conjugate = OPERATORS[code_of(row.kind)].conjugate
    rows = [_bare(row, Phase.INPUT_GRAD, kind=conjugate, name=f"{row.name}:dx")] if conjugate else []
    if needs_whole and row.kind in ("gather", "expert_gather", "context_gather"):
        # only the parts were kept: the weight gradient needs the whole once more
        rows.append(_bare(row, Phase.WEIGHT_GRAD, name=f"{row.name}:dw"))
    return rows


def _update_rows(block: Block, precision: Precision, rows: list[Row]) -> list[Row]:
    """One update a way of splitting gradients and group of parameters, behind the products that matrices need first.

    All wait for all gradients; the products of one matrix come one after another.
    """
    ops, entry = block.ops, precision.entry
    is_matrix = are_matrices(ops, entry, is_layer=block.is_layer)
    num, matrix_rows, matrix_cols = matrix_shapes(ops)
    factors = num * (matrix_rows + matrix_cols)
    sums: dict[tuple[int, bool, bool], tuple[int, int]] = {}
    for elements, split, are_own in (
        (ops.gradient_elements, ops.gradient_split, is_matrix),
        (ops.bias_elements, ops.bias_split, np.zeros_like(is_matrix)),
    ):
        for i in np.flatnonzero(elements):
            key = (int(split[i]), bool(ops.is_tied[i]), bool(are_own[i]))
            so_far, factors_so_far = sums.get(key, (0, 0))
            sums[key] = so_far + int(elements[i]), factors_so_far + (int(factors[i]) if are_own[i] else 0)
    weight_grads = tuple(i for i, row in enumerate(rows) if row.phase in (Phase.INPUT_GRAD, Phase.WEIGHT_GRAD))
    updates: list[Row] = []
    for i in np.flatnonzero(is_matrix):
        updates.extend(_update_products(ops, int(i), entry, weight_grads, len(rows) + len(updates)))
    products = tuple(range(len(rows), len(rows) + len(updates)))
    for (axes_code, is_tied, is_own), (num_elements, num_factors) in sorted(sums.items()):
        axes = Axis(axes_code)
        update = entry.matrix_update if is_own and entry.matrix_update is not None else entry.update
        moved_bytes = precision.update_bytes
        if is_own:
            moved_bytes = precision.matrix_update_bytes + 2 * precision.factor_bytes * num_factors / num_elements
        updates.append(
            Row(
                name="update",
                kind=update.operator,
                inputs=(*weight_grads, *products) if is_own else weight_grads,
                extents=(ONE, (num_elements, axes | _state_axis(axes)), ONE, ONE, ONE),
                dtype="fp32",
                is_tied=is_tied,
                phase=Phase.UPDATE,
                side_bytes_per_element=moved_bytes,
            )
        )
    return updates


def _update_products(ops: Ops, i: int, entry: Optimizer, inputs: tuple[int, ...], place: int) -> list[Row]:
    """Products that the update of row `i`'s weight takes, of whole matrices; the first waits for `inputs`.

    Ranks that share its state take turns with matrices, so these are divided by them; ranks that split it are not, as
    each computes the same. `work_frac` says how often each runs (`graph.update_runs`).
    """
    if entry.matrix_update is None or entry.matrix_update.products is None:
        return []
    num, rows, cols = (int(column[i]) for column in matrix_shapes(ops))
    split = Axis(int(ops.weight_split[i]))
    matrices = (num, (split & Axis.EXPERT) | _state_axis(split))
    return [
        Row(
            name=f"{ops.names[i]}:update",
            kind="matmul",
            inputs=inputs if order == 0 else (place + order - 1,),
            extents=(matrices, (one.m, Axis.NONE), (one.n, Axis.NONE), (one.k, Axis.NONE), ONE),
            dtype="bf16",
            work_frac=float(one.num_runs),
            is_tied=bool(ops.is_tied[i]),
            phase=Phase.UPDATE,
            side_bytes_per_element=dtype_bytes("bf16") if one.adds else 0.0,
        )
        for order, one in enumerate(entry.matrix_update.products(rows, cols))
    ]


def _state_axis(axes: Axis) -> Axis:
    """The axis that shards the state of parameters that `axes` split."""
    return Axis.EXPERT_STATE if axes & _EXPERT_AXES else Axis.STATE
