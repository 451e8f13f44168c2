"""Where the time goes on every stage: parts add up, the slowest agrees with the step, and passes are played out."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dovetail.errors import InvalidInput
from dovetail.evaluate import Outcome, evaluate
from dovetail.files.job import load_spec
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import Plan
from dovetail.step.pipelines import pipelines, schedule_name
from dovetail.step.stage_operators import stage_operators
from dovetail.step.stage_steps import StageStep, num_played, stage_steps, step_timeline
from dovetail.step.step import assembly_of
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
CUT: dict[str, Any] = {"tensor_parallel": 2, "sequence_parallel": True, "data_parallel": 2}
PLANS = {
    "1f1b": Plan(pipeline_parallel=4, **CUT, zero_stage=1),
    "gpipe": Plan(pipeline_parallel=4, **CUT, schedule="gpipe", recompute=("full",)),
    "interleaved": Plan(pipeline_parallel=4, **CUT, interleave=2),
    "zero bubble": Plan(pipeline_parallel=4, **CUT, schedule="zb-h1"),
    "two ways": Plan(pipeline_parallel=4, **CUT, schedule="dualpipe"),
    "there and back": Plan(pipeline_parallel=4, **CUT, schedule="zb-v", interleave=2),
    "one stage": Plan(tensor_parallel=2, sequence_parallel=True, data_parallel=8, zero_stage=3),
    "uneven": Plan(
        pipeline_parallel=4, **CUT, layers_per_stage=(7, 9, 9, 7), recompute=("norm-activation", "none", "none", "none")
    ),
}


@cache
def outcome_of(name: str) -> Outcome:
    if name == "parts":
        job = load_spec(EXAMPLES / "llama3-70b-mixed.yaml")
        found = evaluate(job.workload, job.cluster, job.plan, has_changes=False)
    else:
        entry = models["llama3-8b"]()
        workload = Workload(model=entry, global_batch=64, seq=4096)
        found = evaluate(workload, clusters["dgx-h100"].build(16), PLANS[name], has_changes=False)
    assert isinstance(found, Outcome)
    return found


def stages_of(found: Outcome) -> tuple[StageStep, ...]:
    return stage_steps(found.workload.training_graph(), found.plan, found.cluster, found.workload.precision)


EVERY = [*PLANS, "parts"]


@pytest.mark.parametrize("name", EVERY)
def test_the_parts_of_every_stage_add_up_to_the_step(name):
    found = outcome_of(name)
    stages = stages_of(found)
    assert sum(stage.num_stages for stage in stages) == found.plan.pipeline_parallel
    for stage in stages:
        exposed_s = sum(comm.exposed_s for comm in stage.comm) + stage.offload.exposed_s
        whole_s = stage.compute_s + stage.host_s + exposed_s + stage.update_s + stage.idle_s
        assert whole_s == pytest.approx(found.step.step_s, rel=1e-9)


@pytest.mark.parametrize("name", EVERY)
def test_the_slowest_stage_computes_what_the_step_says(name):
    found = outcome_of(name)
    [slowest] = [one for one in stages_of(found) if one.first_stage == found.step.slowest_stage]
    assert slowest.compute_s == pytest.approx(found.step.compute_s)
    assert slowest.recompute_s == pytest.approx(found.step.recompute_s)
    assert slowest.host_s == pytest.approx(found.step.host_s)
    assert slowest.comm[0].exposed_s == pytest.approx(found.step.comm[0].exposed_s)
    assert slowest.comm[0].hidden_s == pytest.approx(found.step.comm[0].hidden_s)


@pytest.mark.parametrize("name", EVERY)
def test_passes_played_out_take_what_the_closed_form_says_within_its_word(name):
    found = outcome_of(name)
    asked = (found.workload.training_graph(), found.plan, found.cluster, found.workload.precision)
    played, closed_form_s = step_timeline(*asked), float(assembly_of(*asked).pipeline_s[0])
    short_frac = pipelines[schedule_name(found.plan)].worst_short_frac[-1]
    assert closed_form_s * (1 - 1e-9) <= played.pipeline_s <= closed_form_s * (1 + short_frac + 1e-9)
    assert len(played.order.devices) == found.plan.pipeline_parallel


def test_a_step_of_too_many_passes_is_not_played_out():
    found = outcome_of("1f1b")
    graph = found.workload.training_graph()
    plan = found.plan
    played = step_timeline(graph, plan, found.cluster, found.workload.precision)
    assert num_played(graph, plan) == played.order.num_microbatches * len(played.order.chunk_devices)
    longer = replace(graph, batch=10**9)
    with pytest.raises(InvalidInput, match="at most 200,000 microbatches of all stages; got"):
        step_timeline(longer, plan, found.cluster, found.workload.precision)


def test_operators_of_a_stage_take_what_the_stage_computes_at_full_clock():
    found = outcome_of("1f1b")
    stage = int(found.step.slowest_stage)
    workload = found.workload
    operators = stage_operators(workload.training_graph(), found.plan, found.cluster, stage, workload.precision)
    passes_s = sum(one.total_s for one in operators if one.phase != "update")
    assert passes_s <= found.step.compute_s  # the clock is below full, and launches are waited for
    assert passes_s >= 0.6 * found.step.compute_s
    assert {one.phase for one in operators} == {"forward", "input-grad", "weight-grad", "update"}
    assert all(one.num_runs >= 1 for one in operators)


def test_a_run_of_stages_says_which():
    labels = [stage.label for stage in stages_of(outcome_of("1f1b"))]
    assert labels == ["0", "1-2", "3"]
