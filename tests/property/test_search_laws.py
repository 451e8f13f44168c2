"""Laws of the search: nothing in the space beats what it found, and less to choose from is never better."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.evaluate import Infeasible, Outcome, evaluate
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import RECOMPUTE_POLICIES
from dovetail.search.objectives import objectives
from dovetail.search.planners import even_plans
from dovetail.search.planners.candidates import DEGREES, Candidate, Scoring
from dovetail.search.planners.constraints import Constraint, space_under
from dovetail.search.planners.even_plans import EvenSearch
from dovetail.search.planners.plan_space import PlanSpace, batches
from dovetail.search.planners.planner import PlanSearchResult, search_plans
from dovetail.search.planners.refine import Job
from dovetail.units import GIBI
from dovetail.workload.graph import Graph
from dovetail.workload.models import models
from dovetail.workload.transformer import Transformer
from dovetail.workload.workload import Workload

SHAPE = Transformer(
    name="small", num_layers=8, hidden=4096, num_heads=8, num_kv_heads=4, head_width=512, ffn_width=16384, vocab=32000
)
NUM_DEVICES = 8
CLUSTER: Cluster = clusters["dgx-h100"].build(NUM_DEVICES)
WORKLOAD = Workload(model=replace(models["llama3-8b"](), architecture=SHAPE), global_batch=16, seq=2048)
CHOICES: dict[str, tuple[Any, ...]] = {
    "tensor_parallel": (1, 2, 4, 8),
    "context_parallel": (1, 2, 4),
    "pipeline_parallel": (1, 2, 4),
    "zero_stage": (0, 1, 2, 3),
    "microbatch": (1, 2, 4),
    "recompute": RECOMPUTE_POLICIES,
    "sequence_parallel": (False, True),
    "schedule": ("1f1b", "gpipe", "zb-h1", "zb-v"),
    "interleave": (1, 2),
}
FEW = settings(max_examples=8, deadline=None)
FEWER = settings(max_examples=6, deadline=None)  # an evaluation asks a dozen steps what limits them


@cache
def graph() -> Graph:
    return WORKLOAD.training_graph()


def space_of(choices: dict[str, tuple[Any, ...]]) -> PlanSpace:
    constraints = [Constraint(key=key, values=values, where="a test") for key, values in choices.items()]
    return space_under(constraints, graph(), NUM_DEVICES)


@cache
def found(space: PlanSpace, objective: str = "time") -> PlanSearchResult:
    return search_plans(
        WORKLOAD, CLUSTER, space, objectives[objective], num_best=3, cluster_usd=1.0, progress=lambda *_: None
    )


@st.composite
def some_choices(draw: st.DrawFn) -> dict[str, tuple[Any, ...]]:
    """For each choice some of its values, the plain one always among them, so that plans remain."""
    return {
        key: (values[0], *draw(st.lists(st.sampled_from(values[1:]), unique=True, max_size=2)))
        for key, values in CHOICES.items()
    }


def best_score(result: PlanSearchResult) -> float:
    return result.best[0].score if result.best else float("inf")


def bound(result: PlanSearchResult) -> float:
    """What no plan of the space is said to be better than: the best itself where the gap is 0."""
    return best_score(result) * (1 - result.gap_frac)


@FEWER
@given(some_choices(), st.data(), st.sampled_from(["time", "tokens/J", "headroom"]))
def test_no_plan_of_the_space_is_better_than_the_best(choices, data, objective):
    space = space_of(choices)
    best = found(space, objective)
    batch = data.draw(st.sampled_from(list(batches(space, graph(), NUM_DEVICES))))
    plan = batch.plan(data.draw(st.integers(0, len(batch) - 1)))
    result = evaluate(WORKLOAD, CLUSTER, plan, has_changes=False)
    if isinstance(result, Infeasible):
        return
    score = {
        "time": result.step.step_s,
        "tokens/J": result.step.energy_j,
        "headroom": result.memory.need_bytes,
    }[objective]
    assert best_score(best) <= score * (1 + 1e-9)


@FEWER
@given(some_choices())
def test_what_the_search_says_of_its_best_plan_is_what_evaluate_says(choices):
    for candidate in found(space_of(choices)).best[:1]:
        result = evaluate(WORKLOAD, CLUSTER, candidate.plan, has_changes=False)
        assert isinstance(result, Outcome)
        assert abs(result.step.step_s / candidate.step_s - 1) < 1e-9
        assert abs(result.memory.need_bytes / candidate.need_bytes - 1) < 1e-9


def even_search(space: PlanSpace, num_best: int, hbm_gib: float = 80) -> EvenSearch:
    policies = tuple(RECOMPUTE_POLICIES.index(policy) for policy in space.recompute)
    chip = replace(CLUSTER.chip, hbm=replace(CLUSTER.chip.hbm, capacity_bytes=hbm_gib * GIBI))
    on = replace(CLUSTER, chip=chip)
    return EvenSearch(
        job=Job(graph=graph(), cluster=on, precision=WORKLOAD.precision, policies=policies),
        space=space,
        scoring=Scoring(objective=objectives["time"], cluster=on, num_tokens=graph().num_tokens, cluster_usd=1.0),
        num_best=num_best,
        progress=lambda *_: None,
    )


@settings(max_examples=10, deadline=None)
@given(some_choices(), st.integers(1, 6), st.sampled_from((12, 16, 24, 80)))
def test_even_plans_that_a_bound_rules_out_are_none_of_the_best(choices, num_best, hbm_gib):
    search = even_search(space_of(choices), num_best, hbm_gib)
    exhaustive = search.all_evaluated()
    # with little to begin from and a look at the best after every few, so that bounds decide
    with patch.multiple(even_plans, NUM_SAMPLED=1, BASES_EVALUATED_AT_ONCE=3, BASES_AT_ONCE=30):
        pruned = search.best_first(has_queue=True)
    assert [one.step_s for one in pruned.best] == pytest.approx([one.step_s for one in exhaustive.best], rel=1e-12)
    assert [degrees_of(one) for one in pruned.best] == [degrees_of(one) for one in exhaustive.best]
    assert pruned.tally.num_plans == exhaustive.tally.num_plans == exhaustive.tally.num_evaluated
    assert pruned.tally.num_evaluated <= exhaustive.tally.num_evaluated
    if not pruned.best:
        assert pruned.tally.least_bytes == exhaustive.tally.least_bytes


def degrees_of(one: Candidate) -> tuple[int, ...]:
    return tuple(getattr(one.plan, name) for name in DEGREES)


def test_where_nothing_fits_the_plan_that_needs_least_is_that_of_all():
    small = even_search(PlanSpace(zero_stage=(0, 1)), 3, hbm_gib=3)
    exhaustive, pruned = small.all_evaluated(), small.best_first(has_queue=False)
    assert not exhaustive.best
    assert not pruned.best
    assert pruned.tally.least_bytes == exhaustive.tally.least_bytes
    assert pruned.tally.num_evaluated < exhaustive.tally.num_evaluated


@FEW
@given(some_choices(), st.data())
def test_fixing_a_choice_never_improves_the_best(choices, data):
    key = data.draw(st.sampled_from(sorted(CHOICES)))
    fixed = choices | {key: choices[key][:1]}
    assert bound(found(space_of(choices))) <= best_score(found(space_of(fixed))) * (1 + 1e-12)


@FEW
@given(some_choices(), st.data())
def test_more_to_choose_from_never_worsens_the_best_in_whatever_order_it_is_said(choices, data):
    key = data.draw(st.sampled_from(sorted(CHOICES)))
    more = choices | {key: tuple(data.draw(st.permutations(CHOICES[key])))}
    assert bound(found(space_of(more))) <= best_score(found(space_of(choices))) * (1 + 1e-12)
