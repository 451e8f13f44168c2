"""Plans whose pipelines are alike: by rows of a table, with the runs of stages they share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dovetail.plan.layout import Run, even_runs
from dovetail.plan.plans import Plans, distinct
from dovetail.schedule.pipelines import schedule_name
from dovetail.workload.graph import Graph, IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Alike:
    """Plans with the same pipeline: the rows they are in, and the runs of stages they share."""

    rows: IntArray
    name: str
    num_stages: int
    interleave: int
    num_copies: int
    runs: tuple[Run, ...]

    @property
    def stage_run(self) -> tuple[int, ...]:
        """The run of every stage."""
        return tuple(index for index, run in enumerate(self.runs) for _ in range(run.num_stages))

    @property
    def stage_part(self) -> tuple[int, ...]:
        """The part of the cluster that every stage is on; none where all devices are equal."""
        parts = tuple(run.part for run in self.runs for _ in range(run.num_stages))
        return parts if any(parts) else ()


def alike(plans: Plans, rows: IntArray, runs: tuple[Run, ...]) -> Alike:
    """The plans in `rows`, which have the pipeline of the first of them."""
    plan = plans.plan(int(rows[0]))
    return Alike(
        rows=rows,
        name=schedule_name(plan),
        num_stages=plan.pipeline_parallel,
        interleave=plan.interleave,
        num_copies=plan.num_copies,
        runs=runs,
    )


def by_pipeline(graph: Graph, plans: Plans) -> Iterator[Alike]:
    """`plans`, whose layers are spread evenly, by the pipeline they have."""
    first, shape_of = distinct(plans.pipeline_parallel, plans.interleave, plans.schedule)
    for index, row in enumerate(first):
        plan = plans.plan(int(row))
        runs = even_runs(graph, plan.pipeline_parallel, plan.interleave, plan.schedule)
        yield alike(plans, np.flatnonzero(shape_of == index), runs)
