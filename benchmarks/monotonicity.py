"""More of a resource never slows a step: random plans of every pipeline schedule, each on a better cluster too.

`python -m benchmarks.monotonicity [PLANS]` prints the violations, by schedule and resource, and the worst of them.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from dovetail.errors import DovetailError
from dovetail.hardware.altered import altered
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Calibration, Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.link import Link
from dovetail.hardware.memory import Memory
from dovetail.hardware.topology import Dimension, Topology
from dovetail.parallel.plan import RECOMPUTE_POLICIES, Overlap, Plan
from dovetail.parallel.sharding import shard
from dovetail.step.pipelines import check_schedule, pipelines
from dovetail.step.step import PlanSteps
from dovetail.units import GIGA, MICRO
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload

NUM_PLANS, NUM_DEVICES, NUM_LAYERS = 2000, 64, 16
MODELS, CHIPS = ("llama3-8b", "mixtral-8x7b", "llama3-70b"), ("h100-sxm", "a100-80gb-sxm", "h200-sxm")
FACTORS = (1.05, 1.2, 1.5, 2.0, 4.0)
TOLERANCE = 1e-9  # of the step: rounding
HOST = tuple(f.name for f in fields(Calibration) if f.name.startswith("host_") and f.name.endswith("_s"))
INTERLEAVES = {"interleaved": (2, 4), "zb-v": (2,)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A plan whose step is longer by `slower_frac` on a cluster with more of `resource`."""

    schedule: str
    resource: str
    slower_frac: float
    case: str


def better(cluster: Cluster, factor: float) -> dict[str, Cluster]:
    """The cluster with `factor` times as much of one resource, by its name."""
    chip, calibration = cluster.chip, cluster.chip.calibration
    host = {name: getattr(calibration, name) / factor for name in HOST}
    found = {
        "tensor": replace(chip, tensor=chip.tensor.scaled(factor)),
        "vector": replace(chip, vector=replace(chip.vector, peak_flop_per_s=factor * chip.vector.peak_flop_per_s)),
        "hbm": replace(chip, hbm=_faster(chip.hbm, factor)),
        "hbm capacity": replace(chip, hbm=_larger(chip.hbm, factor)),
        "sram": replace(chip, sram=_faster(chip.sram, factor)),
        "sram capacity": replace(chip, sram=_larger(chip.sram, factor)),
        "power": replace(chip, tdp_w=factor * chip.tdp_w),
        "launch": replace(chip, calibration=replace(calibration, launch_s=calibration.launch_s / factor)),
        "host": replace(chip, calibration=replace(calibration, **host)),
        "cores": _more_cores(chip, factor),
    }
    clusters = {name: replace(cluster, chip=one) for name, one in found.items()}
    clusters["clock"] = altered(cluster, {"clock": factor}, "bf16")
    clusters["latency"] = replace(cluster, topology=cluster.topology.with_latency_scaled(1 / factor))
    for name in ("inner", "outer"):
        clusters[name] = replace(cluster, topology=cluster.topology.with_link_scaled(name, factor))
    return clusters


def _faster(memory: Memory, factor: float) -> Memory:
    return replace(memory, bandwidth_bytes_per_s=factor * memory.bandwidth_bytes_per_s)


def _larger(memory: Memory, factor: float) -> Memory:
    return replace(memory, capacity_bytes=factor * memory.capacity_bytes)


def _more_cores(chip: Chip, factor: float) -> Chip:
    """So many times the cores, with their tensor units and lanes, on the memories that there are."""
    num_units = int(factor * chip.tensor.num_units)
    ratio = num_units / chip.tensor.num_units
    vector = replace(chip.vector, num_units=num_units, peak_flop_per_s=ratio * chip.vector.peak_flop_per_s)
    return replace(chip, tensor=replace(chip.tensor.scaled(ratio), num_units=num_units), vector=vector)


