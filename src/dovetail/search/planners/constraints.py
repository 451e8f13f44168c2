"""What a user wants of a plan: choices fixed to some values, features and values forbidden."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from dovetail.errors import InvalidInput
from dovetail.parallel.check import check_plan
from dovetail.parallel.plan import OVERLAPS, Overlap, Plan
from dovetail.search.planners.plan_space import MAX_INTERLEAVE, MAX_MICROBATCH, PlanSpace, batches, divisors
from dovetail.workload.graph import Graph

OVERLAP = "overlap."
STAGES, EVEN = "stages", "even"  # whether layers and recompute may differ by stage: no choice of the space's columns
KEYS = (
    *(field.name for field in fields(PlanSpace) if field.name != "overlap"),
    *(OVERLAP + name for name in OVERLAPS),
    STAGES,
)
DEGREES = ("tensor_parallel", "context_parallel", "pipeline_parallel", "data_parallel", "expert_parallel")
# A feature that can be forbidden: the choice it is, and the plain value that is left.
FEATURES: dict[str, tuple[str, Any]] = {
    "tensor": ("tensor_parallel", 1),
    "sequence": ("sequence_parallel", False),
    "context": ("context_parallel", 1),
    "pipeline": ("pipeline_parallel", 1),
    "interleave": ("interleave", 1),
    "expert": ("expert_parallel", 1),
    "zero": ("zero_stage", 0),
    "recompute": ("recompute", "none"),
    "uneven": (STAGES, EVEN),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """Values that a choice must have (or must not have, where it `forbids`), and where a user said so."""

    key: str
    values: tuple[Any, ...]
    where: str
    forbids: bool = False

    @property
    def words(self) -> str:
        return f"{self.key}{' not ' if self.forbids else '='}{', '.join(written(value) for value in self.values)}"


def written(value: Any) -> str:
    """A value of a choice as people write it."""
    if isinstance(value, tuple):
        return "-".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def without(feature: str, where: str) -> Constraint:
    """The constraint that forbids a feature: its choice is the plain one."""
    key, plain = FEATURES[feature]
    return Constraint(key=key, values=(plain,), where=where)


def overruled(under: Iterable[Constraint], over: Iterable[Constraint]) -> tuple[Constraint, ...]:
    """All of them, but of those `under` only the ones whose choice none `over` fixes."""
    overruling = tuple(over)
    fixed = {one.key for one in overruling if not one.forbids}
    return (*(one for one in under if one.key not in fixed), *overruling)


def are_stages_even(constraints: Iterable[Constraint]) -> bool:
    """Whether plans whose layers or recompute differ by stage are forbidden."""
    return any(one.key == STAGES for one in constraints)


def space_under(constraints: Iterable[Constraint], graph: Graph, num_devices: int) -> PlanSpace:
    """The plans that keep all `constraints`; raises where a choice is left without a value or no plan remains."""
    wanted = tuple(constraints)
    for one in wanted:
        _check_possible(one, graph, num_devices)
    space = _space(wanted, graph, num_devices)
    if not _has_plans(space, graph, num_devices):
        raise _empty(wanted, graph, num_devices)
    return space


def _space(wanted: tuple[Constraint, ...], graph: Graph, num_devices: int) -> PlanSpace:
    keys = tuple(dict.fromkeys(one.key for one in wanted))
    left = {key: _left([one for one in wanted if one.key == key], graph, num_devices) for key in keys}
    plain = Overlap()
    flags = [left.get(OVERLAP + name, (getattr(plain, name),)) for name in OVERLAPS]
    overlaps = tuple(Overlap(**dict(zip(OVERLAPS, chosen, strict=True))) for chosen in itertools.product(*flags))
    chosen: dict[str, Any] = {key: values for key, values in left.items() if not key.startswith((OVERLAP, STAGES))}
    return PlanSpace(overlap=overlaps, **chosen)


def _left(constraints: list[Constraint], graph: Graph, num_devices: int) -> tuple[Any, ...]:
    """The values of one choice that its constraints leave, of those fixed or else of those a planner would try."""
    fixed = [one for one in constraints if not one.forbids]
    known = fixed[0].values if fixed else _domain(constraints[0].key, graph, num_devices)
    left = tuple(value for value in known if all((value in one.values) != one.forbids for one in constraints))
    if not left:
        rules = " and ".join(f"{one.words} ({one.where})" for one in constraints)
        raise InvalidInput(f"nothing is left of {constraints[0].key}: {rules}; remove one", constraints[-1].where)
    return left


def _domain(key: str, graph: Graph, num_devices: int) -> tuple[Any, ...]:
    """Every value that a planner would try."""
    if key.startswith(OVERLAP):
        return (True, False)
    if key == STAGES:
        return (EVEN,)
    if key in DEGREES:
        return divisors(num_devices)
    if key == "microbatch":
        return tuple(size for size in divisors(graph.batch) if size <= MAX_MICROBATCH)
    if key == "interleave":
        return tuple(range(1, MAX_INTERLEAVE + 1))
    if key == "offload_optimizer":
        return (False, True)
    values: tuple[Any, ...] = getattr(PlanSpace(), key)
    return values


def _has_plans(space: PlanSpace, graph: Graph, num_devices: int) -> bool:
    return next(batches(space, graph, num_devices), None) is not None


def _empty(wanted: tuple[Constraint, ...], graph: Graph, num_devices: int) -> InvalidInput:
    """Why no plan is left, and which single rule could go."""
    if not wanted:
        message = f"no plan cuts {graph.model} with global_batch={graph.batch} for {num_devices} devices"
        return InvalidInput(f"{message}: no degrees divide both; use another number of devices or global_batch")
    rules = " and ".join(one.words for one in wanted)
    spaces = [_space(tuple(other for other in wanted if other is not one), graph, num_devices) for one in wanted]
    helping = [one for one, space in zip(wanted, spaces, strict=True) if _has_plans(space, graph, num_devices)]
    way_out = f"leave out {' or '.join(one.words for one in helping)}" if helping else "leave out several of them"
    message = f"no plan for {graph.model}, global_batch={graph.batch} and {num_devices} devices has {rules}"
    return InvalidInput(f"{message}; {way_out}", (helping or wanted)[0].where)


def _check_possible(one: Constraint, graph: Graph, num_devices: int) -> None:
    """Raises with the broken relation where no value of a fixed choice can be, whatever the others are."""
    if one.forbids:
        return
    problems = [_problem(one.key, value, graph, num_devices) for value in one.values]
    if all(problems):
        raise InvalidInput(problems[0], one.where)


def _problem(key: str, value: Any, graph: Graph, num_devices: int) -> str:
    """The relation that a value breaks by itself; empty where there is none."""
    if key in DEGREES and num_devices % value:
        suited = tuple(degree for degree in divisors(num_devices) if not _problem(key, degree, graph, num_devices))
        rule = f"{'must divide' if value < num_devices else 'is more than'} the cluster's {num_devices:,} devices"
        return f"{key}={value} {rule}; try {_near(suited, value)}"
    if key in ("data_parallel", "microbatch") and graph.batch % value:
        return f"{key}={value} must divide global_batch={graph.batch}; try {_near(divisors(graph.batch), value)}"
    if key == "interleave" and value > 1 and 2 * value > graph.num_layers:
        message = f"interleave={value} needs {2 * value} layers on two stages; {graph.model} has {graph.num_layers}"
        return f"{message}, so use at most {max(1, graph.num_layers // 2)}"
    if key in DEGREES and key != "data_parallel":
        return _refusal(key, value, graph)
    return ""


def _near(known: tuple[int, ...], value: int) -> str:
    """Of the `known` values in order those next below and next above `value`."""
    near = [d for d in known if d < value][-1:] + [d for d in known if d > value][:1]
    return " or ".join(str(one) for one in near)


def _refusal(key: str, degree: int, graph: Graph) -> str:
    """What the model's shape has against a degree; experts may be cut by it or left whole."""
    has_experts = graph.has_experts
    copies = degree if key == "expert_parallel" else 1
    variants: list[dict[str, Any]] = [{key: degree, "data_parallel": copies}]
    if key == "tensor_parallel" and has_experts:
        variants = [variants[0] | {"expert_tensor_parallel": degree}, variants[0] | {"sequence_parallel": True}]
    problems = []
    for variant in variants:
        plan = Plan(**variant)
        try:
            check_plan(plan, replace(graph, batch=copies), plan.num_devices)
        except InvalidInput as error:
            problems.append(error.message)
    return problems[0] if len(problems) == len(variants) else ""
