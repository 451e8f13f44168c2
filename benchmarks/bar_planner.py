"""The planner's promise of speed: complete evaluations of plans on one core, and what a single step takes."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.bar import REPOSITORY, Bar
from dovetail.accuracy.peer_speeds import peers_of
from dovetail.files.job import load_spec
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.parallel.placement import NOWHERE, placements_of
from dovetail.parallel.plan import Overlap, Plans, joined
from dovetail.parallel.sharding import shard_plans
from dovetail.search.planners.plan_space import PlanSpace, batches
from dovetail.step.memory_needs import need_bytes
from dovetail.step.step import step_times, training_step
from dovetail.units import GIGA, KIBI, MILLI
from dovetail.workload.graph import Graph
from dovetail.workload.optimizer import Precision

ISSUE = 5
SPEC = REPOSITORY / "examples" / "gpt3-175b-1024xa100.yaml"
NUM_DEVICES = 512
LEAST_PER_S = 200_000
MOST_BYTES = 1 * GIGA
[CALCULON] = peers_of("plans")
PLAN_BATCH = 250_000
NUM_REPEATS = 15


def bars() -> Iterator[Bar]:
    yield rate()
    yield single()


def rate() -> Bar:
    """Time, energy and memory of every plan, whether it fits or not, and its place in the network."""
    job = load_spec(SPEC)
    graph, cluster = job.workload.training_graph(), clusters["dgx-a100"].build(NUM_DEVICES)
    num_plans, took_s = 0, 0.0
    for plans in chunks(graph):
        began_s = time.process_time()
        num_plans += evaluated(graph, plans, cluster, job.workload.precision)
        took_s += time.process_time() - began_s
    per_s = num_plans / took_s
    fewest, most = 1 / CALCULON.most_s, 1 / CALCULON.least_s
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIBI
    return Bar(
        name=f"complete evaluations of plans, GPT-3 175B on {NUM_DEVICES} A100",
        issue=ISSUE,
        bar=f">= {LEAST_PER_S:,} a CPU-s, < {MOST_BYTES / GIGA:.0f} GB",
        measured=(
            f"{per_s:,.0f} a CPU-s over {num_plans:,} plans, {peak_bytes / GIGA:.2f} GB "
            f"(Calculon {fewest:.0f}-{most:.0f}: {per_s / most:,.0f} times)"
        ),
        holds=per_s >= LEAST_PER_S and peak_bytes < MOST_BYTES,
    )


def chunks(graph: Graph) -> Iterator[Plans]:
    """The planner's whole space for the model, with tensor collectives exposed and beside compute."""
    space = PlanSpace(overlap=(Overlap(), Overlap(tensor=True)))
    waiting: list[Plans] = []
    for batch in batches(space, graph, NUM_DEVICES):
        waiting.append(batch)
        if sum(map(len, waiting)) >= PLAN_BATCH:
            yield joined(waiting)
            waiting = []
    if waiting:
        yield joined(waiting)


def evaluated(graph: Graph, plans: Plans, cluster: Cluster, precision: Precision) -> int:
    """How many of `plans` nest in the network: those that are evaluated."""
    is_placed = placements_of(plans, cluster.topology).group_of["tensor"] != NOWHERE
    placed = plans if is_placed.all() else plans.at(np.flatnonzero(is_placed))
    times = step_times(graph, placed, cluster, precision)
    need = need_bytes(shard_plans(graph, placed), precision)
    assert len(times.step_s) == len(times.energy_j) == len(need)
    return len(placed)


def single() -> Bar:
    """No bar was set; a prediction takes about a dozen of them."""
    job = load_spec(SPEC)
    graph, took_s = job.workload.training_graph(), []
    for _ in range(NUM_REPEATS):
        began_s = time.process_time()
        training_step(graph, job.plan, job.cluster, job.workload.precision)
        took_s.append(time.process_time() - began_s)
    return Bar(
        name="one training step in closed form, GPT-3 175B",
        issue=ISSUE,
        bar="reported",
        measured=f"{min(took_s) / MILLI:.1f} CPU-ms, the first {took_s[0] / MILLI:.1f}",
        holds=None,
        note="no bar was set",
    )
