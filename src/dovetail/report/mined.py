"""The best chip for a model: the answer, its proof, the designs behind it, and those tuned by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dovetail.evaluate import Infeasible
from dovetail.hardware.chip import Chip
from dovetail.hardware.template import Design
from dovetail.parallel.plan import Plan
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
    hidden,
    joined,
    labelled,
    phrase,
    under,
)
from dovetail.report.labels import counted, gain, number, one_of, percent, plan_in_brief
from dovetail.report.levers import excess_rows, levers_list
from dovetail.report.memory import memory_tables
from dovetail.report.mined_stages import (
    cores_phrase,
    cores_record,
    planned_notes,
    planned_task_record,
    replanned_notes,
    replanned_record,
    stages_figures,
)
from dovetail.report.outcome import outcome_figures, plan_record
from dovetail.report.plain import Record
from dovetail.search.designs import Limits
from dovetail.search.metrics import Metric
from dovetail.search.mining.answers import ChipAnswer, NothingInside, Rival
from dovetail.search.mining.miner import Mined
from dovetail.search.mining.planning import PlannedTask, Replanned
from dovetail.search.mining.stages import ByStage
from dovetail.search.mining.task import Task
from dovetail.units import format_rate, format_s

CORES = {"num_tensor": "tensor cores", "num_vector": "vector cores"}
READING = "a x (b x c) + d x e: a tensor cores of b rows and c columns, d vector cores of e lanes"
NOTHING_FRAC = 0.0005  # a loss that shows as zero is none
BEHIND = "behind: what a sample takes, by the metric, over what it takes on the first design; twice as much is 100 %"
SMALL = 1e-3  # style: figures below it are told with their exponent, and with as many digits as percents behind have
OWN = "with its own memory, clock and links"
MANY_SAMPLES, ONE_SAMPLE = "samples or tokens", "a sample or token"
CUT_KEYS = ("tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel")  # of a plan, as specs say them


@dataclass(frozen=True, slots=True, kw_only=True)
class MinedReport:
    """A search for a chip and everything to say of it. `chosen_batch` is a batch that nobody gave, or 0."""

    name: str
    tasks: tuple[Task, ...]
    base: str
    limits: Limits
    metric_name: str
    metric: Metric
    algorithm: str
    mined: Mined
    best: tuple[ChipAnswer, ...]  # the best first
    reference: ChipAnswer  # the base chip as it is
    rivals: tuple[Rival, ...]
    chosen_batch: int
    by_stage: tuple[ByStage, ...] = ()  # where stages may have designs of their own
    by_planner: tuple[PlannedTask, ...] = ()  # where the planner was asked
    replanned: tuple[Replanned, ...] = ()  # where it was asked again
    base_chip: Chip | None = None  # what is named `base`, to draw it

    @property
    def is_single(self) -> bool:
        return len(self.tasks) == 1

    @property
    def unit(self) -> str:
        """What figures are in: the metric's unit with the noun of the model, where there is one."""
        nouns = {task.workload.model.sample for task in self.tasks}
        if len(nouns) > 1:
            return self.metric.unit
        [noun] = nouns
        return self.metric.unit.replace(MANY_SAMPLES, noun).replace(ONE_SAMPLE, one_of(noun))

    @property
    def metric_of_sample(self) -> str:
        """The metric's name, with the noun of the model in place of tokens."""
        nouns = {task.workload.model.sample for task in self.tasks}
        return self.metric_name.replace("token", nouns.pop().removesuffix("s") if len(nouns) == 1 else "token")

    def gain_frac(self, answer: ChipAnswer, over: ChipAnswer) -> float:
        """How much better one chip is than another, of several models on the geometric mean."""
        return 1.0 / answer.loss(over) - 1.0


def mined_figures(report: MinedReport) -> Figures:
    """Everything known of a search for a chip, the answer first."""
    found = report.mined
    return (
        FigureTable(
            title=TextOnly("answer", sentence(report)),
            notes=(labelled("proof", proof(found)), phrase("limited by: {}", labelled("limited_by", limited(report)))),
            rows=(
                Figure("name", report.name),
                Figure("feasible", True),
                Figure("metric", report.metric_name),
                Figure("unit", report.unit),
                Figure("algorithm", report.algorithm),
                Figure("base", report.base),
                Figure("jobs", [_job_record(task) for task in report.tasks]),
                Figure("best", entries_record(_design(report, report.best[0]))),
            ),
        ),
        designs_list(report),
        *(
            table
            for place, one in enumerate(report.by_stage)
            for table in under(f"by_stage[{place}]", stages_figures(one, report.unit))
        ),
        *(() if report.by_stage else (FigureTable(rows=(Figure("by_stage", []),)),)),
        *(() if report.is_single else (_models_table(report),)),
        rivals_list(report),
        FigureTable(
            title="Notes",
            rows=(
                Figure("planned", [planned_task_record(one) for one in report.by_planner]),
                Figure(
                    "replanned",
                    [
                        replanned_record(task.name, one)
                        for task, one in zip(report.tasks, report.replanned, strict=False)
                    ],
                ),
                *_proof_figures(found),
            ),
            notes=(Sentences("notes", notes(report)),),
        ),
    )


