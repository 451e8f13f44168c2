from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from dovetail.evaluate import Infeasible, Outcome, evaluate
from dovetail.hardware.clusters import clusters
from dovetail.parallel.levers import _what_follows
from dovetail.parallel.plan import Plan
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

CLUSTER = clusters["dgx-h100"].build(64)


@cache
def answer_of(plan: Plan, *, seq: int = 8192, batch: int = 1024) -> Infeasible:
    answer = evaluate(Workload(model=models["llama3-8b"](), global_batch=batch, seq=seq), CLUSTER, plan)
    assert isinstance(answer, Infeasible)
    return answer


def test_the_microbatch_is_halved_as_often_as_it_takes() -> None:
    levers = answer_of(Plan(data_parallel=64, zero_stage=3, microbatch=16)).levers
    assert any(lever.change == "microbatch: 1" and lever.fits for lever in levers)


def test_context_parallelism_is_doubled_as_often_as_it_takes() -> None:
    levers = answer_of(Plan(data_parallel=64, zero_stage=3), seq=131_072, batch=64).levers
    assert any(lever.change == "context_parallel: 16, data_parallel: 4" and lever.fits for lever in levers)


def test_levers_that_fit_come_first_and_the_fastest_foremost() -> None:
    levers = answer_of(Plan(data_parallel=64)).levers
    fits = [lever.fits for lever in levers]
    assert fits == sorted(fits, reverse=True)
    times = [lever.step_s for lever in levers if lever.fits]
    assert times == sorted(times)


def test_every_lever_that_fits_does_and_takes_the_time_it_says() -> None:
    workload = Workload(model=models["llama3-8b"](), global_batch=1024, seq=8192)
    for lever in answer_of(Plan(data_parallel=64)).levers:
        outcome = evaluate(workload, CLUSTER, lever.plan, has_changes=False)
        assert isinstance(outcome, Outcome) == lever.fits
        if isinstance(outcome, Outcome):
            assert outcome.step.step_s == lever.step_s


def test_a_pair_that_fits_is_faster_than_every_single_change_that_fits() -> None:
    found = answer_of(Plan(data_parallel=64, zero_stage=3, microbatch=16)).levers
    single = [lever.step_s for lever in found if lever.fits and " and " not in lever.change]
    pairs = [lever.step_s for lever in found if lever.fits and " and " in lever.change]
    assert single
    assert pairs
    assert max(pairs) < min(single)


def test_the_best_of_all_pairs_of_changes_is_found() -> None:
    workload = Workload(model=models["llama3-8b"](), global_batch=1024, seq=8192)
    plan = Plan(tensor_parallel=2, data_parallel=32)
    found = answer_of(plan).levers[0]
    steps = []
    changes: list[dict[str, Any]] = [
        {"zero_stage": 3}, {"zero_stage": 1}, {"recompute": ("full",)}, {"recompute": ("selective",)},
        {"sequence_parallel": True}, {"tensor_parallel": 8, "data_parallel": 8},
        {"pipeline_parallel": 2, "data_parallel": 16}, {"context_parallel": 2, "data_parallel": 16},
    ]  # fmt: skip
    for first, second in itertools.permutations(changes, 2):
        if first.keys() - {"data_parallel"} == second.keys() - {"data_parallel"} or len(first) + len(second) > 3:
            continue
        outcome = evaluate(workload, CLUSTER, replace(plan, **first, **second), has_changes=False)
        steps += [outcome.step.step_s] if isinstance(outcome, Outcome) else []
    assert found.fits
    assert found.step_s <= min(steps)


def test_tensor_parallelism_leaves_its_node_only_where_nothing_else_fits() -> None:
    wide = Plan(tensor_parallel=8, data_parallel=8)
    assert all(lever.plan.tensor_parallel <= 8 for lever in answer_of(wide, seq=131_072, batch=64).levers)


def test_no_pair_says_recompute_twice_and_no_two_levers_lead_to_the_same_plan() -> None:
    mixed = Plan(pipeline_parallel=2, data_parallel=32, recompute=("none", "selective"))
    for plan in (Plan(tensor_parallel=8, data_parallel=8), mixed):
        found = answer_of(plan, seq=524_288, batch=64).levers
        assert any(" and " in lever.change for lever in found)
        assert all(lever.change.count("recompute:") <= 1 for lever in found)
        assert len({lever.plan for lever in found}) == len(found)
        over_bytes = [lever.need_bytes for lever in found if not lever.fits]
        assert over_bytes == sorted(over_bytes)


def test_a_lever_names_every_key_it_changes() -> None:
    plan = Plan(
        pipeline_parallel=2, data_parallel=32, layers_per_stage=(30, 2), recompute=("none", "full"), microbatch=16
    )
    levers = {lever.change: lever.plan for lever in answer_of(plan).levers}
    change = "pipeline_parallel: 4, data_parallel: 16, layers_per_stage: [], recompute: full"
    assert levers[change] == replace(
        plan, pipeline_parallel=4, data_parallel=16, layers_per_stage=(), recompute=("full",)
    )


def test_gathered_parameters_are_never_more_than_the_stage_has() -> None:
    model = models["llama3-8b"]()
    workload = Workload(model=model, global_batch=64, seq=8192)
    plan = Plan(pipeline_parallel=8, data_parallel=8, zero_stage=3, recompute=("full",))
    outcome = evaluate(workload, CLUSTER, plan, has_changes=False)
    assert isinstance(outcome, Outcome)
    last = outcome.memory.stages[-1]
    head, layer = 128_256 * 4096 + 4096, 218_112_000
    reduced = 4 * head
    gathered = 2 * (head + 2 * layer)
    arriving = 2 * 128_256 * 4096
    assert last.buffers_bytes == pytest.approx(reduced + gathered + arriving, rel=0.01)  # the loss is the fullest


def test_more_stages_leave_no_counts_of_layers_for_the_old_ones():
    plan = Plan(pipeline_parallel=4, data_parallel=4, recompute=("full",), recompute_layers=(1, 2, 3, 4))
    assert _what_follows(plan, "pipeline_parallel", 2) == {"recompute_layers": ()}
    assert _what_follows(plan, "tensor_parallel", 2) == {}
