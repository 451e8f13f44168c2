"""A framework's rules, by which searches are kept to what it runs, say of every plan what its launcher does."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from dovetail.errors import DovetailError
from dovetail.hardware.clusters import clusters
from dovetail.parallel.check import check_plan
from dovetail.parallel.plan import AXES, Overlap, Plan, columns_of
from dovetail.report.launchers.frameworks import launchers
from dovetail.report.launchers.rules import decoder_shape
from dovetail.report.launchers.runnable_spaces import runnable_spaces, runs_as_it_is
from dovetail.search.planners.constraints import KEYS
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

NUM_PLANS = 400
WORKLOADS = {
    "llama3-8b": Workload(model=models["llama3-8b"](), global_batch=64, seq=8192),
    "mixtral-8x7b": Workload(model=models["mixtral-8x7b"](), global_batch=64, seq=4096),
}
every_framework = pytest.mark.parametrize("framework", launchers.names())


def plans_of(framework: str, workload: Workload) -> list[Plan]:
    """Plans of 32 devices from the choices that the framework has, and from a few that it may not have."""
    rng = random.Random(7)
    choices = launchers[framework].choices
    grids = [
        (tp, cp, pp, 32 // (tp * cp * pp))
        for tp, cp, pp in itertools.product((1, 2, 8, 16), (1, 2), (1, 2, 4, 8))
        if tp * cp * pp <= 32
    ]
    shape, graph = decoder_shape(workload), workload.training_graph()
    has_experts = shape is not None and shape.experts is not None
    found: list[Plan] = []
    while len(found) < NUM_PLANS:
        tp, cp, pp, dp = rng.choice(grids)
        flags = {
            name: rng.choice(choices.get(f"overlap.{name}", (getattr(Overlap(), name),)))
            for name in ("data", "tensor", "context", "expert", "pipeline")
        }
        plan = Plan(
            tensor_parallel=tp, context_parallel=cp, pipeline_parallel=pp, data_parallel=dp,
            sequence_parallel=tp > 1 and rng.random() < 0.7, zero_stage=rng.choice((0, 1, 2, 3)),
            context_comm_type=rng.choice(choices.get("context_comm_type", ("gather", "ring"))),
            interleave=rng.choice((1, 1, 2)) if pp > 1 else 1, microbatch=rng.choice((1, 2)),
            expert_parallel=rng.choice((1, 2, 4)) if has_experts else 1,
            expert_tensor_parallel=rng.choice((1, tp)) if has_experts else 1,
            axis_order=rng.choice((AXES, ("tp", "cp", "pp", "dp"))), overlap=Overlap(**flags), framework=framework,
            schedule=rng.choice(tuple(one for one in choices["schedule"] if one in ("1f1b", "gpipe"))),
        )  # fmt: skip
        try:
            check_plan(plan, graph, 32)
            plan.num_microbatches(workload.global_batch)
        except DovetailError:
            continue
        found.append(plan)
    return found


@every_framework
@pytest.mark.parametrize("model", WORKLOADS)
def test_rules_hold_of_the_plans_that_the_launcher_runs_as_they_are_and_of_no_others(framework: str, model: str):
    cluster = clusters["tpu-v5p-pod" if launchers[framework].is_for_tpus else "dgx-h100"].build(32)
    agreed = 0
    for space in runnable_spaces(framework, launchers[framework].versions[0], WORKLOADS[model], cluster, ()):
        runs = runs_as_it_is(launchers[framework], space.workload, cluster)
        plans = [plan for plan in plans_of(framework, space.workload) if plan.zero_stage in space.space.zero_stage]
        for plan in plans:
            [kept] = space.rules(columns_of([plan]))
            assert bool(kept) == runs(plan) or (not kept and is_a_twin(plan)), plan
            agreed += bool(kept)
    assert agreed > 3, f"of {framework} almost no plan was kept, so that nothing was compared"


def is_a_twin(plan: Plan) -> bool:
    """Whether a plan says something of communication that it has not, or waits for transfers where it need not.

    Searches keep the one of such plans that is never slower.
    """
    alone = {"context": plan.context_parallel, "pipeline": plan.pipeline_parallel, "expert": plan.expert_parallel}
    usual = Overlap(context=True, pipeline=True)
    return any(
        degree == 1 and getattr(plan.overlap, name) != getattr(usual, name) for name, degree in alone.items()
    ) or (
        (plan.context_comm_type == "all-to-all" and not plan.overlap.context)
        or (plan.interleave > 1 and not plan.overlap.pipeline)
    )


@every_framework
def test_choices_of_a_framework_are_choices_of_a_plan(framework: str):
    entry = launchers[framework]
    assert set(entry.choices) <= set(KEYS)
    assert entry.versions
    assert entry.version("") == entry.versions[0]
    with pytest.raises(DovetailError, match="--framework-version must be one of"):
        entry.version("0.0.1")


def test_a_user_who_fixes_what_a_framework_lacks_is_told_both_rules():
    from dovetail.files.plan_space import fixed_by

    cluster = clusters["dgx-h100"].build(32)
    with pytest.raises(DovetailError, match=r"nothing is left of recompute.*--framework"):
        runnable_spaces("deepspeed", "0.19", WORKLOADS["llama3-8b"], cluster, (fixed_by("recompute=selective-op"),))


def test_torchtitan_keeps_fp32_weights_where_it_gathers_for_each_pass():
    cluster = clusters["dgx-h100"].build(32)
    spaces = runnable_spaces("torchtitan", "0.2.2", WORKLOADS["llama3-8b"], cluster, ())
    kept = {space.workload.precision.weights: space.space.zero_stage for space in spaces}
    assert kept["bf16"] == (2,)
    assert 3 in kept["fp32"]
    assert replace(WORKLOADS["llama3-8b"], precision=spaces[0].workload.precision) == spaces[0].workload
