"""The chance that one of two steps is truly shorter: what it is made of, and what pairs have in common."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.accuracy.chance import (
    PAIRS,
    PairSpread,
    Predicted,
    chance_shorter_frac,
    selection,
    selection_of,
    student_t3_cdf,
)
from dovetail.files.residuals import load_residuals
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import Plan
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

ROWS = load_residuals()
WORKLOAD = Workload(model=models["llama3-8b"](), global_batch=256, seq=2048)
PLAN = Plan(tensor_parallel=2, pipeline_parallel=2, data_parallel=16)
JOB = Predicted(workload=WORKLOAD, cluster=clusters["dgx-a100"].build(64), plan=PLAN, step_s=10.0)
DEEPER = replace(JOB, plan=Plan(tensor_parallel=2, pipeline_parallel=4, data_parallel=8))


def slower(job: Predicted, by_frac: float = 0.1) -> Predicted:
    return replace(job, step_s=JOB.step_s * (1 + by_frac))


def test_equal_predictions_are_a_coin_toss():
    assert chance_shorter_frac(JOB, DEEPER, ROWS) == pytest.approx(0.5)


@pytest.mark.parametrize("by_frac", [0.01, 0.1, 0.5])
def test_both_orders_add_up_to_one(by_frac):
    other = slower(DEEPER, by_frac)
    assert chance_shorter_frac(JOB, other, ROWS) + chance_shorter_frac(other, JOB, ROWS) == pytest.approx(1)


def test_a_larger_gap_is_surer():
    chances = [chance_shorter_frac(JOB, slower(DEEPER, by_frac), ROWS) for by_frac in (0.0, 0.02, 0.1, 0.3, 1.0)]
    assert chances == sorted(chances)
    assert chances[-1] > 0.98


def test_plans_of_another_tensor_parallelism_share_less_of_their_error():
    wider = slower(replace(DEEPER, plan=replace(DEEPER.plan, tensor_parallel=8, data_parallel=2)))
    assert chance_shorter_frac(JOB, slower(DEEPER), ROWS) > chance_shorter_frac(JOB, wider, ROWS) > 0.5


def test_a_job_without_evidence_is_less_sure_of_its_pairs():
    amd = replace(JOB, cluster=clusters["mi300x-nodes"].build(64))
    other = slower(replace(DEEPER, cluster=amd.cluster))
    assert 0.5 < chance_shorter_frac(amd, other, ROWS) < chance_shorter_frac(JOB, slower(DEEPER), ROWS)


def test_errors_on_two_clusters_are_taken_as_independent():
    elsewhere = slower(replace(JOB, cluster=clusters["dgx-a100"].build(128)))
    assert 0.5 < chance_shorter_frac(JOB, elsewhere, ROWS) < chance_shorter_frac(JOB, slower(DEEPER), ROWS)


def test_variances_of_a_pair_add_up():
    spread = PairSpread(same=3.0, doubling=4.0, gap=12.0)
    assert spread.scale(np.array([1.0, 1.0]), np.array([0.0, -1.0])).tolist() == [5.0, 13.0]
    assert PAIRS.scale(np.array([0.0]), np.array([0.0])) == pytest.approx(PAIRS.same)


@pytest.mark.parametrize(("value", "expected"), [(0.0, 0.5), (0.7649, 0.75), (1.6377, 0.9), (3.1824, 0.975)])
def test_students_t_with_three_degrees_is_that_of_the_tables(value, expected):
    assert student_t3_cdf(np.array([value]))[0] == pytest.approx(expected, abs=1e-4)


def test_a_plan_far_ahead_of_all_others_is_not_lengthened_for_having_been_chosen():
    found = selection_of(JOB, [slower(DEEPER, 1.0), slower(DEEPER, 2.0)], ROWS)
    assert (found.num_near, found.shift_frac) == (1, 0.0)


def test_the_more_plans_are_near_the_further_the_upper_end_goes():
    found = [selection_of(JOB, [slower(DEEPER, 0.01)] * count, ROWS) for count in (0, 1, 4, 9)]
    assert [one.num_near for one in found] == [1, 2, 5, 10]
    shifts = [one.shift_frac for one in found]
    assert shifts == sorted(set(shifts))


def test_the_shift_is_the_expected_extreme_of_as_many_errors():
    drawn = np.random.default_rng(0).normal(size=(20_000, 10)).max(axis=1).mean()
    found = selection(np.zeros(9), np.full(9, 0.1))
    assert np.log1p(found.shift_frac) == pytest.approx(drawn * 0.1 / np.sqrt(2), rel=0.02)
