"""From a page's state to what the layers below say of it: the job, its best plan, and what that comes to."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

from dovetail.accuracy.evidence import GIVEN, Selection
from dovetail.accuracy.residuals import Residual
from dovetail.api.jobs import JobRequest, open_job_of
from dovetail.api.launched import launched
from dovetail.api.planned import best_plan, framework_bests, selection_among
from dovetail.api.progress import Progress, Tell
from dovetail.api.requests.jobs import LaunchRequest, PlanRequest
from dovetail.api.search_context import CallContext
from dovetail.errors import DovetailError, InvalidInput
from dovetail.evaluate import Infeasible, Outcome, evaluate
from dovetail.explorer.designs import design_cluster
from dovetail.explorer.plan_chips import Chip, brief_chips
from dovetail.explorer.state import DEVICES, TIMES, State
from dovetail.files.heterogeneous_cluster import any_cluster_of
from dovetail.files.inline_plan import decided_by
from dovetail.files.job import OpenJob, countable
from dovetail.files.model import model_of
from dovetail.files.plan_text import plan_text
from dovetail.files.residuals import load_residuals
from dovetail.files.uploaded import catalogue_entry, uploaded_cluster, uploaded_model, uploaded_plan
from dovetail.hardware.altered import Figure, altered, figures_of
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.heterogeneous import AnyCluster, HeterogeneousCluster
from dovetail.parallel.plan import Plan
from dovetail.report.charts.chart import Chart
from dovetail.report.charts.plan_scatter import plans_scatter
from dovetail.report.labels import gain, likely, percent, plan_in_brief
from dovetail.report.launchers.framework_bests import FrameworkBest
from dovetail.report.limits import WAITS
from dovetail.report.page import Page
from dovetail.report.pages.simulated import outcome_page
from dovetail.report.ranked import best_faster_probability
from dovetail.search.planners.ranking import Choice, NothingFits, Ranked
from dovetail.workload.model import Model
from dovetail.workload.workload import Workload

DEFAULT_OBJECTIVE = "time"
NONE_RANKED = "No plan of the search fits, so there are no others to rank."
NONE_FITS = "No plan fits; this is the one that needs least memory."
NUM_ALTERNATIVES, NUM_SPREAD = 12, 60
MOST_SPREAD_S = 8.0  # a search that took longer is not repeated for more dots
WAIT_WORDS = {name: words for name, (words, _) in WAITS.items()} | {
    "compute": "compute",
    "host": "waiting for the host",
}
_COPIES = "data_parallel:"  # the line of a plan's text that says how many copies there are


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """A plan of the ranking: its text, what it comes to, and what it loses most by."""

    plan: str
    brief: str
    chips: tuple[Chip, ...]
    step_s: float
    need_bytes: float
    over_best_frac: float
    loses_by: str = ""
    likely: str = ""  # how likely the best is truly faster


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A plan that a search found, as text, how far from the best possible it may be, and the plans behind it."""

    plan: str
    said: str
    selection: Selection = GIVEN
    gap_frac: float = 0.0
    alternatives: tuple[Alternative, ...] = ()
    charts: tuple[Chart, ...] = ()
    took_s: float = 0.0
    why_alone: str = ""  # why there are no others to show


def job_of_state(state: State) -> OpenJob:
    """What is asked for, as it is in the catalogues and files: nothing changed of the hardware."""
    return open_job_of(_job_request(state, _model(state), _cluster(state)))[0]


def _job_request(state: State, model: Model, cluster: AnyCluster) -> JobRequest:
    """The state as a request has it: its own words, and the options of the form that a job has."""
    of_jobs = {one.name for one in fields(JobRequest)}
    return JobRequest(
        model=model,
        cluster=cluster,
        global_batch=state.batch,
        seq=state.seq,
        compute=state.compute,
        **{name: value for name, value in state.requested.items() if name in of_jobs},
    )


def _model(state: State) -> Model:
    if state.model_file is not None:
        return uploaded_model(state.model_file.text, state.model_file.name, state.seq)
    return model_of(catalogue_entry(state.model), state.seq)


def _cluster(state: State) -> AnyCluster:
    if state.design:
        return design_cluster(state.design, state.devices)
    if state.cluster_file is None:
        return any_cluster_of(catalogue_entry(state.cluster), state.devices)
    cluster = uploaded_cluster(state.cluster_file.text, state.cluster_file.name)
    if state.devices not in (0, cluster.num_devices):
        error_message = f"{cluster.name} was uploaded with {cluster.num_devices:,} devices"
        raise InvalidInput(f"{error_message}; change its file for {state.devices:,}")
    return cluster


