"""Layers of several kinds: what stages can hold is what some cut gives them, and the best cut found is the best."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from dovetail.errors import InvalidInput
from dovetail.evaluate import memory_use
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import RECOMPUTE_POLICIES, Plan, columns_of
from dovetail.parallel.sharding import shard
from dovetail.search.planners.mixes import Pattern, chunk_homes, holdable, layers_by_chunk, patterns
from dovetail.search.planners.refine import Job, base_plans, refined
from dovetail.step.step import PlanSteps, training_step
from dovetail.units import GIBI
from dovetail.workload.experts import Experts
from dovetail.workload.models import models
from dovetail.workload.workload import Workload
from tests.layer_cuts import recomputes, splits

LayerPattern = tuple[tuple[str, int], ...]
POLICIES = ("none", "full")
CODES = tuple(RECOMPUTE_POLICIES.index(policy) for policy in POLICIES)


def held_by(plan: Plan, counts: np.ndarray, chunks: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Layers of each kind on each stage, layer by layer."""
    kinds = [kind for kind, count in enumerate(counts) for _ in range(count)]
    homes = [home for home, length in zip(chunk_homes(plan), chunks, strict=True) for _ in range(length)]
    held = np.zeros((plan.pipeline_parallel, len(counts)), dtype=np.int64)
    np.add.at(held, (homes, kinds), 1)
    return tuple(map(tuple, held.tolist()))


