"""Aims nearer and nearer the bound: where they help, what they cost, and what is told of them."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.hardware.clusters import clusters
from dovetail.search.objectives import objectives
from dovetail.search.planners import gap_bisection, refine
from dovetail.search.planners.cuts import stage_cuts
from dovetail.search.planners.plan_space import PlanSpace
from dovetail.search.planners.planner import PlanSearchResult, search_plans
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

# Chunks of two or three layers in many ways: with little to look at, too many below the best plan, few below an aim.
SPACE = PlanSpace(
    tensor_parallel=(2,),
    sequence_parallel=(True,),
    context_parallel=(1, 2),
    pipeline_parallel=(6, 12),
    interleave=(3, 8),
    zero_stage=(1,),
    microbatch=(1,),
    schedule=("1f1b",),
)


def found_with(
    num_bisections: int, monkeypatch: pytest.MonkeyPatch, told: list[tuple[float, ...]], **more: Any
) -> PlanSearchResult:
    monkeypatch.setattr(gap_bisection, "NUM_BISECTIONS", num_bisections)
    monkeypatch.setattr(stage_cuts, "MAX_CUTS", 64)
    monkeypatch.setattr(refine, "MAX_EVALUATED", 2)

    def progress(
        num_done: int, num_all: int, _tally: object, score: float, bound_s: float = 0.0, *_best: object
    ) -> None:
        told.append((num_done, num_all, score, bound_s))

    return search_plans(
        Workload(model=models["llama3-70b"](), global_batch=768, seq=8192),
        clusters["dgx-h100"].build(192),
        SPACE,
        objectives["time"],
        num_best=3,
        cluster_usd=1.0,
        progress=progress,
        **more,
    )


def test_aims_leave_a_smaller_gap_and_no_worse_plan(monkeypatch):
    told: list[tuple[float, ...]] = []
    without, found = found_with(0, monkeypatch, []), found_with(8, monkeypatch, told)
    assert without.gap_frac > 0.005
    assert found.gap_frac < without.gap_frac / 3
    assert found.best[0].step_s <= without.best[0].step_s
    assert without.bound_s < found.bound_s <= found.best[0].step_s
    proof = found.proof
    assert proof.num_pruned + proof.num_closed + proof.num_open == proof.num_bases
    assert proof.num_refined == without.proof.num_refined
    scores = [score for *_, score, _ in told if score < float("inf")]
    assert scores == sorted(scores, reverse=True)  # an aim is not the best, and is not told as if it were
    assert scores[-1] >= found.best[0].score


def test_a_budget_is_for_all_aims_together(monkeypatch):
    calls: list[int] = []
    plain = refine.refined

    def spied(job, bases, best_s, num_most, told):
        calls.append(num_most)
        return plain(job, bases, best_s, num_most, told)

    monkeypatch.setattr(gap_bisection, "refined", spied)
    found = found_with(8, monkeypatch, [], num_refined=3)
    assert calls[:2] == [3, 3]
    assert all(num > 0 for num in calls)
    assert calls[1:] == sorted(calls[1:], reverse=True)
    assert found.gap_frac > 0