def job_as_turned(state: State) -> OpenJob:
    """What is asked for, on as many devices as they were turned to; nothing else is changed."""
    job = job_of_state(state)
    factor = state.factors.get(DEVICES, 1.0)
    if factor == 1:
        return job
    own, wanted = job.cluster.num_devices, job.cluster.num_devices * factor
    if wanted != int(wanted):
        raise InvalidInput(f"{own:,} devices times {factor:g} is no whole number; change {TIMES}{DEVICES}={factor:g}")
    return job_of_state(replace(state, devices=int(wanted)))


def altered_cluster(state: State, job: OpenJob) -> AnyCluster:
    """The job's cluster with the figures that were changed; how many devices it has is the job's."""
    factors = {key: factor for key, factor in state.factors.items() if key != DEVICES}
    if not factors:
        return job.cluster
    if isinstance(job.cluster, HeterogeneousCluster):
        raise InvalidInput("figures are changed of clusters of equal devices; change the file of one of several pools")
    return altered(job.cluster, factors, job.workload.precision.compute)


def figures_of_job(job: OpenJob) -> tuple[Figure, ...]:
    """What may be changed of the job's hardware: nothing of a cluster of several pools."""
    return figures_of(job.cluster, job.workload.precision.compute) if isinstance(job.cluster, Cluster) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A state's job with its plan, read and checked once for however often its hardware is turned."""

    job: OpenJob
    plan: Plan


def prepared(state: State) -> Prepared:
    """The state's job and plan; of what is changed of the hardware, the number of devices alone plays a part."""
    job = job_as_turned(state)
    text = state.plan if isinstance(job.cluster, HeterogeneousCluster) else _without_copies(state.plan)
    with countable():
        return Prepared(job=job, plan=uploaded_plan(text, job.workload, job.cluster))


def result_of(own: Prepared, state: State, *, has_changes: bool = True) -> Outcome | Infeasible:
    """What the plan comes to on the state's hardware, as it was changed."""
    with countable():
        return evaluate(own.job.workload, altered_cluster(state, own.job), own.plan, has_changes=has_changes)


def result_of_state(state: State) -> Outcome | Infeasible:
    return result_of(prepared(state), state)


def _without_copies(text: str) -> str:
    """A plan's text that leaves open how many copies there are, so that they fill however many devices."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(_COPIES))


def edited_plan(own: Prepared, option: str, words: str) -> Plan:
    """The plan with one decision taken by hand: `option` and `words` are those of the command line.

    What only went with the old decision goes; copies fill the devices again. Where the copies themselves are decided,
    the pipeline takes up the devices that they leave.
    """
    over = dict(decided_by({option: words}))
    if option == "recompute":
        over["recompute_layers"] = []
    if option == "dp":
        over |= _pipeline_beside(own.plan, int(over["data_parallel"]), own.job.cluster.num_devices)
    with countable():
        return uploaded_plan(plan_text(own.plan), own.job.workload, own.job.cluster, over)


def _pipeline_beside(plan: Plan, data_parallel: int, num_devices: int) -> dict[str, int]:
    """The pipeline that so many copies leave, or else the tensor parallelism."""
    for key, beside in (
        ("pipeline_parallel", plan.tensor_parallel * plan.context_parallel),
        ("tensor_parallel", plan.pipeline_parallel * plan.context_parallel),
    ):
        if num_devices % (data_parallel * beside) == 0:
            return {key: num_devices // (data_parallel * beside)}
    message = f"data_parallel={data_parallel} must divide {num_devices:,} devices together with the other degrees"
    raise InvalidInput(f"{message}; change TP or PP first", "dp")


def found_for_state(state: State, tell: Tell | None = None, objective: str = DEFAULT_OBJECTIVE) -> Found:
    """The best plan for the state's model and hardware, as it was changed."""
    job = job_as_turned(state)
    asked = _job_request(state, job.workload.model, altered_cluster(state, job))
    wanted = PlanRequest(objective=objective, top=NUM_ALTERNATIVES).changed(**state.requested)
    began_s = time.monotonic()
    best, answer = best_plan(asked, wanted, CallContext(tell=tell or _no_progress))
    took_s = time.monotonic() - began_s
    if isinstance(answer, NothingFits):
        return Found(plan=plan_text(best.plan), said=NONE_FITS, why_alone=NONE_RANKED)
    residuals = load_residuals()
    gap = "optimal in the model" if answer.gap_frac <= 0 else f"at most {percent(answer.gap_frac, 2)} from the best"
    return Found(
        plan=plan_text(best.plan),
        said=f"Best of {answer.tally.num_plans:,} plans, {gap}.",
        selection=selection_among(answer),
        gap_frac=answer.gap_frac,
        alternatives=tuple(_alternative(answer, one, residuals) for one in answer.ranking),
        charts=plans_scatter(answer, residuals),
        took_s=took_s,
    )


