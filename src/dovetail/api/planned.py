"""The best plan for a model on a cluster: from what was asked to the search and what it found."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

from dovetail.accuracy.evidence import GIVEN, Selection
from dovetail.accuracy.memory_margin import FIT_PROBABILITY, check_probability, fit_probability, memory_spread
from dovetail.accuracy.recipes import near_recipes
from dovetail.api.answer import Answer
from dovetail.api.arguments import entry_named
from dovetail.api.jobs import JobRequest, decisions_of, open_job_of, placed_in
from dovetail.api.launched import launcher_name
from dovetail.api.requests.jobs import LaunchRequest, PlanRequest, SimulateRequest
from dovetail.api.search_context import SearchContext
from dovetail.api.simulated import Simulation, budget_of
from dovetail.errors import DovetailError, InvalidInput, NotModelled
from dovetail.files.inline_plan import OPTIONS
from dovetail.files.job import Job, OpenJob, countable
from dovetail.files.plan_space import decided_choice, fixed_by, forbidden_by
from dovetail.files.plan_text import plan_text
from dovetail.files.residuals import load_published, load_residuals
from dovetail.files.written import write_file
from dovetail.hardware.chip import HEADROOM_TO_FIT
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.heterogeneous import AnyCluster, HeterogeneousCluster, devices_label
from dovetail.parallel.plan import Plan
from dovetail.parallel.pools import framework_of
from dovetail.report.charts.trail import Mark
from dovetail.report.figures import Figures, record_of, tables_of
from dovetail.report.launchers.framework_bests import FrameworkBest, trained_changes
from dovetail.report.launchers.frameworks import launchers
from dovetail.report.launchers.runnable import Runnable, runnable, runners
from dovetail.report.launchers.runnable_spaces import frameworks_for, runnable_spaces
from dovetail.report.page import Page
from dovetail.report.plain import Record
from dovetail.report.planned import PlanReportContext, nothing_sentence, of_best, planned_figures, sentence
from dovetail.report.ranked import selection_of_best
from dovetail.report.table import Table
from dovetail.search.objectives import objectives
from dovetail.search.planners.candidates import Candidate, Tally
from dovetail.search.planners.constraints import are_stages_even, overruled, space_under
from dovetail.search.planners.even_plans import PlanProgress
from dovetail.search.planners.plan_space import PlanSpace
from dovetail.search.planners.planner import PlanSearchResult, joined_results, search_plans
from dovetail.search.planners.pools import search_plans_on_pools
from dovetail.search.planners.quantiles import MEDIAN, Quantile, search_by_quantile
from dovetail.search.planners.ranking import NUM_COMPARED, Choice, NothingFits, Question, Ranked, choice, cluster_usd
from dovetail.search.planners.runnable_plans import RunnableSpace, search_runnable_plans

PLAN_FILE = "plan.yaml"  # in the commands that are shown, where none was written


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Planning(Answer):
    """The best plans of a space with their proof, or that none fits."""

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
        budget = self.report_context.budget
        call, selection = f"{self.call}.best", selection_among(self.outcome)
        return Simulation(outcome=found, name=self.job.name, budget=budget, call=call, selection=selection)

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
        """By how much a plan of the space may be better than the best found; 0: optimal in the model."""
        if isinstance(self.outcome, NothingFits):
            raise InvalidInput("no plan fits, so there is no gap_frac; check .fits first")
        return self.outcome.gap_frac

    @property
    def headline(self) -> str:
        found = self.outcome
        return sentence(found, self.report_context.residuals) if isinstance(found, Choice) else nothing_sentence(found)

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
        from dovetail.files.published_runs import load_published_runs
        from dovetail.report.pages.planned import planned_page  # with its charts

        runs = load_published_runs()
        return planned_page(self.outcome, self.by_place, self.report_context, self.history, runs)

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
    by_place = _runnable(found, job, request)
    best = of_best(found, by_place) if isinstance(found, Choice) else ()
    bests = _framework_bests(found, job, request, context)
    framework, is_own = _launchable(request, best, bests)
    commands = commands_of(request, framework, plan_file, is_own=is_own) if request.is_expressible() else ()
    report_context = PlanReportContext(
        name=job.name,
        residuals=tuple(load_residuals()),
        notes=(*_framework_notes(found, job, request), *notes),
        commands=commands,
        budget=budget_of(request.tokens, request.price, job),
        framework=_framework_label(request),
        bests=bests,
        near=near_recipes(job.workload, job.cluster, load_published(), load_residuals()),
    )
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


def selection_among(found: Choice | NothingFits) -> Selection:
    """What the best plan was chosen among, by errors on published runs."""
    return selection_of_best(found, load_residuals()) if isinstance(found, Choice) else GIVEN


def _found(
    job_request: JobRequest, request: PlanRequest, context: SearchContext, history: list[Mark]
) -> tuple[OpenJob, tuple[str, ...], Choice | NothingFits]:
    """The job, notes on it, and what was found; `history` takes how the search came to it."""
    check_objective(request.objective)
    framework, version = framework_of_request(request)
    job, notes = open_job_of(job_request)
    with countable(), placed_in(job_request.spec):
        question = question_of(job, request)
        if framework:
            num_best = max(request.top, NUM_COMPARED)
            kept, result = _kept_to(framework, version, question, request, context, history, num_best)
            return job, notes, choice(kept, result, request.top)
        question = replace(question, cluster=_with_margin(job.cluster, framework_of(job.cluster), request))
        return job, notes, choice(question, _searched(question, request, context, history), request.top)


def _with_margin(cluster: AnyCluster, framework: str, request: PlanRequest) -> AnyCluster:
    """`cluster` where plans leave so much memory free that they fit as likely as is wanted.

    That is never less than its chips leave free in every command. Where a user says what to leave free, that goes.
    """
    if request.headroom is not None and request.fit_probability is not None:
        message = "--headroom and --fit-probability both set what plans leave free"
        raise InvalidInput(f"{message}; give one of them", "fit_probability")
    if request.headroom is not None:
        return cluster
    wanted = FIT_PROBABILITY if request.fit_probability is None else request.fit_probability
    spread = memory_spread(framework)
    headroom_frac = spread.headroom_frac(check_probability(wanted))

    def with_margin(pool: Cluster) -> Cluster:
        chip = pool.chip
        if chip.is_headroom_given or headroom_frac <= chip.hbm_reserve_frac:
            return pool
        return pool.with_headroom(headroom_frac, f"{HEADROOM_TO_FIT} {100 * wanted:g} %")

    if isinstance(cluster, HeterogeneousCluster):
        return replace(cluster, pools=tuple(map(with_margin, cluster.pools)))
    return with_margin(cluster)


def framework_of_request(request: PlanRequest) -> tuple[str, str]:
    """The framework that plans are kept to and its release; both empty where none is named."""
    if not request.framework:
        if request.framework_version:
            message = "--framework-version goes with --framework, which is missing"
            raise InvalidInput(f"{message}; known: {', '.join(launchers.names())}", "framework_version")
        return "", ""
    name = launcher_name(request.framework)
    return name, launchers[name].version(request.framework_version)


def _kept_to(
    framework: str,
    version: str,
    question: Question,
    request: PlanRequest,
    context: SearchContext,
    history: list[Mark],
    num_best: int,
) -> tuple[Question, PlanSearchResult]:
    """The search kept to what a framework runs, with the workload as it trains it; the best of its ways to do so.

    Where one plan is wanted, each way to train is searched only for plans faster than those of the ways before it.
    """
    cluster, objective = question.cluster, question.objective
    if isinstance(cluster, HeterogeneousCluster):
        message = f"plans that {framework} runs are searched for on clusters of equal devices"
        raise NotModelled(f"{message}; leave --framework out for {cluster.name}", "framework")
    cluster = _with_margin(cluster, framework, request)
    assert isinstance(cluster, Cluster), cluster
    usd, found, limit_s = cluster_usd(cluster, objective), [], math.inf
    for space in runnable_spaces(framework, version, question.workload, cluster, question.constraints):
        with context.planning(objective, usd, framework) as progress:

            def searched(
                part: PlanSpace,
                runnable: RunnableSpace = space,
                told: PlanProgress = progress,
                of: Cluster = cluster,
                at_most_s: float = limit_s,
            ) -> PlanSearchResult:
                return search_runnable_plans(
                    replace(runnable, space=part),
                    of,
                    objective,
                    num_best=num_best,
                    cluster_usd=usd,
                    progress=_kept(told, usd, history),
                    limit_s=at_most_s,
                )

            result = search_by_quantile(question.quantile, space.workload, cluster, space.space, num_best, searched)
        if result.best and num_best == 1 and objective.aspect == "time" and question.quantile.is_median:
            limit_s = min(limit_s, result.best[0].step_s)
        found.append((space, result))
    joined = joined_results([result for _, result in found], num_best)
    if not joined.best and joined.tally.num_fitting:
        message = f"none of the {joined.tally.num_fitting:,} plans that fit is one that {framework} runs as it is"
        raise NotModelled(f"{message}; leave --framework out, and see what launch writes", "framework")
    return _question_kept_to(question, cluster, [space for space, _ in found], joined), joined


def _question_kept_to(
    question: Question, cluster: Cluster, spaces: list[RunnableSpace], found: PlanSearchResult
) -> Question:
    """The question with the workload as the framework trains it by the best plan, and by the others' ZeRO stages."""
    workloads = {stage: space.workload for space in spaces for stage in space.space.zero_stage}
    best = found.best[0].plan if found.best else found.tally.least[0] if found.tally.least else None
    workload = workloads.get(best.zero_stage, spaces[0].workload) if best else spaces[0].workload
    space = next(space.space for space in spaces if space.workload == workload)
    others = tuple((stage, one) for stage, one in workloads.items() if one != workload)
    return replace(
        question,
        workload=workload,
        cluster=cluster,
        space=replace(space, zero_stage=tuple(sorted(workloads))),
        by_zero_stage=others,
    )


