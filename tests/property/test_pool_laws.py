"""Laws of clusters of several pools: equal pools are one cluster, and what the search finds is the best of all cuts."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dovetail.evaluate import Infeasible, Outcome, evaluate, memory_use
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.hardware.endpoints import endpoint_names
from dovetail.hardware.heterogeneous import HeterogeneousCluster
from dovetail.hardware.link import Link
from dovetail.parallel.memory import memory_table
from dovetail.parallel.plan import AXES, RECOMPUTE_POLICIES, Overlap, Plan, columns_of
from dovetail.parallel.pools import usable_by_stage
from dovetail.parallel.sharding import shard
from dovetail.search.objectives import objectives
from dovetail.search.planners.bounds.block_lower_bounds import block_lower_bounds
from dovetail.search.planners.bounds.pool_lower_bounds import stage_lower_bounds
from dovetail.search.planners.plan_space import PlanSpace
from dovetail.search.planners.planner import PlanSearchResult
from dovetail.search.planners.pools import search_plans_on_pools
from dovetail.step.hops import num_kinds
from dovetail.step.pipeline_events import played
from dovetail.step.pipelines import TRANSFER_FRACS, PipelineShape, StageTimes, pipelines
from dovetail.step.plan_table import plan_context
from dovetail.step.step import PlanSteps, training_step
from dovetail.units import GIBI, GIGA, MICRO
from dovetail.workload.models import models
from dovetail.workload.workload import Workload
from tests.layer_cuts import recomputes, splits

BETWEEN = Link(bandwidth_bytes_per_s=20 * GIGA, latency_s=8 * MICRO)
POLICIES = ("none", "full")


@cache
def workload(num_layers: int, batch: int = 16) -> Workload:
    model = models["llama2-7b"]()
    short = replace(model, architecture=replace(model.architecture, num_layers=num_layers))  # type: ignore[type-var]
    return Workload(model=short, global_batch=batch, seq=2048)


def part(name: str, num_devices: int, hbm_bytes: float = 80 * GIBI, called: str = "") -> Cluster:
    made = clusters[name].build(num_devices)
    hbm = replace(made.chip.hbm, capacity_bytes=hbm_bytes)  # all of it usable
    chip = replace(made.chip, hbm=hbm, hbm_visible_frac=1.0, hbm_reserve_frac=0.0)
    return replace(made, chip=chip, name=called or name)


def mixed(*pools: Cluster, between: Link = BETWEEN) -> HeterogeneousCluster:
    return HeterogeneousCluster(name="mixed", pools=pools, between=between)


def search(of: Workload, on: HeterogeneousCluster, space: PlanSpace) -> PlanSearchResult:
    return search_plans_on_pools(
        of, on, space, objectives["time"], num_best=3, cluster_usd=1.0, progress=lambda *_: None
    )


PLANS = st.builds(
    lambda schedule, overlap, sequence, zero, layers: Plan(
        tensor_parallel=8,
        pipeline_parallel=4,
        data_parallel=2,
        schedule=schedule,
        interleave=2 if schedule in ("zb-v", "interleaved") else 1,
        sequence_parallel=sequence,
        zero_stage=zero,
        overlap=Overlap(pipeline=overlap, data=zero != 1),
        layers_per_stage=layers if schedule not in ("zb-v", "interleaved") else (),
    ),
    st.sampled_from(("1f1b", "gpipe", "interleaved", "zb-h1", "zb-v")),
    st.booleans(),
    st.booleans(),
    st.sampled_from((0, 1, 2, 3)),
    st.sampled_from(((), (3, 1, 2, 4), (2, 3, 3, 2))),
)


@given(plan=PLANS, num_first=st.sampled_from((1, 2, 3)))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_equal_parts_joined_by_their_own_network_are_one_cluster(plan: Plan, num_first: int):
    of, whole = workload(10, 64), clusters["dgx-h100"].build(64)
    network = whole.topology.dimensions[-1].link
    pools = (part("dgx-h100", 16 * num_first, called="a"), part("dgx-h100", 64 - 16 * num_first, called="b"))
    graph = of.training_graph()
    one = training_step(graph, plan, whole, of.precision)
    two = training_step(graph, plan, mixed(*pools, between=network), of.precision)
    assert two.step_s == pytest.approx(one.step_s, rel=1e-9)
    assert two.energy_j == pytest.approx(one.energy_j, rel=1e-9)
    assert two.bubble_s == pytest.approx(one.bubble_s, rel=1e-9)
    assert two.slowest_stage == one.slowest_stage


@given(
    name=st.sampled_from(("1f1b", "gpipe", "interleaved", "zb-h1", "zb-v")),
    stage_pool=st.lists(st.integers(0, 1), min_size=2, max_size=6).filter(lambda pools: len(set(pools)) == 2),
    rounds=st.integers(2, 5),
    index=st.sampled_from(range(len(TRANSFER_FRACS))),
    draw=st.randoms(use_true_random=False),
)
@settings(max_examples=60, deadline=None)
def test_hand_overs_of_different_length_are_as_in_the_schedule_played_out(name, stage_pool, rounds, index, draw):
    num_stages = len(stage_pool)
    interleave = 2 if name in ("interleaved", "zb-v") else 1
    shape = PipelineShape(num_stages=num_stages, num_microbatches=rounds * num_stages, interleave=interleave)
    forward_s = np.array([draw.uniform(0.8, 1.2) for _ in stage_pool])
    most_s = TRANSFER_FRACS[index] * 0.8 / interleave
    transfer_s = np.array([draw.uniform(0.0, most_s) for _ in range(num_kinds(tuple(stage_pool)))])
    times = StageTimes(
        forward_s=forward_s,
        backward_s=2 * forward_s,
        weight_s=forward_s,
        transfer_s=transfer_s,
        stage_pool=tuple(stage_pool),
    )
    order = pipelines[name].order(shape)
    exact_s = played(order, times.chunk_times(order)).pipeline_s
    closed_form_s = float(pipelines[name].pipeline_s(times, shape))
    assert closed_form_s <= exact_s * (1 + 1e-9)
    assert closed_form_s >= exact_s * (1 - pipelines[name].worst_short_frac[index] - 1e-9)


def best_of_all_s(of: Workload, on: HeterogeneousCluster, base: Plan) -> float:
    """The fastest that fits of all orders of the pools, layers and recompute by stage, each evaluated by itself."""
    graph, found = of.training_graph(), []
    counts = [each.num_devices * base.pipeline_parallel // base.num_devices for each in on.pools]
    for order in permutations(range(len(on.pools))):
        stage_pools = tuple(index for index in order for _ in range(counts[index]))
        for layers in splits(graph.num_layers, base.pipeline_parallel):
            for chosen in product(*(recomputes(POLICIES, n) for n in layers)):
                policies, again = zip(*chosen, strict=True)
                plan = replace(
                    base,
                    stage_pools=stage_pools,
                    layers_per_stage=layers,
                    recompute=policies,
                    recompute_layers=again if any(again) else (),
                )
                sharded = shard(graph, plan)
                if memory_use(sharded, of.precision, *usable_by_stage(plan, on)).fits:
                    found += PlanSteps(sharded, of.precision).steps_s([on])
    return float(min(found))


@pytest.mark.parametrize(
    ("num_layers", "counts", "hbm_bytes", "schedule"),
    [
        (5, (1, 1), (80 * GIBI, 80 * GIBI), "1f1b"),
        (5, (1, 1), (22 * GIBI, 80 * GIBI), "1f1b"),
        (4, (1, 1), (21 * GIBI, 16 * GIBI), "1f1b"),
        (4, (1, 2), (14 * GIBI, 13 * GIBI), "1f1b"),
        (4, (2, 1), (13 * GIBI, 12 * GIBI), "1f1b"),
        (4, (1, 1), (80 * GIBI, 18 * GIBI), "gpipe"),
    ],
)
def test_the_plan_found_is_the_best_of_all_orders_layers_and_recompute(num_layers, counts, hbm_bytes, schedule):
    of = workload(num_layers, 64)
    on = mixed(part("dgx-h100", counts[0], hbm_bytes[0]), part("dgx-a100", counts[1], hbm_bytes[1]))
    roomy = mixed(*(part(each.name, each.num_devices, 640 * GIBI) for each in on.pools))
    base = Plan(pipeline_parallel=sum(counts), microbatch=8, schedule=schedule)
    space = PlanSpace(
        pipeline_parallel=(sum(counts),), interleave=(1,), microbatch=(8,), recompute=POLICIES, schedule=(schedule,)
    )
    found = search(of, on, space)
    best_s = best_of_all_s(of, on, base)
    is_tight = min(hbm_bytes) < 80 * GIBI  # then the fastest plan of all does not fit
    assert (search(of, roomy, space).best[0].step_s < best_s * (1 - 1e-9)) == is_tight
    assert found.best[0].step_s == pytest.approx(best_s, rel=1e-9)
    assert found.gap_frac == pytest.approx(0.0, abs=1e-9)
    assert found.bound_s <= best_s * (1 + 1e-9)
    answer = evaluate(of, on, found.best[0].plan)
    assert isinstance(answer, Outcome)
    assert answer.step.step_s == pytest.approx(best_s, rel=1e-9)
    assert answer.memory.need_bytes == pytest.approx(found.best[0].need_bytes, rel=1e-9)


@given(
    schedule=st.sampled_from(("1f1b", "gpipe", "interleaved", "zb-h1", "zb-v")),
    is_turned=st.booleans(),
    overlaps=st.tuples(st.booleans(), st.booleans()),
    zero_stage=st.integers(0, 3),
    microbatch=st.sampled_from((1, 2)),
    policy=st.sampled_from(range(len(RECOMPUTE_POLICIES))),
    ends=st.tuples(*(st.sampled_from(endpoint_names()) for _ in range(2))),
    draw=st.randoms(use_true_random=False),
)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_layers_and_recompute_beat_the_bound(
    schedule, is_turned, overlaps, zero_stage, microbatch, policy, ends, draw
):
    plain = (part("dgx-h100", 16, 640 * GIBI), part("dgx-a100", 16, 640 * GIBI))
    pools = (replace(one, chip=replace(one.chip, endpoint=name)) for one, name in zip(plain, ends, strict=True))
    of, on = workload(14, 64), mixed(*pools)
    graph, interleave = of.training_graph(), 2 if schedule in ("interleaved", "zb-v") else 1
    stage_pools = (1, 1, 0, 0) if is_turned else (0, 0, 1, 1)
    base = Plan(
        tensor_parallel=4,
        pipeline_parallel=4,
        data_parallel=2,
        schedule=schedule,
        interleave=interleave,
        zero_stage=zero_stage,
        microbatch=microbatch,
        overlap=Overlap(pipeline=overlaps[0], data=overlaps[1]),
    )
    plans, codes = columns_of([base]), tuple(range(len(RECOMPUTE_POLICIES)))
    every = plan_context(graph, plans, on, of.precision)
    lows = tuple(block_lower_bounds(graph, each.table) for each in every.pools)
    memory = memory_table(every.sharded, of.precision)
    low = stage_lower_bounds(every, np.zeros(1, dtype=np.int64), codes, lows, memory).on(stage_pools)
    [bound_s] = low.bounds_s(low.table_s)
    num_chunks = 4 * interleave
    places = sorted(draw.sample(range(1, 14), num_chunks - 1))
    layers = tuple(b - a for a, b in zip((0, *places), (*places, 14), strict=True))
    plan = replace(base, layers_per_stage=layers, stage_pools=stage_pools, recompute=(RECOMPUTE_POLICIES[policy],))
    assert bound_s <= training_step(graph, plan, on, of.precision).step_s * (1 + 1e-12)


SMALL = PlanSpace(
    tensor_parallel=(1, 2),
    context_parallel=(1,),
    zero_stage=(1,),
    microbatch=(1, 2),
    recompute=("none",),
    interleave=(1,),
    axis_order=(AXES,),
)


@given(num_slow=st.sampled_from((2, 4)), factor=st.floats(1.0, 2.0), resource=st.sampled_from(("tensor", "hbm", "tdp")))
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_faster_chip_in_a_part_makes_the_best_plan_no_slower(num_slow: int, factor: float, resource: str):
    of, slow = workload(12), part("dgx-a100", num_slow)
    chip = slow.chip
    faster = {
        "tensor": lambda: replace(chip, tensor=chip.tensor.scaled(factor)),
        "hbm": lambda: replace(
            chip, hbm=replace(chip.hbm, bandwidth_bytes_per_s=chip.hbm.bandwidth_bytes_per_s * factor)
        ),
        "tdp": lambda: replace(chip, tdp_w=chip.tdp_w * factor),
    }[resource]()
    before = search(of, mixed(part("dgx-h100", 4), slow), SMALL)
    after = search(of, mixed(part("dgx-h100", 4), replace(slow, chip=faster)), SMALL)
    assert after.best[0].step_s <= before.best[0].step_s * (1 + 1e-9 + before.gap_frac)


def test_the_best_plan_of_a_mixed_cluster_is_no_slower_than_that_of_its_slow_chips_alone():
    of = workload(12)
    slow, fast = (part(name, 4) for name in ("dgx-a100", "dgx-h100"))
    both = search(of, mixed(slow, fast), SMALL)
    alone = search(of, mixed(slow, replace(slow, name="more")), SMALL)
    assert both.best[0].step_s < alone.best[0].step_s


def test_memory_of_each_stage_is_held_against_its_own_part():
    of = workload(8)
    plan = Plan(pipeline_parallel=2, layers_per_stage=(5, 3))
    whole = memory_use(shard(of.training_graph(), plan), of.precision, 80 * GIBI)
    need = [stage.reserved_bytes + whole.runtime_bytes for stage in whole.stages]
    roomy, tight = part("dgx-h100", 1, need[0] + GIBI), part("dgx-a100", 1, need[1] - GIBI)
    assert need[1] < need[0]
    answer = evaluate(of, mixed(roomy, tight), plan)
    assert isinstance(answer, Infeasible)
    assert answer.memory.fullest.stage == 1
    assert answer.memory.limit_bytes == need[1] - GIBI
    assert isinstance(evaluate(of, mixed(roomy, replace(tight, chip=roomy.chip)), plan), Outcome)


def test_a_search_tells_its_best_and_its_bound_as_it_goes_on():
    told: list[tuple[Any, ...]] = []
    space, on = SMALL, mixed(part("dgx-h100", 4), part("dgx-a100", 4))
    found = search_plans_on_pools(
        workload(12),
        on,
        space,
        objectives["time"],
        num_best=3,
        cluster_usd=2.0,
        progress=lambda *all_: told.append(all_),
    )
    cutting = [one for one in told if len(one) == 6]
    assert cutting
    scores, bounds_s = [one[3] for one in cutting], [one[4] for one in cutting]
    assert scores == sorted(scores, reverse=True)
    assert bounds_s == sorted(bounds_s)
    assert scores[-1] == pytest.approx(2.0 * found.best[0].step_s)
    assert all(bound_s <= found.best[0].step_s for bound_s in bounds_s)
    assert all(one[0] <= one[1] for one in cutting)


def test_where_nothing_fits_no_time_is_a_bound():
    found = search(workload(12), mixed(part("dgx-h100", 4, 3 * GIBI), part("dgx-a100", 4, 3 * GIBI)), SMALL)
    assert found.best == ()
    assert found.bound_s == math.inf
