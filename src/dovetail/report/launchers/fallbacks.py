"""What frameworks run in place of choices that they have no words for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from dovetail.parallel.dispatchers import ALL_TO_ALL, dispatchers
from dovetail.parallel.plan import AXES, Plan, policies_of
from dovetail.report.labels import in_a_row
from dovetail.report.launchers.launch import Missing
from dovetail.workload.optimizer import Precision
from dovetail.workload.optimizers import LaunchName
from dovetail.workload.workload import Workload


def as_run(workload: Workload, plan: Plan, missing: Iterable[Missing]) -> tuple[Workload, Plan]:
    """What runs where a framework is not told of `missing`."""
    said = dict(pair for one in missing for pair in one.instead)
    overlap = replace(plan.overlap, **_under("overlap.", said))
    precision = replace(workload.precision, **_under("precision.", said))
    changed = {name: value for name, value in said.items() if "." not in name}
    return (
        replace(workload, precision=precision, **_under("workload.", said)),
        replace(plan, overlap=overlap, **changed),
    )


def _under(prefix: str, said: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in said.items() if name.startswith(prefix)}


def nested_order(plan: Plan) -> tuple[str, ...]:
    """The axes of more than one rank, innermost first."""
    return tuple(axis for axis in plan.axis_order if plan.degree(axis) > 1)


def plain_order(plan: Plan) -> Iterator[Missing]:
    """For frameworks that have one order of ranks."""
    if nested_order(plan) != tuple(axis for axis in AXES if plan.degree(axis) > 1):
        message = f"axis_order {', '.join(plan.axis_order)}"
        yield Missing(message, "ranks always go tp, cp, dp, pp", (("axis_order", AXES),))


def unsent_dispatcher(plan: Plan, framework: str, why: str) -> Iterator[Missing]:
    """A dispatcher that `framework` cannot be told of, where rows go to experts of other devices."""
    if plan.expert_parallel > 1 and framework not in dispatchers[plan.dispatcher].launch:
        message = f"dispatcher {plan.dispatcher}, written as {ALL_TO_ALL}"
        yield Missing(message, why, (("dispatcher", ALL_TO_ALL),))


def wide_products(precision: Precision, why: str) -> Missing:
    """Products that a framework takes as wide as tensors are stored."""
    instead = (("precision.compute", precision.storage), ("precision.recipe", ""))
    return Missing(f"compute in {precision.compute}, written as {precision.storage}", why, instead)


def other_recipe(precision: Precision, recipe: str, why: str) -> Missing:
    """A scaling recipe that a framework does not have, and the one that it has."""
    message = f"scaling recipe {precision.recipe}, written as {recipe}"
    return Missing(message, why, (("precision.recipe", recipe),))


def kept_weights(precision: Precision) -> Iterator[Missing]:
    """For frameworks that keep weights as they compute, beside an fp32 copy."""
    has_master = precision.storage != "fp32"
    instead = (("precision.weights", precision.storage), ("precision.has_master_weights", has_master))
    if precision.weights != precision.storage:
        yield Missing(f"weights in {precision.weights}", f"they are kept in {precision.storage}", instead)
    if not precision.has_master_weights and has_master:
        yield Missing("updates without master weights", "an fp32 copy is always kept", instead)


def offered_optimizer(precision: Precision, framework: str) -> tuple[Precision, LaunchName, tuple[Missing, ...]]:
    """What updates where `framework` is launched, its name there, and what it cannot be told: then Adam updates."""
    found = precision.entry.launched_by(framework)
    if isinstance(found, LaunchName):
        return precision, found, ()
    instead = (("precision.optimizer", "adam"), ("precision.has_momentum", True))
    run = replace(precision, optimizer="adam", has_momentum=True)
    name = run.entry.launched_by(framework)
    assert isinstance(name, LaunchName), f"{framework} has no Adam"
    return run, name, (Missing(f"optimizer {precision.optimizer}, written as Adam", found.why, instead),)


def ordinal(count: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th") if count % 100 not in (11, 12, 13) else "th"
    return f"{count}{ending}"


def heaviest_recompute(plan: Plan) -> str:
    """Of several policies the one that keeps least, so that what fits still does."""
    return max(plan.recompute, key=policies_of((plan,)).index)


def mixed_recompute(plan: Plan, why: str) -> Iterator[Missing]:
    """Stages that differ in their policy or in how many layers it goes for."""
    if len(set(plan.recompute)) > 1:
        heaviest = heaviest_recompute(plan)
        message = f"recompute {in_a_row(plan.recompute)} by stage, written as {heaviest} for all"
        yield Missing(message, why, (("recompute", (heaviest,)),))
    if len(set(plan.recompute_layers)) > 1:
        most = max(plan.recompute_layers)
        message = f"recompute_layers {in_a_row(plan.recompute_layers)} by stage, written as {most} for all"
        yield Missing(message, why, (("recompute_layers", (most,)),))
