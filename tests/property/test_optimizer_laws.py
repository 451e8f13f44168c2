"""Laws of what optimizers add to a step: planners stay exact with them, and more ranks never make an update dearer."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.evaluate import memory_use
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import RECOMPUTE_POLICIES, Plan, columns_of
from dovetail.parallel.sharding import executed_flop, shard
from dovetail.search.planners.refine import Job, base_plans, refined
from dovetail.step.step import training_step
from dovetail.units import GIBI
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.optimizers import optimizers
from dovetail.workload.workload import Workload
from tests.layer_cuts import recomputes, splits

POLICIES = ("none", "full")
CODES = tuple(RECOMPUTE_POLICIES.index(policy) for policy in POLICIES)
BASE = Plan(tensor_parallel=2, pipeline_parallel=2, data_parallel=2, zero_stage=1, microbatch=2)


@cache
def workload(optimizer: str, model: str = "llama2-7b", num_layers: int = 4, batch: int = 16) -> Workload:
    entry = models[model]()
    short = replace(entry, architecture=replace(entry.architecture, num_layers=num_layers))  # type: ignore[type-var]
    return Workload(model=short, global_batch=batch, seq=2048, precision=Precision(optimizer=optimizer))


def cluster(num_devices: int, hbm_bytes: float) -> Cluster:
    """A100s with as much usable memory as it takes to make a point."""
    made = clusters["dgx-a100"].build(num_devices)
    hbm = replace(made.chip.hbm, capacity_bytes=hbm_bytes)
    return replace(made, chip=replace(made.chip, hbm=hbm, hbm_visible_frac=1.0, hbm_reserve_frac=0.0))


@pytest.mark.parametrize("optimizer", optimizers.names())
def test_the_refined_plan_is_the_best_of_all_cuts_and_recompute(optimizer: str):
    of, on = workload(optimizer), cluster(8, 80 * GIBI)
    graph, plans = of.training_graph(), []
    for layers in splits(4, 2):
        for chosen in product(*(recomputes(POLICIES, n) for n in layers)):
            policies, counts = zip(*chosen, strict=True)
            kept = counts if any(counts) else ()
            plan = replace(BASE, layers_per_stage=layers, recompute=policies, recompute_layers=kept)
            need = memory_use(shard(graph, plan), of.precision, on.usable_bytes).need_bytes
            plans.append((training_step(graph, plan, on, of.precision).step_s, need))
    needs = sorted({need for _, need in plans})
    for hbm_bytes in (needs[-1], needs[len(needs) // 3]):
        small = cluster(8, hbm_bytes)
        job = Job(graph=graph, cluster=small, precision=of.precision, policies=CODES)
        best_s = min(step_s for step_s, need in plans if need <= hbm_bytes)
        bases = base_plans(job, columns_of([BASE]), np.inf)
        found = refined(job, bases, np.inf, num_most=1)
        assert bases.bounds_s[0] <= best_s
        assert min(each.step_s for each in found.found) == pytest.approx(best_s, rel=1e-9)


@given(
    optimizer=st.sampled_from(optimizers.names()),
    tensor=st.sampled_from((1, 2, 4)),
    ranks=st.sampled_from((2, 4, 8)),
    stages=st.sampled_from((1, 2)),
)
@settings(max_examples=25, deadline=None)
def test_zero_never_makes_the_update_of_a_device_compute_or_keep_more(
    optimizer: str, tensor: int, ranks: int, stages: int
):
    of = workload(optimizer)
    whole = Plan(tensor_parallel=tensor, pipeline_parallel=stages, data_parallel=ranks)
    sharded = replace(whole, zero_stage=1)
    flop = [executed_flop(shard(of.training_graph(), plan)) for plan in (whole, sharded)]
    assert flop[1] <= flop[0]
    kept = [memory_use(shard(of.training_graph(), plan), of.precision, 1e15).stages for plan in (whole, sharded)]
    for before, after in zip(*kept, strict=True):
        assert ranks * after.optimizer_bytes == pytest.approx(before.optimizer_bytes, rel=1e-12)


@given(
    tensor=st.sampled_from((1, 2, 4)),
    ranks=st.sampled_from((1, 2, 4)),
    experts=st.sampled_from((1, 2)),
    zero=st.integers(0, 1),
)
@settings(max_examples=25, deadline=None)
def test_the_products_of_muon_are_conserved(tensor: int, ranks: int, experts: int, zero: int):
    """All devices together compute a matrix once per tensor-parallel rank, and once per rank that shares no state."""
    model = "mixtral-8x7b" if experts > 1 else "llama2-7b"
    plan = Plan(tensor_parallel=tensor, data_parallel=ranks * experts, expert_parallel=experts, zero_stage=zero)
    muon, adam = (executed_flop(shard(workload(name, model).training_graph(), plan)) for name in ("muon", "adam"))
    alone = [executed_flop(shard(workload(name, model).training_graph(), Plan())) for name in ("muon", "adam")]
    copies = plan.num_devices / (plan.data_parallel if zero else 1)
    if experts == 1:
        assert muon - adam == pytest.approx(copies * (alone[0] - alone[1]), rel=1e-9)
    else:  # experts are held by fewer ranks than other matrices
        assert muon - adam <= copies * (alone[0] - alone[1]) * (1 + 1e-9)
        assert muon > adam
