"""Plans with uneven stages, best first: base plans whose bound is below the best plan so far get their stages cut anew.

A base plan is a plan without its layers by stage and its recompute. Of its plans those are searched that hold a layer
or more in every chunk and, on every stage, recompute what makes it fastest among all that memory allows: one policy,
for some of its layers or all. What is proven of a base plan, in this order:

1. Bounded away: a lower bound of its step, whatever its layers and recompute, is above the best plan (`bounds`).
2. Closed: every cut whose slowest stage leaves room below the best plan was evaluated, or its pipeline, exact, together
   with the least that is exchanged and updated once a step, is above the best plan.
3. Neither: too many cuts, layers of several kinds, chunks on two stages, or the budget is used up. Then only its bound
   counts, and the gap is what the least of these leaves open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.hardware.cluster import Cluster
from dovetail.plan.layout import runs_of
from dovetail.plan.plan import Plan
from dovetail.plan.plans import Plans, columns_of, distinct, joined
from dovetail.schedule.assembly import Assembly, Shared, alike, by_stages, shared
from dovetail.search.bounds import ROUNDING_TOLERANCE, layer_blocks, step_bounds
from dovetail.search.stage_cuts import StageTable, best_layers, cuts_within, plan_of, stage_table
from dovetail.search.stage_options import layer_range, stage_options, with_policies
from dovetail.workload.graph import BoolArray, FloatArray, Graph, IntArray
from dovetail.workload.optimizer import Precision

MAX_EVALUATED = 32  # cuts of a base plan, to close it
PLANS_AT_ONCE = 16  # refined together, before the next look at the best
_RECOMPUTE = "recompute"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """What plans are for."""

    graph: Graph
    cluster: Cluster
    precision: Precision
    policies: tuple[int, ...]  # recompute that a stage may use


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BasePlans:
    """Plans whose `recompute` is left open, and a lower bound on the step of each."""

    plans: Plans
    bounds_s: FloatArray
    once_s: FloatArray  # that every step has at least beside its pipeline

    def __len__(self) -> int:
        return len(self.plans)

    def below(self, step_s: float) -> BasePlans:
        """Those that may be faster than this."""
        rows = np.flatnonzero(self.bounds_s < step_s)
        return self.at(rows)

    def at(self, rows: IntArray) -> BasePlans:
        return BasePlans(plans=self.plans.at(rows), bounds_s=self.bounds_s[rows], once_s=self.once_s[rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A plan, what it takes and what it needs."""

    plan: Plan
    step_s: float
    energy_j: float
    need_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Refined:
    """Plans found, how many base plans were refined, and a time that no plan of the base plans is below."""

    found: tuple[Found, ...]
    num_refined: int
    num_open: int  # base plans that may still hold a faster plan
    bound_s: float


def base_plans(job: Job, plans: Plans, worst_s: float) -> BasePlans:
    """The base plans among `plans`, which must lie on the cluster's network, with their bounds.

    Bounds are as tight as can be only where they are below `worst_s`.
    """
    bases = plans.at(_first_rows(plans))
    every = shared(job.graph, bases, job.cluster, job.precision)
    bounds = step_bounds(every, job.policies, worst_s)
    return BasePlans(plans=bases, bounds_s=bounds.step_s, once_s=bounds.once_s)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BaseQueue:
    """Base plans met so far that may beat the best plan, and how many were met in all."""

    waiting: tuple[BasePlans, ...] = ()
    num_all: int = 0

    def with_(self, job: Job, plans: Plans, best_s: float) -> BaseQueue:
        """With the base plans among `plans`, which must lie on the cluster's network."""
        if not len(plans):
            return self
        bases = base_plans(job, plans, best_s)
        return BaseQueue(waiting=(*self.waiting, bases.below(best_s)), num_all=self.num_all + len(bases))

    def below(self, best_s: float) -> BasePlans:
        """Those whose bounds are below this; there must have been some."""
        some = [bases.below(best_s) for bases in self.waiting]
        return BasePlans(
            plans=joined([each.plans for each in some]),
            bounds_s=np.concatenate([each.bounds_s for each in some]),
            once_s=np.concatenate([each.once_s for each in some]),
        )


def _first_rows(plans: Plans) -> IntArray:
    names = [name for name in plans.__slots__ if isinstance(getattr(plans, name), np.ndarray)]
    columns = [getattr(plans, name) for name in names if name not in (_RECOMPUTE, "overlap")]
    return np.sort(distinct(*columns, *plans.overlap.T)[0])