def _framework_bests(
    found: Choice | NothingFits, job: OpenJob, request: PlanRequest, context: SearchContext
) -> tuple[FrameworkBest, ...]:
    """What each framework runs as printed; nothing where the search was kept to one or is not by time."""
    if isinstance(found, NothingFits) or request.framework or found.question.objective.aspect != "time":
        return ()
    return _bests(found.question, job.cluster, request, context)


def framework_bests(job_request: JobRequest, request: PlanRequest, context: SearchContext) -> tuple[FrameworkBest, ...]:
    """The best plan that each framework runs as printed, without a search of the whole space."""
    job, _ = open_job_of(job_request)
    with countable(), placed_in(job_request.spec):
        return _bests(question_of(job, request), job.cluster, request, context)


def _bests(
    question: Question, cluster: AnyCluster, request: PlanRequest, context: SearchContext
) -> tuple[FrameworkBest, ...]:
    if isinstance(cluster, HeterogeneousCluster):
        return ()
    found_by: dict[str, FrameworkBest] = {}
    for name in sorted(frameworks_for(cluster), key=lambda name: bool(launchers[name].same_as)):
        # of the two that are alike, one alone trains adapters
        if (twin := launchers[name].same_as) in found_by and not question.workload.lora.is_used:
            found_by[name] = _as_of(found_by[twin], name)
        else:
            found_by[name] = _framework_best(name, question, cluster, request, context)
    return tuple(found_by[name] for name in sorted(found_by))


