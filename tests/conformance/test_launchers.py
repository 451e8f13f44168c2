"""Every launcher keeps its promise: all degrees are told, whatever it writes parses, and nothing goes unsaid."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from dovetail.api.requests.jobs import LaunchRequest
from dovetail.errors import DovetailError
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import AXES, Overlap, Plan
from dovetail.parallel.recipes import plans
from dovetail.report.launchers import launch as launching
from dovetail.report.launchers.fallbacks import as_run
from dovetail.report.launchers.frameworks import launchers
from dovetail.report.launchers.launch import Missing, launch_record, launch_text
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

# Each choice away from its default, beside what it needs; data parallelism is told by the number of ranks.
CHANGED = {
    "tensor_parallel": Plan(tensor_parallel=2, sequence_parallel=True, data_parallel=4, zero_stage=3),
    "sequence_parallel": Plan(tensor_parallel=2, sequence_parallel=True, data_parallel=4, zero_stage=3),
    "context_parallel": Plan(context_parallel=2, data_parallel=4, zero_stage=3),
    "context_comm_type": Plan(context_parallel=2, context_comm_type="ring", data_parallel=4, zero_stage=3),
    "pipeline_parallel": Plan(pipeline_parallel=2, data_parallel=4, zero_stage=1),
    "interleave": Plan(pipeline_parallel=4, interleave=2, data_parallel=2, zero_stage=1),
    "schedule": Plan(pipeline_parallel=2, schedule="gpipe", data_parallel=4, zero_stage=1),
    "zero_stage": Plan(data_parallel=8, zero_stage=2),
    "microbatch": Plan(data_parallel=8, zero_stage=3, microbatch=2),
    "recompute": Plan(data_parallel=8, zero_stage=3, recompute=("full",)),
    "recompute_layers": Plan(data_parallel=8, zero_stage=3, recompute=("full",), recompute_layers=(16,)),
    "layers_per_stage": Plan(pipeline_parallel=2, data_parallel=4, zero_stage=1, layers_per_stage=(15, 17)),
    "offload_optimizer": Plan(data_parallel=8, zero_stage=1, offload_optimizer=True),
    "offload_activations_frac": Plan(data_parallel=8, zero_stage=3, offload_activations_frac=0.5),
    "axis_order": Plan(pipeline_parallel=2, data_parallel=4, zero_stage=1, axis_order=("tp", "cp", "pp", "dp")),
    "overlap": Plan(data_parallel=8, zero_stage=3, overlap=Overlap(data=False)),
}
# Choices that at least one framework has no words for.
ODD = (
    Plan(pipeline_parallel=4, data_parallel=2, recompute=("norm-activation",), recompute_layers=(3,), zero_stage=1),
    Plan(pipeline_parallel=2, data_parallel=4, recompute=("full", "none"), recompute_layers=(5, 0), zero_stage=1),
    Plan(
        pipeline_parallel=4, interleave=2, schedule="zb-v", data_parallel=2, recompute=("selective-op",), zero_stage=1
    ),
    Plan(pipeline_parallel=4, interleave=4, data_parallel=2, recompute=("full",), recompute_layers=(3,), zero_stage=1),
    Plan(tensor_parallel=2, pipeline_parallel=2, context_parallel=2, axis_order=AXES[::-1]),
    Plan(tensor_parallel=2, data_parallel=4, zero_stage=3, overlap=Overlap(tensor=True), recompute=("selective",)),
    Plan(pipeline_parallel=4, data_parallel=2, zero_stage=1, schedule="dualpipe", layers_per_stage=(7, 9, 9, 7)),
)
# Told by the number and order of ranks, of experts (see the unit tests), or not for a framework to hear.
ELSEWHERE = {
    "data_parallel",
    "expert_parallel",
    "expert_tensor_parallel",
    "dispatcher",
    "stage_pools",
    "framework",
}


def said(framework: str, plan: Plan) -> tuple[tuple[str, ...], str, tuple[Missing, ...]]:
    workload = Workload(model=models["llama3-8b"](), global_batch=64, seq=8192)
    try:
        started = launchers[framework](workload, clusters["dgx-h100"].build(plan.num_devices), plan)
    except DovetailError as refused:
        return (f"{refused} {plan}",), "", ()
    return started.words, started.config, started.missing


@pytest.mark.parametrize("framework", launchers.names())
@pytest.mark.parametrize("choice", CHANGED)
def test_a_choice_changes_what_is_written(framework, choice):
    plan = CHANGED[choice]
    default = getattr(Plan(), choice)
    if choice in ("tensor_parallel", "context_parallel", "pipeline_parallel"):
        without = Plan(data_parallel=8, zero_stage=plan.zero_stage)
    else:
        without = dataclasses.replace(plan, **{choice: default})
    if choice == "zero_stage":
        without = dataclasses.replace(plan, zero_stage=3)
    assert said(framework, plan) != said(framework, without)


@pytest.mark.parametrize("framework", launchers.names())
@pytest.mark.parametrize("plan", [*CHANGED.values(), *ODD], ids=str)
def test_what_runs_instead_is_a_plan_that_the_framework_runs_as_it_is(framework, plan):
    workload = Workload(model=models["llama3-8b"](), global_batch=64, seq=8192, kernels="eager")
    cluster = clusters["dgx-h100"].build(plan.num_devices)
    try:
        launch = launchers[framework](workload, cluster, plan)
    except DovetailError:
        assert framework == "fsdp2", f"{framework} refuses {plan}"  # which has no pipeline
        assert plan.pipeline_parallel > 1
        return
    run_workload, run_plan = as_run(workload, plan, launch.missing)
    again = launchers[framework](run_workload, cluster, run_plan).missing
    assert as_run(run_workload, run_plan, again) == (run_workload, run_plan)


def test_every_choice_that_launchers_know_has_a_case_and_is_one_of_a_plan():
    assert CHANGED.keys() | ELSEWHERE == launching.CHOICES
    assert {one.name for one in dataclasses.fields(Plan)} >= launching.CHOICES
    assert {one.name for one in dataclasses.fields(Overlap)} >= launching.OVERLAPS


@pytest.mark.parametrize("framework", launchers.names())
@pytest.mark.parametrize("name", sorted({one.name for one in dataclasses.fields(Overlap)} - launching.OVERLAPS))
def test_an_overlap_that_launchers_do_not_know_is_named(framework, name):
    flipped = dataclasses.replace(Overlap(), **{name: not getattr(Overlap(), name)})
    _, _, missing = said(framework, Plan(data_parallel=8, zero_stage=3, overlap=flipped))
    assert f"overlap.{name}" in {one.what.split()[0] for one in missing}


@pytest.mark.parametrize("framework", launchers.names())
@pytest.mark.parametrize("name", plans.names())
def test_a_named_plan_is_written_or_refused_in_one_line(framework, name):
    plan = plans[name].plan
    model = models["llama3-405b" if plan.num_chunks * 2 > 64 else "megatron-530b"]()
    workload = Workload(model=model, global_batch=plan.data_parallel * plan.microbatch * plan.num_chunks, seq=2048)
    refusal = ""
    try:
        started = launchers[framework](workload, clusters["dgx-h100"].build(plan.num_devices), plan)
    except DovetailError as refused:
        refusal = str(refused)
    else:
        assert launch_text(started).isascii()
        assert launch_record(started)["command"] == list(started.words)
    assert refusal.isprintable()


@pytest.mark.parametrize("framework", launchers.names())
def test_a_launcher_is_named_where_people_look(framework):
    guide = Path(__file__).parents[2] / "docs" / "howto" / "launch-a-plan.md"
    assert f"| `{framework}` |" in guide.read_text(encoding="utf-8")
    [help_text] = [each.option.help for each in LaunchRequest.parameters if each.name == "framework"]
    assert framework in help_text
