"""A Pareto front: its systems, the proof, and what figures are of; in text some systems along the first axis."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from dovetail.parallel.plan import Plan
from dovetail.report.budgets import assumed_notes, set_limits
from dovetail.report.codesigned import READING, ruled_out, turned_in_brief
from dovetail.report.figures import (
    Figure,
    FigureList,
    Figures,
    FigureTable,
    Sentences,
    TextOnly,
    entries_record,
    labelled,
    part_text,
    phrase,
)
from dovetail.report.labels import counted, number, percent, plan_in_brief
from dovetail.report.plain import Record
from dovetail.search.codesign.pareto import ENERGY, FrontSystem, ParetoFound
from dovetail.search.codesign.question import JointQuestion
from dovetail.search.codesign.refining import system_at
from dovetail.search.codesign.system_labels import as_labels, space_labels
from dovetail.search.metrics import ChipFigures
from dovetail.search.space import Point

MANY_SAMPLES = "samples or tokens"
MOST_AXES_WITH_WAYS = 4
FIELDS = {"area": "area_mm2", "power": "power_w", "cost": "price_usd", ENERGY: "energy_j"}
UNITS = {"area": "mm2", "power": "W", "cost": "$", ENERGY: "J/step"}
# What an axis is of: a front compares whole systems, so that of figures of one chip many come together.
AXIS_WORDS = {
    "area": "area of all chips together",
    "power": "power of all devices together",
    "cost": "cost of all devices together",
    ENERGY: "energy of one step on all devices",
}
COUNTS = ("num_systems", "num_over_limit", "num_unshardable", "num_out_of_memory", "num_pruned", "num_scored")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrontReport:
    """A front and everything to say of it; `plan_of` has the plan of a case on a point, by its number."""

    name: str
    question: JointQuestion
    metric_name: str
    network: str
    preset: str
    found: ParetoFound
    plan_of: Callable[[int, Point, int], Plan]
    num_shown: int
    is_base_fit: bool = True  # of several models, whether all run on the base chip, which they are then measured by
    assumed: tuple[str, ...] = ()  # limits that nobody said
    asked: Mapping[str, Any] = field(default_factory=dict)  # a spec that asks the same

    @property
    def is_over_base(self) -> bool:
        """Whether the figure is how many times as good as the base chip a system is."""
        return len(self.question.cases) > 1 and self.is_base_fit

    @property
    def is_more_better(self) -> bool:
        """Of the figure."""
        return self.is_over_base or self.metric_name != "$/token"

    def figure(self, one: FrontSystem) -> float:
        """By the metric, as people compare it; of several models, how many times as good as the base chip.

        Where the base chip cannot run them all, it is the weighted geometric mean of what each comes to.
        """
        if self.is_over_base:
            return 1.0 / one.score.loss
        figures = [[self._figure(one, index)] for index in range(len(self.question.cases))]
        return float(self.question.mean(np.array(figures))[0])

    def _figure(self, one: FrontSystem, index: int) -> float:
        """Of one model."""
        num_devices, case = int(self.system(one)["num_devices"]), one.score.cases[index]
        figures = ChipFigures(
            step_s=case.step_s,
            energy_j=case.energy_j,
            power_w=one.power_w / num_devices,
            price_usd=one.price_usd / num_devices,
            num_devices=num_devices,
            num_samples=self.question.cases[index].workload.training_graph().num_tokens,
        )
        return float(self.question.metric.figure(figures))

    def system(self, one: FrontSystem) -> dict[str, float]:
        return system_at(self.question, one.score.point)

    def on(self, axis: str, one: FrontSystem) -> float:
        """What a system comes to on one axis."""
        return float(getattr(one, FIELDS[axis])) if axis in FIELDS else self.figure(one)

    def unit(self, axis: str) -> str:
        if axis in UNITS:
            return UNITS[axis]
        if self.is_over_base:
            return f"times as good as {self.question.base.name}"
        unit, nouns = self.question.metric.unit, {case.workload.model.sample for case in self.question.cases}
        if len(nouns) > 1:
            return unit
        [noun] = nouns
        return unit.replace(MANY_SAMPLES, noun).replace("sample or token", noun.removesuffix("s"))


def front_figures(report: FrontReport) -> Figures:
    """Everything known of a front, the answer first; in text some systems along its first axis."""
    question, found = report.question, report.found
    some = _along(found.systems, report.num_shown)
    census = asdict(found.census)
    num_front = Figure("num_front", len(found.systems), counted(len(found.systems), "system"))
    title = phrase(
        "{} of {} on the front, along {}", TextOnly("systems shown", f"{len(some):,}"), num_front, found.axes[0]
    )
    reading = (READING, "ways: tensor x pipeline x data parallel, of the first model")
    return (
        FigureTable(
            title=labelled("answer", sentence(report)),
            notes=(labelled("proof", proof(report)),),
            rows=(
                Figure("name", report.name),
                Figure("feasible", True),
                Figure("axes", list(found.axes)),
                Figure("metric", report.metric_name),
                Figure("unit", report.unit(report.metric_name)),
                Figure("base", question.base.name),
                Figure("network", report.network),
                Figure("preset", report.preset),
                Figure("is_over_base", report.is_over_base),
                Figure("spec", dict(report.asked)),
                Figure("budget", set_limits(question.budget)),
                Figure("assumed_limits", list(report.assumed)),
                Figure("space", space_labels(question.space)),
            ),
        ),
        FigureList(
            key="front",
            title=title if len(some) < len(found.systems) else "The front",
            items=found.systems,
            shown=some,
            figures=lambda one: _system(report, one),
            notes=reading if _has_ways(report) else reading[:1],
        ),
        FigureTable(
            title="Notes",
            rows=(
                num_front,
                *(Figure(name, census[name]) for name in COUNTS),
                Figure("energy_bound_frac", found.energy_bound_frac),
            ),
            notes=(Sentences("notes", notes(report)),),
        ),
    )


def _system(report: FrontReport, one: FrontSystem) -> Iterator[Figure | TextOnly]:
    """A system of the front: what it comes to in all, a column for each axis, and its models."""
    labels = {FIELDS.get(axis, "figure"): axis for axis in report.found.axes}
    yield Figure("system", as_labels(report.question.base, report.system(one)), _brief(report, one), "system")
    yield Figure("figure", report.figure(one))
    for name in FIELDS.values():
        yield Figure(name, getattr(one, name))
    for name, axis in labels.items():
        value = report.on(axis, one)
        yield Figure(name, value, number(value), _head(axis))
    if _has_ways(report):
        plan = report.plan_of(0, one.score.point, one.score.cases[0].plan)
        ways = f"{plan.tensor_parallel}x{plan.pipeline_parallel}x{plan.data_parallel}"
        yield TextOnly("ways", ways, "ways", "l")
    yield Figure("models", lambda: _models(report, one))


def _models(report: FrontReport, one: FrontSystem) -> list[Record]:
    return [
        {
            "model": case.name,
            "step_s": own.step_s,
            "energy_j": own.energy_j,
            "plan": plan_in_brief(report.plan_of(index, one.score.point, own.plan)),
        }
        for index, (case, own) in enumerate(zip(report.question.cases, one.score.cases, strict=True))
    ]


def front_csv(report: FrontReport) -> str:
    """One line for each system, best by the first axis first."""
    told = io.StringIO()
    writer = csv.writer(told, lineterminator="\n")
    for place, one in enumerate(report.found.systems):
        record = entries_record(_system(report, one))
        models = record.pop("models")
        row = {**record.pop("system"), **record}
        for own in models:
            row |= {f"{name} of {own['model']}": own[name] for name in ("step_s", "energy_j", "plan")}
        if not place:
            writer.writerow(row)
        writer.writerow(row.values())
    return told.getvalue()


def _along(systems: tuple[FrontSystem, ...], num: int) -> list[FrontSystem]:
    """Some of them, evenly spread in their order, both ends among them."""
    if len(systems) <= num:
        return list(systems)
    return [systems[place] for place in np.unique(np.linspace(0, len(systems) - 1, num).round().astype(int))]


def _head(axis: str) -> str:
    return f"{axis}, {UNITS[axis].partition(' ')[0]}" if axis in UNITS else axis


def _has_ways(report: FrontReport) -> bool:
    """With more axes there is no room for them."""
    return len(report.found.axes) <= MOST_AXES_WITH_WAYS


def _brief(report: FrontReport, one: FrontSystem) -> str:
    return turned_in_brief(report.question, report.system(one))


def sentence(report: FrontReport) -> str:
    cases, found = report.question.cases, report.found
    of_what = cases[0].name if len(cases) == 1 else counted(len(cases), "model")
    axes = " and ".join([", ".join(found.axes[:-1]), found.axes[-1]])
    return f"{counted(len(found.systems), 'system')} for {of_what} that no other beats by {axes}"


def proof(report: FrontReport) -> str:
    census = report.found.census
    return (
        f"exact for {census.num_systems:,} systems, each with its best plan of equal stages by {report.metric_name}:"
        f" {census.num_scored:,} scored, {census.num_pruned:,} beaten by a bound,"
        f" {ruled_out(census)}"
    )


def _figure_labels(report: FrontReport) -> tuple[str, ...]:
    """What the figure on the first axis is, where it is one."""
    name, base = report.metric_name, report.question.base.name
    if name not in report.found.axes:
        return ()
    if len(report.question.cases) == 1:
        return (f"{name}: {report.unit(name)}",)
    if report.is_base_fit:
        return (f"{name}: {report.unit(name)}, on the weighted geometric mean of the models",)
    message = f"{name}: {report.unit(name)}, the weighted geometric mean of the models"
    return (f"{message}; {base}, by which each would be measured, cannot run them all",)


def notes(report: FrontReport) -> tuple[str, ...]:
    told = [
        *_figure_labels(report),
        *map(part_text, assumed_notes(set_limits(report.question.budget), report.assumed)),
        f"network: {report.network}; space: {report.preset}; area, power and cost are of all devices",
        "plans with uneven stages or recompute by stage are left out: `dovetail codesign` searches them for one system",
        "figures that agree in seven digits count as equal, and the first of equal systems stands for all",
    ]
    if ENERGY in report.found.axes:
        share = percent(report.found.energy_bound_frac)
        told.append(f"energy is of the plan that is best by {report.metric_name}")
        told.append(f"energy is bounded by static power alone: {share} of it in the middle of those scored")
    return tuple(told)
