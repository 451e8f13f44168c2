"""Whether a plan fits is one question: simulate, plan, mine, codesign and pareto answer it alike, to the byte."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.evaluate import Outcome, evaluate, memory_use
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.hardware.clusters import clusters
from dovetail.hardware.clusters.template_torus import template_torus
from dovetail.hardware.heterogeneous import HeterogeneousCluster
from dovetail.hardware.link import Link
from dovetail.parallel.plan import Plan
from dovetail.parallel.pools import usable_by_stage
from dovetail.parallel.sharding import shard
from dovetail.search.codesign.joint import joint_search, local_backend
from dovetail.search.codesign.pareto import local_backend as pareto_hands
from dovetail.search.codesign.pareto import pareto_front
from dovetail.search.codesign.question import Budget, Case, JointQuestion, system_space
from dovetail.search.codesign.scoring import Scorer
from dovetail.search.metrics import metrics
from dovetail.search.mining.task import Task
from dovetail.search.objectives import objectives
from dovetail.search.planners.plan_space import PlanSpace
from dovetail.search.planners.planner import search_plans
from dovetail.units import GIGA, MICRO
from tests.codesign_questions import workload

BASES = ("tpuv2-like", "tpuv4-like")  # templates: what mine and codesign build on
WORKLOAD = workload("tied")


def bordering(base: str, plan: Plan, headroom_frac: float | None) -> Chip:
    """`base` with as much memory as `plan` needs and a quarter of a byte."""
    chip = chips[base]()
    chip = replace(chip, die=replace(chip.die, num_hbm_stacks=1))  # a stack has at least a GiB
    if headroom_frac is not None:
        chip = replace(chip, hbm_reserve_frac=headroom_frac)
    need_bytes = memory_use(shard(WORKLOAD.training_graph(), plan), WORKLOAD.precision, math.inf).need_bytes
    capacity_bytes = (need_bytes + 0.25) / (chip.usable_bytes / chip.hbm.capacity_bytes)
    return replace(chip, hbm=replace(chip.hbm, capacity_bytes=capacity_bytes))


def a_byte_less(chip: Chip) -> Chip:
    return replace(chip, hbm=replace(chip.hbm, capacity_bytes=chip.hbm.capacity_bytes - 1))


def space_of(plan: Plan) -> PlanSpace:
    """The plan alone."""
    return PlanSpace(
        tensor_parallel=(plan.tensor_parallel,),
        sequence_parallel=(plan.sequence_parallel,),
        context_parallel=(1,),
        pipeline_parallel=(1,),
        interleave=(1,),
        zero_stage=(plan.zero_stage,),
        microbatch=(plan.microbatch,),
        recompute=plan.recompute,
        axis_order=(plan.axis_order,),
    )


def question_of(chip: Chip, plan: Plan) -> JointQuestion:
    """One system, `chip` itself, and one plan."""
    return JointQuestion(
        cases=(Case(workload=WORKLOAD, plans=space_of(plan)),),
        base=chip,
        network=template_torus,
        space=system_space(chip, plan.num_devices, {}),
        budget=Budget(),
        metric=metrics["throughput"],
        reference_losses=(1.0,),
    )


def verdicts(chip: Chip, plan: Plan) -> dict[str, bool]:
    """Whether the plan fits the chip, by each that is asked."""
    cluster = template_torus(chip, plan.num_devices)
    asked = question_of(chip, plan)
    found = search_plans(
        WORKLOAD,
        cluster,
        space_of(plan),
        objectives["time"],
        num_best=1,
        cluster_usd=0.0,
        progress=lambda *_: None,
    )
    return {
        "simulate": isinstance(evaluate(WORKLOAD, cluster, plan, has_changes=False), Outcome),
        "plan": bool(found.best),
        "mine": Task(workload=WORKLOAD, plan=plan).memory(chip).fits,
        "codesign": joint_search(Scorer(asked), local_backend(Scorer(asked))) is not None,
        "pareto": bool(pareto_front(asked, pareto_hands(Scorer(asked)), ("throughput", "area")).systems),
    }


@settings(max_examples=5, deadline=None)
@given(
    base=st.sampled_from(BASES),
    copies=st.sampled_from([1, 2, 4]),
    zero_stage=st.sampled_from([0, 1, 3]),
    microbatch=st.sampled_from([1, 2]),
    recompute=st.sampled_from(["none", "full"]),
    headroom_frac=st.sampled_from([None, 0.0, 0.05, 0.2]),
)
def test_all_commands_agree_on_the_last_byte(base, copies, zero_stage, microbatch, recompute, headroom_frac):
    plan = Plan(
        data_parallel=copies,
        zero_stage=zero_stage if copies > 1 else 0,
        microbatch=microbatch,
        recompute=(recompute,),
    )
    chip = bordering(base, plan, headroom_frac)
    assert set(verdicts(chip, plan).values()) == {True}
    assert set(verdicts(a_byte_less(chip), plan).values()) == {False}


@pytest.mark.parametrize("headroom_frac", [0.0, 0.04, 0.3])
def test_parts_of_a_cluster_are_each_held_to_their_own_usable_memory(headroom_frac):
    cluster = clusters["dgx-h100"].build(8)
    parts = (replace(cluster.with_headroom(headroom_frac), name="other"), cluster)
    mixed = HeterogeneousCluster(
        name="two", pools=parts, between=Link(bandwidth_bytes_per_s=25 * GIGA, latency_s=8 * MICRO), sources=()
    )
    plan = Plan(pipeline_parallel=2, tensor_parallel=8, stage_pools=(1, 0))
    assert usable_by_stage(plan, mixed) == (parts[1].usable_bytes, parts[0].usable_bytes)
    assert parts[0].usable_bytes == cluster.chip.visible_bytes * (1 - headroom_frac)
