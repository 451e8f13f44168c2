"""Why one plan is slower than another: the components of its step, energy or memory, each against the other's."""

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

Components = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """By how much a component is more than the best plan's, over all of the best's; below 0 where it is less."""

    component: str
    over_best_frac: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all plans that are compared have in common."""

    graph: Graph
    cluster: AnyCluster
    precision: Precision


def losses(best: Components, other: Components) -> tuple[Loss, ...]:
    """Every component of `other` against `best`, the one that is most behind first."""
    whole = sum(best.values())
    found = [Loss(component=name, over_best_frac=(amount - best[name]) / whole) for name, amount in other.items()]
    return tuple(sorted(found, key=lambda loss: -loss.over_best_frac))


def time_components(plan: Plan, setting: Setting) -> Components:
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


def energy_components(plan: Plan, setting: Setting) -> Components:
    """Joules of the step: what devices draw whatever they do, and what their work adds."""
    step = training_step(setting.graph, plan, setting.cluster, setting.precision)
    pools = pools_of(setting.cluster)
    idle_j = sum(pool.chip.energy.idle_w * pool.num_devices * float(step.step_s) for pool in pools)
    return {"idle power": idle_j, "work": float(step.energy_j) - idle_j}


def memory_components(plan: Plan, setting: Setting) -> Components:
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


COMPONENTS: dict[str, Callable[[Plan, Setting], Components]] = {
    "time": time_components,
    "energy": energy_components,
    "memory": memory_components,
}
