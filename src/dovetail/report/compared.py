"""Several jobs in one table, what differs first: of `dovetail compare` and `dovetail sweep`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.accuracy.chance import Predicted, chance_shorter_frac
from dovetail.accuracy.evidence import GIVEN, Selection, format_bounds, interval_of
from dovetail.accuracy.residuals import Residual
from dovetail.evaluate import Infeasible, Outcome
from dovetail.hardware.heterogeneous import chip_names
from dovetail.parallel.plan import Plan
from dovetail.report.csv_table import csv_text
from dovetail.report.figures import Figure, FigureList, FigureRow, Figures, FigureTable, Sentences, TextOnly, labelled
from dovetail.report.goodput import NO_BUDGET, Budget, run_of, step_usd
from dovetail.report.labels import gain, in_a_row, likely, number, percent, plan_in_brief
from dovetail.report.limits import limited_by
from dovetail.report.memory import room_of
from dovetail.report.plain import Record
from dovetail.units import SECONDS_PER_DAY, format_bytes, format_energy_j, format_s, format_usd

MOST_ABREAST = 4  # jobs that a screen has room for side by side
PER_DEVICE, SAMPLES = "tokens/s per device", "samples/s"
BRIEF = {PER_DEVICE: "per device"}  # labels of narrow columns
MOST_TOLD = 3  # settings that tell a job apart in a sentence
MOST_COLUMNS = 6  # of what differs: beyond, a plan is told in one
BEFORE_PLAN = ("model", "global_batch", "seq", "compute", "recipe", "cluster", "devices", "chip")
DOES_NOT_FIT, REFUSED = "does not fit", "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A job that cannot be predicted: the line that says why."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedJob:
    """One job of several: what is varied of it, by name, and what it comes to."""

    settings: tuple[tuple[str, Any], ...]
    result: Outcome | Infeasible | Refused
    budget: Budget = NO_BUDGET
    selection: Selection = GIVEN  # what a search chose its plan among

    @property
    def fits(self) -> bool:
        return isinstance(self.result, Outcome)

    @property
    def why(self) -> str:
        """Why there is no step time; empty where there is one."""
        if isinstance(self.result, Outcome):
            return ""
        if isinstance(self.result, Refused):
            return self.result.message
        use = self.result.memory
        if not use.fits_host and use.need_bytes <= use.limit_bytes:
            need, limit, where = use.host_need_bytes, use.host_limit_bytes, "host memory"
        else:
            need, limit, where = use.need_bytes, use.limit_bytes, f"a device of stage {use.fullest.stage}"
        over = format_bytes(need - limit)
        return f"{DOES_NOT_FIT}: {where} needs {format_bytes(need)} of {format_bytes(limit)} usable, {over} over"


def settings_of(result: Outcome | Infeasible) -> dict[str, Any]:
    """Everything that was decided of a job, by the words of options: what two jobs may differ in."""
    workload, cluster, plan = result.workload, result.cluster, result.plan
    overlaps = {f"overlap.{name}": getattr(plan.overlap, name) for name in plan.overlap.__slots__}
    return {
        "model": workload.model.name,
        "global_batch": workload.global_batch,
        "seq": workload.seq,
        "compute": workload.precision.compute,
        "recipe": workload.precision.recipe,
        "cluster": cluster.name,
        "devices": cluster.num_devices,
        "chip": chip_names(cluster),
        **_plan_settings(plan),
        **overlaps,
        "attention": workload.attention,
        "kernels": workload.kernels,
        "optimizer": workload.precision.optimizer,
    }


def _plan_settings(plan: Plan) -> dict[str, Any]:
    return {
        "tp": plan.tensor_parallel,
        "cp": plan.context_parallel,
        "pp": plan.pipeline_parallel,
        "dp": plan.data_parallel,
        "ep": plan.expert_parallel,
        "etp": plan.expert_tensor_parallel,
        "sp": plan.sequence_parallel,
        "vpp": plan.interleave,
        "zero": plan.zero_stage,
        "microbatch": plan.microbatch,
        "recompute": in_a_row(plan.recompute),
        "recompute_layers": in_a_row(plan.recompute_layers),
        "schedule": plan.schedule,
        "layers_per_stage": in_a_row(plan.layers_per_stage),
        "context_comm_type": plan.context_comm_type,
        "dispatcher": plan.dispatcher,
        "offload_optimizer": plan.offload_optimizer,
        "offload_activations_frac": plan.offload_activations_frac,
        "framework": plan.framework,
        "axis_order": "-".join(plan.axis_order),
    }


def differences(
    results: Sequence[Outcome | Infeasible | Refused], names: Sequence[str], *, keeps_names: bool = False
) -> list[dict[str, Any]]:
    """Of each job what not all of them share; `names` tell those apart that could not be read, or differ in nothing.

    Where plans differ in much, a plan is one setting, told in brief.
    """
    known = [result for result in results if not isinstance(result, Refused)]
    settings = [settings_of(result) for result in known]
    keys = [key for key in (settings[0] if settings else ()) if len({str(one[key]) for one in settings}) > 1]
    by_plan = [key for key in keys if key not in BEFORE_PLAN]
    is_brief = len(by_plan) > MOST_COLUMNS and len(results) > MOST_ABREAST
    found, rows = [], iter(zip(known, settings, strict=True))
    for result, name in zip(results, names, strict=True):
        if isinstance(result, Refused):
            found.append({"job": name} | dict.fromkeys(keys if not is_brief else (), None))
            continue
        one, own = next(rows)
        row = {key: own[key] for key in keys if not (is_brief and key in by_plan)}
        row |= {"plan": plan_in_brief(one.plan)} if is_brief else {}
        found.append({"job": name} | row)
    if (
        not keeps_names
        and keys
        and len(set(names)) == len({str(one) for one in settings})
        and len(known) == len(results)
        and by_plan
    ):
        found = [{key: value for key, value in row.items() if key != "job"} for row in found]
    every = list(dict.fromkeys(key for row in found for key in row))
    return [{key: row.get(key) for key in every} for row in found]


def job_record(job: ComparedJob, residuals: Sequence[Residual] = (), first: ComparedJob | None = None) -> Record:
    """One row for a table or a data frame: what is varied, then figures, which are none where they are not known.

    `first` is the job that others are compared with.
    """
    record: Record = dict(job.settings) | {"fits": job.fits, "why": job.why}
    chance = {"faster_than_first_probability": _faster_probability(job, first, residuals)}
    return record | dict.fromkeys(FIGURES, None) | _known(job, residuals) | chance


def first_of(jobs: Sequence[ComparedJob]) -> ComparedJob | None:
    """The first that has a step, which the others are compared with."""
    return next((job for job in jobs if job.fits), None)


def _faster_probability(job: ComparedJob, first: ComparedJob | None, residuals: Sequence[Residual]) -> float | None:
    """How likely a step of `job` is truly shorter than one of `first`; None where they do not train the same."""
    if first is None or job is first or not residuals:
        return None
    if not isinstance(job.result, Outcome) or not isinstance(first.result, Outcome):
        return None
    works = [(one.model.name, one.global_batch, one.seq) for one in (job.result.workload, first.result.workload)]
    if works[0] != works[1] or job.result.workload.is_forward_only:
        return None
    one, other = (
        Predicted(workload=each.workload, cluster=each.cluster, plan=each.plan, step_s=float(each.step.step_s))
        for each in (job.result, first.result)
    )
    return chance_shorter_frac(one, other, residuals)


FIGURES = (
    "plan_in_brief", "need_bytes", "limit_bytes", "spare_bytes", "fit_probability", "step_s", "interval_lower_s",
    "interval_upper_s", "faster_than_first_probability", "tokens_per_s", "tokens_per_s_per_device", "samples_per_s",
    "mfu_frac", "hfu_frac", "palm_mfu_frac", "energy_j", "mean_w", "step_usd", "run_s", "run_usd", "limited_by",
)  # fmt: skip


def _known(job: ComparedJob, residuals: Sequence[Residual]) -> Record:
    result = job.result
    if isinstance(result, Refused):
        return {}
    use = result.memory
    found: Record = {
        "plan_in_brief": plan_in_brief(result.plan),
        "need_bytes": use.need_bytes,
        "limit_bytes": use.limit_bytes,
        "spare_bytes": use.limit_bytes - use.need_bytes,
        "fit_probability": room_of(result).fit_probability,
    }
    if isinstance(result, Infeasible):
        return found
    step_s = float(result.step.step_s)
    found |= {"step_s": step_s, "samples_per_s": result.samples_per_s}
    if residuals and not result.workload.is_forward_only:
        interval = interval_of(result.workload, result.cluster, result.plan, step_s, residuals, job.selection)
        found |= {"interval_lower_s": interval.lower_s, "interval_upper_s": interval.upper_s}
    if result.workload.model.sample == "tokens":
        per_device = result.tokens_per_s / result.cluster.num_devices
        found |= {"tokens_per_s": result.tokens_per_s, "tokens_per_s_per_device": per_device}
    found |= {
        "mfu_frac": result.mfu_frac,
        "hfu_frac": result.hfu_frac,
        "palm_mfu_frac": result.palm_mfu_frac,
        "energy_j": float(result.step.energy_j),
        "mean_w": result.mean_w,
        "limited_by": limited_by(result) if result.elasticities else None,
    }
    if job.budget.device_usd_per_s:
        found |= {"step_usd": step_usd(result, job.budget)}
    if run := run_of(result, job.budget):
        found |= {"run_s": run.expected_s} | ({"run_usd": run.expected_usd} if run.expected_usd else {})
    return found


def compared_figures(jobs: Sequence[ComparedJob], title: str, residuals: Sequence[Residual]) -> Figures:
    """One table of all jobs, what differs first, and why those without a step have none.

    A few jobs are columns, with a row for everything that is known; many are rows, with the figures one looks for.
    """
    numbered = tuple(enumerate(jobs, start=1))
    records = {place: job_record(job, residuals, first_of(jobs)) for place, job in numbered}
    first_s = next((float(job.result.step.step_s) for job in jobs if isinstance(job.result, Outcome)), 0.0)
    cells = {place: dict(_cells(job, records[place], first_s)) for place, job in numbered}
    has = {label for row in cells.values() for label, text in row.items() if text}
    labels = [label for label in cells[1] if label in has]
    reasons = _reasons(numbered)
    head = FigureTable(
        title=labelled("answer", compared_sentence(jobs)),
        rows=(Figure("num_jobs", len(jobs)), Figure("num_fitting", sum(job.fits for job in jobs))),
    )
    rows = FigureList(
        key="rows",
        title="" if len(jobs) <= MOST_ABREAST else title,
        items=numbered,
        figures=lambda item: _row(item[0], item[1], records[item[0]], cells[item[0]], _few(labels, records[1])),
        notes=(Sentences("reasons", reasons),),
    )
    if len(jobs) > MOST_ABREAST:
        return head, rows
    keys = [key for key, _ in jobs[0].settings]
    differing = (
        FigureRow((_short(key, keys), *(TextOnly("what is varied", _shown(dict(job.settings)[key])) for job in jobs)))
        for key in keys
    )
    known = (
        FigureRow((label, *(TextOnly("a figure of a row", cells[place][label]) for place, _ in numbered)))
        for label in labels
    )
    abreast = FigureTable(
        title=title,
        columns=("", *(str(place) for place, _ in numbered)),
        align="l" + "r" * len(jobs),
        rows=(*differing, *known),
        notes=(Sentences("reasons", reasons),),
    )
    return head, abreast, rows


def _reasons(numbered: Sequence[tuple[int, ComparedJob]]) -> tuple[str, ...]:
    """Why some have no step, those of one reason together."""
    by_reason: dict[str, list[int]] = {}
    for place, job in numbered:
        if job.why:
            by_reason.setdefault(job.why, []).append(place)
    return tuple(f"{_places(places)}: {why}" for why, places in by_reason.items())


def _places(places: list[int]) -> str:
    """Rows by number, those next to each other from the first to the last: 1 to 3, 7."""
    runs: list[list[int]] = []
    for place in places:
        if runs and runs[-1][-1] == place - 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _few(labels: Sequence[str], record: Record) -> list[str]:
    """The figures that one looks for first: there is no room for all beside what is varied."""
    is_paid = "run" in labels
    rate = PER_DEVICE if PER_DEVICE in labels else SAMPLES
    wanted = ["step", rate, "MFU", "spare", *(["days", "run"] if is_paid else ["days", "price per step", "energy"])]
    assert "step_s" in record
    return [label for label in wanted if label in labels]


def _cells(job: ComparedJob, record: Record, first_s: float) -> Iterator[tuple[str, str]]:
    """Every figure of a job as text, by its label; empty where it is not known."""

    def known(key: str, text: Callable[[Any], str]) -> str:
        return "" if record[key] is None else text(record[key])

    missing = REFUSED if isinstance(job.result, Refused) else DOES_NOT_FIT
    step_s = record["step_s"]
    yield "step", known("step_s", format_s) or missing
    yield "vs first", gain(step_s / first_s - 1) if step_s and first_s else ""
    yield "90 % interval", _bounds(record)
    yield "faster than first", known("faster_than_first_probability", likely)
    yield "tokens/s", known("tokens_per_s", number)
    yield PER_DEVICE, known("tokens_per_s_per_device", number)
    yield SAMPLES, known("samples_per_s", number)
    yield "MFU", known("mfu_frac", percent)
    yield "HFU", known("hfu_frac", percent)
    yield "MFU as PaLM counts", known("palm_mfu_frac", percent)
    yield "memory", known("need_bytes", format_bytes)
    yield "spare", known("spare_bytes", _signed_bytes)
    yield "fits with", known("fit_probability", likely)
    yield "energy", known("energy_j", lambda value: format_energy_j(value, 1))
    yield "power per device", known("mean_w", lambda value: f"{value:.0f} W")
    yield "price per step", known("step_usd", format_usd)
    yield "days", known("run_s", lambda value: f"{value / SECONDS_PER_DAY:,.1f}")
    yield "run", known("run_usd", format_usd)


def _signed_bytes(value_bytes: float) -> str:
    return f"{'-' if value_bytes < 0 else ''}{format_bytes(abs(value_bytes))}"


def _row(
    place: int, job: ComparedJob, record: Record, cells: dict[str, str], labels: Sequence[str]
) -> Iterator[Figure | TextOnly]:
    settings = dict(job.settings)
    yield TextOnly("number of the row", str(place), "")
    yield Figure("settings", settings)
    for key, value in settings.items():
        side = "r" if isinstance(value, int | float) and not isinstance(value, bool) else "l"
        yield TextOnly("what is varied", _shown(value), _short(key, settings), side)
    yield Figure("fits", record["fits"])
    yield Figure("why", record["why"])
    yield from (TextOnly("a figure of a row", cells[label], BRIEF.get(label, label)) for label in labels)
    yield from (Figure(key, record[key]) for key in FIGURES)


def _bounds(record: Record) -> str:
    if record["interval_lower_s"] is None:
        return ""
    return format_bounds(record["interval_lower_s"], record["interval_upper_s"])


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)


def _short(key: str, keys: Collection[str]) -> str:
    """The last word of a path, where that is no other's."""
    last = key.rpartition(".")[2]
    return last if sum(other.rpartition(".")[2] == last for other in keys) == 1 else key


