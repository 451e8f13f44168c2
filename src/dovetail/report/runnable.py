"""Which frameworks can run a plan: every launcher is asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.errors import DovetailError
from dovetail.hardware.cluster import Cluster
from dovetail.plan.plan import Plan
from dovetail.report.launch import launchers
from dovetail.workload.workload import Workload

MAX_WORDS = 60  # of one choice that is not expressed


@dataclass(frozen=True, slots=True, kw_only=True)
class Runnable:
    """What one framework says to a plan: choices that it is not told, or why it cannot run it at all."""

    framework: str
    not_expressed: tuple[str, ...] = ()
    refusal: str = ""


def runnable(workload: Workload, cluster: Cluster, plan: Plan) -> tuple[Runnable, ...]:
    """One answer for each framework that there is a launcher for."""
    return tuple(_asked(name, workload, cluster, plan) for name in launchers.names())


def _asked(name: str, workload: Workload, cluster: Cluster, plan: Plan) -> Runnable:
    try:
        launch = launchers[name](workload, cluster, plan)
    except DovetailError as error:
        return Runnable(framework=name, refusal=error.message)
    return Runnable(framework=name, not_expressed=tuple(one.what for one in launch.missing))


def runners(answers: tuple[Runnable, ...]) -> tuple[str, ...]:
    """Frameworks that can run the plan, those first that are told most of it."""
    able = sorted((one for one in answers if not one.refusal), key=lambda one: len(one.not_expressed))
    return tuple(one.framework for one in able)


def _brief(what: str) -> str:
    """Lists of a value for every stage are cut short."""
    return what if len(what) <= MAX_WORDS else what[: MAX_WORDS - 3] + "..."


def runnable_notes(best: tuple[Runnable, ...], by_place: tuple[tuple[Runnable, ...], ...]) -> Iterator[str]:
    """Sentences: who can run the best plan, who cannot and why; where nobody can, the first plan that somebody can."""
    for one in best:
        if one.refusal:
            yield f"{one.framework} cannot run the best plan: {one.refusal}"
        elif one.not_expressed:
            untold = "; ".join(map(_brief, one.not_expressed))
            yield f"{one.framework} can run the best plan, but is not told of {untold}"
        else:
            yield f"{one.framework} can run the best plan"
    if runners(best):
        return
    ranked = [(place, runners(answers)) for place, answers in enumerate(by_place, start=1) if runners(answers)]
    if ranked:
        place, names = ranked[0]
        yield f"the first of the plans above that one of them can run is number {place}: {', '.join(names)}"
    else:
        yield "none of them can run any of the plans above; fix or forbid what they refuse"
