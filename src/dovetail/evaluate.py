"""The whole model on one screen: (workload, cluster, plan) -> Outcome, or Infeasible with the way out.

Read it top to bottom: check the plan, place it on the network, shard the graph once, and take from that one value peak
memory, step time, FLOP and energy, goodput of a long run, and which resource would help most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from dovetail.errors import DovetailError, NotModelled
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.heterogeneous import AnyCluster, equal_devices, pools_of
from dovetail.hardware.host import Host
from dovetail.hardware.perturbed import perturbed_clusters
from dovetail.hardware.reliability import NotStated
from dovetail.parallel.check import check_plan
from dovetail.parallel.levers import Lever, Trial, levers
from dovetail.parallel.memory import StageMemory, forward_memories, runtime_bytes, stage_memories
from dovetail.parallel.placement import Placement
from dovetail.parallel.plan import Plan, columns_of
from dovetail.parallel.pools import on_pools, pool_placements, usable_by_stage
from dovetail.parallel.sharding import ShardedPlan, computed_flop, executed_flop, shard, shard_plans
from dovetail.step.goodput import Goodput
from dovetail.step.long_run import long_run
from dovetail.step.memory_needs import host_need_bytes, need_bytes
from dovetail.step.offload import does_offload, host_of
from dovetail.step.pipelines import check_schedule, pipeline_shape, pipelines, schedule_name
from dovetail.step.step import PlanSteps, Step, step_times
from dovetail.workload.graph import Graph
from dovetail.workload.optimizer import Precision
from dovetail.workload.scaling_recipes import check_format
from dovetail.workload.workload import Workload

PERTURBATION_FRAC = 0.10  # how much more of a resource an elasticity asks about
FLOAT_FRAC = 1e-12  # style: a tolerance; two sums of the same seconds in another order


@dataclass(frozen=True, slots=True, kw_only=True)
class Elasticity:
    """Throughput gained by a tenth more of a resource (a latency: by a tenth less)."""

    resource: str
    gain_frac: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """Peak memory of every stage against the usable memory of its device: one limit for all, or one per stage.

    Stated apart: what the allocator holds in reserve, and what a process holds outside of it.
    """

    stages: tuple[StageMemory, ...]
    runtime_bytes: float
    limits_bytes: tuple[float, ...]
    host_limit_bytes: float = 0.0  # a device's share of its host's memory, where the plan offloads to it

    @property
    def fullest(self) -> StageMemory:
        """The stage with the least to spare."""
        if len(set(self.limits_bytes)) == 1:
            return max(self.stages, key=lambda stage: stage.reserved_bytes)
        return max(self.stages, key=lambda stage: stage.reserved_bytes - self.limits_bytes[stage.stage])

    @property
    def limit_bytes(self) -> float:
        """Usable memory per device of the fullest stage."""
        return self.limits_bytes[self.fullest.stage if len(self.limits_bytes) > 1 else 0]

    @property
    def reserve_bytes(self) -> float:
        return float(self.fullest.reserve_bytes)

    @property
    def need_bytes(self) -> float:
        return float(self.fullest.total_bytes + self.reserve_bytes + self.runtime_bytes)

    @property
    def host_need_bytes(self) -> float:
        """What the device that offloads most has on its host."""
        return float(max(stage.host_bytes for stage in self.stages))

    @property
    def fits_host(self) -> bool:
        return self.host_need_bytes <= self.host_limit_bytes

    @property
    def fits(self) -> bool:
        return self.need_bytes <= self.limit_bytes and self.fits_host


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A training step of this workload on this cluster by this plan: time, memory, FLOP, energy, goodput."""

    workload: Workload
    cluster: AnyCluster
    plan: Plan
    placements: tuple[Placement, ...]  # on each pool of the cluster
    num_microbatches: int
    num_parameters: int
    tokens_per_step: int
    model_flop: float  # attention of the pairs that its mask leaves
    palm_flop: float  # attention of the whole matrix, as PaLM's appendix B counts it
    hardware_flop: float  # executed: recompute and what ranks repeat too
    step: Step
    memory: MemoryUse
    elasticities: tuple[Elasticity, ...]
    goodput: Goodput | NotStated = field(default_factory=NotStated)  # of a run of many steps

    @property
    def samples_per_s(self) -> float:
        return float(self.workload.global_batch / self.step.step_s)

    @property
    def tokens_per_s(self) -> float:
        return float(self.tokens_per_step / self.step.step_s)

    @property
    def dropped_frac(self) -> float:
        """Share of the tokens routed to experts that is dropped, at least."""
        return self.workload.routing.dropped_frac(self.plan.expert_parallel)

    @property
    def mfu_frac(self) -> float:
        """Model FLOP utilisation, attention counted causally: never above `hfu_frac`."""
        return self.model_flop / self._peak_flop

    @property
    def hfu_frac(self) -> float:
        """Hardware FLOP utilisation: what the tensor units execute."""
        return self.hardware_flop / self._peak_flop

    @property
    def palm_mfu_frac(self) -> float:
        """Model FLOP utilisation as PaLM counts it: the whole attention matrix, mask or not."""
        return self.palm_flop / self._peak_flop

    @property
    def mean_w(self) -> float:
        """Mean power of one device over the step."""
        return float(self.step.energy_j / self.step.step_s / self.cluster.num_devices)

    @property
    def placement(self) -> Placement:
        """On all devices, where they are equal; else on those of the first pool."""
        return self.placements[0]

    @property
    def _peak_flop(self) -> float:
        dtype = self.workload.precision.compute
        pools = pools_of(self.cluster)
        return float(sum(self.step.step_s * p.num_devices * p.chip.peak_flop_per_s(dtype) for p in pools))


