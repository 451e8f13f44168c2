"""Which frameworks can run a plan: every launcher is asked, and what it would run is evaluated."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace

from dovetail.errors import DovetailError
from dovetail.hardware.heterogeneous import AnyCluster, chips_of
from dovetail.parallel.plan import Plan
from dovetail.report.launchers.frameworks import launchers
from dovetail.report.launchers.launch import Launch
from dovetail.report.launchers.nearest import Cost, costs, nearest
from dovetail.workload.workload import Workload

MAX_CHARS = 120  # of one choice that is not expressed


@dataclass(frozen=True, slots=True, kw_only=True)
class Runnable:
    """What one framework says to a plan.

    `differs`: what it runs otherwise, so that it is another plan; `costs` is what that one takes, where that was
    evaluated and is modelled. `not_expressed`: what it is not told and no model of ours tells apart. `refusal`: why it
    cannot run it at all.
    """

    framework: str
    differs: tuple[str, ...] = ()
    costs: tuple[Cost, ...] = ()
    not_expressed: tuple[str, ...] = ()
    refusal: str = ""


def runnable(workload: Workload, cluster: AnyCluster, plan: Plan, *, is_costed: bool = False) -> tuple[Runnable, ...]:
    """One answer for each framework that there is a launcher for; `is_costed` evaluates what each would run.

    Frameworks of TPUs are not asked about GPUs, where few run them and none of these figures was checked.
    """
    ask = _costed if is_costed else _asked
    is_tpu = all(chip.vendor == "Google" for chip in chips_of(cluster))
    names = (name for name, entry in launchers.items() if is_tpu or not entry.is_for_tpus)
    return tuple(ask(name, workload, cluster, plan) for name in names)


def _asked(name: str, workload: Workload, cluster: AnyCluster, plan: Plan) -> Runnable:
    try:
        return _answer(name, launchers[name](workload, cluster, plan))
    except DovetailError as error:
        return Runnable(framework=name, refusal=error.message)


def _costed(name: str, workload: Workload, cluster: AnyCluster, plan: Plan) -> Runnable:
    try:
        launch = nearest(launchers[name], workload, cluster, plan)
    except DovetailError as error:
        return Runnable(framework=name, refusal=error.message)
    answer = _answer(name, launch)
    try:
        return replace(answer, costs=costs(launch, workload, cluster, plan))
    except DovetailError:  # what runs is not modelled, and no cost says that
        return answer


def _answer(name: str, launch: Launch) -> Runnable:
    return Runnable(
        framework=name,
        differs=tuple(one.what for one in launch.missing if one.instead),
        not_expressed=tuple(one.what for one in launch.missing if not one.instead),
    )


def runners(answers: tuple[Runnable, ...]) -> tuple[str, ...]:
    """Frameworks that can run the plan or one like it that fits, those first that lose least."""
    able = (one for one in answers if not one.refusal and all(cost.fits for cost in one.costs))
    return tuple(one.framework for one in sorted(able, key=_loss))


def _loss(one: Runnable) -> tuple[bool, float, int]:
    """What is known to be lost; a difference of unknown cost comes after all known ones."""
    slowdown_frac = sum(cost.slowdown_frac for cost in one.costs)
    return bool(one.differs) and not one.costs, slowdown_frac, len(one.not_expressed)


def runnable_notes(
    best: tuple[Runnable, ...], by_place: tuple[tuple[Runnable, ...], ...], objective_name: str = "time"
) -> Iterator[str]:
    """Sentences: who can run the best plan, who runs another for it, at what cost, and the first that each can run.

    What that costs is time, whatever plans are ranked by.
    """
    if not best:  # nobody was asked: the search was kept to one framework
        return
    for one in best:
        yield _sentence(one, objective_name)
    for one in best:
        if one.refusal or one.differs:
            yield from _first_place(one.framework, by_place)
    if not any(not one.refusal for answers in by_place for one in answers):
        yield "none of them can run any of the plans above; fix or forbid what they refuse"


def _sentence(one: Runnable, objective_name: str) -> str:
    if one.refusal:
        return f"{one.framework} cannot run the best plan: {one.refusal}"
    untold = f"; not passed on, and not counted: {_listed(one.not_expressed)}" if one.not_expressed else ""
    if not one.differs:
        return f"{one.framework} can run the best plan{untold}"
    cost = f" {one.costs[0].words};" if one.costs else ""
    if one.costs and objective_name != "time":
        cost = f" {one.costs[0].words}, by time and not by {objective_name};"
    return f"{one.framework} runs another plan for the best one:{cost} it differs by {_listed(one.differs)}{untold}"


def _first_place(framework: str, by_place: tuple[tuple[Runnable, ...], ...]) -> Iterator[str]:
    """The first plan that `framework` runs as it is."""
    able = (one for answers in by_place for one in answers if one.framework == framework)
    exact = (place for place, one in enumerate(able, start=1) if not one.refusal and not one.differs)
    for place in itertools.islice(exact, 1):
        yield f"the first of the plans above that {framework} runs as it is: number {place}"


def _listed(choices: tuple[str, ...]) -> str:
    return "; ".join(textwrap.shorten(what, MAX_CHARS, placeholder=" ...") for what in choices)
