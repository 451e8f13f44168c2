"""What would make a plan fit: changes a person would try, alone or two together, each tried."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dovetail.errors import InvalidInput, NotModelled
from dovetail.parallel.plan import RECOMPUTE_POLICIES, Plan, policies_of

Fields = dict[str, Any]  # of a plan, by what they are changed to
OFFLOAD_FRACS = (0.0, 0.25, 0.5, 0.75, 1.0)  # shares of activations on the host that are tried
NUM_PAIRS = 8  # of those that fit, the fastest


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What a plan was found to need, on the device with the least to spare, and to take."""

    need_bytes: float
    limit_bytes: float
    step_s: float
    memory: str = "device"  # whose memory is meant: device, or host where the device has room and its host has not

    @property
    def over_bytes(self) -> float:
        """Need beyond the limit; below 0 there is room to spare."""
        return self.need_bytes - self.limit_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """A change of the plan, what a device would then need, and how long a step would take."""

    change: str
    plan: Plan
    need_bytes: float
    step_s: float
    fits: bool
    memory: str = "device"  # whose memory it needs: device or host


def levers(
    plan: Plan,
    tried: Callable[[Plan], Trial],
    *,
    fitting_s: Callable[[Sequence[Plan]], Sequence[float]] | None = None,
    num_inside: int = 0,
    can_offload: bool = False,
) -> tuple[Lever, ...]:
    """Changes of `plan` that lower its need: those that fit first, the fastest of them foremost, then the nearest.

    Single changes, and pairs of them that are faster than every single one that fits. No two lead to the same plan.
    `tried` raises `InvalidInput` for a plan the model or cluster cannot have; such changes are left out. `fitting_s`
    has the step times of many plans, infinite where one does not fit; without it, pairs are tried only where no single
    change fits, each change together with full recompute. Where another change fits, none spreads tensor parallelism
    over more than the `num_inside` devices of a node; 0: over any.
    """
    current_bytes = tried(plan).over_bytes
    offloads = [*_offloads(plan)] if can_offload else []
    changes = [*_changes(plan), *offloads]
    single = {_words(fields): replace(plan, **fields) for fields in changes}
    helping = _helping(single.items(), tried, current_bytes)

    def is_wide(changed: Plan) -> bool:
        ranks = _tensor_span(changed)
        return 0 < num_inside < ranks and ranks > _tensor_span(plan)

    if fitting_s is not None:
        best_s = min((one.step_s for _, one in helping if one.fits and not is_wide(one.plan)), default=math.inf)
        for firsts in ([*_changes(plan)], offloads):  # pairs with the host only where none does without
            pairs = {
                changed: words
                for words, changed in _pairs(plan, firsts)
                if changed not in single.values() and not is_wide(changed)
            }
            times = zip(fitting_s(tuple(pairs)), pairs, strict=True)
            faster = sorted((pair for pair in times if pair[0] < best_s), key=lambda pair: pair[0])[:NUM_PAIRS]
            helping += _helping([(pairs[changed], changed) for _, changed in faster], tried, current_bytes)
            if any(lever.fits and not is_wide(lever.plan) for _, lever in helping):
                break
    if not any(lever.fits for _, lever in helping) and set(plan.recompute) != {"full"}:
        pairs_with_full = (pair for pair in _with_full(plan, changes) if pair[1] not in single.values())
        helping += _helping(pairs_with_full, tried, current_bytes)
    if any(lever.fits and not is_wide(lever.plan) for _, lever in helping):
        helping = [one for one in helping if not is_wide(one[1].plan)]
    helping.sort(key=lambda one: (not one[1].fits, one[1].step_s if one[1].fits else one[0]))
    return tuple(lever for _, lever in helping)


def _tensor_span(plan: Plan) -> int:
    """Devices next to each other that a tensor-parallel group lies within; 1 where there is none."""
    if plan.tensor_parallel == 1:
        return 1
    order = plan.axis_order
    return math.prod(plan.degree(axis) for axis in order[: order.index("tp") + 1])


def _pairs(plan: Plan, firsts: Iterable[Fields]) -> Iterator[tuple[str, Plan]]:
    """Each of `firsts` with one more change, of another key; the second may also take memory to save time."""
    for first in firsts:
        changed = replace(plan, **first)
        for second in (*_changes(changed), *_relaxations(changed)):
            if not _main_keys(first) & _main_keys(second):
                # a degree that both change names what is left of it once
                kept = {key: value for key, value in first.items() if key not in second}
                yield f"{_words(kept)} and {_words(second)}", replace(changed, **second)


def _main_keys(fields: Fields) -> set[str]:
    """What a change decides, without the replicas that give way."""
    return fields.keys() - {"data_parallel"}


def _relaxations(plan: Plan) -> Iterator[Fields]:
    """Changes that need more memory and may take less time."""
    for policy in RECOMPUTE_POLICIES:
        if set(plan.recompute) != {policy}:
            yield {"recompute": (policy,)}
    for stage in range(plan.zero_stage):
        yield {"zero_stage": stage}
    yield {"microbatch": 2 * plan.microbatch}
    for field in ("tensor_parallel", "context_parallel", "pipeline_parallel"):
        degree = getattr(plan, field)
        while degree % 2 == 0:
            degree //= 2
            factor = getattr(plan, field) // degree
            yield {field: degree, "data_parallel": plan.data_parallel * factor} | _what_goes(plan, field, degree)


