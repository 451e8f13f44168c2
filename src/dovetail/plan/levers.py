"""What would make a plan fit: single changes a person would try, each tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from dovetail.errors import InvalidInput
from dovetail.plan.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What a plan was found to need and to take."""

    need_bytes: float
    step_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """A change of the plan, what a device would then need, and how long a step would take."""

    change: str
    plan: Plan
    need_bytes: float
    step_s: float
    fits: bool


def levers(plan: Plan, tried: Callable[[Plan], Trial], limit_bytes: float) -> tuple[Lever, ...]:
    """Changes of `plan` that lower its need: those that fit first, the fastest of them foremost.

    `tried` raises `InvalidInput` for a plan the model or cluster cannot have; such changes are left out.
    """
    found = []
    current_bytes = tried(plan).need_bytes
    for change, changed in _changes(plan):
        try:
            trial = tried(changed)
        except InvalidInput:  # a neighbour the model's shape does not allow is no lever
            continue
        if trial.need_bytes < current_bytes:
            fits = trial.need_bytes <= limit_bytes
            lever = Lever(change=change, plan=changed, need_bytes=trial.need_bytes, step_s=trial.step_s, fits=fits)
            found.append(lever)
    return tuple(sorted(found, key=lambda lever: (not lever.fits, lever.step_s if lever.fits else lever.need_bytes)))


def _changes(plan: Plan) -> Iterator[tuple[str, Plan]]:
    for policy in ("light", "selective", "full"):
        if set(plan.recompute) != {policy}:
            yield f"recompute: {policy}", replace(plan, recompute=(policy,))
    if plan.tensor_parallel > 1 and not plan.sequence_parallel:
        yield "sequence_parallel: true", replace(plan, sequence_parallel=True)
    if plan.microbatch > 1:
        yield f"microbatch: {plan.microbatch // 2}", replace(plan, microbatch=plan.microbatch // 2)
    for stage in range(plan.zero_stage + 1, 4):
        yield f"zero_stage: {stage}", replace(plan, zero_stage=stage)
    yield from _regroupings(plan)
    if plan.zero_stage < 3 or set(plan.recompute) != {"full"}:
        yield "zero_stage: 3 and recompute: full", replace(plan, zero_stage=3, recompute=("full",))


def _regroupings(plan: Plan) -> Iterator[tuple[str, Plan]]:
    """Twice or four times the model-parallel devices in place of data-parallel replicas."""
    for times in (2, 4):
        if plan.data_parallel % times:
            continue
        data = plan.data_parallel // times
        tensor = plan.tensor_parallel * times
        expert_tensor = tensor if plan.expert_tensor_parallel > 1 else 1
        yield (
            f"tensor_parallel: {tensor}, data_parallel: {data}",
            replace(plan, tensor_parallel=tensor, data_parallel=data, expert_tensor_parallel=expert_tensor),
        )
        if len(plan.recompute) == 1 and not plan.layers_per_stage:
            stages = plan.pipeline_parallel * times
            yield (
                f"pipeline_parallel: {stages}, data_parallel: {data}",
                replace(plan, pipeline_parallel=stages, data_parallel=data),
            )
        yield (
            f"context_parallel: {plan.context_parallel * times}, data_parallel: {data}",
            replace(plan, context_parallel=plan.context_parallel * times, data_parallel=data),
        )
