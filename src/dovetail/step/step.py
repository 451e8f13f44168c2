"""The whole training step in closed form, of one plan or of many at once: where its time goes, bubble included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.heterogeneous import AnyCluster, equal_devices, pools_of
from dovetail.parallel.placement import Placement, table_of_one
from dovetail.parallel.plan import Plan, Plans
from dovetail.parallel.pools import on_pools
from dovetail.parallel.sharding import ShardedPlan, shard
from dovetail.step.assembly import Assembly, StageShapeGroup, by_pipeline, by_stages, stage_shape_group
from dovetail.step.offload import NoOffload, does_offload
from dovetail.step.plan_table import PlanContext, PlanTable, plan_context
from dovetail.step.work import COMM_AXES, Comm
from dovetail.units import Amount
from dovetail.workload.graph import FloatArray, Graph, IntArray
from dovetail.workload.optimizer import Precision


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Where the time of one training step goes, on a device of the slowest stage; the parts add up to `step_s`.

    Each amount is a number for one plan, an array for many plans.
    """

    step_s: Amount
    compute_s: Amount  # recompute included
    recompute_s: Amount
    host_s: Amount  # waiting for the host to queue what the device would run sooner
    comm: tuple[Comm, ...]  # in COMM_AXES order
    offload: Comm  # copies to the host and back
    bubble_s: Amount  # idle while the pipeline fills and drains
    update_s: Amount
    slowest_stage: Amount
    limits_s: tuple[Amount, ...]  # compute_s by what it waits for, in cost.costs.LIMITS order
    clock_frac: Amount  # share of full clock that the power limit leaves the slowest stage
    energy_j: Amount  # of the whole cluster

    @property
    def exposed_s(self) -> Amount:
        return sum(comm.exposed_s for comm in self.comm) + self.offload.exposed_s


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepTimes:
    """Seconds and joules of one step of each plan."""

    step_s: FloatArray
    energy_j: FloatArray


def training_step(graph: Graph, plan: Plan, cluster: AnyCluster, precision: Precision) -> Step:
    """One step of `graph` by `plan`, which must pass `check_plan`, on `cluster`; the plan says what overlaps."""
    return PlanSteps(shard(graph, on_pools(plan, cluster)), precision).step(cluster)


def assembly_of(graph: Graph, plan: Plan, cluster: AnyCluster, precision: Precision) -> Assembly:
    """The assembled step of one plan, for callers that need more of it than `Step` holds."""
    return PlanSteps(shard(graph, on_pools(plan, cluster)), precision).assembly(cluster)


class PlanSteps:
    """Steps of one sharded plan on clusters with equal numbers of devices.

    What the clusters have in common is computed once, so a step on the next cluster takes a fraction of the first.
    """

    def __init__(self, sharded: ShardedPlan, precision: Precision) -> None:
        self._plan, self._table = sharded.plan, PlanTable(sharded.table, precision)
        self._group = stage_shape_group(sharded.table.plans, np.zeros(1, dtype=np.int64), sharded.runs)

    def step(self, cluster: AnyCluster, placements: Sequence[Placement] = ()) -> Step:
        """The step on `cluster`; `placements` on each of its parts need not be computed again where they are known."""
        return _only(_step(self.assembly(cluster, placements)))

    def steps_s(self, clusters: Sequence[AnyCluster]) -> list[float]:
        """Only the step time, on each of `clusters`."""
        self._table.cost_on(pool.chip for cluster in clusters for pool in pools_of(cluster))
        found = []
        for cluster in clusters:
            found.append(self.assembly(cluster, is_broken_down=False).step_s[0].item())
        return found

    def assembly(
        self, cluster: AnyCluster, placements: Sequence[Placement] = (), *, is_broken_down: bool = True
    ) -> Assembly:
        if does_offload(self._plan):
            equal_devices(cluster, "offload")
        places = tuple(table_of_one(place) for place in placements)
        context = self._table.on(cluster, places, is_broken_down=is_broken_down)
        [(group, columns)] = by_stages(context, [self._group])
        return Assembly(context, group, columns)


def training_steps(graph: Graph, plans: Plans, cluster: Cluster, precision: Precision) -> Step:
    """As `training_step`, of each of `plans`, which must fit `cluster`'s network and spread their layers evenly."""
    groups = list(by_pipeline(graph, plans))
    return _merged(_broken_down(plan_context(graph, plans, cluster, precision), groups), len(plans))


def step_times(graph: Graph, plans: Plans, cluster: Cluster, precision: Precision) -> StepTimes:
    """As `training_steps`, but only step time and energy: for search."""
    return even_times(plan_context(graph, plans, cluster, precision, is_broken_down=False))


def even_times(context: PlanContext) -> StepTimes:
    """Step time and energy of each plan of `context`; their layers are spread evenly."""
    step_s, energy_j = np.empty(len(context.plans)), np.empty(len(context.plans))
    for group, columns in by_stages(context, list(by_pipeline(context.graph, context.plans))):
        assembly = Assembly(context, group, columns)
        step_s[group.rows], energy_j[group.rows] = assembly.step_s, assembly.energy_j()
    return StepTimes(step_s=step_s, energy_j=energy_j)


def _broken_down(context: PlanContext, groups: list[StageShapeGroup]) -> list[tuple[IntArray, Step]]:
    return [(group.rows, _step(Assembly(context, group, columns))) for group, columns in by_stages(context, groups)]


