"""Moves of a layer from one stage to another, from which the best cut is looked for."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.parallel.plan import Plan
from dovetail.search.planners.cuts.plan_stages import PlanStages
from dovetail.search.planners.cuts.stage_cuts import MAX_MOVED, StageTable
from dovetail.search.planners.cuts.stage_options import StageOptions


def table(num_stages: int) -> StageTable:
    """Stages of one or two layers, each slower than the one before it."""
    stage, counts = (found.ravel() for found in np.mgrid[:num_stages, 1:3])
    nothing, zeros = np.zeros(len(stage), dtype=np.int64), np.zeros(len(stage))
    options = StageOptions(
        plan=nothing, stage=stage, counts=counts[:, None], start=nothing, policy=nothing, num_again=nothing,
        need_bytes=zeros + 1, forward_s=(1.0 + stage) * counts, backward_s=2.0 * counts, weight_s=zeros,
    )  # fmt: skip
    stages = PlanStages(
        plan=Plan(pipeline_parallel=num_stages, microbatch=1), options=options, num_microbatches=8, transfer_s=0.0
    )
    rows = np.concatenate([np.full((num_stages, 1), -1), np.arange(len(stage)).reshape(num_stages, 2)], axis=1)
    return StageTable(stages=stages, row=rows, fewest=1, most=2, num_layers=num_stages + 1)


@pytest.mark.parametrize("num_stages", [1, 2, 5])
def test_every_stage_may_give_a_layer_to_every_other(num_stages):
    moves = table(num_stages)._moves(np.ones(num_stages, dtype=np.int64))
    assert len(moves) == num_stages * (num_stages - 1)
    assert len(np.unique(moves, axis=0)) == len(moves)
    assert (moves.sum(axis=1) == 0).all()
    assert (np.abs(moves).sum(axis=1) == 2).all()


def test_of_very_many_stages_the_slowest_give_and_the_quickest_take():
    num_stages = 4 * MAX_MOVED
    moves = table(num_stages)._moves(np.ones(num_stages, dtype=np.int64))
    assert len(moves) == (MAX_MOVED // 2) ** 2
    assert set(np.flatnonzero((moves > 0).any(axis=0))) == set(range(MAX_MOVED // 2))
    assert set(np.flatnonzero((moves < 0).any(axis=0))) == set(range(num_stages - MAX_MOVED // 2, num_stages))