@dataclass(frozen=True, slots=True, kw_only=True)
class Infeasible:
    """A plan that does not fit in memory: need against limit, and what would make it fit."""

    workload: Workload
    cluster: AnyCluster
    plan: Plan
    memory: MemoryUse
    levers: tuple[Lever, ...]


def evaluate(workload: Workload, cluster: AnyCluster, plan: Plan, *, has_changes: bool = True) -> Outcome | Infeasible:
    """One training step of `workload` on `cluster` by `plan`. Pure: same values in, same bits out.

    Without `has_changes` no elasticities and no levers are computed: three times as fast.
    """
    graph = workload.training_graph()
    plan = forward_plan(plan) if workload.is_forward_only else plan
    check_formats(workload.precision, cluster)
    check_plan(plan, graph, cluster.num_devices)
    check_schedule(plan, plan.num_microbatches(graph.batch))
    plan = on_pools(plan, cluster)
    placements = pool_placements(plan, cluster)
    sharded = shard(graph, plan)
    memory = with_host(memory_use(sharded, workload.precision, *usable_by_stage(plan, cluster)), plan, cluster)
    if not memory.fits:
        found_levers = _levers(workload, cluster, plan, graph) if has_changes else ()
        return Infeasible(workload=workload, cluster=cluster, plan=plan, memory=memory, levers=found_levers)
    steps = PlanSteps(sharded, workload.precision)
    step = steps.step(cluster, placements)
    return Outcome(
        workload=workload,
        cluster=cluster,
        plan=plan,
        placements=placements,
        num_microbatches=sharded.num_microbatches,
        num_parameters=graph.num_parameters,
        tokens_per_step=graph.num_tokens,
        model_flop=computed_flop(masked_graph(workload)),
        palm_flop=computed_flop(graph, is_causal=False),
        hardware_flop=executed_flop(sharded),
        step=step,
        memory=memory,
        elasticities=_elasticities(steps, cluster, plan, step.step_s) if has_changes else (),
        goodput=_goodput(workload, sharded, steps, cluster, step.step_s),
    )


def check_formats(precision: Precision, cluster: AnyCluster) -> None:
    """Raises `NotModelled` where a chip of `cluster` does not multiply what the scaling recipe makes."""
    if precision.scaling is not None:
        for pool in pools_of(cluster):
            chip = pool.chip
            check_format(precision.scaling, chip.name, chip.vendor, dict(chip.tensor.rates))


def _goodput(
    workload: Workload, sharded: ShardedPlan, steps: PlanSteps, cluster: AnyCluster, step_s: float
) -> Goodput | NotStated:
    """Of a long run of training; evaluation writes no checkpoints."""
    if workload.is_forward_only:
        return NotStated()
    return long_run(sharded, steps, cluster, workload.precision, step_s)


