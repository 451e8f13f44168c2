"""A joint search as tables: the system, the plans, the proof, what separate searches come to, and what comes next."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dovetail.report.page import dots_svg
from dovetail.report.sensitivities import LIMIT_WORDS, own_best_table, sensitivity_tables
from dovetail.report.table import Table
from dovetail.report.words import counted, gain, number, percent, plan_in_brief
from dovetail.search.codesign.answers import Separate, SystemAnswer, gain_frac
from dovetail.search.codesign.joint import JointFound
from dovetail.search.codesign.question import JointQuestion
from dovetail.search.codesign.sensitivity import Sensitivity
from dovetail.search.metrics import ChipFigures, Metric
from dovetail.units import format_s

READING = "a x (b x c) + d x e: a tensor cores of b rows and c columns, d vector cores of e lanes"
MANY_SAMPLES = "samples or tokens"
_WORDS = {
    "num_tensor": "tensor cores",
    "num_rows": "rows of each",
    "num_cols": "columns of each",
    "num_vector": "vector cores",
    "num_lanes": "lanes of each",
    "sram_mib": "shared SRAM, MiB",
    "hbm_stacks": "HBM stacks",
    "stack_gib": "GiB of each",
    "clock_mhz": "clock, MHz",
    "link_gb_per_s": "links, GB/s",
    "num_devices": "devices",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodesignReport:
    """A joint search and everything to say of it."""

    name: str
    question: JointQuestion
    metric_name: str
    metric: Metric
    network: str
    preset: str
    found: JointFound
    best: SystemAnswer
    base: SystemAnswer | None
    separate: Separate | None
    others: tuple[SystemAnswer, ...]  # scored and behind, the best first
    sensitivity: Sensitivity | None = None
    own_bests: tuple[SystemAnswer, ...] = ()  # of several models, each one's

    @property
    def weights(self) -> tuple[float, ...]:
        return tuple(case.weight for case in self.question.cases)

    def figure(self, index: int, answer: SystemAnswer) -> float:
        """What a case comes to by the metric, as people compare it."""
        case = answer.cases[index]
        figures = ChipFigures(
            step_s=case.step_s,
            energy_j=case.energy_j,
            power_w=answer.power_w,
            price_usd=answer.price_usd,
            num_devices=answer.num_devices,
            num_samples=self.question.cases[index].workload.training_graph().num_tokens,
        )
        return float(self.metric.figure(figures))


def unit_of(report: CodesignReport, index: int) -> str:
    noun = report.question.cases[index].workload.model.sample
    return report.metric.unit.replace(MANY_SAMPLES, noun).replace("sample or token", noun.removesuffix("s"))


def cores_in_brief(system: dict[str, float]) -> str:
    rows, cols = system["num_rows"], system["num_cols"]
    return f"{system['num_tensor']:g} x ({rows:g}x{cols:g}) + {system['num_vector']:g} x {system['num_lanes']:g}"


def system_in_brief(system: dict[str, float]) -> str:
    memory = f"{system['hbm_stacks'] * system['stack_gib']:g} GiB"
    return f"{cores_in_brief(system)}, {system['sram_mib']:g} MiB, {memory}"


def codesigned_tables(report: CodesignReport) -> tuple[Table, ...]:
    tables = [
        Table(title=sentence(report), notes=(proof(report),)),
        _system_table(report),
        _limits_table(report),
        *_plans_tables(report),
    ]
    if report.own_bests:
        briefs = [system_in_brief(own.system) for own in report.own_bests]
        names = [case.name for case in report.question.cases]
        tables.append(own_best_table(names, report.best, report.own_bests, briefs))
    if report.sensitivity is not None:
        tables += sensitivity_tables(report.sensitivity)
    if report.separate is not None:
        tables.append(_separate_table(report))
    if report.others:
        tables.append(_others_table(report))
    tables.append(Table(title="Notes", notes=tuple(f"- {note}" for note in notes(report))))
    return tuple(table for table in tables if table.rows or table.notes)


def sentence(report: CodesignReport) -> str:
    cases = report.question.cases
    of_what = cases[0].name if len(cases) == 1 else counted(len(cases), "model")
    told = f"Best system for {of_what} by {report.metric_name}: {system_in_brief(report.best.system)}"
    if len(cases) == 1:
        told += f"; {number(report.figure(0, report.best))} {unit_of(report, 0)}"
    if report.base is None:
        return f"{told}; the {report.question.base.name} chip itself does not fit"
    better = gain(gain_frac(report.best, report.base, report.weights))
    return f"{told}, {better} over {report.question.base.name} with its best plan"


def proof(report: CodesignReport) -> str:
    census = report.found.census
    counts = (
        f"{census.num_scored:,} scored, {census.num_bounded_away:,} no better by a bound,"
        f" {census.num_beyond:,} beyond the limits, {census.num_unfit:,} that no plan fits"
    )
    if report.found.gap_frac == 0:
        return f"proven best of {census.num_systems:,} systems with every plan of the space: {counts}"
    could = f"another could be better by {percent(1 / (1 - report.found.gap_frac) - 1)} at the most"
    return f"of {census.num_systems:,} systems: {counts}; {could}, as {census.num_open:,} are not closed"


def _system_table(report: CodesignReport) -> Table:
    base, best = report.base, report.best
    rows = [
        (words, f"{best.system[name]:g}", f"{base.system[name]:g}" if base else "-", _choices(report, name))
        for name, words in _WORDS.items()
    ]
    taken = (("area, mm2", "area_mm2"), ("power, W", "power_w"), ("cost, $", "price_usd"))
    rows += [
        (words, number(getattr(best, name)), number(getattr(base, name)) if base else "-", "") for words, name in taken
    ]
    return Table(
        title="The system",
        columns=("", "best", report.question.base.name, "chosen from"),
        rows=tuple(rows),
        align="lrrl",
    )


def _choices(report: CodesignReport, name: str) -> str:
    [knob] = [knob for knob in report.question.space.knobs if knob.name == name]
    if len(knob.values) == 1:
        return "fixed"
    few = [f"{value:g}" for value in knob.values]
    return ", ".join(few) if len(few) <= 4 else f"{few[0]}, {few[1]} ... {few[-1]}"


def _limits_table(report: CodesignReport) -> Table:
    budget, best = report.question.budget, report.best
    taken = {
        "area_mm2": best.area_mm2,
        "power_w": best.power_w,
        "total_area_mm2": best.num_devices * best.area_mm2,
        "total_power_w": best.num_devices * best.power_w,
        "total_usd": best.num_devices * best.price_usd,
    }
    limits = {name: getattr(budget, name) for name in taken}
    rows = tuple(
        (LIMIT_WORDS[name], number(taken[name]), number(limit), percent(taken[name] / limit))
        for name, limit in limits.items()
        if math.isfinite(limit)
    )
    return Table(title="Limits", columns=("", "taken", "limit", "share"), rows=rows, align="lrrr")


def _plans_tables(report: CodesignReport) -> tuple[Table, ...]:
    rows = []
    for index, case in enumerate(report.question.cases):
        own = report.best.cases[index]
        over = "-" if report.base is None else gain(report.base.cases[index].loss / own.loss - 1.0)
        figure = f"{number(report.figure(index, report.best))} {unit_of(report, index)}"
        rows.append((case.name, format_s(own.step_s), figure, over, plan_in_brief(own.plan)))
    return (
        Table(
            title="Plans on it",
            columns=("model", "step", report.metric_name, "gain", "plan"),
            rows=tuple(rows),
            align="lrrrl",
        ),
    )


def _separate_table(report: CodesignReport) -> Table:
    assert report.separate is not None
    ways = (
        (f"{report.question.base.name}, its best plan", report.base),
        ("then the best chip for that plan", report.separate.plan_then_chip),
        ("then the best plan for that chip", report.separate.chip_then_plan),
        ("both together", report.best),
    )
    rows = tuple(
        (words, "-" if answer is None else _behind(report, answer), "" if answer is None else _brief(answer))
        for words, answer in ways
    )
    return Table(
        title="One search after the other, and both together",
        columns=("", "behind", "cores and plan"),
        rows=rows,
        align="lrl",
    )


def _behind(report: CodesignReport, answer: SystemAnswer) -> str:
    return percent(1.0 - 1.0 / (1.0 + gain_frac(report.best, answer, report.weights)))


def _brief(answer: SystemAnswer) -> str:
    return f"{system_in_brief(answer.system)}; {plan_in_brief(answer.cases[0].plan)}"


def _others_table(report: CodesignReport) -> Table:
    rows = tuple(
        (system_in_brief(one.system), number(one.area_mm2), number(one.power_w), _behind(report, one))
        for one in report.others
    )
    return Table(
        title="Other systems that were scored, by even plans",
        columns=("system", "mm2", "W", "behind"),
        rows=rows,
        align="lrrr",
        notes=(READING,),
    )


def picture(report: CodesignReport) -> str:
    """Systems by area and what they come to: the best, and others that were scored."""
    first = report.question.cases[0]
    every = (report.best, *report.others)
    dots = [(one.area_mm2, report.figure(0, one), system_in_brief(one.system)) for one in every]
    return dots_svg("systems that were scored", ("area of a chip, mm2", f"{first.name}: {unit_of(report, 0)}"), dots)


def notes(report: CodesignReport) -> tuple[str, ...]:
    census = report.found.census
    told = [
        f"network: {report.network}; space: {report.preset}; uneven plans of {census.num_refined:,} systems searched",
        "every operator runs on all cores of its kind, one after another: `dovetail schedule` says what side by side"
        " would gain",
        "chips on paper run at their peaks: compare them with each other, not with measured ones",
    ]
    if report.metric_name == "tokens/J":
        told.append("by energy plans with equal stages alone are compared")
    return tuple(told)