def designs_list(report: MinedReport) -> FigureList:
    area_mm2, power_w = report.limits.area_mm2, report.limits.power_w
    return FigureList(
        key="designs",
        title=phrase(
            "Designs within {} mm2 and {} W, the best first",
            Figure("area_limit_mm2", area_mm2, f"{area_mm2:g}"),
            Figure("power_limit_w", power_w, f"{power_w:g}"),
        ),
        items=report.best,
        figures=lambda answer: _design(report, answer),
        notes=(READING, BEHIND),
    )


def rivals_list(report: MinedReport) -> FigureList:
    return FigureList(
        key="hand_tuned",
        title="Chips tuned by hand, evaluated the same way",
        items=report.rivals,
        figures=lambda rival: _rival(report, rival),
        notes=(*_ahead(report), *_links(report)),
    )


def _proof_figures(found: Mined) -> Iterator[Figure]:
    yield Figure("is_proven", found.is_proven)
    yield Figure("gap_frac", found.gap_frac)
    yield Figure("num_designs", found.num_points)
    yield Figure("num_over_limit", found.num_over_limit)
    yield Figure("num_scheduled", found.num_scheduled)
    yield Figure("num_pruned", found.num_pruned)
    yield Figure("num_open", found.num_open)
    yield Figure("num_evaluated", found.num_evaluated)
    improvements = (
        {"num_evaluated": one.num_evaluated, "gain_frac": 1.0 / one.loss - 1.0} for one in found.improvements
    )
    yield Figure("improvements", list(improvements))
    yield Figure("bottleneck", found.best.bottleneck)


def _job_record(task: Task) -> Record:
    return {
        "model": task.name,
        "global_batch": task.workload.global_batch,
        "seq": task.workload.seq,
        "num_devices": task.plan.num_devices,
        "num_stages": task.plan.pipeline_parallel,
        "microbatch": task.plan.microbatch,
    }


def _job(report: MinedReport, answer: ChipAnswer, index: int) -> Iterator[Figure]:
    """What one model comes to on a chip."""
    own, other = answer.jobs[index], report.reference.jobs[index]
    gain_frac = other.loss / own.loss - 1.0
    yield labelled("model", report.tasks[index].name, "model")
    yield Figure("step_s", own.step_s, format_s(own.step_s), "step")
    yield Figure("figure", own.figure, _figure(own.figure), report.metric_name)
    yield Figure("gain_frac", gain_frac, gain(gain_frac), phrase("over {}", report.base))
    yield Figure("energy_j", own.energy_j)


def _design(report: MinedReport, answer: ChipAnswer) -> Iterator[Figure | Phrase]:
    """A chip: its cores, what they take, and what models come to on it."""
    gain_frac = report.gain_frac(answer, report.reference)
    over_best_frac = answer.loss(report.best[0]) - 1.0
    figure = answer.jobs[0].figure
    unit = report.unit if len(report.unit) <= 16 else report.metric_of_sample
    yield cores_phrase(answer.design, "cores")
    yield from _silicon(answer)
    if report.is_single:
        yield phrase("{}", Figure("jobs[0].figure", figure, _figure(figure)), label=unit, align="r")
    yield Figure("gain_frac", gain_frac, gain(gain_frac), None if report.is_single else "gain")
    yield Figure(
        "over_best_frac", over_best_frac, percent(over_best_frac) if over_best_frac >= NOTHING_FRAC else "-", "behind"
    )
    yield Figure("jobs", [entries_record(_job(report, answer, index)) for index in range(len(report.tasks))])


def _silicon(answer: ChipAnswer) -> Iterator[Figure]:
    yield Figure("area_mm2", answer.area_mm2, f"{answer.area_mm2:.1f}", "mm2")
    yield Figure("power_w", answer.power_w, f"{answer.power_w:.1f}", "W")
    yield Figure("price_usd", answer.price_usd, f"{answer.price_usd:,.0f}", "$")


def _models_table(report: MinedReport) -> FigureTable:
    """Of several models: each on the best design."""
    entries = [tuple(_job(report, report.best[0], index)) for index in range(len(report.tasks))]
    shown = [[entry for entry in row if entry.label is not None] for row in entries]
    return FigureTable(
        title=phrase("Models on the best chip, in {}", labelled("unit", report.unit)),
        columns=tuple(entry.label or "" for entry in shown[0]),
        align="lrrr",
        rows=tuple(
            FigureRow(tuple(replace(entry, key=f"best.jobs[{index}].{entry.key}") for entry in row))
            for index, row in enumerate(shown)
        ),
    )


