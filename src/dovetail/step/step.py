"""The whole training step in closed form, of one plan or of many at once: where its time goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.heterogeneous import AnyCluster, equal_devices, pools_of
from dovetail.parallel.plan import Plan, Plans
from dovetail.parallel.pools import on_pools
from dovetail.parallel.sharding import ShardedPlan, shard
from dovetail.step.assembly import Assembly, StageShapeGroup, alike, by_pipeline, by_stages
from dovetail.step.offload import NoOffload, does_offload
from dovetail.step.plan_table import PlanContext, PlanTable, shared
from dovetail.step.work import COMM_AXES, Comm
from dovetail.units import Amount
from dovetail.workload.graph import FloatArray, Graph, IntArray
from dovetail.workload.optimizer import Precision


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Where the time of one step goes, on a device of the slowest stage; the parts add up to `step_s`.

    Of one plan numbers, of many plans arrays.
    """

    step_s: Amount
    compute_s: Amount  # recompute included
    recompute_s: Amount
    host_s: Amount  # waiting for the host to queue what the device would run sooner
    comm: tuple[Comm, ...]  # in COMM_AXES order
    offload: Comm  # copies to the host and back
    bubble_s: Amount
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
    """One step of `graph` by `plan`, which must be able to cut it, on `cluster`; what overlaps is its assumption."""
    return PlanSteps(shard(graph, on_pools(plan, cluster)), precision).step(cluster)


def assembly_of(graph: Graph, plan: Plan, cluster: AnyCluster, precision: Precision) -> Assembly:
    """The step of one plan put together, for whoever asks more of it than `Step` tells."""
    return PlanSteps(shard(graph, on_pools(plan, cluster)), precision).assembly(cluster)


class PlanSteps:
    """Steps of one sharded plan on clusters of as many devices in pools as large.

    What the clusters have in common is worked out once: a step on the next takes a fraction of the first.
    """

    def __init__(self, sharded: ShardedPlan, precision: Precision) -> None:
        self._plan, self._same = sharded.plan, PlanTable(sharded.table, precision)
        self._alike = alike(sharded.table.plans, np.zeros(1, dtype=np.int64), sharded.runs)

    def step(self, cluster: AnyCluster) -> Step:
        return _only(_step(self.assembly(cluster)))

    def steps_s(self, clusters: Sequence[AnyCluster]) -> list[float]:
        """Only how long, on each of `clusters`."""
        self._same.cost_on(pool.chip for cluster in clusters for pool in pools_of(cluster))
        found = []
        for cluster in clusters:
            found.append(self.assembly(cluster, is_broken_down=False).step_s[0].item())
        return found

    def assembly(self, cluster: AnyCluster, *, is_broken_down: bool = True) -> Assembly:
        if does_offload(self._plan):
            equal_devices(cluster, "offload")
        every = self._same.on(cluster, is_broken_down=is_broken_down)
        [(same, columns)] = by_stages(every, [self._alike])
        return Assembly(every, same, columns)


def training_steps(graph: Graph, plans: Plans, cluster: Cluster, precision: Precision) -> Step:
    """As `training_step`, of each of `plans`, which must lie on `cluster`'s network and spread their layers evenly."""
    groups = list(by_pipeline(graph, plans))
    return _merged(_broken_down(shared(graph, plans, cluster, precision), groups), len(plans))


def step_times(graph: Graph, plans: Plans, cluster: Cluster, precision: Precision) -> StepTimes:
    """As `training_steps`, only how long and how much energy: for search."""
    return even_times(shared(graph, plans, cluster, precision, is_broken_down=False))


def even_times(every: PlanContext) -> StepTimes:
    """Of each of its plans, whose layers are spread evenly, on its chip."""
    step_s, energy_j = np.empty(len(every.plans)), np.empty(len(every.plans))
    for same, columns in by_stages(every, list(by_pipeline(every.graph, every.plans))):
        assembly = Assembly(every, same, columns)
        step_s[same.rows], energy_j[same.rows] = assembly.step_s, assembly.energy_j()
    return StepTimes(step_s=step_s, energy_j=energy_j)


