"""Many plans at once, as columns: what a search enumerates and an evaluation takes apart again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from dovetail.plan.plan import CONTEXT_EXCHANGES, RECOMPUTE_POLICIES, Overlap, Plan
from dovetail.workload.graph import BoolArray, IntArray

OVERLAPS = tuple(field.name for field in fields(Overlap))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plans:
    """Columns of plans whose layers are spread evenly and whose stages all recompute alike.

    `recompute`, `context_exchange`, `schedule` and `axis_order` are indices: into RECOMPUTE_POLICIES,
    CONTEXT_EXCHANGES, `schedules` and `axis_orders`.
    `overlap` has one column for each of OVERLAPS. Framework and offload are the same for all.
    """

    tensor_parallel: IntArray
    sequence_parallel: BoolArray
    context_parallel: IntArray
    context_exchange: IntArray
    pipeline_parallel: IntArray
    interleave: IntArray
    data_parallel: IntArray
    expert_parallel: IntArray
    expert_tensor_parallel: IntArray
    sends_once: BoolArray
    zero_stage: IntArray
    microbatch: IntArray
    recompute: IntArray
    schedule: IntArray
    axis_order: IntArray
    overlap: BoolArray
    schedules: tuple[str, ...]
    axis_orders: tuple[tuple[str, ...], ...]
    framework: str = "plain"
    offload_optimizer: bool = False
    offload_activations_frac: float = 0.0

    def __len__(self) -> int:
        return len(self.tensor_parallel)

    @property
    def num_devices(self) -> IntArray:
        return self.tensor_parallel * self.context_parallel * self.pipeline_parallel * self.data_parallel

    @property
    def expert_data_parallel(self) -> IntArray:
        """Devices that hold the same experts."""
        ranks = self.tensor_parallel * self.context_parallel * self.data_parallel
        return ranks // (self.expert_parallel * self.expert_tensor_parallel)

    def overlaps(self, name: str) -> BoolArray:
        """Whether each plan lets this communication run beside compute."""
        return np.asarray(self.overlap[:, OVERLAPS.index(name)])

    def plan(self, row: int) -> Plan:
        """One of them as a value."""
        counts: dict[str, Any] = {name: int(getattr(self, name)[row]) for name in _COUNTS}
        return Plan(
            **counts,
            **{name: getattr(self, name) for name in _SAME},
            sequence_parallel=bool(self.sequence_parallel[row]),
            sends_once=bool(self.sends_once[row]),
            context_exchange=CONTEXT_EXCHANGES[self.context_exchange[row]],
            recompute=(RECOMPUTE_POLICIES[self.recompute[row]],),
            schedule=self.schedules[self.schedule[row]],
            axis_order=self.axis_orders[self.axis_order[row]],
            overlap=Overlap(**{name: bool(flag) for name, flag in zip(OVERLAPS, self.overlap[row], strict=True)}),
        )

    def at(self, rows: IntArray) -> Plans:
        """Some of them, in the order given."""
        columns = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return Plans(**columns, **{name: getattr(self, name) for name in _NAMES})


_COUNTS = (
    "tensor_parallel",
    "context_parallel",
    "pipeline_parallel",
    "interleave",
    "data_parallel",
    "expert_parallel",
    "expert_tensor_parallel",
    "zero_stage",
    "microbatch",
)
_SAME = ("framework", "offload_optimizer", "offload_activations_frac")
_NAMES = ("schedules", "axis_orders", *_SAME)
_COLUMNS = tuple(field.name for field in fields(Plans) if field.name not in _NAMES)
_CODES_PER_ROW = 8  # of a table that finds distinct rows; beyond it, sorting is no slower


def joined(batches: Sequence[Plans]) -> Plans:
    """One table of several whose schedules and axis orders have the same names."""
    first = batches[0]
    stacked: dict[str, Any] = {name: np.concatenate([getattr(batch, name) for batch in batches]) for name in _COLUMNS}
    return Plans(**stacked, **{name: getattr(first, name) for name in _NAMES})


def distinct(*columns: IntArray | BoolArray) -> tuple[IntArray, IntArray]:
    """Distinct rows of `columns` taken together: the first row of each, and which of them every row is."""
    code, size = np.zeros(len(columns[0]), dtype=np.int64), 1
    if len(code) == 1:  # one plan by itself
        return code, code.copy()
    for column in columns:
        is_flag = column.dtype == np.bool_
        least, greatest = (int(column.all()), int(column.any())) if is_flag else (int(column.min()), int(column.max()))
        if least == greatest:
            continue
        values, spread = column - least if least else column, greatest - least + 1
        if size * spread > _CODES_PER_ROW * len(code):
            code, size = _ranks(code, size)
            values, spread = _ranks(values.astype(np.int64), spread)  # flags are no indices
        size *= spread
        np.multiply(code, spread, out=code)  # each call has its own
        np.add(code, values, out=code)
    of_row, num_rows = _ranks(code, size)
    first = np.empty(num_rows, dtype=np.int64)
    first[of_row[::-1]] = np.arange(len(of_row) - 1, -1, -1)
    return first, of_row


def _ranks(code: IntArray, num_codes: int) -> tuple[IntArray, int]:
    """Codes below `num_codes` as places among those that occur, and how many do; by a table unless that is large."""
    if num_codes > _CODES_PER_ROW * len(code):
        values, of_row = np.unique(code, return_inverse=True)
        return of_row.reshape(-1), len(values)
    occurs = np.zeros(num_codes, dtype=bool)
    occurs[code] = True
    found = np.flatnonzero(occurs)
    places = np.empty(num_codes, dtype=np.int64)  # of codes that do not occur never read
    places[found] = np.arange(len(found))
    return places[code], len(found)


def are_ties_apart(plans: Plans) -> BoolArray:
    """Whether tied weights and their owner are on different stages: first and last chunk are on different devices."""
    first, shape_of = distinct(plans.pipeline_parallel, plans.interleave, plans.schedule)
    ends = [plans.plan(int(row)).chunk_stages for row in first]
    return np.array([set(chunks[0]) != set(chunks[-1]) for chunks in ends])[shape_of]


def columns_of(plans: Sequence[Plan]) -> Plans:
    """`plans` as columns. How layers lie on stages is not in them, and of recompute the first stage's."""
    schedules = tuple(sorted({plan.schedule for plan in plans}))
    orders = tuple(sorted({plan.axis_order for plan in plans}))
    same: dict[str, Any] = {name: getattr(plans[0], name) for name in _SAME}
    for plan in plans:
        assert all(getattr(plan, name) == value for name, value in same.items()), plan
    counts: dict[str, Any] = {name: np.array([getattr(p, name) for p in plans], dtype=np.int64) for name in _COUNTS}
    return Plans(
        **counts,
        sequence_parallel=np.array([plan.sequence_parallel for plan in plans]),
        sends_once=np.array([plan.sends_once for plan in plans]),
        context_exchange=np.array([CONTEXT_EXCHANGES.index(plan.context_exchange) for plan in plans]),
        recompute=np.array([RECOMPUTE_POLICIES.index(plan.recompute[0]) for plan in plans]),
        schedule=np.array([schedules.index(plan.schedule) for plan in plans]),
        axis_order=np.array([orders.index(plan.axis_order) for plan in plans]),
        overlap=np.array([[getattr(plan.overlap, name) for name in OVERLAPS] for plan in plans]),
        schedules=schedules,
        axis_orders=orders,
        **same,
    )
