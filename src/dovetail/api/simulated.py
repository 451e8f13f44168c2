"""One training step: from what was asked to what it takes, or why it does not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, SupportsIndex

from dovetail.accuracy.evidence import GIVEN, Interval, Selection, interval_of
from dovetail.api.advice import advice_for
from dovetail.api.answer import Answer, plain_page
from dovetail.api.arguments import in_python
from dovetail.api.jobs import AUTO, JobRequest, decisions_of, job_of, open_job_of, placed_in
from dovetail.api.requests.jobs import PlanRequest, SimulateRequest
from dovetail.errors import InvalidInput
from dovetail.evaluate import Infeasible, MemoryUse, Outcome, evaluate, hypothetical_step_s
from dovetail.files.job import Job, OpenJob, countable
from dovetail.files.residuals import load_residuals
from dovetail.files.spec_changes import plan_decisions
from dovetail.files.text import read_text
from dovetail.parallel.levers import Lever
from dovetail.parallel.plan import Plan
from dovetail.report.figures import Figures, record_of, tables_of
from dovetail.report.goodput import NO_BUDGET, Budget, Run, run_of, step_usd
from dovetail.report.levers import IN_SPEC, Advice
from dovetail.report.limits import limited_by
from dovetail.report.outcome import outcome_figures
from dovetail.report.page import Page
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.units import format_bytes, format_s

if TYPE_CHECKING:
    from dovetail.api.progress import Tell
    from dovetail.api.search_context import SearchContext


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Simulation(Answer):
    """The prediction of one training step, or that its plan does not fit."""

    outcome: Outcome | Infeasible
    name: str = ""
    budget: Budget = NO_BUDGET
    call: str = "dovetail.simulate()"
    selection: Selection = GIVEN  # what a search chose the plan among
    advice: Advice = IN_SPEC  # in what form changes are offered

    @property
    def fits(self) -> bool:
        return isinstance(self.outcome, Outcome)

    @property
    def plan(self) -> Plan:
        return self.outcome.plan

    @property
    def memory(self) -> MemoryUse:
        """Of every stage, against what a device has."""
        return self.outcome.memory

    @property
    def levers(self) -> tuple[Lever, ...]:
        """Changes that need less, each tried: those that make the plan fit, then the nearest; none where it fits."""
        return self.outcome.levers if isinstance(self.outcome, Infeasible) else ()

    @property
    def hypothetical_step_s(self) -> float:
        """Of a plan that does not fit: what a step would take had devices the memory. It does not run."""
        if isinstance(self.outcome, Outcome):
            raise InvalidInput("the plan fits, so there is no hypothetical_step_s; ask .step_s")
        return hypothetical_step_s(self.outcome)

    @property
    def step_s(self) -> float:
        return float(self._done("step_s").step.step_s)

    @property
    def interval(self) -> Interval:
        """The bounds of `step_s` by errors on published runs, widened where a search chose the plan; what says so."""
        done = self._done("interval")
        if done.workload.is_forward_only:
            raise InvalidInput("published runs are of training, so an evaluation step has no interval")
        step_s, residuals = done.step.step_s, load_residuals()
        return interval_of(done.workload, done.cluster, done.plan, step_s, residuals, self.selection)

    @property
    def tokens_per_s(self) -> float:
        return self._done("tokens_per_s").tokens_per_s

    @property
    def samples_per_s(self) -> float:
        return self._done("samples_per_s").samples_per_s

    @property
    def mfu_frac(self) -> float:
        """Model FLOP utilisation, attention counted causally: never above `hfu_frac`."""
        return self._done("mfu_frac").mfu_frac

    @property
    def hfu_frac(self) -> float:
        """Hardware FLOP utilisation: what is executed, recompute too."""
        return self._done("hfu_frac").hfu_frac

    @property
    def palm_mfu_frac(self) -> float:
        """Model FLOP utilisation as PaLM counts it: the whole attention matrix."""
        return self._done("palm_mfu_frac").palm_mfu_frac

    @property
    def energy_j(self) -> float:
        """Of all devices, for one step."""
        return float(self._done("energy_j").step.energy_j)

    @property
    def step_usd(self) -> float:
        """What one step of all devices costs at the price that was given; 0 without one."""
        return step_usd(self._done("step_usd"), self.budget)

    @property
    def run(self) -> Run:
        """How long the tokens that were asked for take, and what they cost."""
        found = run_of(self._done("run"), self.budget)
        if found is None:
            raise InvalidInput("there is no run: give tokens, and a cluster on which the job gets on")
        return found

    @property
    def limited_by(self) -> str:
        return limited_by(self._done("limited_by"))

    @property
    def elasticities(self) -> dict[str, float]:
        """By resource, the share of throughput that a tenth more of it gains, the largest first."""
        return {one.resource: one.gain_frac for one in self._done("elasticities").elasticities}

    @property
    def headline(self) -> str:
        what = f"{self.outcome.workload.model.name} on {self.outcome.cluster.num_devices:,} devices"
        if isinstance(self.outcome, Outcome):
            sample = self.outcome.workload.model.sample
            rate = f"{self.tokens_per_s if sample == 'tokens' else self.samples_per_s:,.0f} {sample}/s"
            return f"{what}, {format_s(self.step_s)} per step, {rate}, MFU {100 * self.mfu_frac:.1f} %{self._outside}"
        use = self.memory
        return f"{what} does not fit, {format_bytes(use.need_bytes)} of {format_bytes(use.limit_bytes)} usable"

    @property
    def _outside(self) -> str:
        """In what no published run is like the step, to end its headline; nothing where one is."""
        outcome, residuals = self._done("outside_evidence"), load_residuals()
        if outcome.workload.is_forward_only:
            return "; forward passes alone"
        lacking = interval_of(outcome.workload, outcome.cluster, outcome.plan, outcome.step.step_s, residuals).lacking
        return f"; outside the evidence: {lacking}" if lacking else ""

    @property
    def tables(self) -> tuple[Table, ...]:
        return tables_of(self._figures)

    @property
    def page(self) -> Page:
        from dovetail.report.pages.simulated import outcome_page  # with every chart, and what these draw

        if self.outcome.workload.is_forward_only:  # charts are of forward and backward passes
            return plain_page(self.headline, self.tables)
        from dovetail.files.published_runs import load_published_runs

        runs = load_published_runs()
        return outcome_page(self.outcome, self.name, load_residuals(), self.budget, runs, self.selection, self.advice)

    @property
    def _record(self) -> Record:
        return record_of(self._figures)

    @property
    def _figures(self) -> Figures:
        return outcome_figures(self.outcome, self.name, load_residuals(), self.budget, self.selection, self.advice)

    @property
    def inputs(self) -> Record:
        from dovetail.report.pages.simulated import outcome_inputs

        return outcome_inputs(self.outcome)

    @in_python
    def to_perfetto(self, path: str | PathLike[str], *, ranks: str | Sequence[SupportsIndex] = ()) -> None:
        """Writes the step's timeline for ui.perfetto.dev: of `ranks`, as (0, 1) or "0-3", or of one a stage."""
        from dovetail.api.timelines import parsed_ranks, write_timeline
        from dovetail.report.step_tracks import step_tracks

        check_has_timeline(self.outcome)
        write_timeline(path, step_tracks(self._done("timeline"), parsed_ranks(ranks)).processes)

    def _done(self, wanted: str) -> Outcome:
        if isinstance(self.outcome, Infeasible):
            message = f"the plan does not fit, so there is no {wanted}"
            raise InvalidInput(f"{message}; check .fits first, and .levers for what would make it fit")
        return self.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One job and what is asked of it; a job that may be refused is made where it is read."""

    job: JobRequest | Callable[[], JobRequest]
    num_tokens: float = 0.0
    device_usd_per_s: float = 0.0
    is_forward_only: bool = False
    launch_text: str = ""


def simulated(request: SimulateRequest, *, context: Callable[[], AbstractContextManager[SearchContext]]) -> Simulation:
    """The step of a request; `context` is entered where the plan has to be searched for first."""
    question = Question(
        job=request.part(JobRequest),
        num_tokens=request.tokens,
        device_usd_per_s=request.price,
        is_forward_only=request.forward_only,
        launch_text=request.launch_text,
    )
    found = simulation_of(question, context=context, call=request.call)
    return found if found.fits else replace(found, advice=advice_for(request, found.plan))


def simulation_of(
    question: Question, *, context: Callable[[], AbstractContextManager[SearchContext]], call: str = ""
) -> Simulation:
    """The step that is asked for; `context` is entered where the plan has to be searched for first."""
    job_request, selection = question.job() if callable(question.job) else question.job, GIVEN
    if question.launch_text:
        job = _read_back(job_request, question.launch_text)
    elif job_request.plan == AUTO:
        with context() as search_context:
            job, selection = _with_best_plan(job_request, search_context)
    else:
        job = job_of(job_request)
    budget = budget_of(question.num_tokens, question.device_usd_per_s, job)
    workload = replace(job.workload, is_forward_only=question.is_forward_only)
    with placed_in(job_request.spec), countable():
        outcome = evaluate(workload, job.cluster, job.plan)
    return Simulation(outcome=outcome, name=job.name, budget=budget, call=call, selection=selection)


def check_has_timeline(outcome: Outcome | Infeasible) -> None:
    """Raises for an evaluation step, whose order of passes is not followed."""
    if outcome.workload.is_forward_only:
        raise InvalidInput("a timeline is of a training step; leave out --forward-only or --perfetto")


def budget_of(num_tokens: float, device_usd_per_s: float, job: Job | OpenJob) -> Budget:
    """What is asked of a whole run; raises where a model has no tokens to train on."""
    model = job.workload.model
    if num_tokens and model.sample != "tokens":
        raise InvalidInput(f"--tokens is for models of tokens, and {model.name} takes {model.sample}; leave it out")
    return Budget(num_tokens=num_tokens, device_usd_per_s=device_usd_per_s)


def _read_back(job_request: JobRequest, file: str) -> Job:
    """The job with the plan, batch, length and dtypes of a launch text; model and cluster are the request's."""
    from dovetail.report.launchers.read_back import read_back  # with every launcher

    if job_request.plan or decisions_of(job_request):
        raise InvalidInput(
            "--plan or its degrees and --launch-text both give the plan; pass one of them", "launch_text"
        )
    open_job, _ = open_job_of(job_request)
    with placed_in(file):
        found = read_back(read_text(Path(file), "--launch-text"), open_job.workload, open_job.cluster)
    return Job(workload=found.workload, cluster=open_job.cluster, plan=found.plan, name=open_job.name)


def _with_best_plan(job_request: JobRequest, context: SearchContext) -> tuple[Job, Selection]:
    """The job with the planner's best plan, and what it was chosen among; where none fits, the one that needs least."""
    from dovetail.api.planned import best_plan, selection_among

    fixed = tuple(f"{key}={value}" for key, value in plan_decisions(job_request.changes).items())
    request = PlanRequest(top=1, fix=fixed, **decisions_of(job_request))
    job, found = best_plan(replace(job_request, plan=""), request, context)
    return job, selection_among(found)


def called(progress: Tell | bool) -> AbstractContextManager[SearchContext]:
    """What a search has around it that a program calls; imported where one searches."""
    from dovetail.api.search_context import called as around_call

    return around_call(progress)
