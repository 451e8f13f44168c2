"""Affine lower bounds of steps: whatever chip, layers by stage, recompute, schedule and network, no step takes less."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise, product
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.parallel.plan import Overlap, Plan
from dovetail.search.codesign.question import places_of
from dovetail.search.codesign.refining import refined_system, system_at
from dovetail.search.codesign.scoring import Scorer
from dovetail.search.codesign.systems import network_of, system_chip
from dovetail.step.plan_table import plan_context
from dovetail.step.step import training_step
from tests.codesign_questions import PLANS, VALUES, question

ROUNDING = 1e-9
DEVICES = 8.0
OVERLAPS = (
    Overlap(data=False, tensor=False, context=False, expert=False, pipeline=False),
    Overlap(),
    Overlap(data=True, tensor=True, context=True, expert=True, pipeline=True),
)
# from where exchanges are all of a step to where they are next to nothing
LINKS = (1, 5, 300)
ASKED = st.tuples(
    st.sampled_from(("dense", "tied", "experts")),
    st.sampled_from((0, 1)),
    st.sampled_from(("1f1b", "gpipe")),
    st.sampled_from((0, 1, 2)),
)


@cache
def scorer(case: str, zero_stage: int, schedule: str, hidden: int) -> Scorer:
    plans = replace(
        PLANS,
        zero_stage=(zero_stage,),
        schedule=(schedule,),
        overlap=(OVERLAPS[hidden],),
        microbatch=(1, 2, 4, 8),
    )
    values = {name: some[1:3] for name, some in VALUES.items() if name not in ("link_gb_per_s", "num_devices")}
    values |= {"link_gb_per_s": LINKS, "stack_gib": (64,), "endpoint": (1, 2, 3)}  # style: as a spec has it
    return Scorer(question((case,), values, network="flat", plans=plans))


def uneven(rng: Random, plan: Plan, num_layers: int) -> Plan:
    stages = plan.pipeline_parallel
    ends = [0, *sorted(rng.sample(range(1, num_layers), stages - 1)), num_layers]
    layers = tuple(end - start for start, end in pairwise(ends))
    return replace(plan, layers_per_stage=layers, recompute=tuple(rng.choice(PLANS.recompute) for _ in range(stages)))


@settings(max_examples=9)
@given(asked=ASKED, seed=st.integers(0, 2**20))
def test_no_step_is_below_its_lines_and_fine_ones_are_no_lower(asked, seed):
    rng, search = Random(seed), scorer(*asked)
    point = search.question.space.sample(rng)
    system = system_at(search.question, point)
    plan_set = search.plan_set(0, *network_of(system))
    cluster = plan_set.on(system_chip(search.question.base, system))
    bases = np.array(sorted(rng.sample(range(len(plan_set.bases)), min(4, len(plan_set.bases)))))
    every = plan_context(
        plan_set.graph, plan_set.bases.at(bases), cluster, plan_set.workload.precision, is_broken_down=False
    )
    fine_s = plan_set.pair_lower_bounds_s(bases, every)
    compute_s = search._compute_lower_bounds(0, *network_of(system)).at(places_of([point]))
    known, coarse_s = plan_set.lines.of_bases(bases).least_s(compute_s)
    assert known.tolist() == bases.tolist()
    _, finer_s = plan_set.fine_affine_lower_bounds.of_bases(bases).least_s(compute_s)
    assert (finer_s >= coarse_s * (1 - ROUNDING)).all()
    for index, base in enumerate(bases.tolist()):
        plan = plan_set.bases.plan(base)
        for cut in (plan, *(uneven(rng, plan, plan_set.graph.num_layers) for _ in range(3))):
            step = training_step(plan_set.graph, cut, cluster, plan_set.workload.precision)
            assert coarse_s[index, 0] <= step.step_s * (1 + ROUNDING)
            assert fine_s[index] <= step.step_s * (1 + ROUNDING)


@settings(max_examples=4)
@given(asked=ASKED, seed=st.integers(0, 2**20))
def test_bounds_are_the_same_whatever_is_worked_out_with_them(asked, seed):
    rng, search = Random(seed), scorer(*asked)
    points = [search.question.space.sample(rng) for _ in range(6)]
    network = network_of(system_at(search.question, points[0]))
    every = Scorer(search.question)._compute_lower_bounds(0, *network).at(places_of(points))
    one_by_one = Scorer(search.question)._compute_lower_bounds(0, *network)
    for at, point in reversed([*enumerate(points)]):
        assert (one_by_one.at(places_of([point]))[:, :, 0] == every[:, :, at]).all()
    lines = search.plan_set(0, *network).lines
    for row in rng.sample(range(len(lines.base)), min(20, len(lines.base))):
        one = lines.at(np.array([row]))
        left = one.without_lower_lines()
        assert 1 <= left.slope.shape[1] <= one.slope.shape[1]
        assert (left.step_s(every) == one.step_s(every)).all()


@settings(max_examples=4)
@given(asked=ASKED.filter(lambda asked: asked[0] != "experts"), seed=st.integers(0, 2**20))
def test_the_refined_plan_of_a_system_is_the_best_of_every_cut(asked, seed):
    rng, search = Random(seed), scorer(*asked)
    point = search.question.space.sample(rng)
    [score] = search.score([point], np.inf)
    found = refined_system(search, score, np.inf)
    system = system_at(search.question, point)
    plan_set = search.plan_set(0, *network_of(system))
    cluster = plan_set.on(system_chip(search.question.base, system))
    [best] = found.cases
    assert found.low <= found.loss
    least_s = best.step_s * found.low / found.loss
    for base in rng.sample(range(len(plan_set.bases)), min(6, len(plan_set.bases))):
        plan, num = plan_set.bases.plan(base), plan_set.graph.num_layers
        stages = plan.pipeline_parallel
        for layers in product(range(1, num + 1), repeat=stages):
            if sum(layers) == num:
                cut = replace(plan, layers_per_stage=layers, recompute=("none",))
                step = training_step(plan_set.graph, cut, cluster, plan_set.workload.precision)
                assert step.step_s >= least_s * (1 - ROUNDING)
