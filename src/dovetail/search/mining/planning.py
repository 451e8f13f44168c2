"""The plan that a chip is mined for, as the planner chooses it: the best on so many chips of the base, in a torus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dovetail.errors import InvalidInput
from dovetail.evaluate import Infeasible, Outcome, evaluate
from dovetail.hardware.chip import Chip
from dovetail.hardware.clusters.template_torus import template_torus
from dovetail.parallel.plan import Plan
from dovetail.search.mining.task import Task
from dovetail.search.objectives import objectives
from dovetail.search.planners.constraints import Constraint, are_stages_even, space_under
from dovetail.search.planners.even_plans import PlanProgress
from dovetail.search.planners.plan_space import PlanSpace, divisors
from dovetail.search.planners.planner import search_plans
from dovetail.workload.workload import Workload

WHERE = "--devices"
PLAIN = Constraint(key="interleave", values=(1,), where=WHERE)  # what designs are scored by has a chunk a stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Replanned:
    """What the planner would choose on another chip, beside the plan that is in use: both by the step model."""

    own: Plan
    current_step_s: float
    plan: Plan
    step_s: float
    gap_frac: float

    @property
    def is_same(self) -> bool:
        return self.own == self.plan

    @property
    def gain_frac(self) -> float:
        """How much faster a step is by the planner's choice."""
        return self.current_step_s / self.step_s - 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTask:
    """A task whose plan the planner chose, and by how much another may be faster at the most.

    `kept` says in words what all plans that it chose from had; `unconstrained` is its choice where they need not have
    several stages, if that was not requested but follows from designs by stage.
    """

    task: Task
    step_s: float  # of the step model, on the chip that it was planned for
    gap_frac: float
    kept: tuple[str, ...] = ()
    unconstrained: tuple[Replanned, ...] = ()


def several_stages(num_devices: int) -> Constraint:
    """What a plan must be where stages are to have designs of their own."""
    degrees = tuple(degree for degree in divisors(num_devices) if degree > 1)
    return Constraint(key="pipeline_parallel", values=degrees, where=WHERE)


def planned_task(
    workload: Workload, chip: Chip, num_devices: int, constraints: Sequence[Constraint], progress: PlanProgress
) -> PlannedTask | Infeasible:
    """The fastest plan for `num_devices` of `chip` in a torus, of those that designs can be mined for.

    Where nothing fits, the plan that needs least memory.
    """
    cluster = template_torus(chip, num_devices)
    wanted = _with_plain(constraints)
    found = search_plans(
        workload,
        cluster,
        _space(workload, constraints, num_devices),
        objectives["time"],
        num_best=1,
        cluster_usd=1.0,
        progress=progress,
        is_even_only=are_stages_even(wanted),
    )
    if found.best:
        task = Task(workload=workload, plan=found.best[0].plan)
        kept = tuple(dict.fromkeys(_label(one, num_devices) for one in constraints))
        return PlannedTask(task=task, step_s=found.best[0].step_s, gap_frac=found.gap_frac, kept=kept)
    if not found.tally.least:
        message = f"none of the {found.tally.num_plans:,} plans nests in a torus of {num_devices} devices"
        raise InvalidInput(f"{message}; leave other degrees or axis orders to choose from", WHERE)
    least = evaluate(workload, cluster, found.tally.least[0])
    assert isinstance(least, Infeasible), f"{least.plan} does not fit in the search and fits by itself"
    return least


def _label(one: Constraint, num_devices: int) -> str:
    return "with several stages" if one == several_stages(num_devices) else f"with {one.words}"


def _space(workload: Workload, constraints: Sequence[Constraint], num_devices: int) -> PlanSpace:
    """The plans to choose from. Where there are none, the user's constraints are refused first."""
    graph = workload.training_graph()
    try:
        for wanted in ((), constraints):
            space_under(wanted, graph, num_devices)
        return space_under(_with_plain(constraints), graph, num_devices)
    except InvalidInput as error:
        raise InvalidInput(error.message, error.where or WHERE) from None


def with_freer(
    found: PlannedTask,
    chip: Chip,
    requested_constraints: Sequence[Constraint],
    constraints: Sequence[Constraint],
    progress: PlanProgress,
) -> PlannedTask:
    """`found` with the choice under `requested_constraints` alone, where `constraints` are more than those."""
    if tuple(requested_constraints) == tuple(constraints):
        return found
    return replace(found, unconstrained=(replanned(found.task, chip, requested_constraints, progress),))


def replanned(task: Task, chip: Chip, constraints: Sequence[Constraint], progress: PlanProgress) -> Replanned:
    """What the planner would choose on `chip` for as many devices, where `task` fits by its own plan."""
    current = evaluate(task.workload, task.cluster(chip), task.plan)
    assert isinstance(current, Outcome), f"{task.name} does not fit {chip.name}"
    found = planned_task(task.workload, chip, task.plan.num_devices, constraints, progress)
    current_s = current.step.step_s
    if isinstance(found, Infeasible) or found.step_s >= current_s:  # its own may be outside of the planner's choices
        gap_frac = 0.0 if isinstance(found, Infeasible) else found.gap_frac
        return Replanned(own=task.plan, current_step_s=current_s, plan=task.plan, step_s=current_s, gap_frac=gap_frac)
    return Replanned(
        own=task.plan, current_step_s=current_s, plan=found.task.plan, step_s=found.step_s, gap_frac=found.gap_frac
    )


def _with_plain(constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """`constraints`, and one chunk per stage unless they decide it: what cannot be mined is then refused as such."""
    keys = {one.key for one in constraints}
    return tuple(constraints) if PLAIN.key in keys else (*constraints, PLAIN)