def _as_of(found: FrameworkBest, name: str) -> FrameworkBest:
    """What was found for one framework as that of another, which runs the same plans in the same memory."""
    candidates = tuple(replace(one, plan=replace(one.plan, framework=name)) for one in found.candidates)
    return replace(found, framework=name, version=launchers[name].versions[0], candidates=candidates)


def _framework_best(
    name: str, question: Question, cluster: Cluster, request: PlanRequest, context: SearchContext
) -> FrameworkBest:
    version = launchers[name].versions[0]
    none = FrameworkBest(framework=name, version=version)
    try:
        kept, result = _kept_to(name, version, replace(question, cluster=cluster), request, context, [], num_best=1)
    except DovetailError as error:
        return replace(none, refusal=error.message)
    if not result.best:
        return replace(none, refusal="no plan that it runs fits")
    [best, *_] = result.best
    trained = trained_changes(question.workload, kept.workload)
    likely = fit_probability(best.need_bytes, cluster.chip.visible_bytes, name)
    return replace(none, candidates=(best,), trained=trained, gap_frac=result.gap_frac, fit_probability=likely)


def _framework_label(request: PlanRequest) -> str:
    name, version = framework_of_request(request)
    return f"{name} {version}" if name else ""


def _framework_notes(found: Choice | NothingFits, job: OpenJob, request: PlanRequest) -> tuple[str, ...]:
    """What keeping to a framework changes of the workload."""
    if not request.framework:
        return ()
    words = _framework_label(request)
    trained = trained_changes(job.workload, found.question.workload)
    differs = f"; it trains with {', '.join(trained)}" if trained else ""
    return (f"kept to plans that {words} runs as printed{differs}", *_other_stages(found, job), *_row_notes(found))