def _what_goes(plan: Plan, field: str, degree: int) -> Fields:
    """Fields that a smaller degree leaves nothing to decide of."""
    gone: Fields = {}
    if field == "tensor_parallel" and plan.expert_tensor_parallel > 1:
        gone["expert_tensor_parallel"] = degree
    if field == "tensor_parallel" and degree == 1 and plan.sequence_parallel:
        gone["sequence_parallel"] = False
    if field == "pipeline_parallel" and degree == 1 and plan.interleave > 1:
        gone["interleave"] = 1
    if field == "pipeline_parallel" and degree == 1 and plan.schedule != "1f1b":
        gone["schedule"] = "1f1b"
    return gone


def _with_full(plan: Plan, changes: Iterable[Fields]) -> Iterator[tuple[str, Plan]]:
    """Each of `changes` with full recompute, in place of what it says of recompute itself."""
    for fields in changes:
        others = {name: value for name, value in fields.items() if name != "recompute"}
        if others:
            yield f"{_words(others)} and recompute: full", replace(plan, **others, recompute=("full",))


def _helping(
    changes: Iterable[tuple[str, Plan]], tried: Callable[[Plan], Trial], current_bytes: float
) -> list[tuple[float, Lever]]:
    """Those of `changes` that are possible and less over the limit than now, each behind what it is over."""
    helping = []
    for change, changed in changes:
        try:
            trial = tried(changed)
        except (InvalidInput, NotModelled):  # a neighbour that cannot run, or of which nothing is known, is no lever
            continue
        if trial.over_bytes < current_bytes:
            fits = trial.need_bytes <= trial.limit_bytes
            figures = {"need_bytes": trial.need_bytes, "step_s": trial.step_s}
            helping.append(
                (trial.over_bytes, Lever(change=change, plan=changed, fits=fits, memory=trial.memory, **figures))
            )
    return helping


def _changes(plan: Plan) -> Iterator[Fields]:
    for policy in ("norm-activation", "selective", "full"):
        if set(plan.recompute) != {policy}:
            yield {"recompute": (policy,)}
    if plan.tensor_parallel > 1 and not plan.sequence_parallel:
        yield {"sequence_parallel": True}
    microbatch = plan.microbatch
    while microbatch > 1:
        microbatch //= 2
        yield {"microbatch": microbatch}
    for stage in range(plan.zero_stage + 1, 4):
        yield {"zero_stage": stage}
    yield from _regroupings(plan)
    experts = 2 * plan.expert_parallel
    while plan.data_parallel % experts == 0:
        yield {"expert_parallel": experts}
        experts *= 2


def _offloads(plan: Plan) -> Iterator[Fields]:
    """More on the host where the device lacks memory; less where the host does."""
    is_there, frac = plan.offload_optimizer, plan.offload_activations_frac
    yield {"offload_optimizer": not is_there}
    for other in sorted({*OFFLOAD_FRACS, frac / 2} - {frac}):
        yield {"offload_activations_frac": other}
    if is_there and frac:
        yield {"offload_optimizer": False, "offload_activations_frac": 0.0}


def _regroupings(plan: Plan) -> Iterator[Fields]:
    """More model-parallel devices in place of data-parallel replicas, doubling as long as there are any."""
    factor = 2
    while plan.data_parallel % factor == 0:
        data = plan.data_parallel // factor
        for field in ("tensor_parallel", "context_parallel", "pipeline_parallel"):
            yield {field: getattr(plan, field) * factor, "data_parallel": data} | _what_follows(plan, field, factor)
        factor *= 2


def _what_follows(plan: Plan, field: str, factor: int) -> dict[str, Any]:
    """Fields that must change with a degree: experts are cut as before, and stages are spread again."""
    follows: dict[str, Any] = {}
    if field == "tensor_parallel" and plan.expert_tensor_parallel > 1:
        follows["expert_tensor_parallel"] = plan.expert_tensor_parallel * factor
    if field == "pipeline_parallel" and plan.layers_per_stage:
        follows["layers_per_stage"] = ()
    if field == "pipeline_parallel" and plan.stage_pools:
        follows["stage_pools"] = tuple(part for part in plan.stage_pools for _ in range(factor))
    if field == "pipeline_parallel" and len(plan.recompute) > 1:
        follows["recompute"] = (max(plan.recompute, key=policies_of((plan,)).index),)
    if field == "pipeline_parallel" and len(plan.recompute_layers) > 1:
        follows["recompute_layers"] = ()
    return follows


def _words(fields: Fields) -> str:
    """Fields as lines of a spec."""
    return ", ".join(f"{name}: {_written(value)}" for name, value in fields.items())


def _written(value: Any) -> str:
    """A field as a spec has it: one recompute policy is a word, no layer counts an empty list."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple) and len(value) > 1:
        return f"[{', '.join(map(str, value))}]"
    return (value[0] if value else "[]") if isinstance(value, tuple) else str(value)
