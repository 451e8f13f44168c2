"""The best plan for a model on a cluster: from what was asked to the search and what it found."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from dovetail.api.answer import Answer
from dovetail.api.arguments import entry_named
from dovetail.api.jobs import JobRequest, open_job_of, placed_in
from dovetail.api.requests.jobs import LaunchRequest, PlanRequest, SimulateRequest
from dovetail.api.search_context import SearchContext
from dovetail.api.simulated import Simulation
from dovetail.errors import InvalidInput
from dovetail.files.job import Job, OpenJob, countable
from dovetail.files.plan_space import fixed_by, forbidden_by
from dovetail.files.plan_text import plan_text
from dovetail.files.residuals import load_residuals
from dovetail.files.written import write_file
from dovetail.hardware.heterogeneous import HeterogeneousCluster, devices_label
from dovetail.parallel.plan import Plan
from dovetail.report.charts.trail import Mark
from dovetail.report.figures import Figures, record_of, tables_of
from dovetail.report.launchers.runnable import Runnable, runnable, runners
from dovetail.report.page import Page
from dovetail.report.plain import Record
from dovetail.report.planned import PlanReportContext, nothing_sentence, of_best, planned_figures, sentence
from dovetail.report.table import Table
from dovetail.search.objectives import objectives
from dovetail.search.planners.candidates import Tally
from dovetail.search.planners.constraints import are_stages_even, overruled, space_under
from dovetail.search.planners.even_plans import PlanProgress
from dovetail.search.planners.planner import PlanSearchResult, search_plans
from dovetail.search.planners.pools import search_plans_on_pools
from dovetail.search.planners.ranking import Choice, NothingFits, Question, Ranked, choice, cluster_usd

PLAN_FILE = "plan.yaml"  # in the commands that are shown, where none was written


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Planning(Answer):
    """The best plans of a space and what proves them, or that none fits: `outcome` is the search's own value."""

    outcome: Choice | NothingFits
    job: OpenJob
    by_place: tuple[tuple[Runnable, ...], ...]
    report_context: PlanReportContext
    call: str
    history: tuple[Mark, ...] = ()  # how the search came to it: seconds of a step by plans that were looked at
    written: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        return isinstance(self.outcome, Choice)

    @property
    def best(self) -> Simulation:
        """A step by the best plan; by the one that needs least memory, where none fits."""
        found = self.outcome.best if isinstance(self.outcome, Choice) else self.outcome.least
        return Simulation(outcome=found, name=self.job.name, call=f"{self.call}.best")

    @property
    def plan(self) -> Plan:
        """The best plan; where none fits, the one that needs least memory."""
        return self.best.plan

    @property
    def step_s(self) -> float:
        return self.best.step_s

    @property
    def ranking(self) -> tuple[Ranked, ...]:
        """The best plans, no two of the same degrees, each with what it loses by."""
        return self.outcome.ranking if isinstance(self.outcome, Choice) else ()

    @property
    def gap_frac(self) -> float:
        """By how much a plan of the space may be better than the best found; 0: proven best."""
        if isinstance(self.outcome, NothingFits):
            raise InvalidInput("no plan fits, so there is no gap_frac; ask .fits before")
        return self.outcome.gap_frac

    @property
    def headline(self) -> str:
        found = self.outcome
        return sentence(found) if isinstance(found, Choice) else nothing_sentence(found)

    @property
    def tables(self) -> tuple[Table, ...]:
        return tables_of(self._figures)

    @property
    def _record(self) -> Record:
        return record_of(self._figures) | {"written": list(self.written)}

    @property
    def _figures(self) -> Figures:
        return planned_figures(self.outcome, self.by_place, self.report_context)

    @property
    def page(self) -> Page:
        from dovetail.report.pages.planned import planned_page  # with its charts

        return planned_page(self.outcome, self.by_place, self.report_context, self.history)

    @property
    def inputs(self) -> Record:
        return self.best.inputs

    def to_yaml(self, path: str | PathLike[str]) -> None:
        """Writes the best plan to a file, whole, as `simulate(plan=...)` and the command line take it."""
        write_file(Path(path), plan_text(self.plan, title_of(self.job)))


def planned(request: PlanRequest, context: SearchContext, plan_file: str = "") -> Planning:
    """What the planner finds, and who can run it; `plan_file` is where the best is to be written, if anywhere."""
    history: list[Mark] = []
    job, notes, found = _found(request.part(JobRequest), request, context, history)
    by_place = _runnable(found, job)
    best = of_best(found, by_place) if isinstance(found, Choice) else ()
    commands = commands_of(request, best, plan_file) if request.is_expressible() else ()
    report_context = PlanReportContext(name=job.name, residuals=tuple(load_residuals()), notes=notes, commands=commands)
    return Planning(
        outcome=found,
        job=job,
        by_place=by_place,
        report_context=report_context,
        call=request.call,
        history=tuple(history),
    )


