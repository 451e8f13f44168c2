"""Why one plan is behind another: the parts of its step, of its energy or of its memory, each against the other's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dovetail.evaluate import memory_use
from dovetail.hardware.heterogeneous import AnyCluster, pools_of
from dovetail.parallel.plan import Plan
from dovetail.parallel.pools import usable_by_stage
from dovetail.parallel.sharding import shard
from dovetail.step.step import training_step
from dovetail.step.work import COMM_AXES
from dovetail.workload.graph import Graph
from dovetail.workload.optimizer import Precision

Parts = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """By how much a part is more than the best plan's, over all of the best's; below 0 where it is less."""

    part: str
    behind_frac: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all plans that are compared have in common."""

    graph: Graph
    cluster: AnyCluster
    precision: Precision


def losses(best: Parts, other: Parts) -> tuple[Loss, ...]:
    """Every part of `other` against `best`, the one that is most behind first."""
    whole = sum(best.values())
    found = [Loss(part=part, behind_frac=(amount - best[part]) / whole) for part, amount in other.items()]
    return tuple(sorted(found, key=lambda loss: -loss.behind_frac))


def time_parts(plan: Plan, setting: Setting) -> Parts:
    """Seconds of the step by kind; they add up to the step."""
    step = training_step(setting.graph, plan, setting.cluster, setting.precision)
    waits_s = {axis: float(comm.exposed_s) for axis, comm in zip(COMM_AXES, step.comm, strict=True)}
    return {
        "compute": float(step.compute_s - step.recompute_s),
        "recompute": float(step.recompute_s),
        "host": float(step.host_s),
        **waits_s,
        "offload": float(step.offload.exposed_s),
        "bubble": float(step.bubble_s),
        "update": float(step.update_s),
    }


def energy_parts(plan: Plan, setting: Setting) -> Parts:
    """Joules of the step: what devices draw whatever they do, and what their work adds."""
    step = training_step(setting.graph, plan, setting.cluster, setting.precision)
    parts = pools_of(setting.cluster)
    idle_j = sum(part.chip.energy.idle_w * part.num_devices * float(step.step_s) for part in parts)
    return {"idle power": idle_j, "work": float(step.energy_j) - idle_j}


def memory_parts(plan: Plan, setting: Setting) -> Parts:
    """Bytes of the fullest device by kind; they add up to what it needs."""
    use = memory_use(shard(setting.graph, plan), setting.precision, *usable_by_stage(plan, setting.cluster))
    stage = use.fullest
    return {
        "weights": float(stage.weights_bytes),
        "gradients": float(stage.gradients_bytes),
        "optimizer": float(stage.optimizer_bytes),
        "activations": float(stage.activations_bytes),
        "buffers": float(stage.buffers_bytes),
        "allocator": float(use.reserve_bytes),
        "runtime": float(use.runtime_bytes),
    }


PARTS: dict[str, Callable[[Plan, Setting], Parts]] = {
    "time": time_parts,
    "energy": energy_parts,
    "memory": memory_parts,
}
