"""The whole model on one screen: (workload, cluster, plan) -> Outcome, or Infeasible with the way out.

Read it top to bottom: lay out the work, cut it, see that it fits, time it, and ask which resource would help.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.plan.check import check_plan
from dovetail.plan.levers import Lever, Trial, levers
from dovetail.plan.memory import StageMemory, runtime_bytes, stage_memory
from dovetail.plan.placement import Placement, placement
from dovetail.plan.plan import Plan
from dovetail.plan.shard import Shard, executed_flop, shard
from dovetail.schedule.assembly import schedule_name
from dovetail.schedule.pipelines import pipelines
from dovetail.schedule.step import Step, check_schedule, pipeline_shape, training_step
from dovetail.workload.graph import Graph
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload

NUDGE_FRAC = 0.10  # how much more of a resource an elasticity asks about


@dataclass(frozen=True, slots=True, kw_only=True)
class Elasticity:
    """Throughput gained by having a tenth more of a resource (of latency: by its being as much shorter)."""

    resource: str
    gain_frac: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """Memory of every stage against what a device has.

    Stated apart: what the allocator holds in reserve, and what a process holds outside of it.
    """

    stages: tuple[StageMemory, ...]
    runtime_bytes: float
    limit_bytes: float

    @property
    def fullest(self) -> StageMemory:
        return max(self.stages, key=lambda stage: stage.reserved_bytes)

    @property
    def reserve_bytes(self) -> float:
        return float(self.fullest.reserve_bytes)

    @property
    def need_bytes(self) -> float:
        return float(self.fullest.total_bytes + self.reserve_bytes + self.runtime_bytes)

    @property
    def fits(self) -> bool:
        return self.need_bytes <= self.limit_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a training step of this workload, cluster and plan does."""

    workload: Workload
    cluster: Cluster
    plan: Plan
    placement: Placement
    num_microbatches: int
    num_parameters: int
    tokens_per_step: int
    model_flop: float
    hardware_flop: float
    step: Step
    memory: MemoryUse
    elasticities: tuple[Elasticity, ...]

    @property
    def samples_per_s(self) -> float:
        return float(self.workload.global_batch / self.step.step_s)

    @property
    def tokens_per_s(self) -> float:
        return float(self.tokens_per_step / self.step.step_s)

    @property
    def mfu_frac(self) -> float:
        return self.model_flop / self._peak_flop

    @property
    def hfu_frac(self) -> float:
        return self.hardware_flop / self._peak_flop

    @property
    def mean_w(self) -> float:
        """Mean power of one device over the step."""
        return float(self.step.energy_j / self.step.step_s / self.cluster.num_devices)

    @property
    def _peak_flop(self) -> float:
        peak_flop_per_s = self.cluster.chip.peak_flop_per_s(self.workload.precision.compute)
        return float(self.step.step_s * self.cluster.num_devices * peak_flop_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Infeasible:
    """A plan that was understood and does not fit: need against limit, and what would make it fit."""

    workload: Workload
    cluster: Cluster
    plan: Plan
    memory: MemoryUse
    levers: tuple[Lever, ...]


def evaluate(workload: Workload, cluster: Cluster, plan: Plan) -> Outcome | Infeasible:
    """One training step of `workload` on `cluster` by `plan`. Pure: same values in, same bits out."""
    graph = workload.training_graph()
    check_plan(plan, graph, cluster.num_devices)
    check_schedule(plan, plan.num_microbatches(graph.batch))
    place = placement(plan, cluster.topology)
    pieces = shard(graph, plan)
    memory = memory_use(pieces, workload.precision, cluster.hbm_bytes)
    if not memory.fits:
        return Infeasible(
            workload=workload, cluster=cluster, plan=plan, memory=memory, levers=_levers(workload, cluster, plan, graph)
        )
    step = training_step(graph, plan, cluster, workload.precision)
    return Outcome(
        workload=workload,
        cluster=cluster,
        plan=plan,
        placement=place,
        num_microbatches=pieces.num_microbatches,
        num_parameters=graph.num_parameters,
        tokens_per_step=graph.num_tokens,
        model_flop=graph.model_flop,
        hardware_flop=executed_flop(pieces),
        step=step,
        memory=memory,
        elasticities=_elasticities(graph, cluster, plan, workload.precision, step.step_s),
    )


def memory_use(pieces: Shard, precision: Precision, limit_bytes: float) -> MemoryUse:
    """What every stage holds at its fullest, under the plan's pipeline schedule."""
    plan = pieces.plan
    pipeline, shape = pipelines[schedule_name(plan)], pipeline_shape(plan, pieces.num_microbatches)
    held = [float(pipeline.in_flight(stage.index, shape)) for stage in pieces.stages]
    stages = tuple(stage_memory(pieces, stage, precision, held[stage.index]) for stage in pieces.stages)
    return MemoryUse(stages=stages, runtime_bytes=float(runtime_bytes(plan)), limit_bytes=limit_bytes)


def _levers(workload: Workload, cluster: Cluster, plan: Plan, graph: Graph) -> tuple[Lever, ...]:
    """Single changes of the plan that make it fit, each tried."""

    def tried(changed: Plan) -> Trial:
        check_plan(changed, graph, cluster.num_devices)
        check_schedule(changed, changed.num_microbatches(graph.batch))
        placement(changed, cluster.topology)
        pieces = shard(graph, changed)
        memory = memory_use(pieces, workload.precision, cluster.hbm_bytes)
        step_s = training_step(graph, changed, cluster, workload.precision).step_s
        return Trial(need_bytes=memory.need_bytes, step_s=step_s)

    return levers(plan, tried, cluster.hbm_bytes)


def _elasticities(
    graph: Graph, cluster: Cluster, plan: Plan, precision: Precision, step_s: float
) -> tuple[Elasticity, ...]:
    """Gain in throughput from a tenth more of each resource, largest first."""
    found = []
    for resource, nudged in _nudged_clusters(cluster).items():
        nudged_s = training_step(graph, plan, nudged, precision).step_s
        gain_frac = step_s / nudged_s - 1.0
        found.append(Elasticity(resource=resource, gain_frac=max(0.0, gain_frac)))  # below 0 is the last bit of a float
    return tuple(sorted(found, key=lambda e: -e.gain_frac))


def _nudged_clusters(cluster: Cluster) -> dict[str, Cluster]:
    """The cluster with a tenth more of one resource at a time."""
    more = 1.0 + NUDGE_FRAC
    chip = cluster.chip
    chips = {
        "tensor FLOP/s": replace(chip, tensor=chip.tensor.scaled(more)),
        "vector FLOP/s": replace(chip, vector=replace(chip.vector, peak_flop_per_s=chip.vector.peak_flop_per_s * more)),
        "HBM bandwidth": replace(
            chip, hbm=replace(chip.hbm, bandwidth_bytes_per_s=chip.hbm.bandwidth_bytes_per_s * more)
        ),
        "launch rate": _scaled_calibration(chip, "launch_s", 1.0 / more),
        "host speed": _scaled_calibration(chip, "host_", 1.0 / more),
        "power limit": replace(chip, tdp_w=chip.tdp_w * more),
    }
    nudged = {resource: replace(cluster, chip=changed) for resource, changed in chips.items()}
    for dimension in cluster.topology.dimensions:
        topology = cluster.topology.with_link_scaled(dimension.name, more)
        nudged[f"{dimension.name} bandwidth"] = replace(cluster, topology=topology)
    nudged["link latency"] = replace(cluster, topology=cluster.topology.with_latency_scaled(1.0 / more))
    return nudged


def _scaled_calibration(chip: Chip, prefix: str, factor: float) -> Chip:
    """`chip` with the calibrated numbers whose names begin with `prefix` scaled."""
    names = [field.name for field in fields(chip.calibration) if field.name.startswith(prefix)]
    scaled = {name: factor * getattr(chip.calibration, name) for name in names}
    return replace(chip, calibration=replace(chip.calibration, **scaled))
