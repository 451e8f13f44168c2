"""A joint search: the system, the plans, the proof, what separate searches come to, and what comes next."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from dovetail.cost.network_parts import NetworkParts
from dovetail.hardware.endpoints import SM_DRIVEN, endpoint_coded
from dovetail.report.budgets import base_over_limits_notes, beyond, limits_table, set_limits
from dovetail.report.figures import (
    Figure,
    FigureList,
    FigureRow,
    Figures,
    FigureTable,
    Part,
    Phrase,
    Sentences,
    TextOnly,
    entries_record,
    labelled,
    phrase,
)
from dovetail.report.labels import counted, gain, number, percent, plan_in_brief
from dovetail.report.outcome import plan_record
from dovetail.report.sensitivities import over_best_frac, sensitivity_figures
from dovetail.report.waterfall import waterfall_figures
from dovetail.search.codesign.answers import Separate, SystemAnswer, gain_frac
from dovetail.search.codesign.joint import JointFound, SearchCounts
from dovetail.search.codesign.networks import network_word, parts_of
from dovetail.search.codesign.question import JointQuestion
from dovetail.search.codesign.sensitivity import Sensitivity
from dovetail.search.codesign.system_labels import DERIVED, as_labels, space_labels, value_label
from dovetail.search.codesign.systems import CORES
from dovetail.search.codesign.waterfall import Waterfall
from dovetail.search.metrics import ChipFigures, Metric
from dovetail.units import format_s

READING = "a x (b x c) + d x e: a tensor cores of b rows and c columns, d vector cores of e lanes"
MANY_SAMPLES = "samples or tokens"
KNOB_LABELS = {
    "num_tensor": "tensor cores",
    "num_rows": "rows of each",
    "num_cols": "columns of each",
    "num_vector": "vector cores",
    "num_lanes": "lanes of each",
    "dataflow": "stationary operand",
    "register_bytes_per_lane": "registers of a lane, bytes",
    "core_buffer_kib": "buffer of a core, KiB",
    "vmem_mib": "vector memory of a vector core, MiB",
    "vmem_bytes_per_clock": "vector memory, bytes per clock",
    "sram_mib": "shared SRAM, MiB",
    "sram_bytes_per_clock": "shared SRAM, bytes per clock",
    "hbm_stacks": "HBM stacks",
    "stack_gib": "GiB of each",
    "clock_mhz": "clock, MHz",
    "endpoint": "endpoint",
    "link_gb_per_s": "links, GB/s",
    "network": "network",
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
    waterfall: Waterfall | None = None  # from the base, where that fits
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
            energy_j=case.energy_j + answer.network_w * answer.num_devices * case.step_s,
            power_w=answer.power_w + answer.network_w,
            price_usd=answer.price_usd + answer.network_usd,
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
    joined = "" if parts_of(system["network"]) == NetworkParts() else f", {network_word(system['network'])}"
    return f"{cores_in_brief(system)}, {shown(system['sram_mib'])} MiB, {memory}{ended}{joined}"


# Knobs that a brief has no room for unless a space leaves them open.
_TURNED = {
    "dataflow": "stationary",
    "register_bytes_per_lane": "B of registers a lane",
    "core_buffer_kib": "KiB a core",
    "vmem_mib": "MiB of vector memory a core",
    "vmem_bytes_per_clock": "B per clock of vector memory",
    "sram_bytes_per_clock": "B per clock of SRAM",
    "clock_mhz": "MHz",
    "link_gb_per_s": "GB/s",
    "num_devices": "devices",
}


_WORDS = {
    "dataflow": "operands held still in the arrays",
    "register_bytes_per_lane": "bytes of registers per lane",
    "core_buffer_kib": "KiB of buffer per core",
    "vmem_mib": "MiB of vector memory per vector core",
    "vmem_bytes_per_clock": "bytes per clock from vector memory",
    "sram_bytes_per_clock": "bytes per clock from SRAM",
    "clock_mhz": "MHz",
    "endpoint": "endpoints",
    "link_gb_per_s": "GB/s of links",
    "network": "network",
    "num_devices": "devices",
}


def turned_in_brief(question: JointQuestion, system: dict[str, float]) -> str:
    """The system, with every knob that the space leaves open: two systems of one space never read the same."""
    turned = {knob.name for knob in question.space.knobs if len(knob.values) > 1}
    words = as_labels(question.base, system)
    more = [f"{shown(words[name])} {unit}" for name, unit in _TURNED.items() if name in turned]
    return ", ".join([system_in_brief(system), *more])


def format_system(question: JointQuestion, system: dict[str, float]) -> str:
    """What `turned_in_brief` abbreviates, each part named: what a winner is called where it is first met."""
    tensor, rows, cols, vector, lanes = (shown(system[name]) for name in CORES)
    turned = {knob.name for knob in question.space.knobs if len(knob.values) > 1}
    labels = as_labels(question.base, system)
    parts = [
        f"{tensor} tensor cores of {rows} x {cols}",
        f"{vector} vector cores of {lanes} lanes",
        f"{shown(system['sram_mib'])} MiB of shared SRAM",
        f"{shown(system['hbm_stacks'] * system['stack_gib'])} GiB of HBM",
    ]
    parts += [f"{shown(labels[name])} {unit}" for name, unit in _WORDS.items() if name in turned]
    return ", ".join(parts)


def page_sentence(report: CodesignReport) -> str:
    """The answer as a page opens with it: what is gained, then the best system in words."""
    cases, base = report.question.cases, report.question.base.name
    names = " and ".join(
        [", ".join(case.name for case in cases[:-1]), cases[-1].name] if cases[1:] else [cases[0].name]
    )
    which = "The best system" if report.found.gap_frac == 0 or not report.is_black_box else "The best system found"
    message = f"{which} for {names} by {report.metric_name}"
    if report.base is None:
        gained = f"; the {base} chip itself does not fit"
    else:
        limits = ", itself beyond the limits," if beyond(report.question.budget, report.base) else ""
        better = gain(gain_frac(report.best, report.base, report.weights))
        gained = f" is {better} over {base}{limits} with its best plan"
    return f"{message}{gained}. Each device has {format_system(report.question, report.best.system)}"


def codesigned_figures(report: CodesignReport) -> Figures:
    """Everything known of a joint search, the answer first."""
    found, question, base = report.found, report.question, report.question.base
    return (
        FigureTable(
            title=labelled("answer", sentence(report)),
            notes=(labelled("proof", proof(report)),),
            rows=(
                Figure("name", report.name),
                Figure("feasible", True),
                Figure("metric", report.metric_name),
                Figure("algorithm", report.algorithm),
                Figure("base", base.name),
                Figure("network", report.network),
                Figure("preset", report.preset),
                Figure("spec", dict(report.asked)),
                Figure("budget", set_limits(question.budget)),
                Figure("assumed_limits", list(report.assumed)),
                Figure("space", space_labels(question.space)),
            ),
        ),
        _system_table(report),
        limits_table(question.budget, report.best, report.assumed),
        FigureList(
            key="best.models",
            title="Plans on it",
            items=range(len(question.cases)),
            figures=lambda index: _model(report, index, report.best),
        ),
        FigureTable(within="best", rows=tuple(_system(report, report.best))),
        FigureList(
            key="per_model_best",
            title="Each model against the best system for it alone" if report.per_model_best else "",
            items=range(len(report.per_model_best)),
            figures=lambda index: _per_model_best(report, index),
        ),
        *((FigureTable(rows=(Figure("waterfall", None),)),) if report.waterfall is None else ()),
        *(() if report.waterfall is None else waterfall_figures(report.waterfall, base)),
        *((FigureTable(rows=(Figure("sensitivity", None),)),) if report.sensitivity is None else ()),
        *(() if report.sensitivity is None else sensitivity_figures(report.sensitivity, base)),
        _separate_table(report),
        FigureList(
            key="others",
            title="Other systems that were scored, by even plans" if report.others else "",
            items=report.others,
            figures=lambda one: _system(report, one),
            notes=(READING,),
        ),
        FigureTable(
            title="Notes",
            rows=(
                Figure("is_proven", found.gap_frac == 0),
                Figure("gap_frac", found.gap_frac),
                *(Figure(name, count) for name, count in asdict(found.census).items()),
            ),
            notes=(Sentences("notes", notes(report)),),
        ),
    )


def _brief(report: CodesignReport, answer: SystemAnswer) -> str:
    return turned_in_brief(report.question, answer.system)


def _system(report: CodesignReport, answer: SystemAnswer) -> Iterator[Figure | TextOnly]:
    """One system, and what every model comes to on it."""
    gained = None if report.base is None else gain_frac(answer, report.base, report.weights)
    yield Figure("system", as_labels(report.question.base, answer.system), _brief(report, answer), "system")
    yield Figure("area_mm2", answer.area_mm2, number(answer.area_mm2), "mm2")
    yield Figure("power_w", answer.power_w, number(answer.power_w), "W")
    yield TextOnly("behind the best", _behind(report, answer), "behind")
    yield Figure("price_usd", answer.price_usd)
    yield Figure("network_w", answer.network_w)
    yield Figure("network_usd", *_amount(answer, "network_usd"))
    yield Figure("gain_frac", gained)
    models = range(len(report.question.cases))
    yield Figure("models", [entries_record(_model(report, index, answer)) for index in models])


def _model(report: CodesignReport, index: int, answer: SystemAnswer) -> Iterator[Figure | TextOnly | Phrase]:
    """What one model comes to on a system."""
    case, own = report.question.cases[index], answer.cases[index]
    over = "-" if report.base is None else gain(report.base.cases[index].loss / own.loss - 1.0)
    figure = report.figure(index, answer)
    yield labelled("model", case.name, "model")
    yield Figure("step_s", own.step_s, format_s(own.step_s), "step")
    yield phrase(
        "{} {}",
        Figure("figure", figure, number(figure)),
        labelled("unit", unit_of(report, index)),
        label=report.metric_name,
        align="r",
    )
    yield TextOnly("gain of one model", over, "gain")
    yield Figure("plan", plan_record(own.plan), plan_in_brief(own.plan), "plan")
    yield Figure("global_batch", case.workload.global_batch)
    yield Figure("seq", case.workload.seq)
    yield Figure("weight", case.weight)
    yield Figure("energy_j", own.energy_j)


def _per_model_best(report: CodesignReport, index: int) -> Iterator[Figure]:
    """How far the best system is behind the one that a model would have alone."""
    own = report.per_model_best[index]
    behind = over_best_frac(report.best, index, own)
    yield labelled("model", report.question.cases[index].name, "model")
    yield Figure("over_best_frac", behind, percent(behind), "behind")
    yield Figure("system", as_labels(report.question.base, own.system), _brief(report, own), "its own best")
    yield Figure("step_s", own.cases[0].step_s)
    yield Figure("plan", plan_record(own.cases[0].plan))


def sentence(report: CodesignReport) -> str:
    cases = report.question.cases
    of_what = cases[0].name if len(cases) == 1 else counted(len(cases), "model")
    which = "Best system" if report.found.gap_frac == 0 or not report.is_black_box else "Best system found"
    message = f"{which} for {of_what} by {report.metric_name}: {_brief(report, report.best)}"
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
        return f"optimal in the model, of {census.num_systems:,} systems with every plan of the space: {counts}"
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


def _system_table(report: CodesignReport) -> FigureTable:
    """The best system beside the base chip, knob by knob."""
    base, best, chip = report.base, report.best, report.question.base
    own, other = as_labels(chip, best.system), as_labels(chip, base.system) if base else {}
    space = space_labels(report.question.space)
    taken = [("area, mm2", "area_mm2"), ("power, W", "power_w"), ("cost, $", "price_usd")]
    if best.network_w or (base and base.network_w):
        taken += [("network for each, W", "network_w"), ("network for each, $", "network_usd")]

    def of_base(key: str, value: Any, text: str) -> Part:
        return Figure(f"base_system.{key}", value, text)

    return FigureTable(
        title="The system",
        columns=("", "best", labelled("base", chip.name), "chosen from"),
        align="lrrl",
        rows=(
            *(
                FigureRow(
                    (
                        label,
                        Figure(f"best.system.{name}", own[name], shown(own[name])),
                        of_base(f"system.{name}", other[name], shown(other[name])) if base else "-",
                        Figure(f"space.{name}", space[name], _choices(report, name)),
                    )
                )
                for name, label in KNOB_LABELS.items()
            ),
            *(
                FigureRow(
                    (
                        label,
                        Figure(f"best.{name}", *_amount(best, name)),
                        of_base(name, *_amount(base, name)) if base else "-",
                        "",
                    )
                )
                for label, name in taken
            ),
        ),
    )


def _amount(answer: SystemAnswer, name: str) -> tuple[float | None, str]:
    """What a device or its share of the network takes; a price that nobody knows is none."""
    value: float = getattr(answer, name)
    return (None, "-") if math.isnan(value) else (value, number(value))


def shown(value: float | str) -> str:
    """A knob's value: a count in whole, so that a million cores are 1,000,000."""
    return value if isinstance(value, str) else f"{value:,.0f}" if value == round(value) else f"{value:.6g}"


