"""No bound on a system is above what it bounds, whichever plan it has."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.cost.price import price
from dovetail.errors import InvalidInput
from dovetail.evaluate import memory_use
from dovetail.parallel.check import check_plan
from dovetail.parallel.plan import Plan
from dovetail.parallel.sharding import shard
from dovetail.search.codesign.networks import networks
from dovetail.search.codesign.question import places_of
from dovetail.search.codesign.refining import refined_system, system_at
from dovetail.search.codesign.scoring import Scorer
from dovetail.search.codesign.systems import network_of, system_chip
from dovetail.search.metrics import ChipFigures, metrics
from dovetail.search.space import Point
from dovetail.step.step import training_step
from tests.codesign_questions import BASES, CASES, PLANS, question
from tests.property.codesign_systems import ROUNDING, SEARCHED, SEEDS, sampled, wide


@pytest.mark.parametrize("base", BASES)
def test_no_system_with_very_many_lanes_is_better_than_its_low(base):
    """Attention over long sequences waits for lanes, however many there are."""
    cores = {"num_tensor": (64, 128), "num_rows": (128, 256), "num_vector": (1, 64, 128), "num_lanes": (2048, 4096)}
    asked = question(("dense",), {**cores, "hbm_stacks": (16,), "stack_gib": (1024,)}, base=base)
    [case] = asked.cases
    long = replace(case, workload=replace(case.workload, global_batch=8, seq=131_072))
    scorer = Scorer(replace(asked, cases=(long,)))
    points = list(asked.space.points())
    lower_bounds, _ = scorer.lower_bounds(places_of(points))
    found = np.array([score.loss for score in scorer.score(points, np.inf)])
    assert np.isfinite(found).all()
    assert (lower_bounds <= found * (1 + ROUNDING)).all()


def uneven(rng: Random, plan: Plan, num_layers: int) -> Plan:
    """`plan` with any layers by stage and any recompute of PLANS by stage."""
    stages = plan.pipeline_parallel
    ends = [0, *sorted(rng.sample(range(1, num_layers), stages - 1)), num_layers]
    return replace(
        plan,
        layers_per_stage=tuple(end - start for start, end in pairwise(ends)),
        recompute=tuple(rng.choice(PLANS.recompute) for _ in range(stages)),
    )


def loss_of(scorer: Scorer, point: Point, plan: Plan) -> float:
    """What one plan comes to on one system, evaluated by itself; infinite where it does not fit."""
    asked, system = scorer.question, system_at(scorer.question, point)
    plan_set = scorer.plan_set(0, *network_of(system))
    chip = system_chip(asked.base, system)
    cluster, precision = plan_set.on(chip), plan_set.workload.precision
    check_plan(plan, plan_set.graph, cluster.num_devices)
    if not memory_use(shard(plan_set.graph, plan), precision, cluster.usable_bytes).fits:
        return float("inf")
    step = training_step(plan_set.graph, plan, cluster, precision)
    figures = ChipFigures(
        step_s=step.step_s,
        energy_j=step.energy_j,
        power_w=chip.tdp_w,
        price_usd=price(chip).total_usd,
        num_devices=cluster.num_devices,
        num_samples=plan_set.graph.num_tokens,
    )
    return float(asked.metric.loss(figures))


@settings(max_examples=6)
@given(
    case=st.sampled_from(CASES),
    base=st.sampled_from(BASES),
    network=st.sampled_from(sorted(networks.names())),
    metric=st.sampled_from(metrics.names()),
    seed=SEEDS,
)
def test_no_plan_even_or_not_is_better_than_the_lows_of_its_system(case, base, network, metric, seed):
    scorer, rng = wide(case, base, network, metric), Random(seed)
    points = sampled(scorer, rng, 2)
    lower_bounds, [num_systems, num_over_limit, num_unshardable, num_out_of_memory] = scorer.lower_bounds(
        places_of(points)
    )
    scores = scorer.score(points, np.inf)
    assert (num_systems, num_over_limit, num_unshardable + num_out_of_memory) == (
        2,
        0,
        int(np.isinf(lower_bounds).sum()),
    )
    for low, score, point in zip(lower_bounds, scores, points, strict=True):
        assert low <= score.low * (1 + ROUNDING)
        assert score.low <= score.loss
        system = system_at(scorer.question, point)
        plan_set = scorer.plan_set(0, *network_of(system))
        for plan in [plan_set.plans.plan(rng.randrange(len(plan_set.plans))) for _ in range(3)]:
            assert loss_of(scorer, point, plan) >= score.loss * (1 - ROUNDING)
            if case != "vision" and plan.pipeline_parallel > 1:
                try:
                    other = loss_of(scorer, point, uneven(rng, plan, plan_set.graph.num_layers))
                except InvalidInput:
                    continue
                assert other >= score.low * (1 - ROUNDING)


@settings(max_examples=7)
@given(
    case=st.sampled_from(SEARCHED),
    base=st.sampled_from(BASES),
    network=st.sampled_from(sorted(networks.names())),
    metric=st.sampled_from(metrics.names()),
    seed=SEEDS,
)
def test_refinement_is_never_worse_than_even_plans_nor_below_a_low(case, base, network, metric, seed):
    scorer = wide(case, base, network, metric)
    [point] = sampled(scorer, Random(seed), 1)
    [score] = scorer.score([point], np.inf)
    refined = refined_system(scorer, score, np.inf)
    assert score.low * (1 - ROUNDING) <= refined.loss <= score.loss
    assert score.low * (1 - ROUNDING) <= refined.low <= refined.loss
    if np.isfinite(refined.loss):
        assert loss_of(scorer, point, refined.cases[0].plan) == pytest.approx(refined.loss, rel=1e-8)


@settings(max_examples=8)
@given(case=st.sampled_from(SEARCHED), base=st.sampled_from(BASES), seed=SEEDS)
def test_what_is_only_bounded_is_no_better_than_what_was_asked_for(case, base, seed):
    scorer, rng = wide(case, base, "torus"), Random(seed)
    points = sampled(scorer, rng, 5)
    whole = scorer.score(points, np.inf)
    finite = sorted(score.loss for score in whole if np.isfinite(score.loss))
    worst = rng.choice(finite) if finite else 1.0
    for full, asked in zip(whole, scorer.score(points, worst), strict=True):
        assert asked.loss >= full.loss
        assert asked.loss == full.loss or full.loss >= worst * (1 - ROUNDING)
        assert asked.low <= full.loss * (1 + ROUNDING)


def test_lows_are_not_idle():
    """A bound of nothing would keep the laws above."""
    near = []
    for case in SEARCHED:
        scorer = wide(case, "tpuv4-like", "torus")
        points = sampled(scorer, Random(3), 30)
        lower_bounds, _ = scorer.lower_bounds(places_of(points))
        near += [
            low / one.loss
            for low, one in zip(lower_bounds, scorer.score(points, np.inf), strict=True)
            if one.loss < 1e9
        ]
    assert len(near) > 30
    assert sum(near) / len(near) > 0.4
