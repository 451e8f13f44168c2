"""Parameters and gradients that one device holds of one repeat of a block, under every distinct cut."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from dovetail.units import Amount
from dovetail.workload.graph import Axis, Block, FloatArray, IntArray, Ops

_EXPERT_AXES = int(Axis.EXPERT | Axis.EXPERT_TENSOR)


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


def elements_of(block: Block) -> BlockElements:
    """Of a block that is one device's share already."""
    held = block_elements(block.ops, block.ops, 1)
    return BlockElements(**{field.name: float(getattr(held, field.name)[0]) for field in fields(held)})


def block_elements(ops: Ops, local: Ops, num_cuts: int) -> BlockElements:
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
    )


def _by_cut(column: IntArray, num_cuts: int) -> FloatArray:
    return column.reshape(num_cuts, -1).astype(np.float64)