def best_plan(
    job_request: JobRequest, request: PlanRequest, context: SearchContext
) -> tuple[Job, Choice | NothingFits]:
    """The job with the best plan as `request` has plans compared; where none fits, with the one that needs least."""
    job, _, found = _found(job_request, request, context, [])
    best = found.best if isinstance(found, Choice) else found.least
    return Job(workload=job.workload, cluster=job.cluster, plan=best.plan, name=job.name), found


def _found(
    job_request: JobRequest, request: PlanRequest, context: SearchContext, history: list[Mark]
) -> tuple[OpenJob, tuple[str, ...], Choice | NothingFits]:
    """The job, notes on it, and what was found; `history` takes how the search came to it."""
    check_objective(request.objective)
    job, notes = open_job_of(job_request)
    with countable():
        question = question_of(job, request)
        with placed_in(job_request.spec):
            return job, notes, choice(question, _searched(question, request, context, history))


def check_objective(name: str) -> None:
    entry_named(objectives, name, "--objective")


def question_of(job: OpenJob, request: PlanRequest) -> Question:
    over = (*map(fixed_by, request.fix), *(one for words in request.forbid for one in forbidden_by(words)))
    constraints = overruled(job.constraints, over)
    return Question(
        workload=job.workload,
        cluster=job.cluster,
        objective_name=request.objective,
        objective=objectives[request.objective],
        constraints=constraints,
        space=space_under(constraints, job.workload.training_graph(), job.cluster.num_devices),
        given=job.given,
    )


def _kept(progress: PlanProgress, cluster_usd: float, history: list[Mark]) -> PlanProgress:
    """A watch that also keeps what a search tells of itself; the cuts of stages come after all plans met."""

    def keep(num_done: int, num_all: int, tally: Tally, score: float, bound_s: float = 0.0, /) -> None:
        num_plans = tally.num_plans + (num_done if bound_s else 0)
        history.append(Mark(num_done=num_plans, best=score / cluster_usd, bound=bound_s))
        progress(num_done, num_all, tally, score, bound_s)

    return keep


def _searched(
    question: Question, request: PlanRequest, context: SearchContext, history: list[Mark]
) -> PlanSearchResult:
    objective, cluster, is_even_only = question.objective, question.cluster, are_stages_even(question.constraints)
    usd = cluster_usd(cluster, objective)
    with context.planning(objective, usd) as progress_of_context:
        progress = _kept(progress_of_context, usd, history)
        if not isinstance(cluster, HeterogeneousCluster):
            return search_plans(
                question.workload,
                cluster,
                question.space,
                objective,
                num_best=request.top,
                cluster_usd=usd,
                progress=progress,
                is_even_only=is_even_only,
                num_refined=request.limit,
            )
        if is_even_only:
            rule = "on a cluster of several pools stages hold as many layers as their chips are fast"
            raise InvalidInput(f"{rule}; leave uneven ones allowed", "stages")
        return search_plans_on_pools(
            question.workload,
            cluster,
            question.space,
            objective,
            num_best=request.top,
            cluster_usd=usd,
            progress=progress,
            num_refined=request.limit,
        )


def _runnable(found: Choice | NothingFits, job: OpenJob) -> tuple[tuple[Runnable, ...], ...]:
    """Who can run each plan of the ranking; what each would run is evaluated for the best."""
    if isinstance(found, NothingFits):
        return ()
    return tuple(
        runnable(job.workload, job.cluster, one.candidate.plan, is_costed=one.candidate.plan == found.best.plan)
        for one in found.ranking
    )


def commands_of(request: PlanRequest, best: tuple[Runnable, ...], plan_file: str) -> tuple[str, ...]:
    """What takes the plan on from here, after what writes it where that was not asked for."""
    file = shlex.quote(plan_file or PLAN_FILE)
    launches = [
        f"dovetail launch {request.words(LaunchRequest)} --plan {file} --framework {name}" for name in runners(best)[:1]
    ]
    writes = f"dovetail plan {request.words(PlanRequest, but=('top',))} --plan-file {PLAN_FILE}"
    return (
        *(() if plan_file else (writes,)),
        f"dovetail simulate {request.words(SimulateRequest)} --plan {file}",
        *launches,
    )


def title_of(job: OpenJob | Job) -> str:
    return f"{job.workload.model.name} on {devices_label(job.cluster)}"