def forward_plan(plan: Plan) -> Plan:
    """`plan` as an evaluation step runs it: what is for gradients and the update alone has no meaning and goes.

    Raises where passes lie otherwise than one stage after another.
    """
    if plan.interleave > 1 or plan.schedule in ("zb-v", "dualpipe"):
        name = plan.schedule if plan.schedule != "1f1b" else f"interleave {plan.interleave}"
        message = f"an evaluation step goes through its stages once, and this plan has {name}"
        raise NotModelled(f"{message}; pass --vpp 1 --schedule 1f1b", "schedule")
    return replace(
        plan,
        schedule="1f1b",
        zero_stage=3 if plan.zero_stage == 3 else 0,
        recompute=("none",),
        recompute_layers=(),
        offload_optimizer=False,
        offload_activations_frac=0.0,
    )


def masked_graph(workload: Workload) -> Graph:
    """The training graph whose attention says what its mask leaves, whichever kernel runs it: MFU is the model's."""
    return (replace(workload, attention="flash") if workload.attention == "unfused" else workload).training_graph()


def memory_use(sharded: ShardedPlan, precision: Precision, *limits_bytes: float) -> MemoryUse:
    """Peak memory of every stage under the plan's pipeline schedule, against one limit or one per stage."""
    plan = sharded.plan
    if sharded.graph.is_forward_only:
        memories = forward_memories(sharded, precision)
        return MemoryUse(stages=memories, runtime_bytes=float(runtime_bytes(plan)), limits_bytes=limits_bytes)
    pipeline, shape = pipelines[schedule_name(plan)], pipeline_shape(plan, sharded.num_microbatches)
    in_flight = [float(pipeline.in_flight(stage, shape)) for stage in range(sharded.num_stages)]
    stages = stage_memories(sharded, precision, in_flight)
    return MemoryUse(stages=stages, runtime_bytes=float(runtime_bytes(plan)), limits_bytes=limits_bytes)


def with_host(use: MemoryUse, plan: Plan, cluster: AnyCluster) -> MemoryUse:
    """`use` against host memory as well, where `plan` offloads; raises where `cluster` says nothing of its hosts."""
    if not does_offload(plan):
        return use
    return replace(use, host_limit_bytes=host_of(equal_devices(cluster, "offload")).share_bytes)


def _levers(workload: Workload, cluster: AnyCluster, plan: Plan, graph: Graph) -> tuple[Lever, ...]:
    """Changes of the plan that make it fit, each tried."""
    can_offload = isinstance(cluster, Cluster) and isinstance(cluster.host, Host)
    num_inside = min(pool.topology.num_inside for pool in pools_of(cluster))
    if workload.is_forward_only:
        return levers(
            plan,
            lambda changed: trial(graph, cluster, forward_plan(changed), workload.precision),
            num_inside=num_inside,
        )

    is_even = len(set(plan.recompute)) == 1 and not plan.layers_per_stage and not plan.recompute_layers
    return levers(
        plan,
        lambda changed: trial(graph, cluster, changed, workload.precision),
        fitting_s=partial(_fitting_s, graph, cluster, workload.precision)
        if isinstance(cluster, Cluster) and is_even
        else None,
        num_inside=num_inside,
        can_offload=can_offload,
    )


def _fitting_s(graph: Graph, cluster: Cluster, precision: Precision, plans: Sequence[Plan]) -> Sequence[float]:
    """Step times of plans with uniform stages, all at once; infinite where one does not fit or cannot run."""
    found_s = [math.inf] * len(plans)
    by_offload: dict[tuple[bool, float], list[int]] = {}
    for row, plan in enumerate(plans):
        if _can_run(plan, graph, cluster):
            by_offload.setdefault((plan.offload_optimizer, plan.offload_activations_frac), []).append(row)
    for rows in by_offload.values():
        columns = columns_of([plans[row] for row in rows])
        sharded = shard_plans(graph, columns)
        fits = need_bytes(sharded, precision) <= cluster.usable_bytes
        if does_offload(columns):
            fits &= host_need_bytes(sharded, precision) <= host_of(cluster).share_bytes
        kept = np.flatnonzero(fits)
        if len(kept):
            times_s = step_times(graph, columns.at(kept), cluster, precision).step_s
            for place, step_s in zip(kept, times_s, strict=True):
                found_s[rows[place]] = float(step_s)
    return found_s


