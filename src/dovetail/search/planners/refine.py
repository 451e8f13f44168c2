"""Plans with uneven stages, best first: stages are cut again where a base plan's bound is below the best plan.

A base plan is a plan without its layers by stage and its recompute. Of its plans those are searched that hold a layer
or more in every chunk and, on every stage, recompute what makes it fastest among all that memory allows: one policy,
for some of its layers or all. What is proven of a base plan, in this order:

1. Bounded away: a lower bound of its step, whatever its layers and recompute, is above the best plan
   (`step_lower_bounds`).
2. Closed: every cut whose slowest stage leaves room below the best plan was evaluated, or its pipeline, exact, together
   with the least that is exchanged and updated once a step, is above the best plan; or some paths of the pipeline are,
   whatever the cut (`path_diagram`).
3. Neither: too many cuts, kinds of layers that may end in too many ways, several chunks of interleaved kinds a stage,
   chunks on two stages, or the budget is used up. Then only its bound counts, and the gap is what the least of these
   leaves open.

Layers all alike are cut by `stage_cuts`, those of several kinds by `mix_cuts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from dovetail.hardware.cluster import Cluster
from dovetail.parallel.layout import even_runs, runs_of
from dovetail.parallel.plan import Plan, Plans, columns_of
from dovetail.search.planners.bases import BasePlans, Refined
from dovetail.search.planners.bounds.block_lower_bounds import block_lower_bounds
from dovetail.search.planners.bounds.memory_lower_bounds import may_fit
from dovetail.search.planners.bounds.step_lower_bounds import (
    ROUNDING_TOLERANCE,
    fixed_lower_bounds_s,
    layer_blocks,
    pipeline_bounds_s,
    step_bounds,
)
from dovetail.search.planners.candidates import Found
from dovetail.search.planners.cuts.mix_cuts import MAX_CUTS, MixTable, has_few_patterns, mix_table, wanted_mixes
from dovetail.search.planners.cuts.path_diagram import paths_of
from dovetail.search.planners.cuts.per_step_costs import per_step_of_cuts_s
from dovetail.search.planners.cuts.plan_stages import PlanStages
from dovetail.search.planners.cuts.stage_cuts import StageTable, stage_table
from dovetail.search.planners.cuts.stage_options import layer_range, stage_options, with_policies
from dovetail.search.planners.mixes import StageLayers
from dovetail.step.assembly import Assembly, by_stages, stage_shape_group
from dovetail.step.pipelines import schedule_name
from dovetail.step.plan_table import PlanContext, plan_context
from dovetail.workload.graph import FloatArray, Graph, IntArray
from dovetail.workload.optimizer import Precision

MAX_EVALUATED = 32  # cuts of a base plan, to close it
FEW_EVALUATED = 4  # cuts that are sooner evaluated than told apart by what they exchange and update
FEW_LISTED = 2_000  # cuts that are sooner timed one by one than bounded together
MAX_PATHS = 24  # of a pipeline, after those that it begins with, to close a base plan
FEW_AT_ONCE, MANY_AT_ONCE = 16, 96  # refined together, before the next look at the best: more as fewer improve it


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """What plans are for."""

    graph: Graph
    cluster: Cluster
    precision: Precision
    policies: tuple[int, ...]  # recompute that a stage may use


# Paths of pipelines by their schedule, stages, microbatches and interleave.
KnownPaths = dict[tuple[str, int, int, int], FloatArray]

# Base plans done, those known to be left, best step and bound, and the plans found so far.
ProgressReport = Callable[[int, int, float, float, Sequence[Found]], None]


def no_progress(*_: object) -> None: ...


def base_plans(job: Job, plans: Plans, worst_s: float) -> BasePlans:
    """Base plans, which must lie on the cluster's network, with their bounds: as tight as can be below `worst_s`.

    Those that cannot fit are left out.
    """
    plans = plans.at(np.flatnonzero(may_fit(job.graph, plans, job.cluster, job.precision, job.policies)))
    if np.isfinite(worst_s) and len(plans):
        plans = plans.at(np.flatnonzero(_pipelines_s(job, plans) < worst_s))
    if not len(plans):
        return BasePlans(plans=plans, bounds_s=np.empty(0), per_step_s=np.empty(0))
    context = plan_context(job.graph, plans, job.cluster, job.precision, is_broken_down=False)
    bounds = step_bounds(context, job.policies, worst_s)
    return BasePlans(plans=plans, bounds_s=bounds.step_s, per_step_s=bounds.per_step_s)


def likely_plans(job: Job, plans: Plans) -> Plans:
    """Those of `plans` that may fit, the least bound of their pipelines first."""
    plans = plans.at(np.flatnonzero(may_fit(job.graph, plans, job.cluster, job.precision, job.policies)))
    return plans.at(np.argsort(_pipelines_s(job, plans), kind="stable")) if len(plans) else plans


def _pipelines_s(job: Job, plans: Plans) -> FloatArray:
    """Seconds that the pipeline of each of `plans` takes at least: one bound for all that differ in ZeRO or overlap.

    What ZeRO gathers and reduces in every microbatch only makes a stage longer, and overlap only makes it shorter, so
    the bound is that without ZeRO and with every overlap that one of them has.
    """
    first, alike = plans.distinct_but_for("zero_stage", "recompute", "overlap")
    without = replace(
        plans.at(first),
        zero_stage=np.zeros(len(first), dtype=np.int64),
        overlap=np.tile(plans.overlap.any(axis=0), (len(first), 1)),
    )
    context = plan_context(job.graph, without, job.cluster, job.precision, is_broken_down=False)
    return np.asarray(pipeline_bounds_s(context, job.policies)[alike])


def refined(job: Job, bases: BasePlans, best_s: float, num_most: int, report: ProgressReport = no_progress) -> Refined:
    """Of `bases` those whose bound is below the best known step, best first, `num_most` at the most."""
    order = np.lexsort((np.arange(len(bases)), bases.bounds_s))
    queue = order[np.array([_is_refinable(job.graph, bases.plans, int(row)) for row in order], dtype=bool)]
    bounds_s = bases.bounds_s.copy()
    found: list[Found] = []
    known: KnownPaths = {}
    num_done = 0
    while num_done < min(num_most, len(queue)) and bases.bounds_s[queue[num_done]] < best_s:
        num_next = min(max(FEW_AT_ONCE, num_done), MANY_AT_ONCE)
        rows = queue[num_done : min(num_done + num_next, num_most)]
        rows = rows[bases.bounds_s[rows] < best_s]
        found_here, bounds_s[rows] = _refine(job, bases.at(rows), best_s, known)
        found += found_here
        num_done += len(rows)
        best_s = min([best_s, *(each.step_s for each in found_here)])
        left = bounds_s < best_s
        num_left, bound_s = int(left[queue[num_done:]].sum()), float(bounds_s[left].min(initial=best_s))
        report(num_done, num_done + num_left, best_s, bound_s, found)
    is_refined = np.zeros(len(bases), dtype=bool)
    is_refined[queue[:num_done]] = True
    return Refined(found=tuple(found), best_s=best_s, is_refined=is_refined, bounds_s=np.minimum(bounds_s, best_s))


def balanced_plans(job: Job, plans: Sequence[Plan]) -> list[Found]:
    """The best cut found of the base plan of each of `plans`."""
    columns = columns_of(plans) if plans else None
    rows = [row for row in range(len(plans)) if columns and _is_refinable(job.graph, columns, row)]
    if columns is None or not rows:
        return []
    chosen = columns.at(np.array(rows))
    context = plan_context(job.graph, with_policies(chosen, job.policies), job.cluster, job.precision)
    found = []
    for index, table in enumerate(_tables(job, context, chosen, np.full(len(chosen), np.inf))):
        found += _proposed(context, index * len(job.policies), table)
    return found


def _is_refinable(graph: Graph, plans: Plans, row: int) -> bool:
    """Every chunk must be on one stage; kinds of layers must not be too many, nor interleaved on several chunks."""
    if plans.schedules[plans.schedule[row]] == "dualpipe":
        return False
    return len(layer_blocks(graph)) == 1 or has_few_patterns(plans.plan(row), graph)


def _refine(job: Job, bases: BasePlans, best_s: float, known: KnownPaths) -> tuple[list[Found], FloatArray]:
    """The best plan found of each of `bases`, where one fits; what none of its plans is below, infinite if closed."""
    context = plan_context(job.graph, with_policies(bases.plans, job.policies), job.cluster, job.precision)
    found: list[Found] = []
    bounds_s = bases.bounds_s.copy()
    passes = context.num_microbatches[:: len(job.policies)]
    for index, table in enumerate(_tables(job, context, bases.plans, (best_s - bases.per_step_s) / passes)):
        row, per_step_s = index * len(job.policies), float(bases.per_step_s[index])
        if isinstance(table, MixTable) and table.has_paths:
            more, lower_bound_s = _closed_by_paths(context, row, table, per_step_s, best_s, known)
        else:
            more, lower_bound_s = _closed_by_paces(context, row, table, per_step_s, best_s)
        best_s = min([best_s, *(each.step_s for each in more)])
        found += more
        bounds_s[index] = max(bounds_s[index], lower_bound_s * (1 - ROUNDING_TOLERANCE))
    return found, bounds_s


def _closed_by_paces(
    context: PlanContext, row: int, table: StageTable | MixTable, per_step_s: float, best_s: float
) -> tuple[list[Found], float]:
    """Plans found of a base plan, and what none of its plans is below; infinite where none is faster than the best."""
    more, is_closed = _closed(context, row, table, per_step_s, best_s)
    lower_bound_s = np.inf
    if not is_closed:  # a better plan leaves fewer cuts that could win
        more += _proposed(context, row, table)
        best_s = min([best_s, *(each.step_s for each in more)])
        once_by_option_s = cache(partial(_per_step_by_option_s, context, row, table))
        for few in _fewer(table, best_s, once_by_option_s):
            pace_bounds = few.lower_bounds_s(best_s, per_step_s, once_by_option_s)
            more += [_found(context, row, few, cut) for cut in pace_bounds.cuts]
            best_s = min([best_s, *(each.step_s for each in more)])
            last, is_closed = _closed(context, row, few, per_step_s, best_s, pace_bounds.pace_below_s(best_s))
            more += last
            lower_bound_s = pace_bounds.least_s
            if is_closed:
                break
    return more, np.inf if is_closed else lower_bound_s


def _closed_by_paths(
    context: PlanContext, row: int, table: MixTable, per_step_s: float, best_s: float, known: KnownPaths
) -> tuple[list[Found], float]:
    """As `_closed_by_paces`, of layers of several kinds: few cuts are listed, many bounded by paths of the pipeline.

    The cut that comes closest to the bound is evaluated, and its longest path is one more that bounds all others.
    """
    stages = table.stages
    ways = table.ways((best_s - per_step_s) / stages.num_passes - stages.paid_s)
    if ways.num_cuts <= FEW_LISTED:
        more, is_closed = _closed(context, row, table, per_step_s, best_s)
        if is_closed:
            return more, np.inf
    more = _proposed(context, row, table) if ways.num_cuts > MAX_CUTS else []
    best_s = min([best_s, *(each.step_s for each in more)])
    shape = (schedule_name(stages.plan), stages.plan.pipeline_parallel, stages.num_microbatches, stages.plan.interleave)
    paths = known[shape] if shape in known else table.start_paths(ways)
    once_s, lower_bound_s, has_once = np.full(len(stages.options.stage), per_step_s), 0.0, False
    for _ in range(MAX_PATHS):
        below_s = best_s * (1 - ROUNDING_TOLERANCE)
        least = table.least_path(ways, paths, once_s, below_s)
        lower_bound_s = max(lower_bound_s, least.lower_bound_s)
        if least.lower_bound_s >= below_s:
            lower_bound_s = np.inf
            break
        if not has_once:
            once_s = np.maximum(once_s, _per_step_by_option_s(context, row, table))
            has_once = True
            continue
        steps_s = stages.steps_s(least.cuts) + per_step_of_cuts_s(context, row, stages, least.cuts)
        nearest = int(steps_s.argmin())
        is_better = steps_s[nearest] < below_s
        if is_better:
            more.append(_found(context, row, table, least.cuts[nearest]))
            best_s = min(best_s, more[-1].step_s)
        new = np.concatenate([paths_of(stages, cut) for cut in least.cuts])
        num_known, paths = len(paths), np.unique(np.concatenate([paths, new]), axis=0)
        if len(paths) == num_known and not is_better:
            break
    known[shape] = paths
    return more, lower_bound_s


def _fewer(
    table: StageTable | MixTable, best_s: float, per_step_s: Callable[[], FloatArray]
) -> Iterator[StageTable | MixTable]:
    """What stages can be; then, of layers all alike, only that which may be part of a faster plan."""
    yield table
    if isinstance(table, StageTable):
        yield table.without(best_s, per_step_s())


def _tables(job: Job, context: PlanContext, plans: Plans, paces_s: FloatArray) -> list[StageTable | MixTable]:
    """What stages of each plan can be; of layers of several kinds only what may be part of a cut within its pace."""
    graph, num_policies = job.graph, len(job.policies)
    all_plans = [plans.plan(index) for index in range(len(plans))]
    ranges = [layer_range(graph, plan.pipeline_parallel, plan.interleave) for plan in all_plans]
    is_alike = len(layer_blocks(graph)) == 1
    mixes = [] if is_alike else _mixes(job, context, all_plans, paces_s)

    def wanted(index: int, stage: int) -> StageLayers:
        if is_alike:
            fewest, most = ranges[index]
            counts = np.arange(fewest, most + 1)[:, None]
            return StageLayers(counts=counts, start=np.zeros(len(counts), dtype=np.int64))
        return mixes[index][stage]

    options, tables = stage_options(context, job.policies, wanted), []
    for index, plan in enumerate(all_plans):
        stages = PlanStages(
            plan=plan,
            options=options.at(np.flatnonzero(options.plan == index)),
            num_microbatches=plan.num_microbatches(graph.batch),
            transfer_s=float(context.transfer_s[context.transfer_of[index * num_policies]]),
        )
        table = stage_table(stages, ranges[index], graph.num_layers) if is_alike else mix_table(stages, graph)
        tables.append(table)
    return tables


def _mixes(job: Job, context: PlanContext, plans: list[Plan], paces_s: FloatArray) -> list[list[StageLayers]]:
    """Layers of each kind that stages of each plan are asked about, within its pace."""
    graph, kinds, block_bounds = job.graph, layer_blocks(job.graph), block_lower_bounds(job.graph, context.table)
    found = []
    for index, plan in enumerate(plans):
        row = index * len(job.policies)
        runs = even_runs(graph, plan.pipeline_parallel, plan.interleave, plan.schedule)
        fixed_s = fixed_lower_bounds_s(
            context, stage_shape_group(context.plans, np.array([row]), runs), block_bounds, job.policies
        )[0]
        variant = context.table.comm_variant_of[row]
        layer_s = np.array([block_bounds.least_s(kind, job.policies)[variant] for kind in kinds])
        found.append(wanted_mixes(plan, graph, layer_s, fixed_s, float(paces_s[index])))
    return found


def _proposed(context: PlanContext, row: int, table: StageTable | MixTable) -> list[Found]:
    rows = table.best()
    return [_found(context, row, table, rows)] if rows is not None else []


def _closed(
    context: PlanContext,
    row: int,
    table: StageTable | MixTable,
    per_step_s: float,
    best_s: float,
    pace_s: float = np.inf,
) -> tuple[list[Found], bool]:
    """All cuts that may be faster than the best and have no stage slower than `pace_s`, evaluated; if that were all."""
    stages = table.stages
    cuts = table.within(min(pace_s, (best_s - per_step_s) / stages.num_passes - stages.paid_s))
    if cuts is None:
        return [], False
    pipelines_s = stages.steps_s(cuts) if len(cuts) else np.empty(0)
    places = np.flatnonzero((pipelines_s + per_step_s) * (1 - ROUNDING_TOLERANCE) < best_s)
    steps_s = pipelines_s[places] + per_step_s
    if len(places) > FEW_EVALUATED:
        steps_s = pipelines_s[places] + per_step_of_cuts_s(context, row, stages, cuts[places])
    found: list[Found] = []
    for place, index in enumerate(np.argsort(steps_s, kind="stable")):
        if steps_s[index] * (1 - ROUNDING_TOLERANCE) >= best_s:
            break
        if place == MAX_EVALUATED:
            return found, False
        found.append(_found(context, row, table, cuts[places[index]]))
        best_s = min(best_s, found[-1].step_s)
    return found, True


def _per_step_by_option_s(context: PlanContext, row: int, table: StageTable | MixTable) -> FloatArray:
    """What a step has beside its pipeline where a stage is this option, and no other has more."""
    return per_step_of_cuts_s(context, row, table.stages, np.arange(len(table.stages.options.stage))[:, None])


def _found(context: PlanContext, row: int, table: StageTable | MixTable, rows: IntArray) -> Found:
    """The plan whose stages are these options, evaluated whole."""
    plan = table.plan_of(rows)
    assembly = assembly_by(context, row, plan)
    return Found(
        plan=plan,
        step_s=float(assembly.step_s[0]),
        energy_j=float(assembly.energy_j()[0]),
        need_bytes=float(table.stages.options.need_bytes[rows].max()),
    )


def assembly_by(context: PlanContext, row: int, plan: Plan) -> Assembly:
    """The step of `plan`, which is that of `row` but for layers and recompute by stage."""
    group = stage_shape_group(context.plans, np.array([row]), runs_of(context.graph, plan))
    [(_, columns)] = by_stages(context, [group])
    return Assembly(context, group, columns)