def _rival(report: MinedReport, rival: Rival) -> Iterator[Figure | Phrase]:
    """A chip tuned by hand, beside the best."""
    best_gain_frac = report.gain_frac(report.best[0], rival.answer)
    yield labelled("chip", rival.name, "chip")
    yield from _silicon(rival.answer)
    yield Figure("best_gain_frac", best_gain_frac, gain(best_gain_frac), "the best gains")
    yield Figure("is_within_limits", rival.answer.keeps(report.limits), _broken(report, rival), "")
    yield Figure("interconnect_bytes_per_s", rival.interconnect_bytes_per_s)
    yield Figure("fits", rival.fits)
    for entry in _design(report, rival.answer):
        yield replace(entry, label=None)


def sentence(report: MinedReport) -> str:
    """The answer: the design, what it comes to, and what it gains over the chip it is built on and those of others."""
    best = report.best[0]
    others = {report.base: report.reference} | {rival.name: rival.answer for rival in report.rivals}
    gains = ", ".join(
        f"{gain(report.gain_frac(best, other))} over {name}{_if_beyond(report, other)}"
        for name, other in others.items()
    )
    of_what = report.tasks[0].name if report.is_single else counted(len(report.tasks), "model")
    message = f"Best chip for {of_what} by {report.metric_name}: {best.design}"
    if report.is_single:
        return f"{message}; {_figure(best.jobs[0].figure)} {report.unit}, {gains}"
    return f"{message}; on the geometric mean {gains}"


def _if_beyond(report: MinedReport, other: ChipAnswer) -> str:
    return "" if other.keeps(report.limits) else " (itself beyond the limits)"


def _figure(value: float) -> str:
    return number(value) if value >= SMALL else f"{value:.3e}"


def proof(mined: Mined) -> str:
    """How good the best is known to be, and by what."""
    counts = (
        f"{mined.num_scheduled:,} scheduled, {mined.num_pruned:,} no better by a bound,"
        f" {mined.num_over_limit:,} beyond the limits"
    )
    if mined.is_proven:
        return f"optimal in the model, of {mined.num_points:,} designs: {counts}"
    could = f"another design could be better by {percent(1 / (1 - mined.gap_frac) - 1)} at the most"
    return f"of {mined.num_points:,} designs: {counts}, {mined.num_open:,} open; {could}"


def limited(report: MinedReport) -> str:
    """What keeps the best design from being better: what critical work waits for, and what is left."""
    best, limits, cores = report.best[0], report.limits, CORES.get(report.mined.best.bottleneck, "")
    area = f"{percent(best.area_mm2 / limits.area_mm2)} of the area"
    power = f"{percent(best.power_w / limits.power_w)} of the power"
    waits = f"critical work waits for {cores}" if cores else "critical work waits for no core, but for bandwidth"
    return f"{waits}; the design takes {area} and {power} that it may"


def _ahead(report: MinedReport) -> Iterator[Phrase]:
    """Chips that are better than the best design found, and why they are no answer."""
    for place, one in enumerate(report.rivals):
        if report.gain_frac(report.best[0], one.answer) < 0:
            chip = labelled(f"hand_tuned[{place}].chip", one.name)
            yield phrase("{} is ahead, {}", chip, _why_ahead(report, one, chip))


def _why_ahead(report: MinedReport, rival: Rival, chip: Figure) -> Part:
    broken, is_base = _broken(report, rival), rival.name == report.base
    if is_base:
        return f"and is {broken}" if broken else "and its own design is not among those looked at"
    return phrase("{}; {}", OWN, f"it is {broken}" if broken else phrase("to build on it, pass --base {}", chip))


def _links(report: MinedReport) -> Iterator[Phrase]:
    """What each chip sends, where there are several devices: it may decide more than the cores."""
    if all(task.plan.num_devices == 1 for task in report.tasks):
        return
    rates = []
    for place, one in enumerate(report.rivals):
        at, rate = f"hand_tuned[{place}]", format_rate(one.interconnect_bytes_per_s, "B/s")
        sent = Figure(f"{at}.interconnect_bytes_per_s", one.interconnect_bytes_per_s, rate)
        rates.append(phrase("{} {}", labelled(f"{at}.chip", one.name), sent))
    yield phrase("each {}, which send: {}", OWN, joined(", ", rates))


def _broken(report: MinedReport, rival: Rival) -> str:
    """What a chip of the catalogue does not keep to."""
    answer, limits = rival.answer, report.limits
    beyond = {"area": answer.area_mm2 > limits.area_mm2, "power": answer.power_w > limits.power_w}
    over = [what for what, is_over in beyond.items() if is_over]
    told = [f"beyond the {' and '.join(over)} limit"] if over else []
    return "; ".join((*told, *(() if rival.fits else ("the job does not fit its memory",))))


