"""The published run nearest to a job."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from dovetail.accuracy.recipes import MAX_DISTANCE, near_recipes
from dovetail.files.residuals import load_published, load_residuals
from dovetail.hardware.clusters import clusters
from dovetail.report.figures import record_of, tables_of
from dovetail.report.recipes import recipe_table
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload


def near(model: str, cluster: str, num_devices: int, seq: int = 8192, precision: Precision | None = None):
    workload = Workload(model=models[model](), global_batch=512, seq=seq, precision=precision or Precision())
    return near_recipes(workload, clusters[cluster].build(num_devices), load_published(), load_residuals())


def test_a_run_of_the_same_model_on_as_many_chips_of_the_same_kind_has_no_distance():
    errors = {row.name: row for row in load_residuals()}
    run = load_published()["T1098"].run_of(load_published()["T1098"].row)
    workload = Workload(
        model=replace(models["gpt3-175b"](), architecture=run.model),
        global_batch=2048,
        seq=2048,
        precision=run.precision,
    )
    found, *_ = near_recipes(workload, run.cluster, load_published(), load_residuals()).recipes
    assert found.distance == 0.0
    assert found.predicted_s == pytest.approx(found.run.measured_s / math.exp(errors[found.run.name].log_ratio))


def test_the_nearest_run_is_of_the_same_generation_and_size():
    found, *_ = near("llama3-70b", "dgx-h100", 512).recipes
    assert "70b" in found.run.model.name.lower()
    assert found.run.cluster.chip.name.startswith("h100")
    assert 0 < found.distance <= MAX_DISTANCE
    mixture, *_ = near("deepseek-v3", "dgx-h100", 1024, 4096).recipes
    assert mixture.run.model.experts is not None


def test_further_from_every_run_is_further_in_distance():
    distances = [near("llama3-8b", "dgx-h100", num).recipes[0].distance for num in (64, 4096, 16_384)]
    assert distances == sorted(distances)


@pytest.mark.parametrize(
    ("model", "cluster", "num_devices", "words"),
    [
        ("llama3-8b", "mi300x-nodes", 8, "no published run that ships is of dense models on chips like mi300x"),
        ("resnet-50", "dgx-h100", 8, "no published run that ships is of a"),
        ("llama3-8b", "dgx-h100", 64, ""),
        ("gpt2-345m", "dgx-h100", 8, "none is near"),
    ],
)
def test_where_none_is_near_one_line_says_so(model, cluster, num_devices, words):
    if model not in models:
        pytest.skip(f"{model} is not in the catalogue")
    found = near(model, cluster, num_devices, models[model]().seq)
    assert bool(found.recipes) == (not words)
    assert words in found.refusal
    figures = (recipe_table(found),)
    record, [table] = record_of(figures)["nearest_run"], tables_of(figures)
    assert record["found"] == (not words)
    assert table.title == "The nearest published run"
    if words:
        assert table.notes == (found.refusal,)
    else:
        assert record["tokens_per_s_per_device"] > 0
        assert record["plan"]["data_parallel"] >= 1


def test_every_run_of_the_shipped_errors_is_in_a_shipped_table():
    assert {row.name for row in load_residuals()} <= set(load_published())
