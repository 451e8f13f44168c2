"""The best plan that each framework runs as printed, beside the best of the whole space."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields

from dovetail.report.figures import Figure, FigureList, Phrase, TextOnly, phrase
from dovetail.report.labels import gain, likely, percent, plan_in_brief
from dovetail.report.outcome import plan_record
from dovetail.search.planners.candidates import Candidate
from dovetail.units import GIBI, format_s
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload

TITLE = "The best plan that each framework runs as printed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkBest:
    """What a search kept to one framework found.

    `candidates` holds the best plan, if one fits; `refusal` says why there is none. `trained`: what the framework
    changes of the workload, in words. `fit_probability`: how likely the plan fits. No plan of the framework with even
    stages is faster by more than `gap_frac`.
    """

    framework: str
    version: str
    candidates: tuple[Candidate, ...] = ()
    trained: tuple[str, ...] = ()
    gap_frac: float = 0.0
    fit_probability: float = 0.0
    refusal: str = ""


def trained_changes(wanted: Workload, trained: Workload) -> tuple[str, ...]:
    """What a framework trains otherwise than `wanted`."""
    found = [
        f"precision.{one.name} {_said(getattr(trained.precision, one.name))}"
        for one in fields(Precision)
        if getattr(wanted.precision, one.name) != getattr(trained.precision, one.name)
    ]
    found += [
        f"{name} {getattr(trained, name)}"
        for name in ("attention", "kernels")
        if getattr(wanted, name) != getattr(trained, name)
    ]
    if wanted.lora != trained.lora:
        found.append(f"adapters beside {', '.join(trained.lora.targets)}")
    return (*found, *(("routing of experts as it has it",) if wanted.routing != trained.routing else ()))


def _said(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def framework_list(bests: Sequence[FrameworkBest], best: Candidate) -> FigureList:
    """A framework a row, the fastest first, with how far each is behind `best`, which no framework has to run."""
    ordered = sorted(bests, key=lambda one: one.candidates[0].score if one.candidates else float("inf"))
    return FigureList(
        key="frameworks",
        title=TITLE if bests else "",
        items=tuple(ordered),
        figures=_figures(best),
        notes=tuple(_notes(ordered, best)),
    )


def _figures(best: Candidate) -> Callable[[FrameworkBest], Iterator[Figure | TextOnly | Phrase]]:
    def figures(one: FrameworkBest) -> Iterator[Figure | TextOnly | Phrase]:
        yield Figure("framework", one.framework, one.framework, "")
        yield Figure("version", one.version, one.version, "release")
        yield Figure("feasible", bool(one.candidates))
        for candidate in one.candidates:
            behind = candidate.score / best.score - 1.0
            yield Figure("step_s", candidate.step_s, format_s(candidate.step_s), "step")
            yield Figure("over_best_frac", behind, gain(behind), "behind")
            yield Figure("need_bytes", candidate.need_bytes, f"{candidate.need_bytes / GIBI:.1f}", "GiB")
            yield Figure("fit_probability", one.fit_probability, likely(one.fit_probability), "fits with")
            yield Figure("plan", plan_record(candidate.plan))
        if not one.candidates:
            yield TextOnly("no plan that fits", "-", "step")
            yield TextOnly("no plan that fits", "-", "behind")
            yield TextOnly("no plan that fits", "-", "GiB")
            yield TextOnly("no plan that fits", "-", "fits with")
        yield Figure("refusal", one.refusal)
        yield Figure("trains", list(one.trained))
        yield Figure("gap_frac", one.gap_frac)

    return figures


def _notes(bests: Sequence[FrameworkBest], best: Candidate) -> Iterator[Phrase]:
    """Each plan in words, what an ideal framework would gain, and what frameworks train otherwise."""
    for one in bests:
        found_plan = plan_in_brief(one.candidates[0].plan) if one.candidates else f"none: {one.refusal}"
        yield phrase("{}: {}", one.framework, found_plan)
    found = [one.candidates[0] for one in bests if one.candidates]
    if found:
        gain_frac = found[0].score / best.score - 1.0
        if gain_frac > 0:
            yield phrase("one that ran the best plan above would be {} faster than any of them", percent(gain_frac))
        fastest = next(one.framework for one in bests if one.candidates)
        yield phrase("--framework {} searches those plans alone, so that what is found is launched as printed", fastest)
    for one in bests:
        if one.trained and one.candidates:
            yield phrase("{} trains with {}", one.framework, ", ".join(one.trained))
