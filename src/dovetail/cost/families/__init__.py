"""Every operator by the family it is costed in: products, convolutions, attention, vector; no operator is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

import numpy as np

from dovetail.columns import is_among
from dovetail.cost.columns import ChipColumns
from dovetail.cost.families.attention import attention_costing
from dovetail.cost.families.convolution import convolution_costing
from dovetail.cost.families.products import product_costing
from dovetail.cost.families.rows import Costing, RowCosts, Rows, rows_of
from dovetail.cost.families.vector import vector_costing
from dovetail.cost.op_cost import OpCosts, Setting
from dovetail.cost.own_costs import with_own_costs
from dovetail.workload.graph import BoolArray, FloatArray, IntArray, Ops, Phase
from dovetail.workload.operators import ATTENTION_CODES, UNIT, Unit, code_of

_ATTENTION, _CONVOLUTION = ATTENTION_CODES, code_of("convolution")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A graph's rows by family, ready for any chips: what does not depend on them was done once.

    Rows that cannot differ in cost are costed once: `which` says of each of a family's rows which costed one it is.
    """

    num_rows: int
    families: tuple[tuple[IntArray, IntArray, Rows, Costing], ...]  # rows, which, the costed ones, costing


def prepared(ops: Ops) -> Prepared:
    rows = rows_of(ops)
    found = []
    for mask, costing in _families(rows):
        if bool(mask.any()):
            own = rows.at(mask)
            first, which = own.distinct()
            costed = own.at(first)
            found.append((np.flatnonzero(mask), which, costed, costing(costed)))
    return Prepared(num_rows=len(ops), families=tuple(found))


def _families(rows: Rows) -> Iterator[tuple[BoolArray, Callable[[Rows], Costing]]]:
    unit = UNIT[rows.kind]
    is_attention, is_image = is_among(rows.kind, _ATTENTION), rows.kind == _CONVOLUTION
    yield (unit == Unit.TENSOR) & ~is_attention & ~is_image, product_costing
    yield is_attention & ~rows.is_backward, attention_costing
    yield is_attention & rows.is_backward, attention_costing
    for phase in Phase:
        yield is_image & (rows.phase == phase), convolution_costing
    yield unit == Unit.VECTOR, vector_costing


def family_costs(work: Prepared, chips: ChipColumns, setting: Setting) -> OpCosts:
    """Cost of each row on each of `chips`; rows of no family, names and exchanges, cost nothing here."""
    shape = (work.num_rows, len(chips))
    found = {field.name: np.zeros(shape) for field in fields(OpCosts)}
    for rows, which, costed, costing in work.families:
        parts = with_own_costs(costing(chips, setting), costed, chips)
        for name, column in _finished(parts, chips, setting).items():
            found[name][rows] = column[which] if column.ndim else column
    return OpCosts(**found)


def _finished(parts: RowCosts, chips: ChipColumns, setting: Setting) -> dict[str, FloatArray]:
    """A family's parts with launches and host, as the columns of OpCosts."""
    calibration = chips.calibration
    launch_s = parts.num_kernels * calibration["launch_s"]
    if setting is Setting.ALONE:
        launch_s = launch_s + calibration["alone_s"]
    compute_s = parts.busy_s + launch_s
    if setting is Setting.ALONE:
        compute_s = np.maximum(compute_s, parts.floor_s)
    return {
        "compute_s": compute_s,
        "clocked_s": parts.clocked_s,
        "energy_j": parts.core_j + parts.hbm_bytes * chips.hbm_j_per_byte,
        "core_j": parts.core_j,
        "flop": parts.flop,
        "hbm_bytes": parts.hbm_bytes,
        "host_s": parts.host_s,
    }
