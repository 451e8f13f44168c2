"""Copies that frameworks make of sharded parameters: who makes them, how many bytes, and where they stand."""

from __future__ import annotations

import csv
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dovetail.cost.costs import op_costs
from dovetail.hardware.catalog import chips
from dovetail.hardware.clusters import clusters
from dovetail.parallel.frameworks import frameworks
from dovetail.parallel.plan import Plan, columns_of
from dovetail.step.sharding_copies import COPIED_FRAC, COPIES, WIDENED_FRAC, _copy
from dovetail.step.stage_operators import StageOperator, stage_operators
from dovetail.step.step import step_times, training_step
from dovetail.step.step_events import step_events
from dovetail.units import MICRO
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.rows import rows_to_ops
from dovetail.workload.workload import Workload

REPOSITORY = Path(__file__).parents[3]
CLUSTER = clusters["dgx-h100"].build(8)
SHARDED = Plan(data_parallel=8, zero_stage=3)
FSDP = Precision(weights="fp32", has_master_weights=False, has_persistent_gradients=False)
NUM_MICROBATCHES = 2


@cache
def workload(precision: Precision = FSDP) -> Workload:
    model = models["gpt2-345m"]()
    short = replace(model, architecture=replace(model.architecture, num_layers=4))  # type: ignore[type-var]
    return Workload(model=short, global_batch=8 * NUM_MICROBATCHES, seq=1024, precision=precision)


def step_s(plan: Plan, precision: Precision = FSDP) -> float:
    return float(training_step(workload(precision).training_graph(), plan, CLUSTER, precision).step_s)


def copies(plan: Plan, precision: Precision = FSDP) -> list[StageOperator]:
    found = stage_operators(workload(precision).training_graph(), plan, CLUSTER, 0, precision)
    return [one for one in found if one.name in COPIES]


@pytest.mark.parametrize("zero_stage", [0, 1, 2, 3])
@pytest.mark.parametrize("name", frameworks.names())
def test_a_framework_copies_what_it_says_from_the_stage_on_that_shards_it(name: str, zero_stage: int) -> None:
    framework = frameworks[name]
    found = {one.name for one in copies(replace(SHARDED, zero_stage=zero_stage, framework=name))}
    is_gathered, is_reduced = framework.copies_gathered and zero_stage == 3, framework.copies_reduced and zero_stage > 1
    assert found == {copy for copy, is_made in zip(COPIES, (is_gathered, is_reduced), strict=True) if is_made}


@pytest.mark.parametrize(
    ("framework", "precision", "bytes_each"),
    [
        ("torchtitan", FSDP, 2 * (2 + 2) + (2 + 4)),  # out of bf16 in both passes, bf16 gradients into fp32
        ("fsdp2", replace(FSDP, gradients="bf16"), 2 * (2 + 2) + (2 + 2)),
        ("fsdp", replace(FSDP, gradients="bf16"), 2 + 2),
        ("fsdp", replace(FSDP, gradients="bf16", has_autocast_weights=True), 4 + 4),  # gradients of fp32 weights
    ],
)
def test_copies_read_and_write_every_parameter_as_often_as_by_hand(framework, precision, bytes_each) -> None:
    found = copies(replace(SHARDED, framework=framework), precision)
    graph = workload(precision).training_graph()
    num_parameters = sum(
        block.repeat * int((block.ops.weight_elements + block.ops.bias_elements)[~block.ops.is_tied].sum())
        for block in graph.blocks
    )
    moved = sum(one.num_runs * one.hbm_bytes for one in found) / NUM_MICROBATCHES
    assert moved == pytest.approx(num_parameters * bytes_each, rel=0.01)


def test_a_step_takes_its_copies_longer_than_one_of_no_framework() -> None:
    """Less what then hides behind them, and more where the clock is below full."""
    titan = replace(SHARDED, framework="torchtitan")
    copied_s = sum(one.total_s for one in copies(titan))
    assert copied_s > 0
    longer_s = step_s(titan) - step_s(SHARDED)
    assert 0.5 * copied_s < longer_s < 1.2 * copied_s


def test_one_rank_alone_copies_nothing() -> None:
    tensor = Plan(tensor_parallel=8, zero_stage=3, framework="torchtitan")
    assert not copies(tensor)
    assert step_s(tensor) == step_s(replace(tensor, framework="plain"))


def test_many_plans_copy_as_one_does() -> None:
    plans = [replace(SHARDED, framework="fsdp2", zero_stage=stage) for stage in (0, 2, 3)]
    plans.append(Plan(tensor_parallel=2, data_parallel=4, zero_stage=3, framework="fsdp2"))
    together = step_times(workload().training_graph(), columns_of(plans), CLUSTER, FSDP).step_s
    assert np.allclose(together, [step_s(plan) for plan in plans], rtol=1e-12)


def test_copies_are_kernels_of_the_timeline_and_no_wait_for_the_host() -> None:
    plan = replace(SHARDED, framework="torchtitan")
    graph = workload().training_graph()
    told = [one for one in step_events(graph, plan, CLUSTER, FSDP).stage(0) if one.name in COPIES]
    assert {one.name for one in told} == set(COPIES)
    drawn_s = sum(one.end_s - one.begin_s for one in told)
    assert drawn_s == pytest.approx(sum(one.total_s for one in copies(plan)) / NUM_MICROBATCHES, rel=0.2)


@pytest.mark.parametrize(("name", "copy"), [("split_with_sizes_copy", 0), ("chunk_cat", 1)])
def test_copies_take_what_was_measured_of_them(name: str, copy: int) -> None:
    """Layers of Llama 3 8B and 70B over 8 and 64 ranks, bf16 out of what is gathered and into fp32, on one H200."""
    with (REPOSITORY / "benchmarks/data/h200_narrow.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["kind"].startswith(name)]
    assert len(rows) == 4
    ratios = []
    for row in rows:
        ops = rows_to_ops([_copy(copy, int(row["read_bytes"]) // 2, FSDP)])
        rate = WIDENED_FRAC if copy else COPIED_FRAC
        ratios.append(float(op_costs(ops, chips["h200-sxm"]()).compute_s[0]) / rate / MICRO / float(row["time_us"]))
    assert max(ratios) < 1.25
    assert min(ratios) > 0.70
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.06)
