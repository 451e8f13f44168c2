"""What the blocks of a model compute on one device, under every distinct cut and recompute policy at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dovetail.cost.op_cost import LIMITS
from dovetail.hardware.chip import Calibration
from dovetail.plan.block_elements import BlockElements, block_elements
from dovetail.plan.plan import RECOMPUTE_POLICIES
from dovetail.schedule.work_columns import COSTS, HOST, NUM_ROWS, ROWS, WAYS
from dovetail.workload.graph import BoolArray, FloatArray, IntArray, Ops, Phase
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import policy_rows

GRADIENTS = (Phase.INPUT_GRAD, Phase.WEIGHT_GRAD)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sums:
    """Which operators of a block are summed to what: matrices of 0 and 1, operators by what they are summed to."""

    kinds: FloatArray  # to ways by all and the core alone by policies
    shares: FloatArray  # to ways by recompute and weight gradients by policies
    ways: FloatArray  # to ways by policies
    has_rerun: BoolArray  # policies under which the host runs operators again one by one


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockRows:
    """Operators of one block for all policies, and where they stand among those of all blocks."""

    ops: Ops
    runs: BoolArray  # which of them run, policies by rows
    sums: Sums
    start: int

    @property
    def place(self) -> slice:
        return slice(self.start, self.start + len(self.ops))


def block_rows(blocks: Sequence[Ops]) -> tuple[BlockRows, ...]:
    wide = [_policy_rows(ops) for ops in blocks]
    starts = np.cumsum([0, *(len(ops) for ops, _, _ in wide)]).tolist()
    return tuple(
        BlockRows(ops=ops, runs=runs, sums=sums, start=start)
        for (ops, runs, sums), start in zip(wide, starts[:-1], strict=True)
    )


@lru_cache(maxsize=64)
def _policy_rows(ops: Ops) -> tuple[Ops, BoolArray, Sums]:
    wide, runs = policy_rows(ops, RECOMPUTE_POLICIES)
    return wide, runs, _sums(wide, runs)


def _sums(ops: Ops, runs: BoolArray) -> Sums:
    again = (ops.phase == Phase.RECOMPUTE) & runs
    forward = np.broadcast_to(ops.phase == Phase.FORWARD, again.shape)
    backward = ((ops.phase == Phase.INPUT_GRAD) | (ops.phase == Phase.WEIGHT_GRAD)) | again
    ways = np.stack([forward, backward])

    def matrix(chosen: BoolArray) -> FloatArray:
        return chosen.reshape(-1, len(ops)).T.astype(np.float64)

    return Sums(
        kinds=matrix(np.stack([ways, ways & ops.is_core], axis=1)),
        shares=matrix(np.stack([ways & again, ways & (ops.phase == Phase.WEIGHT_GRAD)], axis=1)),
        ways=matrix(ways),
        has_rerun=np.any(again & ~ops.is_fused, axis=1),
    )


def local_elements_of(
    rows: BlockRows, local: Ops, num_cuts: int, precision: Precision, *, is_layer: bool
) -> BlockElements:
    """Parameters and gradients of one repeat of a block, whose rows under each cut are among `local`."""
    ops = rows.ops
    held = np.flatnonzero((ops.weight_elements > 0) | (ops.gradient_elements > 0) | (ops.bias_elements > 0))
    under = np.arange(num_cuts)[:, None] * (len(local) // num_cuts) + rows.start + held
    return block_elements(ops.taken(held), local.taken(under.ravel()), num_cuts, precision, is_layer=is_layer)


def computed(
    rows: BlockRows, columns: FloatArray, limit: IntArray, num_cuts: int, calibration: Calibration, num_rows: int
) -> FloatArray:
    """One microbatch through one repeat of a block that sends nothing: ways by rows of work by cuts by policies.

    `columns` are as in COSTS by operators of all blocks, cut after cut, and `limit` what those wait for. Of rows the
    first `num_rows`: NUM_ROWS, or NUM_TIMED.
    """
    sums, num_policies = rows.sums, len(RECOMPUTE_POLICIES)
    columns = columns.reshape(len(COSTS), num_cuts, -1)[:, :, rows.place]
    found = np.zeros((WAYS, NUM_ROWS, num_cuts, num_policies))
    by_kind = (columns @ sums.kinds).reshape(len(COSTS), num_cuts, WAYS, 2, num_policies).transpose(2, 3, 0, 1, 4)
    for index, name in enumerate(("cost", "core")):
        found[:, ROWS[name]] = by_kind[:, index]
    times = columns[COSTS.index("compute_s")]
    shares = (times @ sums.shares).reshape(num_cuts, WAYS, 2, num_policies)
    found[:, ROWS["recompute_s"] + ROWS["weight_s"]] = shares.transpose(1, 2, 0, 3)
    found[1, HOST] += sums.has_rerun * calibration.host_rerun_s
    if num_rows < NUM_ROWS:
        return found[:, :num_rows]
    limit = limit.reshape(num_cuts, -1)[:, rows.place]
    waits = np.where(limit == np.arange(len(LIMITS))[:, None, None], times, 0.0)
    limits = (waits @ sums.ways).reshape(-1, num_cuts, WAYS, num_policies)
    found[:, ROWS["limits_s"]] = limits.transpose(2, 0, 1, 3)
    return found