def all_of(pattern: Pattern, counts: np.ndarray) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Everything that stages may hold by a pattern, kind by kind."""
    by_kind = []
    for kind, count in enumerate(counts):
        most = np.where(pattern.may_hold[:, kind], count, 0)
        columns = product(*(range(low, high + 1) for low, high in zip(pattern.fewest[:, kind], most, strict=True)))
        by_kind.append([column for column in columns if sum(column) == count])
    for held in product(*by_kind):
        yield tuple(zip(*held, strict=True))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.sampled_from([("1f1b", 1, 3), ("1f1b", 2, 2), ("1f1b", 3, 2), ("zb-v", 2, 2), ("gpipe", 1, 2), ("1f1b", 1, 1)]),
)
def test_stages_can_hold_exactly_what_some_cut_gives_them(sizes, shape):
    schedule, interleave, num_stages = shape
    counts = np.array(sizes)
    plan = Plan(pipeline_parallel=num_stages, interleave=interleave, schedule=schedule)
    if counts.sum() < plan.num_chunks:
        reject()
    by_cuts = {held_by(plan, counts, chunks) for chunks in splits(int(counts.sum()), plan.num_chunks)}
    by_patterns = {held for pattern in patterns(plan, counts) for held in all_of(pattern, counts)}
    assert by_patterns == by_cuts
    may_hold = holdable(plan, counts)
    for held in by_cuts:
        chunks = layers_by_chunk(plan, counts, np.array(held))
        assert min(chunks) >= 1
        assert held_by(plan, counts, chunks) == held
        assert np.all((np.array(held) == 0) | may_hold)


@cache
def workload(num_layers: int, num_dense: int, pattern: LayerPattern = ()) -> Workload:
    """Dense layers before experts, which take longer and weigh more; or both as a pattern has them."""
    model = models["deepseek-v3"]()
    small = replace(
        model.architecture,  # type: ignore[type-var]
        num_layers=num_layers,
        num_dense_layers=0 if pattern else num_dense,
        mlp_layer_types=pattern,
        vocab=32_000,
        hidden=4096,
        ffn_width=8192,
        experts=Experts(num_experts=4, num_experts_per_token=2, width=4096, shared_width=4096, router_bias=True),
    )
    return Workload(model=replace(model, architecture=small), global_batch=16, seq=4096)


def cluster(num_devices: int, hbm_bytes: float) -> Cluster:
    made = clusters["dgx-a100"].build(num_devices)
    hbm = replace(made.chip.hbm, capacity_bytes=hbm_bytes)  # all of it usable
    return replace(made, chip=replace(made.chip, hbm=hbm, hbm_visible_frac=1.0, hbm_reserve_frac=0.0))


@cache
def every_plan(
    num_layers: int, num_dense: int, base: Plan, pattern: LayerPattern = ()
) -> tuple[tuple[float, float], ...]:
    """Seconds and bytes of all layers by chunk and recompute by stage, each plan evaluated by itself."""
    of, on = workload(num_layers, num_dense, pattern), cluster(base.pipeline_parallel, 80 * GIBI)
    graph, found = of.training_graph(), []
    for chunks in splits(num_layers, base.num_chunks):
        held = np.zeros(base.pipeline_parallel, dtype=np.int64)
        np.add.at(held, chunk_homes(base), chunks)
        for chosen in product(*(recomputes(POLICIES, int(n)) for n in held)):
            policies, counts = zip(*chosen, strict=True)
            plan = replace(
                base, layers_per_stage=chunks, recompute=policies, recompute_layers=counts if any(counts) else ()
            )
            sharded = shard(graph, plan)
            [step_s] = PlanSteps(sharded, of.precision).steps_s([on])
            found.append((step_s, memory_use(sharded, of.precision, on.usable_bytes).need_bytes))
    return tuple(found)


@pytest.mark.parametrize(
    ("num_layers", "num_dense", "num_stages", "interleave", "schedule"),
    [(5, 2, 2, 1, "1f1b"), (4, 2, 3, 1, "1f1b"), (5, 1, 2, 2, "1f1b"), (4, 2, 2, 1, "zb-h1")],
)
def test_the_refined_plan_is_the_best_of_all_cuts_of_two_kinds(
    num_layers: int, num_dense: int, num_stages: int, interleave: int, schedule: str
):
    of = workload(num_layers, num_dense)
    assert not of.training_graph().is_interleaved
    base = Plan(pipeline_parallel=num_stages, interleave=interleave, schedule=schedule, microbatch=2)
    check_refined(of, base, sorted(every_plan(num_layers, num_dense, base)))


ALTERNATING: LayerPattern = (("dense", 1), ("sparse", 1))
TWO_AND_ONE: LayerPattern = (("sparse", 2), ("dense", 1))


@pytest.mark.parametrize(
    ("num_layers", "pattern", "num_stages", "schedule"),
    [(5, ALTERNATING, 2, "1f1b"), (5, TWO_AND_ONE, 3, "1f1b"), (4, TWO_AND_ONE, 2, "zb-h1")],
)
def test_the_refined_plan_is_the_best_of_all_cuts_of_interleaved_kinds(
    num_layers: int, pattern: LayerPattern, num_stages: int, schedule: str
):
    of = workload(num_layers, 0, pattern)
    assert of.training_graph().is_interleaved
    base = Plan(pipeline_parallel=num_stages, schedule=schedule, microbatch=2)
    check_refined(of, base, sorted(every_plan(num_layers, 0, base, pattern)))


@pytest.mark.parametrize("pattern", [ALTERNATING, TWO_AND_ONE])
@pytest.mark.parametrize("schedule", ["1f1b", "zb-v"])
def test_several_chunks_of_interleaved_kinds_are_bounded_and_left_open(pattern: LayerPattern, schedule: str):
    of, base = workload(5, 0, pattern), Plan(pipeline_parallel=2, interleave=2, schedule=schedule, microbatch=2)
    plans = every_plan(5, 0, base, pattern)
    job = Job(graph=of.training_graph(), cluster=cluster(2, 80 * GIBI), precision=of.precision, policies=CODES)
    best_s = min(step_s for step_s, _ in plans)
    bases = base_plans(job, columns_of([base]), best_s * 1.5)
    assert 0.5 * best_s < bases.bounds_s[0] <= best_s
    found = refined(job, bases, best_s * 1.5, num_most=1)
    assert (found.num_refined, found.found) == (0, ())
    assert found.bound_s <= best_s


def check_refined(of: Workload, base: Plan, plans: list[tuple[float, float]]) -> None:
    """With whatever memory, refinement finds the best of `plans`, which are all there are of `base`."""
    num_stages = base.pipeline_parallel
    assert sum(block.is_layer for block in of.training_graph().blocks) == 2
    needs = sorted({need for _, need in plans})
    binding = [need for need in needs if need < plans[0][1]]
    assert len(binding) > 2  # the fastest of all does not fit into any of these
    for hbm_bytes in (needs[-1], *binding[:: max(1, len(binding) // 5)]):
        on = cluster(num_stages, hbm_bytes)
        job = Job(graph=of.training_graph(), cluster=on, precision=of.precision, policies=CODES)
        best_s = min(step_s for step_s, need in plans if need <= hbm_bytes)
        for worst_s in (np.inf, best_s * 1.01):
            bases = base_plans(job, columns_of([base]), worst_s)
            assert bases.bounds_s[0] <= best_s
            found = refined(job, bases, worst_s, num_most=1)
            assert min(each.step_s for each in found.found) == pytest.approx(best_s, rel=1e-9)
            assert (found.num_refined, found.num_closed, found.num_open) == (1, 1, 0)
            assert found.bound_s == pytest.approx(best_s, rel=1e-9)


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_what_is_found_of_two_kinds_is_what_evaluate_says_of_that_plan(data):
    of = workload(6, 2, data.draw(st.sampled_from(((), ALTERNATING, TWO_AND_ONE))))
    num_stages = data.draw(st.sampled_from((2, 3)))
    on = cluster(num_stages, data.draw(st.sampled_from((20, 30, 60))) * GIBI)
    graph = of.training_graph()
    job = Job(graph=graph, cluster=on, precision=of.precision, policies=CODES)
    base = Plan(pipeline_parallel=num_stages, interleave=data.draw(st.sampled_from((1, 2))), microbatch=1)
    try:
        bases = base_plans(job, columns_of([base]), np.inf)
    except InvalidInput:
        reject()
    if not len(bases):
        return
    for found in refined(job, bases, np.inf, num_most=1).found:
        alone = training_step(graph, found.plan, on, of.precision)
        memory = memory_use(shard(graph, found.plan), of.precision, on.usable_bytes)
        assert found.step_s == pytest.approx(alone.step_s, rel=1e-9)
        assert found.need_bytes == pytest.approx(memory.need_bytes, rel=1e-9)
        assert memory.fits
