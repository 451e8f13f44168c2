"""A mined chip in words: what is beside it, what was assumed, and how it is counted."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random

import pytest

from dovetail.hardware.catalog import chips
from dovetail.parallel.plan import Plan
from dovetail.report.figures import table_of
from dovetail.report.mined import MinedReport, designs_list, notes, partition_label, rivals_list, sentence
from dovetail.search.algorithms import algorithms
from dovetail.search.designs import Limits, design_space
from dovetail.search.metrics import metrics
from dovetail.search.mining.answers import best_answers, hand_tuned, question_over_base
from dovetail.search.mining.miner import mined
from dovetail.search.mining.task import Task
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

SPACE = design_space(sides=(64, 128), lanes=(128, 256), counts=(1, 4))
TASK = Task(workload=Workload(model=models["resnet-18"](), global_batch=8, seq=1), plan=Plan(microbatch=8))


@cache
def report(metric="perf/tdp", area_mm2=606.68, task=TASK):
    base, limits = chips["tpuv2-like"](), Limits(area_mm2=area_mm2, power_w=320.0)
    question, reference = question_over_base([task], base, SPACE, limits, metrics[metric])
    found = mined(
        question, algorithms["exact"], Random(1), num_most=100, known={}, keep=lambda _: None, watch=lambda _: None
    )  # fmt: skip
    assert found is not None
    return MinedReport(
        name="",
        tasks=(task,),
        base=base.name,
        limits=limits,
        metric_name=metric,
        metric=metrics[metric],
        algorithm="exact",
        mined=found,
        best=best_answers(question, [one.point for one in found.found]),
        reference=reference,
        rivals=hand_tuned([task], metrics[metric]),
        chosen_batch=0,
    )


def ahead(told):
    """What is said of chips that are better, by chip, were each of them twice as good as it is."""
    better = [
        replace(one, answer=replace(one.answer, jobs=tuple(replace(job, loss=job.loss / 4) for job in one.answer.jobs)))
        for one in told.rivals
    ]
    lines = table_of(rivals_list(replace(told, rivals=tuple(better)))).notes
    return {line.split()[0]: line for line in lines if " is ahead, " in line}


def test_a_chip_ahead_beyond_a_limit_is_no_advice_and_the_base_is_not_advised_as_a_base():
    small, large = ahead(report(area_mm2=400.0)), ahead(report(area_mm2=800.0))
    assert small["tpuv2-like"] == "tpuv2-like is ahead, and is beyond the area limit"
    assert small["nvdla-like"].endswith("links; it is beyond the area limit")
    assert not any("--base" in line for line in small.values())
    assert "its own design is not among those looked at" in large["tpuv2-like"]
    assert large["nvdla-like"].endswith("pass --base nvdla-like")


def test_a_gain_over_a_chip_beyond_the_limits_says_so():
    small, large = sentence(report(area_mm2=400.0)), sentence(report(area_mm2=800.0))
    for name in ("tpuv2-like", "tpuv4-like", "nvdla-like"):
        assert f"over {name} (itself beyond the limits)" in small
        assert f"over {name}" in large
    assert "beyond" not in large


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (Plan(microbatch=8), "; on one device, forward, backward"),
        (Plan(microbatch=2), "; on one device, microbatch 2, forward, backward"),
        (Plan(microbatch=8, recompute=("full",)), "; on one device, full recompute, microbatch 8, forward"),
    ],
)
def test_what_a_single_device_does_at_once_is_told_where_it_is_not_all(plan, words):
    told = notes(report(task=replace(TASK, plan=plan)))
    assert words in told[1]


def test_a_price_is_of_what_the_model_has_with_digits_enough_to_tell_designs_apart():
    told = report("$/token")
    table = table_of(designs_list(told))
    assert "$ of chips an image" in sentence(told)
    assert table.columns[4] == "$/image"
    figures, exact = [row[4] for row in table.rows], [one.jobs[0].figure for one in told.best]
    assert [float(figure) for figure in figures] == pytest.approx(exact, rel=5e-4)
    assert all(len(figure.partition("e")[0]) == len("1.234") for figure in figures)


def test_how_far_a_design_is_behind_is_said_as_what_a_sample_takes_more():
    told = report("throughput")
    table = table_of(designs_list(told))
    best, last = told.best[0].jobs[0], told.best[-1].jobs[0]
    assert table.rows[-1][5] == f"{100 * (last.step_s / best.step_s - 1):.1f} %"
    assert any("twice as much is 100 %" in note for note in table.notes)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (Plan(microbatch=1), "on one device it fits: set plan: {microbatch: 1} in a spec"),
        (
            Plan(tensor_parallel=2, sequence_parallel=True, data_parallel=4, zero_stage=1, recompute=("full",)),
            "on 8 devices it fits: set plan: {tensor_parallel: 2, data_parallel: 4, sequence_parallel: true,"
            " zero_stage: 1, microbatch: 1, recompute: full} in a spec",
        ),
    ],
)
def test_a_plan_that_fits_is_told_as_a_spec_says_it(plan, words):
    assert partition_label(replace(TASK, plan=plan)) == words
