"""Whether a plan lies in a space that was searched: then a search that says more than its gap of it is wrong."""

from __future__ import annotations

from itertools import groupby

from dovetail.hardware.families import PLAIN
from dovetail.parallel.dispatchers import ALL_TO_ALL
from dovetail.parallel.plan import Plan
from dovetail.search.planners.plan_space import MAX_INTERLEAVE, MAX_MICROBATCH, PlanSpace

_DEGREES = ("tensor_parallel", "context_parallel", "pipeline_parallel", "data_parallel", "expert_parallel")


def holds(space: PlanSpace, plan: Plan, *, is_even_only: bool, framework: str = PLAIN) -> bool:
    """Whether `space` holds `plan`, which can run; with `is_even_only`, only such plans whose stages are uniform.

    Layers and the policy of each stage are free otherwise. Choices that change nothing are not told apart: a schedule
    of one stage, an exchange or a ZeRO stage of one rank, the order of axes of one device. Plans of a search run by
    `framework`, that of the cluster's chips.
    """
    return (
        all(getattr(plan, name) in (getattr(space, name) or (getattr(plan, name),)) for name in _DEGREES)
        and _has_pipeline(space, plan)
        and _has_ranks(space, plan)
        and plan.framework == framework
        and _has_recompute(space, plan)
        and (not is_even_only or _is_even(plan))
        and len(list(groupby(plan.stage_pools))) == len(set(plan.stage_pools))  # each pool is one stretch
    )


def _has_pipeline(space: PlanSpace, plan: Plan) -> bool:
    schedule = "1f1b" if plan.schedule == "interleaved" else plan.schedule
    return (
        (plan.pipeline_parallel == 1 or schedule in space.schedule)
        and plan.interleave in (space.interleave or range(1, MAX_INTERLEAVE + 1))
        and plan.microbatch in (space.microbatch or range(1, MAX_MICROBATCH + 1))
    )


def _has_ranks(space: PlanSpace, plan: Plan) -> bool:
    is_alone = plan.data_parallel * plan.context_parallel == 1
    orders = (_axes(plan, order) for order in space.axis_order)
    return (
        (plan.tensor_parallel == 1 or plan.sequence_parallel in space.sequence_parallel)
        and (plan.context_parallel == 1 or plan.context_comm_type in space.context_comm_type)
        and (is_alone or plan.zero_stage in space.zero_stage)
        and plan.expert_tensor_parallel in (1, plan.tensor_parallel)
        and plan.dispatcher == ALL_TO_ALL
        and plan.overlap in space.overlap
        and plan.offload_optimizer in space.offload_optimizer
        and plan.offload_activations_frac in space.offload_activations_frac
        and _axes(plan, plan.axis_order) in orders
    )


def _axes(plan: Plan, order: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(axis for axis in order if plan.degree(axis) > 1)


def _has_recompute(space: PlanSpace, plan: Plan) -> bool:
    """Layers that a policy does not go for keep everything, which the space must allow."""
    wanted = {*plan.recompute, *(("none",) if plan.recompute_layers else ())}
    return wanted <= set(space.recompute)


def _is_even(plan: Plan) -> bool:
    has_one_policy = len(set(plan.recompute)) == 1 and not plan.recompute_layers
    return has_one_policy and len(set(plan.layers_per_stage)) <= 1