def _row_notes(found: Choice | NothingFits) -> Iterator[str]:
    """What the plans behind the best one are."""
    if isinstance(found, Choice) and len(found.ranking) > 1:
        is_proven = found.proof.are_rows_proven
        what = "proven to be the best of its degrees" if is_proven else "the best found of its degrees, not proven"
        yield f"each plan of the ranking is {what}, among plans with uniform stages"


def _other_stages(found: Choice | NothingFits, job: OpenJob) -> Iterator[str]:
    """What plans of the ranking train otherwise than the best of it does."""
    ranked = found.ranking if isinstance(found, Choice) else ()
    shown = {one.candidate.plan.zero_stage for one in ranked}
    for stage, workload in found.question.by_zero_stage:
        if stage in shown:
            trained = ", ".join(trained_changes(job.workload, workload)) or "what is given"
            yield f"under ZeRO-{stage} it trains with {trained}"


def _launchable(request: PlanRequest, best: tuple[Runnable, ...], bests: tuple[FrameworkBest, ...]) -> tuple[str, bool]:
    """The framework to go on with, "" for none, and whether it runs a plan of its own in place of the best."""
    if request.framework:
        return framework_of_request(request)[0], False
    able = [
        one.framework
        for one in sorted((one for one in bests if one.candidates), key=lambda one: one.candidates[0].score)
    ]
    exact = {one.framework for one in best if not one.refusal and not one.differs}
    for name in (*(name for name in able if name in exact), *(runners(best) if not able else ())):
        return name, False
    return (able[0], True) if able else ("", False)


def check_objective(name: str) -> None:
    entry_named(objectives, name, "--objective")


def question_of(job: OpenJob, request: PlanRequest) -> Question:
    decisions = decisions_of(request.part(JobRequest))
    fixed = (*(decided_choice(option, words) for option, words in decisions.items()), *map(fixed_by, request.fix))
    over = (*fixed, *(one for words in request.forbid for one in forbidden_by(words)))
    constraints = overruled(job.constraints, over)
    return Question(
        workload=job.workload,
        cluster=job.cluster,
        objective_name=request.objective,
        objective=objectives[request.objective],
        constraints=constraints,
        space=space_under(constraints, job.workload.training_graph(), job.cluster.num_devices),
        given=job.given,
        quantile=_quantile(request),
    )


def _quantile(request: PlanRequest) -> Quantile:
    """Which quantile of their time plans are ranked by; the median, where nothing is said."""
    if request.rank_by is None:
        return MEDIAN
    if request.objective != "time":
        message = f"--rank-by is a quantile of time; leave it or --objective {request.objective} out"
        raise InvalidInput(message, "rank_by")
    return Quantile(frac=request.rank_by, residuals=tuple(load_residuals()))