def spread_for_state(state: State, tell: Tell) -> tuple[Chart, ...]:
    """More plans by time and memory, for the front of both: those that a search by time alone leaves far behind too."""
    job = job_as_turned(state)
    asked = _job_request(state, job.workload.model, altered_cluster(state, job))
    wanted = PlanRequest(objective=DEFAULT_OBJECTIVE, top=NUM_SPREAD).changed(**state.requested)
    _, answer = best_plan(asked, wanted, CallContext(tell=tell))
    return () if isinstance(answer, NothingFits) else plans_scatter(answer, load_residuals())


def _alternative(found: Choice, one: Ranked, residuals: Sequence[Residual]) -> Alternative:
    chance_frac = best_faster_probability(found, one, residuals)
    return Alternative(
        plan=plan_text(one.candidate.plan),
        brief=plan_in_brief(one.candidate.plan),
        chips=brief_chips(one.candidate.plan, found.question.workload),
        step_s=float(one.candidate.step_s),
        need_bytes=float(one.candidate.need_bytes),
        over_best_frac=one.over_best_frac,
        loses_by="" if not one.breakdown else lost_by(one),
        likely="" if chance_frac is None else likely(chance_frac),
    )


def lost_by(one: Ranked) -> str:
    """What a plan loses most by, in words."""
    worst = one.breakdown[0]
    part = WAIT_WORDS.get(worst.component, worst.component)
    return f"{part} ({gain(worst.over_best_frac)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkRow:
    """What one framework runs as printed: a plan with its figures, or why there is none."""

    framework: str
    version: str
    plan: str = ""
    chips: tuple[Chip, ...] = ()
    step_s: float = 0.0
    need_bytes: float = 0.0
    fits_with: str = ""
    trained: tuple[str, ...] = ()
    refusal: str = ""


def frameworks_for_state(state: State, tell: Tell) -> tuple[FrameworkRow, ...]:
    """The best plan that each framework runs as printed, the fastest first."""
    job = job_as_turned(state)
    asked = _job_request(state, job.workload.model, altered_cluster(state, job))
    rows = framework_bests(asked, PlanRequest().changed(**state.requested), CallContext(tell=tell))
    found = [_framework_row(one, job.workload) for one in rows]
    return tuple(sorted(found, key=lambda one: one.step_s or float("inf")))


def _framework_row(one: FrameworkBest, workload: Workload) -> FrameworkRow:
    row = FrameworkRow(framework=one.framework, version=one.version, trained=one.trained, refusal=one.refusal)
    if not one.candidates:
        return row
    [best] = one.candidates
    return replace(
        row,
        plan=plan_text(best.plan),
        chips=brief_chips(best.plan, workload),
        step_s=float(best.step_s),
        need_bytes=float(best.need_bytes),
        fits_with=likely(one.fit_probability),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchText:
    """What starts a plan with a framework, and where that differs from the plan."""

    text: str
    differing: tuple[str, ...]
    suffix: str


def launch_of_state(state: State, framework: str) -> LaunchText:
    """The launch text of the state's plan, as `dovetail launch` prints it."""
    own = prepared(state)
    asked = _job_request(state, own.job.workload.model, altered_cluster(state, own.job))
    given = {name: getattr(asked, name) or None for name in ("global_batch", "seq", "compute")}
    given |= {"model": asked.model, "cluster": asked.cluster}
    found = launched(LaunchRequest(plan=own.plan, framework=framework, **given))
    suffix = "toml" if found.text.lstrip().startswith("[") else "sh"
    return LaunchText(text=found.text, differing=found.differing, suffix=suffix)


def page_of_state(state: State) -> Page:
    """Everything there is to say of the state's plan, as a page that is kept says it."""
    return outcome_page(result_of_state(state), residuals=load_residuals(), selection=state.selection)


def _no_progress(_: Progress) -> None:
    """Whom a search tells by default."""


def error_message(act: Callable[[], object]) -> str:
    """The one line that is wrong with what `act` is asked; empty where nothing is."""
    try:
        act()
    except DovetailError as error:
        return str(error)
    return ""


def unchanged(state: State) -> State:
    """The same plan on the hardware as it is."""
    return replace(state, factors={})
