"""No layers by stage and no recompute beat a bound, and what refinement finds is the best of all of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from dovetail.errors import InvalidInput
from dovetail.evaluate import memory_use
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.hardware.endpoints import endpoint_names
from dovetail.parallel.check import check_plan
from dovetail.parallel.plan import CONTEXT_COMM_TYPES, RECOMPUTE_POLICIES, Overlap, Plan, columns_of
from dovetail.parallel.sharding import shard
from dovetail.search.planners import refine
from dovetail.search.planners.bounds.pipeline_lower_bounds import pipeline_lower_bound_s
from dovetail.search.planners.bounds.step_lower_bounds import step_bounds
from dovetail.search.planners.cuts import stage_cuts
from dovetail.search.planners.gap_bisection import aimed
from dovetail.search.planners.refine import Job, base_plans, refined
from dovetail.step.pipelines import PipelineShape, StageTimes, check_schedule, pipelines
from dovetail.step.plan_table import plan_context
from dovetail.step.step import training_step
from dovetail.units import GIBI
from dovetail.workload.experts import Experts
from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.workload import Workload
from tests.layer_cuts import recomputes, splits

POLICIES = ("none", "full")
CODES = tuple(RECOMPUTE_POLICIES.index(policy) for policy in POLICIES)


@cache
def workload(num_layers: int, vocab: int = 32_000, batch: int = 64) -> Workload:
    model = models["llama2-7b"]()
    short = replace(model, architecture=replace(model.architecture, num_layers=num_layers, vocab=vocab))  # type: ignore[type-var]
    return Workload(model=short, global_batch=batch, seq=2048)


def cluster(num_devices: int, hbm_bytes: float, name: str = "dgx-a100") -> Cluster:
    """A catalogue cluster with as much memory as it takes to make a point."""
    made = clusters[name].build(num_devices)
    hbm = replace(made.chip.hbm, capacity_bytes=hbm_bytes)  # all of it usable
    return replace(made, chip=replace(made.chip, hbm=hbm, hbm_visible_frac=1.0, hbm_reserve_frac=0.0))


def job(of: Workload, on: Cluster) -> Job:
    return Job(graph=of.training_graph(), cluster=on, precision=of.precision, policies=CODES)


@cache
def every_plan(num_layers: int, num_stages: int, schedule: str) -> tuple[tuple[float, float], ...]:
    """Seconds and bytes of all layers by stage and recompute by stage, each plan evaluated by itself."""
    of, on = workload(num_layers, batch=16), cluster(num_stages, 80 * GIBI)
    graph, found = of.training_graph(), []
    for layers in splits(num_layers, num_stages):
        for chosen in product(*(recomputes(POLICIES, n) for n in layers)):
            policies, counts = zip(*chosen, strict=True)
            plan = replace(
                base(num_stages, schedule),
                layers_per_stage=layers,
                recompute=policies,
                recompute_layers=counts if any(counts) else (),
            )
            memory = memory_use(shard(graph, plan), of.precision, on.usable_bytes)
            found.append((training_step(graph, plan, on, of.precision).step_s, memory.need_bytes))
    return tuple(found)


def base(num_stages: int, schedule: str) -> Plan:
    return Plan(pipeline_parallel=num_stages, schedule=schedule, microbatch=2)


@pytest.mark.parametrize(
    ("num_layers", "num_stages", "schedule"),
    [(5, 2, "1f1b"), (4, 2, "gpipe"), (4, 3, "1f1b"), (4, 2, "zb-h1")],
)
def test_the_refined_plan_is_the_best_of_all_cuts_and_recompute_where_memory_binds(
    num_layers: int, num_stages: int, schedule: str
):
    of, plans = workload(num_layers, batch=16), sorted(every_plan(num_layers, num_stages, schedule))
    needs = sorted({need for _, need in plans})
    binding = [need for need in needs if need < plans[0][1]]
    assert len(binding) > 3  # the fastest of all does not fit into any of these
    for hbm_bytes in (needs[-1], *binding[:: max(1, len(binding) // 5)]):
        on = cluster(num_stages, hbm_bytes)
        best_s = min(step_s for step_s, need in plans if need <= hbm_bytes)
        bases = base_plans(job(of, on), columns_of([base(num_stages, schedule)]), np.inf)
        found = refined(job(of, on), bases, np.inf, num_most=1)
        assert bases.bounds_s[0] <= best_s
        assert min(each.step_s for each in found.found) == pytest.approx(best_s, rel=1e-9)
        assert (found.num_refined, found.num_open) == (1, 0)
        assert found.bound_s == pytest.approx(best_s, rel=1e-9)


@pytest.mark.parametrize(("max_cuts", "max_evaluated"), [(1, 1), (2, 1), (4, 2)])
@pytest.mark.parametrize(("num_layers", "num_stages"), [(5, 2), (4, 3)])
def test_aims_are_never_above_the_best_plan_and_leave_no_more_open(
    monkeypatch, num_layers: int, num_stages: int, max_cuts: int, max_evaluated: int
):
    """Where so few cuts may be looked at that a base plan stays open."""
    monkeypatch.setattr(stage_cuts, "MAX_CUTS", max_cuts)
    monkeypatch.setattr(refine, "MAX_EVALUATED", max_evaluated)
    of, plans = workload(num_layers, batch=16), sorted(every_plan(num_layers, num_stages, "1f1b"))
    for hbm_bytes in sorted({need for _, need in plans})[::7]:
        on = cluster(num_stages, hbm_bytes)
        best_s = min(step_s for step_s, need in plans if need <= hbm_bytes)
        bases = base_plans(job(of, on), columns_of([base(num_stages, "1f1b")]), np.inf)
        once = refined(job(of, on), bases, 2 * best_s, num_most=1)
        nearer = aimed(job(of, on), bases, 2 * best_s, num_most=10)
        assert nearer.bound_s <= best_s * (1 + 1e-9)
        assert once.bound_s <= nearer.bound_s <= nearer.best_s <= once.best_s
        assert best_s <= nearer.best_s * (1 + 1e-9)
        assert nearer.num_closed + nearer.num_open == len(bases) == 1


SCHEDULES = ("1f1b", "1f1b", "gpipe", "zb-h1", "zb-v", "dualpipe")
MODELS = ("gpt2-345m", "llama3-8b", "mixtral-8x7b", "deepseek-v3")


def short(name: str, num_layers: int) -> Model:
    """A catalogue model with fewer layers; where it has two kinds of them, of few experts, so that some plans fit."""
    model = models[name]()
    fewer: dict[str, Any] = {"num_layers": num_layers}
    if name == "deepseek-v3":
        experts = Experts(num_experts=4, num_experts_per_token=2, width=2048, shared_width=2048, router_bias=True)
        fewer |= {"num_dense_layers": 2, "hidden": 4096, "experts": experts}
    return replace(model, architecture=replace(model.architecture, **fewer))  # type: ignore[type-var]


@st.composite
def bases(draw: st.DrawFn, num_layers: int) -> Plan:
    num_stages = draw(st.sampled_from((1, 2, 4)))
    schedules = [name for name in SCHEDULES if name != "zb-v" or 2 * num_stages <= num_layers]
    schedule = draw(st.sampled_from(schedules)) if num_stages > 1 else "1f1b"
    chunks = {"1f1b": (1, 2, 3), "zb-v": (2,)}.get(schedule, (1,)) if num_stages > 1 else (1,)
    tensor = draw(st.sampled_from((1, 2, 4)))
    return Plan(
        tensor_parallel=tensor,
        sequence_parallel=tensor > 1 and draw(st.booleans()),
        context_parallel=draw(st.sampled_from((1, 1, 2))),
        context_comm_type=draw(st.sampled_from(CONTEXT_COMM_TYPES)),
        pipeline_parallel=num_stages,
        interleave=draw(st.sampled_from([v for v in chunks if num_stages * v <= num_layers])),
        schedule=schedule,
        data_parallel=draw(st.sampled_from((1, 2))),
        zero_stage=draw(st.sampled_from((0, 1, 2, 3))),
        microbatch=draw(st.sampled_from((1, 2, 4))),
        overlap=Overlap(
            **{name: draw(st.booleans()) for name in ("data", "tensor", "context", "expert", "pipeline", "host")}
        ),
    )


@st.composite
def uneven(draw: st.DrawFn, plan: Plan, num_layers: int) -> Plan:
    """`plan` with any layers by chunk, one or more, and any recompute by stage."""
    cuts = draw(st.sets(st.integers(1, num_layers - 1), min_size=plan.num_chunks - 1, max_size=plan.num_chunks - 1))
    ends = [0, *sorted(cuts), num_layers]
    stages = plan.pipeline_parallel
    recompute = tuple(draw(st.lists(st.sampled_from(RECOMPUTE_POLICIES), min_size=stages, max_size=stages)))
    counts = tuple(draw(st.lists(st.integers(0, num_layers), min_size=stages, max_size=stages)))
    return replace(
        plan,
        layers_per_stage=tuple(end - start for start, end in pairwise(ends)),
        recompute=recompute,
        recompute_layers=counts if set(recompute) != {"none"} and draw(st.booleans()) else (),
    )


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_layers_and_no_recompute_take_less_than_the_bound(data: st.DataObject):
    num_layers = data.draw(st.sampled_from((6, 13)))
    of = Workload(model=short(data.draw(st.sampled_from(MODELS)), num_layers), global_batch=32, seq=1024)
    graph, plan = of.training_graph(), data.draw(bases(num_layers))
    name = data.draw(st.sampled_from(("dgx-a100", "dgx-h100")))  # the second at its power limit
    on = cluster(max(8, plan.num_devices), data.draw(st.sampled_from((16, 40, 80))) * GIBI, name)
    on = replace(on, chip=replace(on.chip, endpoint=data.draw(st.sampled_from(endpoint_names()))))
    plan = replace(plan, data_parallel=on.num_devices * plan.data_parallel // plan.num_devices)
    try:
        check_plan(plan, graph, on.num_devices)
        check_schedule(plan, plan.num_microbatches(graph.batch))
    except InvalidInput:
        reject()
    every = plan_context(graph, columns_of([plan]), on, of.precision)
    codes = tuple(range(len(RECOMPUTE_POLICIES)))
    [loose_s], [tight_s] = (step_bounds(every, codes, worst_s).step_s for worst_s in (0.0, np.inf))
    assert loose_s <= tight_s
    for _ in range(3):
        other = data.draw(uneven(plan, num_layers))
        step_s = training_step(graph, other, on, of.precision).step_s
        assert loose_s <= step_s
        if memory_use(shard(graph, other), of.precision, on.usable_bytes).fits:
            assert tight_s <= step_s


@settings(max_examples=75, deadline=None)
@given(data=st.data())
def test_no_pipeline_is_faster_than_its_sum_and_its_slowest_stage_let_it(data: st.DataObject):
    name = data.draw(st.sampled_from(pipelines.names()))
    num_stages = data.draw(st.sampled_from((1, 2, 4, 6)))
    interleave = {"interleaved": 3, "zb-v": 2}.get(name, 1)
    shape = PipelineShape(
        num_stages=num_stages,
        num_microbatches=num_stages * data.draw(st.integers(1, 5)) + data.draw(st.sampled_from((0, 1, -1))),
        interleave=interleave,
    )
    if int(shape.num_microbatches) < 1 or pipelines[name].problem(shape):
        reject()
    seconds = st.lists(st.floats(0.1, 10), min_size=num_stages, max_size=num_stages)
    forward_s, backward_s = np.array([data.draw(seconds)]), np.array([data.draw(seconds)])
    if name == "dualpipe":  # the two holders of a chunk hold each other's
        forward_s, backward_s = forward_s + forward_s[:, ::-1], backward_s + backward_s[:, ::-1]
    transfer_s = np.array([data.draw(st.sampled_from((0.0, 0.01, 0.5)))])
    times = StageTimes(forward_s=forward_s, backward_s=backward_s, weight_s=0.4 * backward_s, transfer_s=transfer_s)
    both_s = forward_s + backward_s
    [step_s] = pipelines[name].pipeline_s(times, replace(shape, num_microbatches=np.array([shape.num_microbatches])))
    for pace_s in (np.zeros(1), both_s.max(axis=1)):
        [lower_bound_s] = pipeline_lower_bound_s(name, both_s.sum(axis=1), pace_s, transfer_s, shape)
        assert lower_bound_s <= step_s * (1 + 1e-12)


def test_equal_stages_of_one_chunk_take_what_their_bound_says():
    for name in ("1f1b", "gpipe"):
        shape = PipelineShape(num_stages=4, num_microbatches=12)
        times = StageTimes(forward_s=np.ones((1, 4)), backward_s=np.full((1, 4), 2.0))
        [lower_bound_s] = pipeline_lower_bound_s(name, np.array([12.0]), np.zeros(1), np.zeros(1), shape)
        assert lower_bound_s == pytest.approx(pipelines[name].pipeline_s(times, shape)[0])