def _kept(progress: PlanProgress, cluster_usd: float, history: list[Mark]) -> PlanProgress:
    """A watch that also keeps what a search tells of itself; the cuts of stages come after all plans met."""

    def keep(
        num_done: int,
        num_all: int,
        tally: Tally,
        score: float,
        bound_s: float = 0.0,
        best: tuple[Candidate, ...] = (),
        /,
    ) -> None:
        num_plans = tally.num_plans + (num_done if bound_s else 0)
        history.append(Mark(num_done=num_plans, best=score / cluster_usd, bound=bound_s))
        progress(num_done, num_all, tally, score, bound_s, best)

    return keep


def _searched(
    question: Question, request: PlanRequest, context: SearchContext, history: list[Mark]
) -> PlanSearchResult:
    objective, cluster, is_even_only = question.objective, question.cluster, are_stages_even(question.constraints)
    usd, num_best = cluster_usd(cluster, objective), max(request.top, NUM_COMPARED)
    if isinstance(cluster, HeterogeneousCluster) and is_even_only:
        rule = "on a cluster of several pools stages hold as many layers as their chips are fast"
        raise InvalidInput(f"{rule}; leave uneven ones allowed", "stages")
    with context.planning(objective, usd) as progress_of_context:
        progress = _kept(progress_of_context, usd, history)

        def searched(space: PlanSpace) -> PlanSearchResult:
            if isinstance(cluster, HeterogeneousCluster):
                return search_plans_on_pools(
                    question.workload,
                    cluster,
                    space,
                    objective,
                    num_best=num_best,
                    cluster_usd=usd,
                    progress=progress,
                    num_refined=request.limit,
                )
            return search_plans(
                question.workload,
                cluster,
                space,
                objective,
                num_best=num_best,
                cluster_usd=usd,
                progress=progress,
                is_even_only=is_even_only,
                num_refined=request.limit,
            )

        return search_by_quantile(question.quantile, question.workload, cluster, question.space, num_best, searched)


def _runnable(found: Choice | NothingFits, job: OpenJob, request: PlanRequest) -> tuple[tuple[Runnable, ...], ...]:
    """Who can run each plan of the ranking; on several pools what each would run is evaluated for the best."""
    if isinstance(found, NothingFits) or request.framework:
        return () if isinstance(found, NothingFits) else ((),) * len(found.ranking)
    is_costed = isinstance(job.cluster, HeterogeneousCluster) or found.question.objective.aspect != "time"
    return tuple(
        runnable(
            job.workload,
            job.cluster,
            one.candidate.plan,
            is_costed=is_costed and one.candidate.plan == found.best.plan,
        )
        for one in found.ranking
    )


def commands_of(request: PlanRequest, framework: str, plan_file: str, *, is_own: bool) -> tuple[str, ...]:
    """What takes the plan on from here, after what writes it where that was not done; then what launches it.

    Where `framework` cannot run the plan (`is_own`), its own best is written first, to a file of its own.
    """
    file, decided = shlex.quote(plan_file or PLAN_FILE), tuple(OPTIONS)  # which the plan that was found keeps
    words = request.words(LaunchRequest, but=(*decided, "framework", "framework_version"))
    version = f" --framework-version {request.framework_version}" if request.framework_version else ""
    plans = f"dovetail plan {request.words(PlanRequest, but=('top',))}"
    launched, launches = f"{framework}.yaml" if is_own else file, []
    if is_own:
        launches.append(f"{plans} --framework {framework} --plan-file {launched}")
    if framework:
        launches.append(f"dovetail launch {words} --plan {launched} --framework {framework}{version}")
    return (
        *(() if plan_file else (f"{plans} --plan-file {PLAN_FILE}",)),
        f"dovetail simulate {request.words(SimulateRequest, but=decided)} --plan {file}",
        *launches,
    )


def title_of(job: OpenJob | Job) -> str:
    return f"{job.workload.model.name} on {devices_label(job.cluster)}"