def notes(report: MinedReport) -> tuple[str, ...]:
    """What was assumed."""
    found = [f"{report.metric_name}: {report.metric.summary}"]
    for task in report.tasks:
        model, workload = task.workload.model, task.workload
        positions = f" of {workload.seq:,} tokens" if model.sample == "tokens" else ""
        batch = f"{workload.global_batch:,} samples{positions} per step"
        brief = plan_in_brief(task.plan)
        is_plain = brief == plan_in_brief(Plan(microbatch=workload.global_batch))
        where = "on one device" + ("" if is_plain else f", {brief}") if task.plan.num_devices == 1 else brief
        chosen = ", the most in powers of two that fit; set --batch to change it" if report.chosen_batch else ""
        found.append(f"{task.name}: {batch}{chosen}; {where}, forward, backward and update")
    found += planned_notes(report.by_planner)
    found += replanned_notes(tuple(task.name for task in report.tasks), report.replanned)
    found.append(
        f"designs have the memory, clock, links and node of {report.base}; area, power and price are of the area model"
    )
    return tuple(found)


def nothing_figures(nothing: NothingInside, base: str) -> Figures:
    """That no design is within the limits, and the least that one takes."""
    limits = nothing.limits
    return (
        FigureTable(
            title="No design is within the limits",
            rows=(
                Figure("feasible", False),
                Figure("base", base),
                phrase(
                    "{} mm2 and {} W",
                    Figure("area_limit_mm2", limits.area_mm2, f"{limits.area_mm2:g}"),
                    Figure("power_limit_w", limits.power_w, f"{limits.power_w:g}"),
                    label="limits",
                ),
                phrase(
                    "{} mm2, of {}",
                    Figure("least_area_mm2", nothing.least_area_mm2, f"{nothing.least_area_mm2:,.1f}"),
                    _within("smallest", nothing.smallest),
                    label="least area",
                ),
                phrase(
                    "{} W, of {}",
                    Figure("least_power_w", nothing.least_power_w, f"{nothing.least_power_w:,.1f}"),
                    _within("lowest_power", nothing.lowest_power),
                    label="least power",
                ),
                phrase(
                    "{}, all beyond a limit",
                    Figure("num_designs", nothing.num_points, f"{nothing.num_points:,}"),
                    label="designs",
                ),
            ),
            notes=(labelled("suggestion", way_out(nothing, base)),),
        ),
    )


def _within(key: str, design: Design) -> Figure:
    return Figure(key, cores_record(design), str(design))


def way_out(nothing: NothingInside, base: str) -> str:
    raised = [
        option
        for option, least, limit in (
            (f"--area to {nothing.least_area_mm2:.1f} mm2", nothing.least_area_mm2, nothing.limits.area_mm2),
            (f"--power to {nothing.least_power_w:.1f} W", nothing.least_power_w, nothing.limits.power_w),
        )
        if least > limit
    ]
    more = f"raise {' and '.join(raised)} or more" if raised else "raise both limits somewhat"
    return f"{more}, take smaller sides and counts, or another --base: {base}'s memory and links take what they take"


def unfit_figures(result: Infeasible, ways: tuple[Task, ...]) -> Figures:
    """A model that the memory of the base does not hold: as of a plan that does not fit, and plans that do.

    These are on more devices, or by smaller microbatches.
    """
    name, plans = result.workload.model.name, [plan_record(way.plan) for way in ways]
    return (
        FigureTable(
            title=phrase(
                "Does not fit: {} on {}", labelled("name", name), labelled("cluster.name", result.cluster.name)
            ),
            rows=excess_rows(result),
            notes=(
                "every design has the memory of the chip it is built on",
                *(Figure("plans_that_fit", plans, partition_label(way)) for way in ways),
            ),
        ),
        *memory_tables(result.memory, result.workload, result.plan),
        levers_list(result),
        *hidden(outcome_figures(result, name)),
        FigureTable(rows=(Figure("plans_that_fit", plans),)),
    )


def partition_label(way: Task) -> str:
    """A plan that fits, as a spec says it."""
    plan = way.plan
    said = [f"{key}: {getattr(plan, key)}" for key in CUT_KEYS if getattr(plan, key) > 1]
    said += ["sequence_parallel: true"] if plan.sequence_parallel else []
    said += [f"zero_stage: {plan.zero_stage}"] if plan.zero_stage else []
    said += [f"microbatch: {plan.microbatch}"]
    said += [f"recompute: {plan.recompute[0]}"] if plan.recompute != ("none",) else []
    where = "one device" if plan.num_devices == 1 else f"{plan.num_devices} devices"
    return f"on {where} it fits: set plan: {{{', '.join(said)}}} in a spec"