def _broken_down(every: PlanContext, groups: list[StageShapeGroup]) -> list[tuple[IntArray, Step]]:
    return [(same.rows, _step(Assembly(every, same, columns))) for same, columns in by_stages(every, groups)]


def _step(made: Assembly) -> Step:
    """Where the time goes on a device of the slowest stage."""
    columns, m = made.columns, made.num_passes
    times = made.stage_times(is_transfer_free=True)
    waits_s = made.pipeline_s - made.pipeline_of(times)
    forward_s, backward_s, _ = times.by_run
    run = (forward_s + backward_s).argmax(axis=1)[made.pipe_of]
    once = _once_a_step(made, waits_s, run)
    works, here = columns.works, (columns.work_of, run)
    forward, backward = works.forward, works.backward

    def of_slowest(amount: Amount) -> FloatArray:
        return np.asarray(np.broadcast_to(amount, columns.forward_s.shape)[here])

    return Step(
        step_s=made.step_s,
        compute_s=m * of_slowest(forward.cost.compute_s + backward.cost.compute_s),
        recompute_s=m * of_slowest(forward.recompute_s + backward.recompute_s),
        host_s=m * of_slowest(works.host_wait_s),
        comm=tuple(
            Comm(exposed_s=of_slowest(comm.exposed_s), hidden_s=of_slowest(comm.hidden_s)) * m + once.get(name, Comm())
            for name, comm in zip(COMM_AXES, works.comm, strict=True)
        ),
        offload=copies(made, run),
        bubble_s=made.pipeline_s - waits_s - m * times.pace_s[made.pipe_of],
        update_s=made.update_s,
        slowest_stage=np.array([each.first_stage for each in made.same.runs])[run],
        limits_s=tuple(m * of_slowest(f + b) for f, b in zip(forward.limits_s, backward.limits_s, strict=True)),
        clock_frac=of_slowest(works.clock_frac),
        energy_j=made.energy_j(),
    )


def _once_a_step(made: Assembly, waits_s: FloatArray, run: IntArray) -> dict[str, Comm]:
    """By axis: what the slowest exchange once a step, and what is handed on between stages."""
    worst = made.exposed_s.argmax(axis=1)
    hidden_s = made.hidden_s[np.arange(len(worst)), worst]
    return {
        "dp": Comm(exposed_s=made.synced_s, hidden_s=hidden_s),
        "pp": transfers(made, waits_s, run) + Comm(exposed_s=made.tied_s),
    }


def transfers(made: Assembly, waits_s: FloatArray, run: IntArray) -> Comm:
    """What a device of `run` sends on in a step, exposed or hidden; beside compute, all but what others wait for."""
    every_run = (len(run), len(made.same.runs))
    on_s, back_s = (np.broadcast_to(hop_s, every_run)[np.arange(len(run)), run] for hop_s in made.hops_s)
    sent_s = made.num_microbatches * made.same.interleave * (on_s + back_s)
    return Comm(
        exposed_s=np.where(made.is_beside, waits_s, sent_s),
        hidden_s=np.where(made.is_beside, np.maximum(0.0, sent_s - waits_s), 0.0),
    )


def copies(made: Assembly, run: IntArray) -> Comm:
    """What a device of `run` copies to its host and back: activations in every pass, gradients once a step.

    Weights come back within the update.
    """
    offload, columns = made.shared.offload, made.columns
    if isinstance(offload, NoOffload):
        return Comm(exposed_s=np.zeros(len(run)), hidden_s=np.zeros(len(run)))
    here, (runs, rows) = np.arange(len(run)), (made.same.runs, made.same.rows)
    waits_s = columns.forward_s + columns.backward_s - columns.works.forward.time_s - columns.works.backward.time_s
    waited_s = made.num_passes * waits_s[columns.work_of, run]
    copied_s = 2 * made.num_passes * offload.activations_s(runs, rows)[here, run]
    landed_s = offload.gradients_s(runs, rows)[here, run]
    return Comm(
        exposed_s=waited_s + made.landing_s,
        hidden_s=copied_s - waited_s + np.maximum(0.0, landed_s - made.landing_s),
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
    """A step of which every amount is `change` of those of the given steps."""
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
