"""Intervals: which runs a job is compared with, how wide that makes it, and what is said of it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from dovetail.accuracy.coverage import coverage_one_out, coverage_publisher_out, judged_coverage
from dovetail.accuracy.evidence import (
    MIN_ROWS,
    Class,
    class_of,
    class_of_row,
    evidence,
    half_width,
    interval_of,
    num_publishers,
    own_half_width,
    student_t,
    widest_class,
)
from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.residuals import COLUMNS, Residual, cells, generation, residuals_of
from dovetail.hardware.cluster import Cluster, OwnRuns
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import Plan
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

ROW = Residual(
    name="T1",
    publisher="one",
    chip="h100-sxm",
    num_devices=64,
    tensor_parallel=8,
    context_parallel=1,
    pipeline_parallel=4,
    data_parallel=2,
    expert_parallel=1,
    zero_stage=1,
    is_mixture=False,
    precision="bf16",
    log_ratio=0.1,
)
JOB = Class(chip="h100-sxm", num_devices=64, is_transformer=True, is_mixture=False, has_pipeline=True)


def rows(count: int, **changes) -> list[Residual]:
    """Rows of three publishers with errors that grow from row to row."""
    row = replace(ROW, **changes)
    return [
        replace(row, name=f"{n}", publisher=("one", "two", "three")[n % 3], log_ratio=row.log_ratio * (n + 1) / count)
        for n in range(count)
    ]


def job(cluster: str, num_devices: int, model: str, plan: Plan | None = None) -> tuple[Workload, Cluster, Plan]:
    built = clusters[cluster].build(num_devices)
    workload = Workload(model=models[model](), global_batch=64, seq=models[model]().seq)
    return workload, built, plan or Plan(data_parallel=num_devices)


def test_the_class_is_the_narrowest_with_enough_rows():
    near = rows(MIN_ROWS, num_devices=128)
    far = rows(MIN_ROWS, num_devices=8192, log_ratio=0.5)
    other = rows(MIN_ROWS, pipeline_parallel=1, log_ratio=0.9)
    everything = [*near, *far, *other, *rows(40, chip="a100-80gb-sxm")]
    assert len(evidence(JOB, everything).rows) == len(near)
    assert len(evidence(replace(JOB, num_devices=2048), everything).rows) == len(far)
    assert len(evidence(replace(JOB, num_devices=512), everything).rows) == len(near)
    assert len(evidence(JOB, [*near[1:], *far, *other]).rows) == len(near) - 1 + len(far)
    assert len(evidence(replace(JOB, has_pipeline=False), [*near, *other[1:]]).rows) == len(near) + len(other) - 1


def by_one(given: list[Residual]) -> list[Residual]:
    return [replace(row, publisher="one") for row in given]


def test_rows_mostly_of_one_publisher_are_no_class_of_their_chip():
    others = rows(20, chip="a100-80gb-sxm", log_ratio=0.01)
    assert len(evidence(JOB, [*rows(30), *others]).rows) == 30
    assert len(evidence(JOB, [*by_one(rows(30)), *others]).rows) == 50
    assert len(evidence(JOB, [*by_one(rows(60)), *rows(3), *others]).rows) == 83


def test_publishers_count_by_their_weight():
    assert num_publishers([]) == 0
    assert num_publishers(by_one(rows(9))) == 1
    assert num_publishers(rows(9)) == pytest.approx(3)
    assert 1 < num_publishers([*by_one(rows(100)), *rows(3)]) < 2


def test_a_chip_of_another_name_has_the_evidence_of_its_family():
    everything = [*rows(40), *rows(16, chip="tpu-v5p", log_ratio=0.03)]
    hypothetical = replace(JOB, chip="sketch")
    assert {row.chip for row in evidence(hypothetical, everything).rows} == {"h100-sxm"}
    assert {row.chip for row in evidence(replace(hypothetical, chip_family="tpu"), everything).rows} == {"tpu-v5p"}
    workload, cluster, plan = job("tpu-v5p-pod", 64, "llama2-7b")
    renamed = replace(cluster, chip=replace(cluster.chip, name="sketch"))
    assert class_of(workload, renamed, plan).generation == class_of(workload, cluster, plan).generation == "TPU"


def test_mixtures_and_dense_models_are_kept_apart():
    mixed = [*rows(20), *rows(20, is_mixture=True, log_ratio=0.6)]
    assert not any(row.is_mixture for row in evidence(JOB, mixed).rows)
    assert all(row.is_mixture for row in evidence(replace(JOB, is_mixture=True), mixed).rows)


def test_nine_of_ten_errors_are_inside_and_the_run_to_come_counts_as_a_row():
    assert half_width(by_one(rows(19, log_ratio=1.9))) == pytest.approx(1.8)  # 0.9 x 20 rows
    assert half_width(by_one(rows(18, log_ratio=1.8))) == pytest.approx(1.8)  # 0.9 x 19 is more than 17 of them
    assert half_width(by_one(rows(100, log_ratio=1.0))) == pytest.approx(0.91)


def test_the_sign_of_an_error_does_not_matter():
    plain = rows(40, log_ratio=0.4)
    assert half_width([replace(row, log_ratio=-row.log_ratio) for row in plain]) == half_width(plain)


def test_many_rows_of_one_publisher_do_not_drown_the_others():
    many = [replace(ROW, publisher="many", log_ratio=0.01) for _ in range(100)]
    few = [replace(ROW, publisher=f"few {n}", log_ratio=0.5) for n in range(4)]
    assert half_width([*many, *few]) == 0.5
    assert half_width([*many, *(replace(row, publisher="many") for row in few)]) == 0.01


def test_the_sentence_names_the_runs():
    words = "published runs of dense models on H100, 64 to 128 devices, with pipeline parallelism (one, three, two)"
    assert evidence(JOB, [*rows(16, num_devices=128), ROW]).words == f"from 17 {words}"
    assert evidence(JOB, rows(16)).words == f"from 16 {words.replace('64 to 128', '64')}"


@pytest.mark.parametrize(
    ("cluster", "num_devices", "model", "words"),
    [
        ("mi300x-nodes", 64, "llama3-8b", "no published run is on mi300x"),
        ("dgx-h100", 1, "llama3-8b", "no published run is on fewer than 64 devices"),
        ("dgx-h100", 64, "resnet-50", "no published run is of a"),
    ],
)
def test_a_job_unlike_all_runs_is_told_so(cluster, num_devices, model, words):
    found = interval_of(*job(cluster, num_devices, model), 10.0, rows(20, pipeline_parallel=1))
    assert "without evidence of its class" in found.sentence
    assert words in found.sentence
    assert found.num_rows == 20


@pytest.mark.parametrize(
    ("schedule", "is_published"),
    [("1f1b", True), ("interleaved", True), ("gpipe", False), ("zb-h1", False), ("zb-v", False), ("dualpipe", False)],
)
def test_runs_of_1f1b_are_no_evidence_of_other_schedules(schedule, is_published):
    words = evidence(replace(JOB, schedule=schedule), rows(20)).words
    assert (f"no published run uses the schedule {schedule}, all use 1F1B" in words) != is_published
    assert "schedule" not in evidence(replace(JOB, schedule=schedule, has_pipeline=False), rows(20)).words


def test_a_job_whose_class_has_too_few_publishers_is_told_so():
    mixed = [*rows(20), *by_one(rows(20, is_mixture=True)), *rows(3, is_mixture=True, chip="b200")]
    found = evidence(replace(JOB, is_mixture=True), mixed)
    assert found.words.startswith(
        "with little evidence of its class (too few publishers have runs like it on h100-sxm)"
    )
    assert len(found.rows) == 23


WIDE = rows(20, pipeline_parallel=1, log_ratio=0.5)
UNLIKE = (
    replace(JOB, chip="mi300x"),
    replace(JOB, chip="l40s"),
    replace(JOB, chip="tpu-v5p"),
    replace(JOB, num_devices=100_000),
    replace(JOB, num_devices=1),
    replace(JOB, schedule="zb-h1"),
    replace(JOB, is_mixture=True),
    replace(JOB, is_transformer=False),
)


@pytest.mark.parametrize("unlike", UNLIKE, ids=str)
def test_a_job_without_evidence_has_the_widest_interval_of_those_with_it(unlike):
    published = [*rows(40), *WIDE, *rows(3, chip="tpu-v5p", log_ratio=0.01)]
    assert evidence(JOB, published).half_width == pytest.approx(0.0925)
    found = evidence(unlike, published)
    assert found.half_width == half_width(WIDE) == pytest.approx(0.475)
    assert found.rows == tuple(WIDE)
    assert ": as wide as the widest class with evidence, from 20 published runs of dense models on H100" in found.words


def test_errors_of_too_few_publishers_do_not_widen_the_interval_of_other_jobs():
    alone = by_one(rows(20, chip="b200", log_ratio=0.5))
    widest = widest_class((*rows(40), *alone))
    assert widest is not None
    assert widest.rows == tuple(rows(40))
    assert widest_class(tuple(alone)) is None
    assert evidence(replace(JOB, chip="mi300x"), alone).half_width == half_width(alone)


def test_a_job_of_a_class_with_runs_is_not():
    found = interval_of(*job("dgx-h100", 64, "llama3-8b"), 10.0, rows(20, pipeline_parallel=1))
    assert found.sentence.startswith("90 % interval 9.")
    assert "without evidence" not in found.sentence
    assert "without pipeline parallelism" in found.sentence


def test_the_interval_is_in_seconds_and_as_many_times_more_as_less():
    found = interval_of(*job("dgx-h100", 64, "llama3-8b"), 2.0, rows(21, pipeline_parallel=1, log_ratio=0.21))
    assert (found.lower_s, found.upper_s) == pytest.approx((2.0 * math.exp(-0.20), 2.0 * math.exp(0.20)))


def test_own_runs_take_the_place_of_published_ones_from_five_on():
    workload, cluster, plan = job("dgx-h100", 64, "llama3-8b")
    few, enough = (OwnRuns(num_runs=n, num_scales=1, spread_frac=0.01, fitted_on="mine.csv") for n in (4, 5))
    assert interval_of(workload, replace(cluster, own_runs=few), plan, 10.0, rows(20)).num_rows == 20
    found = interval_of(workload, replace(cluster, own_runs=enough), plan, 10.0, rows(20))
    assert found.num_rows == 5
    assert found.evidence == "from 5 runs on this cluster (mine.csv)"
    assert found.upper_s == pytest.approx(10.0 * math.exp(2.1318 * 0.01), rel=1e-4)


@pytest.mark.parametrize(
    ("degrees", "expected"),
    [(3, 2.3534), (4, 2.1318), (5, 2.0150), (10, 1.8125), (30, 1.6973)],  # printed tables of Student's t, 0.95
)
def test_students_t_is_that_of_the_tables(degrees, expected):
    assert student_t(0.9, degrees) == pytest.approx(expected, rel=0.003)


def test_more_scales_leave_fewer_degrees_of_freedom():
    one, two = (OwnRuns(num_runs=6, num_scales=count, spread_frac=0.02) for count in (1, 2))
    assert own_half_width(two) > own_half_width(one)


def test_coverage_counts_rows_inside_what_the_others_say():
    found = coverage_one_out(rows(200, log_ratio=0.5))
    assert found.num_rows == 200
    assert found.covered_frac == pytest.approx(0.9, abs=0.01)


def test_a_publisher_that_is_far_off_is_not_covered_by_the_others():
    close = rows(40, log_ratio=0.05)
    far = [replace(row, publisher="far", log_ratio=0.5) for row in rows(40)]
    assert coverage_publisher_out([*close, *far]).covered_frac == pytest.approx(0.5)
    assert coverage_one_out([*close, *far]).covered_frac == 1.0
    assert [(one.left_out, one.holds) for one in judged_coverage([*close, *far])] == [
        ("a row", False),  # all of them are more than nine of ten
        ("a publisher", False),
    ]


@pytest.mark.parametrize(
    ("chip", "expected"),
    [("h100-sxm", "Hopper"), ("h200-sxm-calibrated", "Hopper"), ("GB200", "Blackwell"), ("mi300x", ""), ("my-gpu", "")],
)
def test_generations_go_by_the_name_of_the_chip(chip, expected):
    assert generation(chip) == expected


def test_a_row_survives_its_table():
    table = Measurements(name="t", shown="t", columns=COLUMNS, rows=(cells(ROW),), lines=(2,))
    assert residuals_of(table) == (ROW,)
    assert class_of_row(ROW) == JOB
