"""A joint search as tables: the system, the plans, the proof, what separate searches come to, and what comes next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dovetail.hardware.endpoints import SM_DRIVEN, endpoint_coded
from dovetail.report.budgets import base_over_limits_notes, beyond, limits_table
from dovetail.report.labels import counted, gain, number, percent, plan_in_brief
from dovetail.report.sensitivities import own_best_table, sensitivity_tables
from dovetail.report.table import Table
from dovetail.search.codesign.answers import Separate, SystemAnswer, gain_frac
from dovetail.search.codesign.joint import JointFound, SearchCounts
from dovetail.search.codesign.question import JointQuestion
from dovetail.search.codesign.sensitivity import Sensitivity
from dovetail.search.codesign.system_labels import BY_SIZE_WORDS, as_labels, value_label
from dovetail.search.codesign.systems import CORES
from dovetail.search.metrics import ChipFigures, Metric
from dovetail.units import format_s

READING = "a x (b x c) + d x e: a tensor cores of b rows and c columns, d vector cores of e lanes"
MANY_SAMPLES = "samples or tokens"
_LABELS = {
    "num_tensor": "tensor cores",
    "num_rows": "rows of each",
    "num_cols": "columns of each",
    "num_vector": "vector cores",
    "num_lanes": "lanes of each",
    "core_buffer_kib": "buffer of a core, KiB",
    "sram_mib": "shared SRAM, MiB",
    "hbm_stacks": "HBM stacks",
    "stack_gib": "GiB of each",
    "clock_mhz": "clock, MHz",
    "endpoint": "endpoint",
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
    per_model_best: tuple[SystemAnswer, ...] = ()  # of several models, each one's
    algorithm: str = "exact"  # else a black box, which proves nothing itself
    assumed: tuple[str, ...] = ()  # limits that nobody said
    is_compared: bool = False  # whether one search after the other was asked for
    asked: Mapping[str, Any] = field(default_factory=dict)  # a spec that asks the same

    @property
    def is_black_box(self) -> bool:
        return self.algorithm != "exact"

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
    tensor, rows, cols, vector, lanes = (shown(system[name]) for name in CORES)
    return f"{tensor} x ({rows}x{cols}) + {vector} x {lanes}"


def system_in_brief(system: dict[str, float]) -> str:
    memory = f"{shown(system['hbm_stacks'] * system['stack_gib'])} GiB"
    endpoint = endpoint_coded(system["endpoint"]).name
    ended = "" if endpoint == SM_DRIVEN else f", {endpoint}"
    return f"{cores_in_brief(system)}, {shown(system['sram_mib'])} MiB, {memory}{ended}"


def codesigned_tables(report: CodesignReport) -> tuple[Table, ...]:
    tables = [
        Table(title=sentence(report), notes=(proof(report),)),
        _system_table(report),
        limits_table(report.question.budget, report.best, report.assumed),
        *_plans_tables(report),
    ]
    if report.per_model_best:
        briefs = [system_in_brief(own.system) for own in report.per_model_best]
        names = [case.name for case in report.question.cases]
        tables.append(own_best_table(names, report.best, report.per_model_best, briefs))
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
    which = "Best system" if report.found.gap_frac == 0 or not report.is_black_box else "Best system found"
    message = f"{which} for {of_what} by {report.metric_name}: {system_in_brief(report.best.system)}"
    if len(cases) == 1:
        message += f"; {number(report.figure(0, report.best))} {unit_of(report, 0)}"
    if report.base is None:
        return f"{message}; the {report.question.base.name} chip itself does not fit"
    better = gain(gain_frac(report.best, report.base, report.weights))
    limits = ", itself beyond the limits," if beyond(report.question.budget, report.base) else ""
    return f"{message}, {better} over {report.question.base.name}{limits} with its best plan"


def ruled_out(census: SearchCounts) -> str:
    """Systems that are none to choose from, and why."""
    uncut = f" {census.num_unshardable:,} that no plan cuts," if census.num_unshardable else ""
    return f"{census.num_over_limit:,} beyond the limits,{uncut} {census.num_out_of_memory:,} that no plan fits"


def proof(report: CodesignReport) -> str:
    census = report.found.census
    counts = f"{census.num_scored:,} scored, {census.num_pruned:,} no better by a bound, {ruled_out(census)}"
    if report.is_black_box:
        return _no_proof(report, counts)
    if report.found.gap_frac == 0:
        return f"proven best of {census.num_systems:,} systems with every plan of the space: {counts}"
    could = f"another could be better by {percent(1 / (1 - report.found.gap_frac) - 1)} at the most"
    return f"of {census.num_systems:,} systems: {counts}; {could}, as {census.num_open:,} are not closed"


def _no_proof(report: CodesignReport, counts: str) -> str:
    """Of a black box: what bounds of the same space leave open."""
    census = report.found.census
    message = f"no certificate: {report.algorithm} proves nothing of what it did not look at"
    looked = f"of {census.num_systems:,} systems: {counts}, {census.num_unvisited:,} neither"
    if report.found.gap_frac == 0:
        return f"{message}; bounds, which it did not use, show that none is better; {looked}"
    could = f"by bounds another could be better by {percent(1 / (1 - report.found.gap_frac) - 1)} at the most"
    return f"{message}; {looked}; {could}"


def _system_table(report: CodesignReport) -> Table:
    base, best = report.base, report.best
    chip = report.question.base
    own, other = as_labels(chip, best.system), as_labels(chip, base.system) if base else {}
    rows = [
        (words, shown(own[name]), shown(other[name]) if base else "-", _choices(report, name))
        for name, words in _LABELS.items()
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


def shown(value: float | str) -> str:
    """A knob's value: a count in whole, so that a million cores are 1,000,000."""
    return value if isinstance(value, str) else f"{value:,.0f}" if value == round(value) else f"{value:.6g}"


def _choices(report: CodesignReport, name: str) -> str:
    [knob] = [knob for knob in report.question.space.knobs if knob.name == name]
    few = [shown(value_label(name, value)) for value in knob.values]
    if len(few) == 1:
        return BY_SIZE_WORDS if few == [BY_SIZE_WORDS] else "fixed"
    return ", ".join(few) if len(few) <= 4 else f"{few[0]}, {few[1]} ... {few[-1]}"


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
        ("the best chip for a plan by rule of thumb, then its best plan", report.separate.chip_then_plan),
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


def notes(report: CodesignReport) -> tuple[str, ...]:
    is_even_only = all(case.is_even_only for case in report.question.cases)
    uneven = f"uneven plans of {report.found.census.num_refined:,} systems searched"
    stages = "plans of even stages alone, as asked" if is_even_only else uneven
    told = [
        f"network: {report.network}; space: {report.preset}; {stages}",
        "every operator runs on all cores of its kind, one after another: `dovetail schedule` says what side by side"
        " would gain",
        "hypothetical chips run at their peaks: compare them with each other, not with measured ones",
    ]
    base_name = report.question.base.name
    if report.base is not None:
        told += base_over_limits_notes(base_name, report.question.budget, report.base)
    elif report.is_compared and report.separate is None:
        told.append(f"one search after the other begins with the best plan of {base_name}, and none fits it")
    if report.metric_name == "tokens/J" and not is_even_only:
        told.append("by energy plans with equal stages alone are compared")
        if report.found.gap_frac:
            told.append("what is open are uneven plans, which no bound on energy closes; `stages: even` forbids them")
    return tuple(told)