def _choices(report: CodesignReport, name: str) -> str:
    [knob] = [knob for knob in report.question.space.knobs if knob.name == name]
    few = [shown(value_label(name, value)) for value in knob.values]
    if len(few) == 1:
        return few[0] if name in DERIVED and few == [DERIVED[name][1]] else "fixed"
    return ", ".join(few) if len(few) <= 4 else f"{few[0]}, {few[1]} ... {few[-1]}"


def _separate_table(report: CodesignReport) -> FigureTable:
    """What one search after the other comes to, and both together; in text where it was asked for."""
    separate, base_name = report.separate, labelled("base", report.question.base.name)
    plan_first, chip_first = (separate.plan_then_chip, separate.chip_then_plan) if separate else (None, None)
    ways: tuple[tuple[Part, str, SystemAnswer | None], ...] = (
        (phrase("{}, its best plan", base_name), "base_system", report.base),
        ("then the best chip for that plan", "plan_then_chip", plan_first),
        ("the best chip for a plan by rule of thumb, then its best plan", "chip_then_plan", chip_first),
        ("both together", "best", report.best),
    )
    exceeded_limits = () if report.base is None else beyond(report.question.budget, report.base)
    return FigureTable(
        title="One search after the other, and both together" if separate else "",
        columns=("", "behind", "cores and plan"),
        align="lrl",
        rows=(
            *(_way(report, label, key, answer) for label, key, answer in ways),
            *(Figure(key, answer and entries_record(_system(report, answer))) for _, key, answer in ways),
            *(() if report.base is None else (Figure("base_system.exceeded_limits", list(exceeded_limits)),)),
        ),
    )