def _step(assembly: Assembly) -> Step:
    """Where the time goes on a device of the slowest stage; the bubble is what is left of the pipeline."""
    columns, m = assembly.columns, assembly.num_passes
    times = assembly.stage_times(is_transfer_free=True)
    waits_s = assembly.pipeline_s - assembly.pipeline_of(times)
    forward_s, backward_s, _ = times.by_run
    run = (forward_s + backward_s).argmax(axis=1)[assembly.pipe_of]
    per_step = _comm_per_step(assembly, waits_s, run)
    works, of_slowest_stage = columns.works, (columns.work_of, run)
    forward, backward = works.forward, works.backward

    def of_slowest(amount: Amount) -> FloatArray:
        return np.asarray(np.broadcast_to(amount, columns.forward_s.shape)[of_slowest_stage])

    return Step(
        step_s=assembly.step_s,
        compute_s=m * of_slowest(forward.cost.compute_s + backward.cost.compute_s),
        recompute_s=m * of_slowest(forward.recompute_s + backward.recompute_s),
        host_s=m * of_slowest(works.host_wait_s),
        comm=tuple(
            Comm(exposed_s=of_slowest(comm.exposed_s), hidden_s=of_slowest(comm.hidden_s)) * m
            + per_step.get(name, Comm())
            for name, comm in zip(COMM_AXES, works.comm, strict=True)
        ),
        offload=copies(assembly, run),
        bubble_s=assembly.pipeline_s - waits_s - m * times.pace_s[assembly.pipe_of],
        update_s=assembly.update_s,
        slowest_stage=np.array([each.first_stage for each in assembly.group.runs])[run],
        limits_s=tuple(m * of_slowest(f + b) for f, b in zip(forward.limits_s, backward.limits_s, strict=True)),
        clock_frac=of_slowest(works.clock_frac),
        energy_j=assembly.energy_j(),
    )


def _comm_per_step(assembly: Assembly, waits_s: FloatArray, run: IntArray) -> dict[str, Comm]:
    """Communication once per step, by axis: the slowest stage's gradient sync, and sends between stages."""
    worst = assembly.exposed_s.argmax(axis=1)
    hidden_s = assembly.hidden_s[np.arange(len(worst)), worst]
    return {
        "dp": Comm(exposed_s=assembly.synced_s, hidden_s=hidden_s),
        "pp": transfers(assembly, waits_s, run) + Comm(exposed_s=assembly.tied_s),
    }


def transfers(assembly: Assembly, waits_s: FloatArray, run: IntArray) -> Comm:
    """Sends between stages by a device of `run`; where they overlap, only what other stages wait for is exposed."""
    shape = (len(run), len(assembly.group.runs))
    on_s, back_s = (np.broadcast_to(hop_s, shape)[np.arange(len(run)), run] for hop_s in assembly.hops_s)
    sent_s = assembly.num_microbatches * assembly.group.interleave * (on_s + back_s)
    return Comm(
        exposed_s=np.where(assembly.is_beside, waits_s, sent_s),
        hidden_s=np.where(assembly.is_beside, np.maximum(0.0, sent_s - waits_s), 0.0),
    )


def copies(assembly: Assembly, run: IntArray) -> Comm:
    """Copies of a device of `run` to its host and back: activations in every pass, gradients once per step.

    Weights are copied back within the update.
    """
    offload, columns = assembly.context.offload, assembly.columns
    if isinstance(offload, NoOffload):
        return Comm(exposed_s=np.zeros(len(run)), hidden_s=np.zeros(len(run)))
    plan_rows, (runs, rows) = np.arange(len(run)), (assembly.group.runs, assembly.group.rows)
    works = columns.works
    waits_s = (columns.forward_s - works.forward.time_s) + (columns.backward_s - works.backward.time_s)
    waited_s = assembly.num_passes * waits_s[columns.work_of, run]
    copied_s = 2 * assembly.num_passes * offload.activations_s(runs, rows)[plan_rows, run]
    landed_s = offload.gradients_s(runs, rows)[plan_rows, run]
    return Comm(
        exposed_s=waited_s + assembly.landing_s,
        hidden_s=copied_s - waited_s + np.maximum(0.0, landed_s - assembly.landing_s),
    )


def _only(step: Step) -> Step:
    """The step of a single plan, as numbers."""
    return _mapped(step, lambda amount: amount[0].item())


def _merged(found: list[tuple[IntArray, Step]], num_plans: int) -> Step:
    """Steps of some rows each, as the steps of all."""

    def joined(*amounts: FloatArray) -> FloatArray:
        column = np.empty(num_plans, dtype=amounts[0].dtype)
        for (rows, _), amount in zip(found, amounts, strict=True):
            column[rows] = amount
        return column

    return _mapped(found[0][1], joined, *(step for _, step in found[1:]))


def _mapped(first: Step, change: Callable[..., Amount], *others: Step) -> Step:
    """A step in which every amount is `change` of the same amounts of the given steps."""
    steps = (first, *others)
    values: dict[str, Any] = {}
    for field in fields(Step):
        amounts = [getattr(step, field.name) for step in steps]
        if field.name == "comm":
            values[field.name] = tuple(
                Comm(
                    exposed_s=change(*(comm[axis].exposed_s for comm in amounts)),
                    hidden_s=change(*(comm[axis].hidden_s for comm in amounts)),
                )
                for axis in range(len(COMM_AXES))
            )
        elif field.name == "offload":
            values[field.name] = Comm(
                exposed_s=change(*(comm.exposed_s for comm in amounts)),
                hidden_s=change(*(comm.hidden_s for comm in amounts)),
            )
        elif field.name == "limits_s":
            values[field.name] = tuple(change(*limit) for limit in zip(*amounts, strict=True))
        else:
            values[field.name] = change(*amounts)
    return Step(**values)