def refined(job: Job, bases: BasePlans, best_s: float, num_most: int) -> Refined:
    """Of `bases` those whose bound is below the best known step, best first, `num_most` at the most."""
    order = np.lexsort((np.arange(len(bases)), bases.bounds_s))
    queue = order[np.array([_is_refinable(job.graph, bases.plans, int(row)) for row in order], dtype=bool)]
    is_closed = np.zeros(len(bases), dtype=bool)
    found: list[Found] = []
    num_done = 0
    while num_done < min(num_most, len(queue)) and bases.bounds_s[queue[num_done]] < best_s:
        rows = queue[num_done : min(num_done + PLANS_AT_ONCE, num_most)]
        rows = rows[bases.bounds_s[rows] < best_s]
        found_here, is_closed[rows] = _refine(job, bases.at(rows), best_s)
        found += found_here
        num_done += len(rows)
        best_s = min([best_s, *(each.step_s for each in found_here)])
    open_s = bases.bounds_s[~is_closed & (bases.bounds_s < best_s)]
    return Refined(
        found=tuple(found),
        num_refined=num_done,
        num_open=len(open_s),
        bound_s=float(min(open_s.min(initial=np.inf), best_s)),
    )


def balanced_plans(job: Job, plans: Sequence[Plan]) -> list[Found]:
    """The best cut found of the base plan of each of `plans`, where layers are alike."""
    columns = columns_of(plans) if plans else None
    rows = [row for row in range(len(plans)) if columns and _is_refinable(job.graph, columns, row)]
    if columns is None or not rows:
        return []
    chosen = columns.at(np.array(rows))
    every = shared(job.graph, with_policies(chosen, job.policies), job.cluster, job.precision)
    found = []
    for index, table in enumerate(_tables(job, every, chosen)):
        found += _proposed(every, index * len(job.policies), table)
    return found


def _is_refinable(graph: Graph, plans: Plans, row: int) -> bool:
    """Layers must be alike, and every chunk on one stage."""
    return len(layer_blocks(graph)) == 1 and plans.schedules[plans.schedule[row]] != "dualpipe"


def _refine(job: Job, bases: BasePlans, best_s: float) -> tuple[list[Found], BoolArray]:
    """The best plan found of each of `bases`, where one fits, and which of them are closed."""
    every = shared(job.graph, with_policies(bases.plans, job.policies), job.cluster, job.precision)
    found: list[Found] = []
    is_closed = np.zeros(len(bases), dtype=bool)
    for index, table in enumerate(_tables(job, every, bases.plans)):
        row, once_s = index * len(job.policies), float(bases.once_s[index])
        more, is_closed[index] = _closed(every, row, table, once_s, best_s)
        if not is_closed[index]:  # a better plan leaves fewer cuts that could win
            more += _proposed(every, row, table)
            best_s = min([best_s, *(each.step_s for each in more)])
            last, is_closed[index] = _closed(every, row, table, once_s, best_s)
            more += last
        best_s = min([best_s, *(each.step_s for each in more)])
        found += more
    return found, is_closed


def _tables(job: Job, every: Shared, plans: Plans) -> list[StageTable]:
    graph, options, tables = job.graph, stage_options(every, job.policies), []
    for index in range(len(plans)):
        plan, row = plans.plan(index), index * len(job.policies)
        tables.append(
            stage_table(
                plan,
                options.at(np.flatnonzero(options.plan == index)),
                layer_range(graph, plan.pipeline_parallel, plan.interleave),
                graph.num_layers,
                plan.num_microbatches(graph.batch),
                float(every.transfer_s[every.transfer_of[row]]),
            )
        )
    return tables


def _proposed(every: Shared, row: int, table: StageTable) -> list[Found]:
    layers, step_s = best_layers(table)
    return [_found(every, row, table, layers)] if np.isfinite(step_s) else []


def _closed(every: Shared, row: int, table: StageTable, once_s: float, best_s: float) -> tuple[list[Found], bool]:
    """All cuts that may be faster than the best, evaluated; and whether they were all."""
    num_passes = table.num_microbatches / table.plan.num_copies
    cuts = cuts_within(table, (best_s - once_s) / num_passes - table.paid_s)
    if cuts is None:
        return [], False
    found: list[Found] = []
    steps_s = table.steps_s(cuts) + once_s if len(cuts) else np.empty(0)
    order = np.argsort(steps_s, kind="stable")
    for place, index in enumerate(order):
        if steps_s[index] * (1 - ROUNDING_TOLERANCE) >= best_s:
            break
        if place == MAX_EVALUATED:
            return found, False
        found.append(_found(every, row, table, cuts[index]))
        best_s = min(best_s, found[-1].step_s)
    return found, True


def _found(every: Shared, row: int, table: StageTable, layers: IntArray) -> Found:
    """The plan with these layers by stage, evaluated whole."""
    plan = plan_of(table, layers)
    same = alike(every.plans, np.array([row]), runs_of(every.graph, plan))
    [(_, columns)] = by_stages(every, [same])
    made = Assembly(every, same, columns)
    rows = table.row[np.arange(len(layers)), layers]
    return Found(
        plan=plan,
        step_s=float(made.step_s[0]),
        energy_j=float(made.energy_j()[0]),
        need_bytes=float(table.options.need_bytes[rows].max()),
    )