def _way(report: CodesignReport, label: Part, key: str, answer: SystemAnswer | None) -> FigureRow:
    if answer is None:
        return FigureRow((label, "-", ""))
    system = as_labels(report.question.base, answer.system)
    plan = answer.cases[0].plan
    brief = phrase(
        "{}; {}",
        Figure(f"{key}.system", system, _brief(report, answer)),
        Figure(f"{key}.models[0].plan", plan_record(plan), plan_in_brief(plan)),
    )
    return FigureRow((label, TextOnly("behind the best", _behind(report, answer)), brief))


def _behind(report: CodesignReport, answer: SystemAnswer) -> str:
    return percent(1.0 - 1.0 / (1.0 + gain_frac(report.best, answer, report.weights)))


def notes(report: CodesignReport) -> tuple[str, ...]:
    is_even_only = all(case.is_even_only for case in report.question.cases)
    uneven = f"uneven plans of {report.found.census.num_refined:,} systems searched"
    stages = "plans of even stages alone, as requested" if is_even_only else uneven
    told = [
        f"network: {report.network}; space: {report.preset}; {stages}",
        "every operator runs on all cores of its kind, one after another: `dovetail schedule` finds what side by"
        " side would gain",
        f"all chips are calibrated as {report.question.base.name} is: compare them with each other",
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
