"""Stages mined by kind: lists that are proven, a choice that is never worse, and plans from the planner."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random

import numpy as np
import pytest

from dovetail.errors import InvalidInput
from dovetail.evaluate import Infeasible
from dovetail.hardware.catalog import chips
from dovetail.hardware.die import RETICLE_MM2
from dovetail.parallel.plan import Plan
from dovetail.report.figures import record_of, tables_of
from dovetail.report.mined_stages import (
    planned_notes,
    planned_task_record,
    replanned_notes,
    stages_figures,
    stages_label,
)
from dovetail.search.algorithms import algorithms
from dovetail.search.algorithms.exact import proving
from dovetail.search.designs import Limits, design_at, design_space, silicon_of
from dovetail.search.metrics import metrics
from dovetail.search.mining.answers import base_answer, question_of
from dovetail.search.mining.choice import first_beaten, read_by
from dovetail.search.mining.miner import mined
from dovetail.search.mining.planning import PlannedTask, planned_task, replanned, several_stages, with_freer
from dovetail.search.mining.score import scored
from dovetail.search.mining.stages import MOSAIC, POOLED, by_stage
from dovetail.search.mining.task import Task
from dovetail.search.planners.constraints import Constraint
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

BASE = chips["wham-tpuv2"]()
LIMITS = Limits(area_mm2=606.68, power_w=280.0)
SPACE = design_space(sides=(64, 128, 256), lanes=(64, 256), counts=(1, 4, 16))


def workload(batch=8):
    return Workload(model=models["gpt2-345m"](), global_batch=batch, seq=128)


@cache
def question(metric="throughput"):
    task = Task(workload=workload(), plan=Plan(pipeline_parallel=4))
    reference = base_answer([task], BASE, metrics[metric])
    return question_of([task], BASE, SPACE, LIMITS, metrics[metric], reference)


def search(asked, algorithm, known):
    found = mined(
        asked, algorithm, Random(1), num_most=10_000, known=known, keep=lambda _: None, watch=lambda _: None
    )  # fmt: skip
    return () if found is None else (found,)


@cache
def chosen(metric, way, num_kept):
    exact = algorithms["exact"]
    [found] = search(question(metric), exact, {})
    return by_stage(question(metric), found, exact, search, way=way, num_kept=num_kept)


@pytest.mark.parametrize("num_best", [1, 3, 10])
def test_the_best_so_many_are_those_of_scheduling_everything(num_best):
    every = sorted(one.loss for one in scored(question(), list(SPACE.points())))
    [found] = search(question(), proving(num_best), {})
    assert [one.loss for one in found.found[:num_best]] == every[:num_best]
    assert found.num_proven >= num_best
    assert found.num_scheduled < len(every)


def test_a_search_that_stopped_early_proves_no_more_than_its_bounds_do():
    asked = question()
    early = mined(
        asked, algorithms["exact"], Random(1), num_most=8, known={}, keep=lambda _: None, watch=lambda _: None
    )  # fmt: skip
    every = sorted(one.loss for one in scored(asked, list(SPACE.points())))
    assert early is not None
    assert early.num_proven < 8
    assert [one.loss for one in early.found[: early.num_proven]] == every[: early.num_proven]


def test_fewer_designs_of_each_stage_are_never_better():
    one, ten = chosen("perf/tdp", MOSAIC, 1), chosen("perf/tdp", MOSAIC, 10)
    assert ten.chosen.loss <= one.chosen.loss <= one.common.loss == ten.common.loss
    assert ten.gain_frac > 0.01  # the stages that wait for the last need not be as fast


def test_by_stage_is_never_worse_than_one_design_nor_a_pool_than_a_mosaic():
    one, ten, pool = (chosen("throughput", way, k) for way, k in ((MOSAIC, 1), (MOSAIC, 10), (POOLED, 10)))
    assert pool.chosen.loss <= ten.chosen.loss <= one.chosen.loss <= one.common.loss
    assert one.common.loss == ten.common.loss == pool.common.loss
    assert pool.gain_frac >= ten.gain_frac >= one.gain_frac >= 0
    assert pool.gain_frac > 0.01  # the last stage has the head of the model, and takes area that others leave
    for found in (ten, pool):
        assert [kind.stages for kind in found.kinds] == [(0,), (1, 2), (3,)]
        assert all(kind.num_proven == kind.num_kept == 10 for kind in found.kinds)
    assert all(stage.area_mm2 <= LIMITS.area_mm2 for stage in ten.chosen.stages)
    assert pool.chosen.mean_area_mm2 <= LIMITS.area_mm2
    assert LIMITS.area_mm2 < max(stage.area_mm2 for stage in pool.chosen.stages) <= RETICLE_MM2


@pytest.mark.parametrize("area_mm2", [500.0, 606.68, 1200.0])
def test_no_die_of_a_pool_is_beyond_a_reticle_unless_the_limit_itself_is(area_mm2):
    limits = Limits(area_mm2=area_mm2, power_w=LIMITS.power_w * area_mm2 / LIMITS.area_mm2)
    asked, exact, most = replace(question(), limits=limits), algorithms["exact"], []

    def watched(one, algorithm, known):
        most.append(one.limits.area_mm2)
        return search(one, algorithm, known)

    [found] = search(asked, exact, {})
    pool = by_stage(asked, found, exact, watched, way=POOLED, num_kept=5)
    assert max(most) == pytest.approx(max(area_mm2, RETICLE_MM2))
    assert max(stage.area_mm2 for stage in pool.chosen.stages) <= max(area_mm2, RETICLE_MM2)
    assert pool.chosen.mean_area_mm2 <= area_mm2
    assert pool.chosen.loss <= pool.common.loss


def test_what_is_known_of_a_stage_in_a_pool_keeps_the_limits_it_is_asked_for():
    """A search that does not go by bounds would take a design that wider limits have for one within its own."""
    asked = []

    def watched(one, algorithm, known):
        if known:
            designs = [design_at(SPACE, point) for point in known]
            asked.append((one.limits, silicon_of(BASE, designs).excess_frac(one.limits).max()))
        return search(one, algorithm, known)

    [found] = search(question(), algorithms["exact"], {})
    by_stage(question(), found, algorithms["exact"], watched, way=POOLED, num_kept=2)
    assert len({limits.area_mm2 for limits, _ in asked}) > 2
    assert all(excess_frac == 0 for _, excess_frac in asked)


def test_the_table_has_a_row_for_each_kind_and_says_how_limits_are_kept():
    pool, each = chosen("throughput", POOLED, 10), chosen("throughput", MOSAIC, 10)
    table = tables_of(stages_figures(pool, "tokens/s"))[0]
    assert [row[0] for row in table.rows] == ["0", "1-2", "3"]
    assert "pooled" in table.title
    assert "on the mean" in table.notes[0]
    assert "proven to be these" in table.notes[1]
    assert "every die within 606.68 mm2" in tables_of(stages_figures(each, "tokens/s"))[0].notes[0]
    said = record_of(stages_figures(pool, "tokens/s"))
    assert said["gain_frac"] == pool.gain_frac
    assert [kind["stages"] for kind in said["kinds"]] == [[0], [1, 2], [3]]


@pytest.mark.parametrize("way", [MOSAIC, POOLED])
def test_designs_are_no_more_than_the_lists_that_they_are_said_to_be_from_hold(way):
    found = chosen("throughput", way, 10)
    told = tables_of(stages_figures(found, "tokens/s"))[0].notes[1]
    lists = f"{found.num_designs} different designs in {found.num_lists} lists of the best 10: 3 lists of a kind"
    assert lists in told
    assert found.num_designs <= 10 * found.num_lists
    num_other = found.num_lists - 3 - 1
    assert (num_other > 0) == (way == POOLED) == (f"{num_other} of kinds within other limits" in told)
    assert record_of(stages_figures(found, "tokens/s"))["num_lists"] == found.num_lists


def test_stages_in_a_row_are_told_by_the_first_and_the_last():
    assert stages_label((0, 1, 2, 5, 7, 8)) == "0-2, 5, 7-8"


def test_a_metric_reads_what_changes_its_loss():
    sizes = {"step_s", "num_samples"}
    assert read_by(metrics["throughput"]) == sizes
    assert read_by(metrics["perf/tdp"]) == sizes | {"power_w", "num_devices"}
    assert read_by(metrics["tokens/J"]) == {"energy_j", "num_samples"}
    assert read_by(metrics["$/token"]) == sizes | {"price_usd", "num_devices"}


def test_among_the_first_rows_those_count_that_none_of_them_beats():
    columns = np.array([[1, 5], [2, 4], [2, 4], [3, 6], [1, 4], [0, 9]], dtype=float)
    beaten = first_beaten(columns)
    assert beaten.tolist() == [4, 4, 1, 0, 6, 6]
    for num in range(1, 7):
        some = columns[:num]
        kept = set(np.flatnonzero(beaten[:num] >= num).tolist())
        for row in range(num):
            others = [other for other in range(num) if (some[other] <= some[row]).all() and other != row]
            is_beaten = any((some[other] < some[row]).any() or other < row for other in others)
            assert (row in kept) != is_beaten


def planned_for(num_devices, *constraints):
    return planned_task(workload(), BASE, num_devices, constraints, lambda *_: None)


def test_the_planners_plan_is_one_that_can_be_mined_for():
    found = planned_for(4, several_stages(4))
    assert isinstance(found, PlannedTask)
    plan = found.task.plan
    assert plan.num_devices == 4
    assert plan.pipeline_parallel > 1
    assert (plan.interleave, plan.schedule) == (1, "1f1b")
    assert found.task.job(BASE).num_stages == plan.pipeline_parallel
    assert "the planner's for 4 chips" in planned_notes((found,))[0]


def test_without_constraints_no_plan_is_slower_than_with():
    free, staged = planned_for(4), planned_for(4, several_stages(4))
    assert free.step_s <= staged.step_s


def test_a_proof_says_of_which_plans_and_what_others_would_gain():
    staged = planned_for(2, several_stages(2))
    free = with_freer(staged, BASE, (), (several_stages(2),), lambda *_: None)
    told = planned_notes((free,))
    assert "proven fastest by the step model, of plans without interleaving and with several stages" in told[0]
    [other] = free.unconstrained
    assert other.step_s == planned_for(2).step_s < staged.step_s
    assert other.plan.pipeline_parallel == 1
    assert f"dp 2, ZeRO-1, microbatch {other.plan.microbatch}, +" in told[1]
    assert "--stages one" in told[1]
    assert planned_task_record(free)["unconstrained"][0]["gain_frac"] == other.gain_frac > 0


def test_where_nothing_but_what_was_said_holds_there_is_no_other_choice_to_tell():
    fixed = Constraint(key="tensor_parallel", values=(2,), where="--fix tp=2")
    found = planned_for(2, fixed)
    assert with_freer(found, BASE, (fixed,), (fixed,), lambda *_: None) is found
    [told] = planned_notes((found,))
    assert "and with tensor_parallel=2" in told
    [alone] = planned_notes((planned_for(1),))
    assert "for 1 chip of the base" in alone


def test_devices_that_no_plan_can_have_are_told_without_rules_that_nobody_gave():
    with pytest.raises(InvalidInput) as refused:
        planned_for(1_000_003)
    assert "interleave" not in str(refused.value)
    assert "use another number of devices or global_batch (--devices)" in str(refused.value)


def test_what_fits_no_way_is_an_answer():
    large = Workload(model=models["gpt3-175b"](), global_batch=8, seq=2048)
    assert isinstance(planned_task(large, BASE, 4, (), lambda *_: None), Infeasible)


def test_a_choice_that_no_plan_has_is_refused():
    with pytest.raises(InvalidInput, match="must divide"):
        planned_for(4, Constraint(key="tensor_parallel", values=(3,), where="--fix tp=3"))


def test_the_planners_own_plan_is_not_bettered_on_the_chip_it_was_made_for_and_another_is():
    found = planned_for(4)
    assert isinstance(found, PlannedTask)
    again = replanned(found.task, BASE, (), lambda *_: None)
    assert again.is_same
    assert again.gain_frac == pytest.approx(0, abs=1e-12)
    poor = Task(workload=workload(), plan=Plan(pipeline_parallel=4, recompute=("full",)))
    better = replanned(poor, BASE, (), lambda *_: None)
    assert not better.is_same
    assert better.gain_frac > 0.1
    assert better.step_s == pytest.approx(found.step_s)
    told = replanned_notes(("a", "b"), (again, better))
    assert "no faster plan" in told[0]
    assert "would choose" in told[1]
