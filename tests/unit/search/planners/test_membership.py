"""Whether a plan lies in a space."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.parallel.plan import AXES, Overlap, Plan
from dovetail.search.planners.membership import holds
from dovetail.search.planners.plan_space import PlanSpace

PLAN = Plan(tensor_parallel=2, pipeline_parallel=4, data_parallel=8, zero_stage=1)
EVERYTHING = PlanSpace()


def test_a_plain_plan_is_in_the_whole_space_stages_alike_or_not():
    assert holds(EVERYTHING, PLAN, is_even_only=True)
    uneven = replace(PLAN, layers_per_stage=(9, 8, 8, 7), recompute=("full", "none", "none", "none"))
    assert holds(EVERYTHING, uneven, is_even_only=False)
    assert not holds(EVERYTHING, uneven, is_even_only=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"microbatch": 128},
        {"interleave": 16},
        {"schedule": "gpipe"},
        {"overlap": Overlap(tensor=True)},
        {"offload_optimizer": True},
        {"dispatcher": "deepep"},
        {"axis_order": ("pp", *(axis for axis in AXES if axis != "pp"))},
        {"context_parallel": 2, "context_comm_type": "ring"},
        {"stage_pools": (0, 1, 0, 1)},
    ],
)
def test_choices_that_are_not_searched_are_outside(changes):
    assert not holds(EVERYTHING, replace(PLAN, **changes), is_even_only=False)


@pytest.mark.parametrize(
    "space",
    [
        PlanSpace(tensor_parallel=(1, 4)),
        PlanSpace(zero_stage=(0, 3)),
        PlanSpace(recompute=("full",)),
        PlanSpace(sequence_parallel=(True,)),
    ],
)
def test_what_was_fixed_otherwise_is_outside(space):
    assert not holds(space, PLAN, is_even_only=False)


def test_choices_that_change_nothing_are_not_told_apart():
    alone = Plan(schedule="gpipe", context_comm_type="ring", zero_stage=3, axis_order=tuple(reversed(AXES)))
    assert holds(PlanSpace(zero_stage=(0,)), alone, is_even_only=True)
