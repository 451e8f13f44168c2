"""How much memory a device needs under each of many plans, by their pipeline schedules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dovetail.columns import distinct
from dovetail.parallel.layout import LayerSpan, StageGroup, even_runs
from dovetail.parallel.memory import (
    MemoryTable,
    Stages,
    memory_table,
    runtime_bytes,
    stage_host_bytes,
    stage_peak_bytes,
)
from dovetail.parallel.plan import Plans
from dovetail.parallel.sharding import ShardedPlans
from dovetail.step.pipelines import PipelineShape, pipelines, schedule_name
from dovetail.workload.graph import FloatArray, Graph, IntArray
from dovetail.workload.optimizer import Precision

NUM_ROWS_AT_ONCE = 8192  # columns of as many numbers stay in a core's cache: 64 KiB each
_LAYOUT = ("pipeline_parallel", "interleave", "schedule")
_ELSE = ("recompute", "zero_stage", "data_parallel")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Fullest:
    """One stage of some plans of one layout."""

    rows: IntArray
    counts: tuple[float, ...]
    in_flight: FloatArray


def need_bytes(sharded: ShardedPlans, precision: Precision) -> FloatArray:
    """What the fullest device of each of `plans` needs: what its allocator holds at most, and its process beside it.

    Plans that differ in nothing that memory depends on are counted once, and the others together by the blocks that
    their stages hold, whatever their pipelines are.
    """
    return np.asarray(_most_bytes(sharded, precision, stage_peak_bytes) + runtime_bytes(sharded.plans))


def host_need_bytes(sharded: ShardedPlans, precision: Precision) -> FloatArray:
    """What the host keeps for the device of each of `plans` that offloads most."""
    return _most_bytes(sharded, precision, stage_host_bytes)


def _most_bytes(
    sharded: ShardedPlans, precision: Precision, of_stages: Callable[[MemoryTable, Stages], FloatArray]
) -> FloatArray:
    layout, others = ([getattr(sharded.plans, name) for name in names] for names in (_LAYOUT, _ELSE))
    first, variant_of = distinct(
        *layout, sharded.cuts.of_plan, *others
    )  # by layout and cut, so tables are read in order
    table = memory_table(sharded.at(first), precision)
    peaks_bytes = np.zeros(len(first))
    for stages in _stages(sharded.graph, table):
        for start in range(0, len(stages.rows), NUM_ROWS_AT_ONCE):
            few = stages.between(start, start + NUM_ROWS_AT_ONCE)
            np.maximum.at(peaks_bytes, few.rows, of_stages(table, few))
    return np.asarray(peaks_bytes[variant_of])


def _stages(graph: Graph, table: MemoryTable) -> Iterator[Stages]:
    """All stages that may be their plan's fullest, by the blocks they hold and whether they are first or last."""
    kinds = defaultdict(list)
    for rows in _layouts(table.plans):
        plan = table.plans.plan(int(rows[0]))
        pp = plan.pipeline_parallel
        pipeline = pipelines[schedule_name(plan)]
        shape = PipelineShape(num_stages=pp, num_microbatches=table.num_microbatches[rows], interleave=plan.interleave)
        for stage, spans in _fullest(even_runs(graph, pp, plan.interleave, plan.schedule)):
            blocks = tuple((span.block, span.policy) for span in spans)
            counts = tuple(float(span.count) for span in spans)
            fullest = _Fullest(rows=rows, counts=counts, in_flight=pipeline.in_flight(stage, shape))
            kinds[min(stage, 1), stage == pp - 1, blocks].append(fullest)
    for (stage, is_last, blocks), found in kinds.items():
        yield Stages(
            stage=stage,
            is_last=is_last,
            rows=np.concatenate([fullest.rows for fullest in found]),
            blocks=blocks,
            counts=np.repeat([fullest.counts for fullest in found], [len(fullest.rows) for fullest in found], axis=0).T,
            in_flight=np.concatenate([fullest.in_flight for fullest in found]),
        )


def _layouts(plans: Plans) -> list[IntArray]:
    """Rows of plans whose blocks lie on the same stages."""
    first, layout_of = distinct(*(getattr(plans, name) for name in _LAYOUT))
    order = np.argsort(layout_of, kind="stable")
    return np.split(order, np.cumsum(np.bincount(layout_of))[: len(first) - 1])


def _fullest(runs: tuple[StageGroup, ...]) -> Iterator[tuple[int, tuple[LayerSpan, ...]]]:
    """The stages that may be the fullest, with their blocks: of stages that hold the same the first has most in flight.

    The first stage of all holds tied weights only once; the one after it may hold as many blocks and more.
    """
    for run in runs:
        yield run.first_stage, run.spans
        if run.first_stage == 0 and run.num_stages > 1:
            yield 1, run.spans
