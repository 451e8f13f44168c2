"""Plans ranked by an upper quantile of their time: those without evidence have to be faster to win."""

from __future__ import annotations

import math
from typing import Any

import pytest

import dovetail
from dovetail.accuracy.evidence import class_of, evidence, upper_factor
from dovetail.errors import InvalidInput
from dovetail.files.residuals import load_residuals
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import Plan
from dovetail.search.planners.quantiles import MEDIAN, Quantile
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

JOB: dict[str, Any] = {
    "model": "llama3-8b",
    "cluster": "h100",
    "devices": 16,
    "global_batch": 64,
    "seq": 2048,
    "top": 3,
}
KEPT: dict[str, Any] = {"fix": ("tp=1,2", "cp=1", "zero_stage=1", "recompute=none"), "forbid": ("uneven",)}


def planned(**more):
    return dovetail.plan(**JOB, **{**KEPT, **more})


def test_a_quantile_changes_which_plan_is_best():
    median, upper = planned(), planned(rank_by="90%")
    assert median.plan != upper.plan
    assert median.plan.pipeline_parallel == 1
    assert upper.plan.pipeline_parallel > 1
    assert upper.step_s > median.step_s  # as predicted it is slower, and surer
    [fastest] = upper.outcome.fastest
    assert fastest.plan == median.plan
    assert fastest.score > upper.ranking[0].candidate.score


def test_a_schedule_without_evidence_has_to_be_faster_by_as_much_as_it_is_less_sure():
    kept = {"fix": (*KEPT["fix"][1:], "tp=1", "pp=4", "schedule=1f1b,zb-h1", "interleave=1")}
    by_schedule = {
        name: planned(fix=(*kept["fix"][:-2], f"schedule={name}", "interleave=1")) for name in ("1f1b", "zb-h1")
    }
    assert by_schedule["zb-h1"].step_s < by_schedule["1f1b"].step_s
    assert planned(**kept).plan.schedule == "zb-h1"
    assert planned(**kept, rank_by=0.9).plan.schedule == "1f1b"


def test_the_median_is_what_plans_are_ranked_by_if_nothing_is_said():
    assert planned(rank_by=0.5).plan == planned().plan
    assert planned().record["rank_by_frac"] == 0.5
    workload, cluster = Workload(model=models["llama3-8b"](), global_batch=16, seq=2048), clusters["dgx-h100"].build(8)
    assert MEDIAN.factor(workload, cluster, Plan()) == 1.0


def test_json_and_text_say_the_quantile():
    found = planned(rank_by="80%")
    record = found.record
    assert record["rank_by_frac"] == 0.8
    ranked = [one["quantile_s"] for one in record["ranking"]]
    assert ranked == sorted(ranked)
    assert all(one["quantile_s"] > one["step_s"] for one in record["ranking"])
    assert found.headline.startswith("Best plan in the model by the 80 % quantile of its time: ")
    assert record["fastest_predicted"][0]["step_s"] <= record["ranking"][0]["step_s"]


def test_a_quantile_grows_with_its_share_and_with_what_is_unknown():
    rows = tuple(load_residuals())
    workload, cluster = Workload(model=models["llama3-8b"](), global_batch=16, seq=2048), clusters["dgx-h100"].build(8)
    plans = [Plan(pipeline_parallel=8, schedule=name) for name in ("1f1b", "zb-h1")]
    for plan in plans:
        factors = [upper_factor(workload, cluster, plan, rows, frac) for frac in (0.5, 0.6, 0.8, 0.9, 0.95)]
        assert factors == sorted(factors)
        assert factors[0] == 1.0
        half_width = evidence(class_of(workload, cluster, plan), rows).half_width
        assert factors[-1] == pytest.approx(math.exp(half_width))  # the upper end of the 90 % interval
    known, unknown = (upper_factor(workload, cluster, plan, rows, 0.9) for plan in plans)
    assert unknown > known


@pytest.mark.parametrize("frac", [0.3, 0.99])
def test_a_quantile_that_nothing_is_known_of_is_refused(frac):
    with pytest.raises(InvalidInput, match="from 50 % to 95 %"):
        Quantile(frac=frac)


def test_another_objective_has_no_quantile_of_time():
    with pytest.raises(InvalidInput, match="rank_by is a quantile of time"):
        planned(rank_by=0.9, objective="tokens/J")
