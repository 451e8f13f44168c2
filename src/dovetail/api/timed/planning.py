"""What is timed of plans: one evaluated, thousands in columns, the best one searched, and layers placed."""

from __future__ import annotations

import numpy as np

from dovetail.api.timed.operation import Operation, Run, warm
from dovetail.evaluate import evaluate
from dovetail.files.phaze_dp import load_instance, shipped_instances
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.parallel.placement import NOWHERE, placements_of
from dovetail.parallel.plan import Plan, Plans, joined
from dovetail.parallel.sharding import shard_plans
from dovetail.search.objectives import objectives
from dovetail.search.planners.placement.placed import best_placement
from dovetail.search.planners.plan_space import PlanSpace, batches
from dovetail.search.planners.planner import PlanSearchResult, search_plans
from dovetail.step.memory_needs import need_bytes
from dovetail.step.step import step_times, training_step
from dovetail.workload.graph import Graph
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

NUM_DEVICES = 512
NUM_PLANS = 50_000  # at least, in one call
PLACED = "gpt3_1024"  # 97 layers, TP 1, 2, 4 and 8; Source: PHAZE's released code (MIT, commit fed7cde)


def _gpt3() -> Workload:
    """As examples/gpt3-175b-1024xa100.yaml has it."""
    return Workload(model=models["gpt3-175b"](), global_batch=1536, seq=2048, attention="unfused")


def _a100(num_devices: int) -> Cluster:
    return clusters["dgx-a100"].build(num_devices)


def _korthikanti() -> Plan:
    """Of Korthikanti et al. 2022 (arXiv:2205.05198) for 64 devices, repeated 16 times."""
    return Plan(
        tensor_parallel=8,
        sequence_parallel=True,
        pipeline_parallel=8,
        interleave=3,
        data_parallel=16,
        zero_stage=1,
        recompute=("selective",),
    )


def _evaluate() -> Run:
    """With memory by stage, and what more of each resource would bring: a dozen steps."""
    workload, cluster, plan = _gpt3(), _a100(1024), _korthikanti()

    def run() -> float:
        evaluate(workload, cluster, plan)
        return 1.0

    return warm(run)


def _step() -> Run:
    workload, cluster, plan = _gpt3(), _a100(1024), _korthikanti()
    graph = workload.training_graph()

    def run() -> float:
        training_step(graph, plan, cluster, workload.precision)
        return 1.0

    return warm(run)


def _plans() -> Run:
    """Time, energy and memory of every plan, and its place in the network."""
    workload, cluster = _gpt3(), _a100(NUM_DEVICES)
    graph = workload.training_graph()
    plans = some_plans(graph, cluster)

    def run() -> float:
        placements_of(plans, cluster.topology)
        step_times(graph, plans, cluster, workload.precision)
        need_bytes(shard_plans(graph, plans), workload.precision)
        return len(plans)

    return warm(run)


def some_plans(graph: Graph, cluster: Cluster, num_plans: int = NUM_PLANS) -> Plans:
    """The first of a planner's space that nest in the network, of `num_plans` or somewhat more."""
    taken: list[Plans] = []
    for batch in batches(PlanSpace(), graph, cluster.num_devices):
        taken.append(batch)
        if sum(map(len, taken)) >= num_plans:
            break
    plans = joined(taken)
    return plans.at(np.flatnonzero(placements_of(plans, cluster.topology).group_of["tensor"] != NOWHERE))


def best_plan(workload: Workload, cluster: Cluster, space: PlanSpace) -> PlanSearchResult:
    """As `dovetail plan` searches: even plans and uneven ones, to a proven gap."""
    return search_plans(
        workload, cluster, space, objectives["time"], num_best=10, cluster_usd=1.0, progress=lambda *_: None
    )


def _plan_search() -> Run:
    workload, cluster = _gpt3(), _a100(NUM_DEVICES)
    best_plan(workload, cluster, PlanSpace(tensor_parallel=(8,), pipeline_parallel=(8,)))  # warm, by a small space

    def run() -> float:
        best_plan(workload, cluster, PlanSpace())
        return 1.0

    return run


def _placement() -> Run:
    problem = load_instance(shipped_instances()[PLACED]).problem

    def run() -> float:
        best_placement(problem)
        return 1.0

    return warm(run)


OPERATIONS = (
    Operation(name="evaluate", what="evaluate GPT-3 175B on 1,024 A100", made=_evaluate),
    Operation(name="step", what="its step alone", made=_step),
    Operation(name="plans", what="plans of it on 512 A100, columns", made=_plans, item="plans", num_runs=3),
    Operation(name="plan-search", what="best plan of it on 512, proven", made=_plan_search, num_runs=3),
    Operation(name="placement", what="97 layers placed on 1,024 devices", made=_placement),
)