def cluster_of(chip: str) -> Cluster:
    inner = Link(bandwidth_bytes_per_s=450 * GIGA, latency_s=2 * MICRO)
    outer = Link(bandwidth_bytes_per_s=50 * GIGA, latency_s=5 * MICRO)
    dimensions = (
        Dimension(name="inner", kind="switch", num_devices=8, link=inner),
        Dimension(name="outer", kind="fat-tree", num_devices=NUM_DEVICES // 8, link=outer),
    )
    return Cluster(name=chip, chip=chips[chip](), topology=Topology(dimensions=dimensions), sources=())


def random_plan(rng: random.Random, name: str) -> Plan:
    schedule = rng.choice(pipelines.names())
    pipeline = rng.choice((2, 4, 8))
    tensor = rng.choice([one for one in (1, 2, 4, 8) if one * pipeline <= NUM_DEVICES])
    held = NUM_LAYERS // pipeline * pipelines[schedule].num_copies
    policy = rng.choice(RECOMPUTE_POLICIES)
    has_counts = policy != "none" and rng.random() < 0.5
    return Plan(
        tensor_parallel=tensor,
        sequence_parallel=True,
        pipeline_parallel=pipeline,
        interleave=rng.choice(INTERLEAVES.get(schedule, (1,))),
        schedule="1f1b" if schedule == "interleaved" else schedule,
        data_parallel=NUM_DEVICES // (tensor * pipeline),
        expert_parallel=rng.choice((1, 2)) if name.startswith("mixtral") else 1,
        zero_stage=rng.choice((0, 1)),
        microbatch=rng.choice((1, 2)),
        recompute=(policy,),
        recompute_layers=tuple(rng.randint(0, held) for _ in range(pipeline)) if has_counts else (),
        overlap=Overlap(**{field.name: rng.random() < 0.5 for field in fields(Overlap)}),
    )


def violations(num_plans: int, seed: int = 0) -> Iterator[Violation | None]:
    """For each random plan that can run: None, or the first resource of which more makes its step longer."""
    rng = random.Random(seed)
    graphs, found = {}, 0
    while found < num_plans:
        name, chip = rng.choice(MODELS), rng.choice(CHIPS)
        plan, batch, seq = random_plan(rng, name), rng.choice((64, 128, 256)), rng.choice((1024, 4096))
        key = name, batch, seq
        if key not in graphs:
            model = models[name]()
            architecture = replace(model.architecture, num_layers=NUM_LAYERS)  # type: ignore[type-var]
            short = replace(model, architecture=architecture)
            graphs[key] = Workload(model=short, global_batch=batch, seq=seq).training_graph()
        try:
            check_schedule(plan, batch // (plan.data_parallel * plan.microbatch))
            steps = PlanSteps(shard(graphs[key], plan), Precision())
            base = cluster_of(chip)
            factor = rng.choice(FACTORS)
            others = better(base, factor)
            base_s, *times_s = steps.steps_s([base, *others.values()])
        except DovetailError:
            continue
        found += 1
        worst, resource = max(zip(times_s, others, strict=True))
        if worst <= base_s * (1 + TOLERANCE):
            yield None
            continue
        case = f"{name} on {chip}, batch {batch}, seq {seq}, {resource} x {factor:g}, {plan}"
        schedule = "interleaved" if plan.interleave > 1 and plan.schedule == "1f1b" else plan.schedule
        yield Violation(schedule=schedule, resource=resource, slower_frac=worst / base_s - 1, case=case)


def main() -> None:
    num_plans = int(sys.argv[1]) if len(sys.argv) > 1 else NUM_PLANS
    found = [one for one in violations(num_plans) if one is not None]
    print(f"{len(found)} violations of {num_plans} plans")
    for (schedule, resource), count in Counter((one.schedule, one.resource) for one in found).most_common():
        worst = max(one.slower_frac for one in found if (one.schedule, one.resource) == (schedule, resource))
        print(f"  {schedule:12s} {resource:8s} {count:5d}  worst +{worst:.3%}")
    for one in sorted(found, key=lambda one: -one.slower_frac)[:3]:
        print(f"  +{one.slower_frac:.3%} {one.case}")


if __name__ == "__main__":
    main()
