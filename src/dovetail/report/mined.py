"""The best chip for a model as tables: the answer, its proof, the designs behind it, and those tuned by hand."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.evaluate import Infeasible
from dovetail.parallel.plan import Plan
from dovetail.report.labels import counted, gain, number, one_of, percent, plan_in_brief
from dovetail.report.levers import excess_rows, levers_table
from dovetail.report.memory import memory_table
from dovetail.report.mined_stages import planned_notes, replanned_notes, stages_table
from dovetail.report.table import Table
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


def mined_tables(report: MinedReport) -> tuple[Table, ...]:
    tables = [Table(title=sentence(report), notes=(proof(report.mined), *limited(report))), designs_table(report)]
    tables += [stages_table(found, report.unit) for found in report.by_stage]
    if not report.is_single:
        tables.append(models_table(report))
    return (*tables, rivals_table(report), Table(title="Notes", notes=tuple(f"- {note}" for note in notes(report))))


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
        return f"proven best of {mined.num_points:,} designs: {counts}"
    could = f"another design could be better by {percent(1 / (1 - mined.gap_frac) - 1)} at the most"
    return f"of {mined.num_points:,} designs: {counts}, {mined.num_open:,} open; {could}"


def limited(report: MinedReport) -> tuple[str, ...]:
    """What keeps the best design from being better, in two lines: what critical work waits for, and what is left."""
    best, limits, cores = report.best[0], report.limits, CORES.get(report.mined.best.bottleneck, "")
    area = f"{percent(best.area_mm2 / limits.area_mm2)} of the area"
    power = f"{percent(best.power_w / limits.power_w)} of the power"
    waits = f"critical work waits for {cores}" if cores else "critical work waits for no core, but for bandwidth"
    return (f"limited by: {waits}; the design takes {area} and {power} that it may",)


def designs_table(report: MinedReport) -> Table:
    has_figure = report.is_single
    rows = tuple(_design_row(report, answer, has_figure=has_figure) for answer in report.best)
    figure = report.unit if len(report.unit) <= 16 else report.metric_of_sample
    return Table(
        title=f"Designs within {report.limits.area_mm2:g} mm2 and {report.limits.power_w:g} W, the best first",
        columns=("cores", "mm2", "W", "$", figure if has_figure else "gain", "behind"),
        rows=rows,
        align="lrrrrr",
        notes=(READING, BEHIND),
    )


def _design_row(report: MinedReport, answer: ChipAnswer, *, has_figure: bool) -> tuple[str, ...]:
    over_best_frac = answer.loss(report.best[0]) - 1.0
    told = _figure(answer.jobs[0].figure) if has_figure else gain(report.gain_frac(answer, report.reference))
    return (*_silicon(answer), told, percent(over_best_frac) if over_best_frac >= NOTHING_FRAC else "-")


def _silicon(answer: ChipAnswer) -> tuple[str, str, str, str]:
    return str(answer.design), f"{answer.area_mm2:.1f}", f"{answer.power_w:.1f}", f"{answer.price_usd:,.0f}"


def models_table(report: MinedReport) -> Table:
    """Of several models: each on the best design."""
    rows = tuple(
        (
            task.name,
            format_s(own.step_s),
            _figure(own.figure),
            gain(other.loss / own.loss - 1.0),
        )
        for task, own, other in zip(report.tasks, report.best[0].jobs, report.reference.jobs, strict=True)
    )
    columns = ("model", "step", report.metric_name, f"over {report.base}")
    return Table(title=f"Models on the best chip, in {report.unit}", columns=columns, rows=rows, align="lrrr")


def rivals_table(report: MinedReport) -> Table:
    best = report.best[0]
    rows = tuple(
        (one.name, *_silicon(one.answer)[1:], gain(report.gain_frac(best, one.answer)), _broken(report, one))
        for one in report.rivals
    )
    return Table(
        title="Beside chips tuned by hand, evaluated the same way",
        columns=("chip", "mm2", "W", "$", "the best gains", ""),
        rows=rows,
        align="lrrrrl",
        notes=(*_ahead(report), *_links(report)),
    )


def _ahead(report: MinedReport) -> tuple[str, ...]:
    """Chips that are better than the best design found, and why they are no answer."""
    ahead = [one for one in report.rivals if report.gain_frac(report.best[0], one.answer) < 0]
    return tuple(f"{one.name} is ahead, {_why_ahead(report, one)}" for one in ahead)


def _why_ahead(report: MinedReport, rival: Rival) -> str:
    broken, is_base = _broken(report, rival), rival.name == report.base
    if is_base:
        return f"and is {broken}" if broken else "and its own design is not among those looked at"
    return f"{OWN}; {f'it is {broken}' if broken else f'to build on it, say --base {rival.name}'}"


def _links(report: MinedReport) -> tuple[str, ...]:
    """What each chip sends, where there are several devices: it may decide more than the cores."""
    if all(task.plan.num_devices == 1 for task in report.tasks):
        return ()
    rates = ", ".join(f"{one.name} {format_rate(one.interconnect_bytes_per_s, 'B/s')}" for one in report.rivals)
    return (f"each {OWN}, which send: {rates}",)


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
        chosen = ", the most in powers of two that fit; --batch says another" if report.chosen_batch else ""
        found.append(f"{task.name}: {batch}{chosen}; {where}, forward, backward and update")
    found += planned_notes(report.by_planner)
    found += replanned_notes(tuple(task.name for task in report.tasks), report.replanned)
    found.append(
        f"designs have the memory, clock, links and node of {report.base}; area, power and price are of the area model"
    )
    return tuple(found)


def nothing_tables(nothing: NothingInside, base: str) -> tuple[Table, ...]:
    return (Table(title="No design is within the limits", rows=nothing_rows(nothing), notes=(way_out(nothing, base),)),)


def nothing_rows(nothing: NothingInside) -> tuple[tuple[str, str], ...]:
    return (
        ("limits", f"{nothing.limits.area_mm2:g} mm2 and {nothing.limits.power_w:g} W"),
        ("least area", f"{nothing.least_area_mm2:,.1f} mm2, of {nothing.smallest}"),
        ("least power", f"{nothing.least_power_w:,.1f} W, of {nothing.lowest_power}"),
        ("designs", f"{nothing.num_points:,}, all beyond a limit"),
    )


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


def unfit_tables(result: Infeasible, ways: tuple[Task, ...]) -> tuple[Table, ...]:
    """A model that the memory of the base does not hold."""
    title = f"Does not fit: {result.workload.model.name} on {result.cluster.name}"
    notes = ("every design has the memory of the chip it is built on", *(partition_label(way) for way in ways))
    return (
        Table(title=title, rows=excess_rows(result), notes=notes),
        memory_table(result.memory, result.workload, result.plan),
        levers_table(result),
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
    return f"on {where} it fits: say plan: {{{', '.join(said)}}} in a spec"
