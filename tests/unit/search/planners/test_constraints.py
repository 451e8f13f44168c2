"""Constraints: what is left to choose from, and how an impossible wish is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dovetail.errors import InvalidInput
from dovetail.parallel.plan import Overlap
from dovetail.search.planners.constraints import FEATURES, Constraint, are_stages_even, overruled, space_under, without
from dovetail.search.planners.plan_space import PlanSpace, batches
from dovetail.workload.graph import Graph
from dovetail.workload.models import models
from dovetail.workload.workload import Workload


@pytest.fixture(scope="module")
def graph() -> Graph:
    model = models["llama3-8b"]()
    return Workload(model=model, global_batch=32, seq=4096).training_graph()


def fixed(key: str, *values: Any) -> Constraint:
    return Constraint(key=key, values=values, where=f"--fix {key}")


def forbidden(key: str, *values: Any) -> Constraint:
    return Constraint(key=key, values=values, where=f"--forbid {key}", forbids=True)


def test_without_constraints_the_space_is_the_whole(graph):
    assert space_under((), graph, 16) == PlanSpace()


def test_a_fixed_choice_has_only_its_values(graph):
    space = space_under([fixed("tensor_parallel", 2, 4)], graph, 16)
    assert space == replace(PlanSpace(), tensor_parallel=(2, 4))
    assert {int(tp) for batch in batches(space, graph, 16) for tp in batch.tensor_parallel} == {2, 4}


@pytest.mark.parametrize("feature", sorted(FEATURES.keys() - {"uneven"}))
def test_a_forbidden_feature_is_in_no_plan(graph, feature):
    key, plain = FEATURES[feature]
    space = space_under([without(feature, "--forbid")], graph, 8)
    assert getattr(space, key) == (plain,)
    found = {getattr(batch.plan(row), key) for batch in batches(space, graph, 8) for row in range(0, len(batch), 97)}
    assert found == ({("none",)} if feature == "recompute" else {plain})


def test_uneven_stages_are_forbidden_beside_the_space(graph):
    wanted = (without("uneven", "--forbid"),)
    assert space_under(wanted, graph, 8) == PlanSpace()
    assert are_stages_even(wanted)
    assert not are_stages_even([fixed("tensor_parallel", 2)])


def test_a_forbidden_value_is_taken_out_of_those_that_would_be_tried(graph):
    space = space_under([forbidden("tensor_parallel", 1, 8), forbidden("zero_stage", 3)], graph, 16)
    assert space.tensor_parallel == (2, 4, 16)
    assert space.zero_stage == (0, 1, 2)


def test_a_forbidden_value_is_taken_out_of_fixed_ones(graph):
    assert space_under([fixed("microbatch", 1, 2, 32), forbidden("microbatch", 2)], graph, 16).microbatch == (1, 32)


def test_overlaps_multiply(graph):
    space = space_under([fixed("overlap.tensor", True, False), fixed("overlap.data", False)], graph, 16)
    assert space.overlap == (Overlap(tensor=True, data=False), Overlap(tensor=False, data=False))


def test_a_choice_fixed_above_goes_over_one_below_and_leaves_the_others():
    below = (fixed("tensor_parallel", 2), fixed("zero_stage", 1))
    above = (fixed("tensor_parallel", 4), forbidden("zero_stage", 0))
    assert overruled(below, above) == (below[1], *above)


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ([fixed("tensor_parallel", 3)], "tensor_parallel=3 must divide the cluster's 16 devices; try 2 or 4"),
        ([fixed("tensor_parallel", 999)], "tensor_parallel=999 is more than the cluster's 16 devices; try 16"),
        ([fixed("expert_parallel", 999)], "expert_parallel=999 is more than the cluster's 16 devices; try 1"),
        ([fixed("data_parallel", 5, 7)], "data_parallel=5 must divide the cluster's 16 devices"),
        ([fixed("microbatch", 3)], "microbatch=3 must divide global_batch=32; try 2 or 4"),
        ([fixed("expert_parallel", 2)], "expert_parallel=2 has nothing to divide in llama3-8b; use 1"),
        ([fixed("interleave", 17)], "llama3-8b has 32, so use at most 16"),
        ([fixed("tensor_parallel", 2), without("tensor", "--forbid tensor")], "nothing is left of tensor_parallel"),
        ([forbidden("zero_stage", 0, 1, 2, 3)], "nothing is left of zero_stage: zero_stage not 0, 1, 2, 3"),
        (
            [fixed("tensor_parallel", 8), fixed("pipeline_parallel", 4), fixed("zero_stage", 1)],
            "leave out tensor_parallel=8 or pipeline_parallel=4",
        ),
        ([fixed("interleave", 4), fixed("pipeline_parallel", 1)], "has interleave=4 and pipeline_parallel=1"),
    ],
)
def test_what_cannot_be_is_refused_with_the_broken_relation(graph, constraints, message):
    with pytest.raises(InvalidInput) as refusal:
        space_under(constraints, graph, 16)
    assert message in refusal.value.message
    assert refusal.value.where in {one.where for one in constraints}


def test_a_cluster_that_no_degrees_fill_is_refused(graph):
    with pytest.raises(InvalidInput, match="no plan cuts llama3-8b with global_batch=32 for 1009 devices"):
        space_under((), graph, 1009)


def test_a_value_that_cannot_be_does_not_spoil_one_that_can(graph):
    space = space_under([fixed("tensor_parallel", 3, 2)], graph, 16)
    assert {int(tp) for batch in batches(space, graph, 16) for tp in batch.tensor_parallel} == {2}


@pytest.mark.parametrize("schedules", [("1f1b", "zb-v"), ("zb-v", "1f1b"), ("dualpipe", "gpipe")])
def test_a_single_stage_has_a_schedule_in_whatever_order_they_are_said(graph, schedules):
    space = space_under([fixed("schedule", *schedules), fixed("pipeline_parallel", 1)], graph, 8)
    assert sum(len(batch) for batch in batches(space, graph, 8)) > 0
