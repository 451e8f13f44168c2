"""What every operator of a graph costs on every chip of a table: one call, arrays in, arrays out."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from dovetail.cost.columns import ChipColumns, chip_columns
from dovetail.cost.families import family_costs, prepared
from dovetail.cost.op_cost import LIMITS, OpCosts, Setting
from dovetail.hardware.chip import Chip
from dovetail.workload.graph import Ops

__all__ = ["LIMITS", "OpCosts", "Setting", "cost_table", "op_costs"]
CHIPS_AT_ONCE = 1_000  # what keeps a graph's arrays in a core's cache


def op_costs(ops: Ops, chip: Chip, setting: Setting = Setting.STREAM) -> OpCosts:
    """Cost of each row of `ops` on `chip`; network rows cost nothing here."""
    table = cost_table(ops, chip_columns((chip,)), setting)
    return OpCosts(**{f.name: getattr(table, f.name)[:, 0] for f in fields(OpCosts)})


def cost_table(ops: Ops, chips: ChipColumns, setting: Setting = Setting.STREAM) -> OpCosts:
    """Cost of each row of `ops` on each of `chips`, rows by chips."""
    work = prepared(ops)
    if len(chips) <= CHIPS_AT_ONCE:
        return family_costs(work, chips, setting)
    starts = range(0, len(chips), CHIPS_AT_ONCE)
    parts = [family_costs(work, chips.slice(start, start + CHIPS_AT_ONCE), setting) for start in starts]
    return OpCosts(**{f.name: np.concatenate([getattr(p, f.name) for p in parts], axis=1) for f in fields(OpCosts)})
