"""Parameters and gradients that one device holds of one repeat of a block, under every distinct cut."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from dovetail.units import Amount
from dovetail.workload.graph import Axis, Block, BoolArray, FloatArray, IntArray, Ops, Phase
from dovetail.workload.matrices import are_matrices, matrix_shapes
from dovetail.workload.operators import Unit
from dovetail.workload.optimizer import Precision

_EXPERT_AXES = int(Axis.EXPERT | Axis.EXPERT_TENSOR)
_MATRIX_COLUMNS = (
    *(f"{owner}_{what}" for owner in ("plain", "expert") for what in ("matrices", "factors", "gathered")),
    "tied_matrices",
    "tied_factors",
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockElements:
    """Counts by cut, ordinary parameters apart from those of experts; tied ones are among the ordinary."""

    plain: Amount
    experts: Amount
    plain_gradients: Amount
    expert_gradients: Amount
    plain_sparse: Amount  # gradients of tables of which only looked-up rows have one
    expert_sparse: Amount
    tied: Amount  # parameters that an earlier block owns
    # what an optimizer that updates matrices in a way of their own keeps and sends of them; 0 for others
    plain_matrices: Amount = 0.0
    expert_matrices: Amount = 0.0
    plain_factors: Amount = 0.0  # rows and columns of those matrices
    expert_factors: Amount = 0.0
    plain_gathered: Amount = 0.0  # elements of those that tensor parallelism splits, with the parts of all its ranks
    expert_gathered: Amount = 0.0
    tied_matrices: Amount = 0.0
    tied_factors: Amount = 0.0
    workspace: Amount = 0.0  # operands and result of the largest product of an update

    @property
    def matrices(self) -> tuple[Amount, Amount]:
        """Those of `parameters` that are matrices with an update of their own."""
        return self.plain_matrices, self.expert_matrices

    @property
    def factors(self) -> tuple[Amount, Amount]:
        return self.plain_factors, self.expert_factors

    @property
    def gathered(self) -> tuple[Amount, Amount]:
        return self.plain_gathered, self.expert_gathered

    @property
    def parameters(self) -> tuple[Amount, Amount]:
        """Ordinary ones, and those of experts."""
        return self.plain, self.experts

    @property
    def gradients(self) -> tuple[Amount, Amount]:
        """As `parameters`; of bags of embeddings only rows looked up."""
        return self.plain_gradients, self.expert_gradients

    @property
    def sparse(self) -> tuple[Amount, Amount]:
        """Those of `gradients` that belong to tables of which only looked-up rows have one."""
        return self.plain_sparse, self.expert_sparse

    def at(self, cut: int | IntArray) -> BlockElements:
        """Under one cut, or under as many as there are plans; what is the same for all cuts stays one number."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        return BlockElements(**{name: c if np.ndim(c) == 0 else c[cut] for name, c in columns.items()})

    def slim(self) -> BlockElements:
        """With one zero for columns of them: most blocks have no experts, nothing tied and nothing sparse."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        return BlockElements(**{name: column if np.any(column) else 0.0 for name, column in columns.items()})


def elements_of(block: Block, precision: Precision) -> BlockElements:
    """Of a block that is one device's share already."""
    held = block_elements(block.ops, block.ops, 1, precision, is_layer=block.is_layer)
    one = {field.name: np.ravel(getattr(held, field.name)) for field in fields(held)}
    return BlockElements(**{name: float(column[0]) for name, column in one.items()} | {"workspace": workspace(block)})


def workspace(block: Block) -> float:
    """Elements of the operands and the result of the largest product of the update of `block`, sharded or not."""
    ops = block.ops
    rows = np.flatnonzero((ops.phase == Phase.UPDATE) & (ops.unit == Unit.TENSOR))
    _, m, n, k, _ = ops.extents[rows].astype(np.float64).T
    return float(np.max(m * k + k * n + m * n, initial=0.0))


def block_elements(ops: Ops, local: Ops, num_cuts: int, precision: Precision, *, is_layer: bool) -> BlockElements:
    """Of a block of `ops`, which under each cut are `local`."""
    weights, gradients, biases = (
        _by_cut(column, num_cuts) for column in (local.weight_elements, local.gradient_elements, local.bias_elements)
    )
    of_expert, of_expert_gradient, of_expert_bias = (
        (split & _EXPERT_AXES) != 0 for split in (ops.weight_split, ops.gradient_split, ops.bias_split)
    )
    sparse = np.where(gradients < weights, gradients, 0.0)
    plain_bias, expert_bias = biases[:, ~of_expert_bias].sum(axis=1), biases[:, of_expert_bias].sum(axis=1)
    return BlockElements(
        plain=weights[:, ~of_expert].sum(axis=1) + plain_bias,
        experts=weights[:, of_expert].sum(axis=1) + expert_bias,
        plain_gradients=gradients[:, ~of_expert_gradient].sum(axis=1) + plain_bias,
        expert_gradients=gradients[:, of_expert_gradient].sum(axis=1) + expert_bias,
        plain_sparse=sparse[:, ~of_expert_gradient].sum(axis=1),
        expert_sparse=sparse[:, of_expert_gradient].sum(axis=1),
        tied=weights[:, ops.is_tied].sum(axis=1),
        **_matrix_columns(ops, local, weights, of_expert, precision, is_layer=is_layer),
    )


def _matrix_columns(
    ops: Ops, local: Ops, weights: FloatArray, of_expert: BoolArray, precision: Precision, *, is_layer: bool
) -> dict[str, FloatArray]:
    """Of the matrices that the optimizer updates in a way of their own: elements, rows and columns, and gathered."""
    num_cuts = len(weights)
    is_matrix = are_matrices(ops, precision.entry, is_layer=is_layer)
    if not is_matrix.any():
        return {name: np.zeros(num_cuts) for name in _MATRIX_COLUMNS}
    num, rows, cols = (_by_cut(column, num_cuts) for column in matrix_shapes(local))
    factors = num * (rows + cols)
    _, whole_rows, whole_cols = matrix_shapes(ops)
    whole = num * whole_rows * whole_cols
    gathered = np.where(weights < whole, whole, 0.0)
    plain, experts, tied = is_matrix & ~of_expert, is_matrix & of_expert, is_matrix & ops.is_tied
    return {
        "plain_matrices": weights[:, plain].sum(axis=1),
        "expert_matrices": weights[:, experts].sum(axis=1),
        "plain_factors": factors[:, plain].sum(axis=1),
        "expert_factors": factors[:, experts].sum(axis=1),
        "plain_gathered": gathered[:, plain].sum(axis=1),
        "expert_gathered": gathered[:, experts].sum(axis=1),
        "tied_matrices": weights[:, tied].sum(axis=1),
        "tied_factors": factors[:, tied].sum(axis=1),
    }


def _by_cut(column: IntArray, num_cuts: int) -> FloatArray:
    return column.reshape(num_cuts, -1).astype(np.float64)