def _can_run(plan: Plan, graph: Graph, cluster: Cluster) -> bool:
    try:
        check_plan(plan, graph, cluster.num_devices)
        check_schedule(plan, plan.num_microbatches(graph.batch))
        pool_placements(plan, cluster)
    except DovetailError:
        return False
    return True


def hypothetical_step_s(result: Infeasible) -> float:
    """What a step would take had every device the memory that the plan needs; as it is, the plan does not run."""
    workload = result.workload
    return float(trial(workload.training_graph(), result.cluster, result.plan, workload.precision).step_s)


def trial(graph: Graph, cluster: AnyCluster, plan: Plan, precision: Precision) -> Trial:
    """Step time and memory of a plan, whether it fits or not; raises where it cannot run."""
    check_plan(plan, graph, cluster.num_devices)
    check_schedule(plan, plan.num_microbatches(graph.batch))
    plan = on_pools(plan, cluster)
    sharded = shard(graph, plan)
    memory = with_host(memory_use(sharded, precision, *usable_by_stage(plan, cluster)), plan, cluster)
    [step_s] = PlanSteps(sharded, precision).steps_s([cluster])  # half the work of a step that says where its time goes
    if memory.need_bytes <= memory.limit_bytes and not memory.fits_host:
        host = {"need_bytes": memory.host_need_bytes, "limit_bytes": memory.host_limit_bytes}
        return Trial(step_s=step_s, memory="host", **host)
    return Trial(need_bytes=memory.need_bytes, limit_bytes=memory.limit_bytes, step_s=step_s)


def _elasticities(steps: PlanSteps, cluster: AnyCluster, plan: Plan, step_s: float) -> tuple[Elasticity, ...]:
    """Gain in throughput from a tenth more of each resource, largest first."""
    perturbed = _perturbed(cluster) | _perturbed_hosts(cluster, plan)
    elasticities = []
    for resource, perturbed_s in zip(perturbed, steps.steps_s([*perturbed.values()]), strict=True):
        gain_frac = step_s / perturbed_s - 1.0
        # The last bits of a float are nothing. Below that, a zero-bubble schedule whose passes wait for the host may
        # have less to put off on a faster device, and lose up to 0.2 %.
        elasticities.append(Elasticity(resource=resource, gain_frac=gain_frac if abs(gain_frac) > FLOAT_FRAC else 0.0))
    return tuple(sorted(elasticities, key=lambda e: -e.gain_frac))


def _perturbed(cluster: AnyCluster) -> dict[str, AnyCluster]:
    """The cluster with a tenth more of one resource at a time; of several pools, of one pool or between them."""
    if isinstance(cluster, Cluster):
        return {**perturbed_clusters(cluster, PERTURBATION_FRAC)}
    more = 1.0 + PERTURBATION_FRAC
    link = cluster.between
    clusters: dict[str, AnyCluster] = {
        "bandwidth between pools": replace(
            cluster, between=replace(link, bandwidth_bytes_per_s=link.bandwidth_bytes_per_s * more)
        ),
        "latency between pools": replace(cluster, between=replace(link, latency_s=link.latency_s / more)),
    }
    for index, pool in enumerate(cluster.pools):
        for resource, changed in perturbed_clusters(pool, PERTURBATION_FRAC).items():
            pools = (*cluster.pools[:index], changed, *cluster.pools[index + 1 :])
            clusters[f"{resource} of {pool.name}"] = replace(cluster, pools=pools)
    return clusters


def _perturbed_hosts(cluster: AnyCluster, plan: Plan) -> dict[str, AnyCluster]:
    """The cluster with a tenth more of its hosts' links or memory bandwidth, where the plan uses them."""
    if not does_offload(plan):
        return {}
    equal, more = equal_devices(cluster, "offload"), 1.0 + PERTURBATION_FRAC
    host = host_of(equal)
    faster = replace(host.link, bandwidth_bytes_per_s=host.link.bandwidth_bytes_per_s * more)
    return {
        "host link bandwidth": replace(equal, host=replace(host, link=faster)),
        "host memory bandwidth": replace(equal, host=replace(host, memory_bytes_per_s=host.memory_bytes_per_s * more)),
    }
