"""What every operator of a graph costs on every chip of a table: one call, arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import lru_cache

import numpy as np

from dovetail.cost.columns import ChipColumns, grouped
from dovetail.cost.families import family_costs, prepared
from dovetail.cost.families.rows import distinct_rows
from dovetail.cost.op_cost import OpCosts, Setting
from dovetail.cost.overrides import with_measured
from dovetail.hardware.chip import Chip
from dovetail.registry import at_withdrawal
from dovetail.workload.graph import IntArray, Ops, Phase

# what the cost of a row follows from, beside its phase, its extents and the distinct share of its tensors
_COSTED_BY = (
    "kind",
    "math",
    "dtype",
    "is_fused",
    "is_compiled",
    "stride",
    "work_frac",
    "side_bytes_per_element",
)
_COLUMNS = tuple(field.name for field in fields(OpCosts))
CHIP_BATCH = 1_000  # what keeps a graph's arrays in a core's cache
_prepared = lru_cache(maxsize=32)(prepared)  # searches cost the same graphs again and again, on other chips
at_withdrawal(_prepared.cache_clear)


def op_costs(ops: Ops, chip: Chip, setting: Setting = Setting.STREAM) -> OpCosts:
    """Cost of each row of `ops` on `chip`; network rows cost nothing here.

    In a stream, rows that were measured on the chip take those seconds.
    """
    [costs] = chip_costs(ops, (chip,), setting)
    return costs


def chip_costs(ops: Ops, chips: Sequence[Chip], setting: Setting = Setting.STREAM) -> tuple[OpCosts, ...]:
    """As `op_costs`, on each of `chips`; those that are tiled the same way are costed in one call."""
    first, which = equally_costed_rows(ops)
    distinct = ops.taken(first)
    found = {}
    for places, columns in grouped(chips):
        table = cost_table(distinct, columns, setting)
        for column, place in enumerate(places):
            costs = OpCosts(**{name: getattr(table, name)[:, column] for name in _COLUMNS})
            if setting is Setting.STREAM:
                costs = with_measured(distinct, chips[place], costs)
            found[place] = OpCosts(**{name: getattr(costs, name)[which] for name in _COLUMNS})
    return tuple(found[place] for place in range(len(chips)))


def distinct_costs(ops: Ops, chips: ChipColumns) -> OpCosts:
    """Cost of each row of `ops` on each of `chips`, chips by rows; rows that cannot differ are costed once."""
    first, which = equally_costed_rows(ops)
    table = cost_table(ops.taken(first), chips)
    return OpCosts(**{f.name: getattr(table, f.name).T[:, which] for f in fields(OpCosts)})


def equally_costed_rows(ops: Ops) -> tuple[IntArray, IntArray]:
    """Rows that cannot differ in cost: the first of each, and which of them every row is.

    Cuts of a model differ in some of its operators, and recompute runs others again.
    """
    phase = np.where(ops.phase == Phase.RECOMPUTE, Phase.FORWARD, ops.phase)
    flat = [phase, *(getattr(ops, name) for name in _COSTED_BY)]
    columns = [
        np.ascontiguousarray(column, dtype=np.float64) for column in (*flat, *ops.extents.T, *ops.distinct_frac.T)
    ]
    return distinct_rows(columns)


def cost_table(ops: Ops, chips: ChipColumns, setting: Setting = Setting.STREAM) -> OpCosts:
    """Cost of each row of `ops` on each of `chips`, rows by chips."""
    work = _prepared(ops)
    if len(chips) <= CHIP_BATCH:
        return family_costs(work, chips, setting)
    starts = range(0, len(chips), CHIP_BATCH)
    parts = [family_costs(work, chips.at(slice(start, start + CHIP_BATCH)), setting) for start in starts]
    return OpCosts(**{f.name: np.concatenate([getattr(p, f.name) for p in parts], axis=1) for f in fields(OpCosts)})