def label_of(job: ComparedJob) -> str:
    """A job by what is varied of it."""
    told = [(key, value) for key, value in job.settings if value not in (None, "")]
    named = dict(told).get("job")
    if named:
        return str(named)
    return ", ".join(f"{key} {_shown(value)}" for key, value in told[:MOST_TOLD]) or "as it is"


def compared_sentence(jobs: Sequence[ComparedJob]) -> str:
    """Which has most throughput per device, and how many have a step."""
    timed = [(place, job) for place, job in enumerate(jobs, start=1) if isinstance(job.result, Outcome)]
    if not timed:
        return f"None of {len(jobs)} jobs has a step: {jobs[0].why}"
    fitting = f"{len(timed)} of {len(jobs)} jobs fit" if len(timed) < len(jobs) else f"{len(jobs)} jobs"
    models = {job.result.workload.model.name for _, job in timed if isinstance(job.result, Outcome)}
    if len(models) > 1:
        return fitting
    place, best = max(timed, key=lambda one: _samples_per_s(one[1]))
    sample = best.result.workload.model.sample if isinstance(best.result, Outcome) else "samples"
    return f"{fitting}; most {sample}/s per device: {number(_samples_per_s(best))}, of {place} ({label_of(best)})"


def _samples_per_s(job: ComparedJob) -> float:
    assert isinstance(job.result, Outcome)
    outcome = job.result
    per_s = outcome.tokens_per_s if outcome.workload.model.sample == "tokens" else outcome.samples_per_s
    return per_s / outcome.cluster.num_devices


def compared_csv(jobs: Sequence[ComparedJob], residuals: Sequence[Residual]) -> str:
    """Every row with every figure, for spreadsheets."""
    records = [job_record(job, residuals, first_of(jobs)) for job in jobs]
    return csv_text(records, list(records[0]))
