"""Which weights an optimizer updates as matrices, and what shape these have."""

from __future__ import annotations

import numpy as np

from dovetail.errors import NotModelled
from dovetail.workload.graph import B, BoolArray, IntArray, K, N, Ops
from dovetail.workload.operators import OPERATORS, code_of
from dovetail.workload.optimizers import Optimizer

_HIDDEN = tuple(code_of(name) for name in ("linear", "expert_linear", "recurrent_linear"))
_TABLES = (code_of("embedding"),)
_EXPERTS = code_of("expert_linear")
# Weights of more than two dimensions, and tables of which only the rows that are looked up have a gradient.
_NOT_MODELLED = tuple(code_of(name) for name in ("convolution", "embedding_bag"))


def are_matrices(ops: Ops, optimizer: Optimizer, *, is_layer: bool) -> BoolArray:
    """Rows of `ops` whose weight goes by the optimizer's `matrix_update`; `is_layer` tells a hidden layer's block."""
    has_weight = ops.gradient_elements > 0
    is_all = optimizer.matrices == "all"
    if optimizer.matrix_update is None or not (is_all or is_layer):
        return np.zeros(len(ops), dtype=np.bool_)
    strange = np.flatnonzero(has_weight & np.isin(ops.kind, _NOT_MODELLED))
    if len(strange):
        kind = OPERATORS[ops.kind[strange[0]]].name
        message = f"how {optimizer.name} updates the weights of a {kind} is not modelled"
        raise NotModelled(f"{message} ({ops.names[strange[0]]!r}); set optimizer: adam or sgd", "precision.optimizer")
    kinds = (*_HIDDEN, *_TABLES) if is_all else _HIDDEN
    return np.asarray(has_weight & np.isin(ops.kind, kinds))


def matrix_shapes(ops: Ops) -> tuple[IntArray, IntArray, IntArray]:
    """Of the weight of each row: how many matrices it is, one an expert, and the rows and columns of one.

    A linear layer's has a row for each input and a column for each output; an embedding's a row for each token.
    Projections that are one product, such as query, key and value, are one matrix, as Megatron-LM keeps them.
    """
    num = np.where(ops.kind == _EXPERTS, ops.extents[:, B], 1)
    cols = ops.extents[:, N]
    rows = np.where(np.isin(ops.kind, _HIDDEN), ops.extents[:, K], ops.weight_elements // np.maximum(cols, 1))
    return num, rows, cols
