"""Operators one at a time, while a graph is being built or rewritten, and the way to columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.workload.graph import NUM_EXTENTS, Axis, FloatArray, IntArray, Need, Ops, Phase, csr
from dovetail.workload.operators import OPERATORS, code_of, dtype_code

Extent = tuple[int, Axis]
ONE: Extent = (1, Axis.NONE)
_WEIGHTED = ("linear", "expert_linear", "convolution", "recurrent_linear")
TABLES = ("embedding", "embedding_bag")  # their backward pass is a gradient of weights, not of inputs
_REPEATED_IN_BACKWARD = ("gather", "expert_gather", "context_gather")


@dataclass(slots=True, kw_only=True)
class Row:
    """One operator while its block is being built."""

    name: str
    kind: str
    inputs: tuple[int, ...]
    extents: tuple[Extent, ...]
    dtype: str
    math: str = ""  # dtype the product is taken in; the stored one unless given
    distinct_frac: tuple[float, float, float] = (1.0, 1.0, 1.0)
    work_frac: float = 1.0
    stride: int = 1
    weight: Extent = (0, Axis.NONE)
    gradient: Extent = (0, Axis.NONE)  # of the weight
    bias: Extent = (0, Axis.NONE)
    is_tied: bool = False
    is_core: bool = False
    is_fused: bool = False
    is_compiled: bool = False
    kept_bytes_per_element: float = 0.0
    phase: Phase = Phase.FORWARD
    side_bytes_per_element: float = 0.0
    need: Need = Need.NONE

    @property
    def is_frozen(self) -> bool:
        """Whether it has a weight and no gradient of it."""
        return self.weight[0] > 0 and self.gradient[0] == 0


def rows_to_ops(rows: Sequence[Row]) -> Ops:
    """Columns from rows; `inputs` become edges."""
    edge_start, edge_to = _edges(rows)
    shape = (-1, NUM_EXTENTS)
    return Ops(
        names=tuple(row.name for row in rows),
        kind=_column(code_of(row.kind) for row in rows),
        phase=_column(row.phase for row in rows),
        dtype=_column(dtype_code(row.dtype) for row in rows),
        math=_column(dtype_code(row.math or row.dtype) for row in rows),
        extents=_column(size for row in rows for size, _ in row.extents).reshape(shape),
        splits=_column(axes for row in rows for _, axes in row.extents).reshape(shape),
        stride=_column(row.stride for row in rows),
        distinct_frac=_floats(frac for row in rows for frac in row.distinct_frac).reshape(-1, 3),
        work_frac=_floats(row.work_frac for row in rows),
        weight_elements=_column(row.weight[0] for row in rows),
        weight_split=_column(row.weight[1] for row in rows),
        gradient_elements=_column(row.gradient[0] for row in rows),
        gradient_split=_column(row.gradient[1] for row in rows),
        bias_elements=_column(row.bias[0] for row in rows),
        bias_split=_column(row.bias[1] for row in rows),
        is_tied=_column(row.is_tied for row in rows).astype(np.bool_),
        is_core=_column(row.is_core for row in rows).astype(np.bool_),
        is_fused=_column(row.is_fused for row in rows).astype(np.bool_),
        is_compiled=_column(row.is_compiled for row in rows).astype(np.bool_),
        need=_column(row.need for row in rows),
        kept_bytes_per_element=_floats(row.kept_bytes_per_element for row in rows),
        side_bytes_per_element=_floats(row.side_bytes_per_element for row in rows),
        edge_start=edge_start,
        edge_to=edge_to,
    )


def _edges(rows: Sequence[Row]) -> tuple[IntArray, IntArray]:
    sources = _column(i for row in rows for i in row.inputs)
    targets = _column(target for target, row in enumerate(rows) for _ in row.inputs)
    return csr(len(rows), sources, targets)


def _column(values: Iterable[int]) -> IntArray:
    return np.array([int(value) for value in values], dtype=np.int64)


def _floats(values: Iterable[float]) -> FloatArray:
    return np.array(list(values), dtype=np.float64)


def have_gradients(rows: Sequence[Row], *, is_input_data: bool) -> list[bool]:
    """Whether a gradient goes back to each row of a block, in whose first row comes in what other blocks made.

    Where nothing is frozen and what came in has one, one goes to all. Else it begins at what is trained.
    """
    if not is_input_data and not any(row.is_frozen for row in rows):
        return [True] * len(rows)
    found: list[bool] = []
    for index, row in enumerate(rows):
        is_trained = row.gradient[0] > 0 or row.bias[0] > 0
        # a product or a look-up without a weight of its own has one that another row owns
        is_trained = is_trained or (row.kind in (*_WEIGHTED, *TABLES) and not row.weight[0])
        found.append(is_trained or any(found[i] for i in row.inputs if i < index) or (index == 0 and not is_input_data))
    return found


def mark_needs(rows: Sequence[Row], *, is_input_data: bool = False) -> None:
    """Note on every row who needs its output in the backward pass.

    A gather is looked through: it is repeated in the backward pass, so the parts are kept, not the whole
    (Korthikanti et al. 2022, section 4.2.2).
    """
    has_gradient = have_gradients(rows, is_input_data=is_input_data)
    for index, row in enumerate(rows):
        if not has_gradient[index]:
            continue
        operator = OPERATORS[code_of(row.kind)]
        whose = Need.CORE if row.is_core else Need.OUTSIDE
        # the gradient of a product's input needs the weight alone
        kept = list(row.inputs) if operator.keeps_input and not (row.is_frozen and row.kind in _WEIGHTED) else []
        if operator.keeps_output:
            kept.append(index)
        for tensor in kept:
            while rows[tensor].kind in _REPEATED_IN_BACKWARD:
                tensor = rows[tensor].inputs[0]
            rows[tensor].need |= whose
