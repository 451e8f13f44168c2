"""The best plan for a model on a cluster: from what was asked to the search and what it found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import SupportsIndex

from dovetail.api.answer import Answer, call_of
from dovetail.api.arguments import counted, entry_named, in_python, listed
from dovetail.api.around import Around, called
from dovetail.api.asked import Asked, asked_of, open_job_of, placed_in
from dovetail.api.plan_commands import PlanAsked, commands_of
from dovetail.api.progress import Tell
from dovetail.api.simulated import Simulation
from dovetail.errors import InvalidInput
from dovetail.files.given import ClusterGiven, ModelGiven
from dovetail.files.job import Job, OpenJob, Spec, countable
from dovetail.files.plan_space import fixed_by, forbidden_by
from dovetail.files.plan_text import plan_text
from dovetail.files.profiled_cluster import ProfileGiven
from dovetail.files.residuals import load_residuals
from dovetail.files.written import write_file
from dovetail.hardware.mixed import MixedCluster, devices_in_words
from dovetail.plan.plan import Plan
from dovetail.report.charts.trail import Mark
from dovetail.report.launch.runnable import Runnable, runnable
from dovetail.report.page import Page
from dovetail.report.plain import Record
from dovetail.report.planned import Told, nothing_sentence, of_best, planned_tables, sentence
from dovetail.report.planned_record import planned_record
from dovetail.report.table import Table
from dovetail.search.objectives import objectives
from dovetail.search.planners.candidates import Tally
from dovetail.search.planners.constraints import are_stages_even, overruled, space_under
from dovetail.search.planners.even_plans import Progress as Watch
from dovetail.search.planners.parts import planned_on_parts
from dovetail.search.planners.planner import NUM_REFINED, Planned
from dovetail.search.planners.planner import planned as searched_plans
from dovetail.search.planners.ranking import Choice, NothingFits, Question, Ranked, choice, cluster_usd


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Planning(Answer):
    """The best plans of a space and what proves them, or that none fits: `outcome` is the search's own value."""

    outcome: Choice | NothingFits
    job: OpenJob
    by_place: tuple[tuple[Runnable, ...], ...]
    told: Told
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
        return planned_tables(self.outcome, self.by_place, self.told)

    @property
    def _record(self) -> Record:
        return planned_record(self.outcome, self.by_place, self.told) | {"written": list(self.written)}

    @property
    def page(self) -> Page:
        from dovetail.report.pages.planned import planned_page  # with its charts

        return planned_page(self.outcome, self.by_place, self.told, self.history)

    @property
    def inputs(self) -> Record:
        return self.best.inputs

    def to_yaml(self, path: str | PathLike[str]) -> None:
        """Writes the best plan to a file, whole, as `simulate(plan=...)` and the command line take it."""
        write_file(Path(path), plan_text(self.plan, title_of(self.job)))


@in_python
def plan(
    spec: Spec = "",
    *,
    model: ModelGiven = "",
    cluster: ClusterGiven = "",
    devices: SupportsIndex | None = None,
    global_batch: SupportsIndex | None = None,
    seq: SupportsIndex | None = None,
    compute: str = "",
    top: SupportsIndex = 10,
    objective: str = "time",
    limit: SupportsIndex = NUM_REFINED,
    fix: Sequence[str] = (),
    forbid: Sequence[str] = (),
    profile: ProfileGiven = "",
    progress: Tell | bool = False,
) -> Planning:
    """Find the best plan for a model on a cluster, and prove it.

    `spec`, `model`, `cluster` and the counts are as `simulate` takes them. `top` is how many plans come back, no two
    of the same degrees; `objective` is time, tokens/s, tokens/s/$, tokens/J or headroom; `limit` is of how many plans
    layers and recompute are set by stage. `fix` and `forbid` are as the command's: "tp=8", "uneven".
    `profile` is as `simulate` takes it.

    `progress` is called with a `Progress` as the search goes on; what it raises ends the search. True shows a bar.
    """
    asked = asked_of(
        spec, model=model, cluster=cluster, devices=devices, global_batch=global_batch, seq=seq, compute=compute,
        profile=profile, read=counted,
    )  # fmt: skip
    wanted = PlanAsked(
        objective=objective,
        num_best=counted("top", top),
        num_refined=counted("limit", limit),
        fixed=listed(fix),
        forbidden=listed(forbid),
    )
    with called(progress) as around:
        return planned(asked, wanted, around)


def planned(asked: Asked, wanted: PlanAsked, around: Around) -> Planning:
    """What the planner finds, and who can run it."""
    history: list[Mark] = []
    job, notes, found = _found(asked, wanted, around, history)
    by_place = _runnable(found, job)
    best = of_best(found, by_place) if isinstance(found, Choice) else ()
    commands = commands_of(asked, wanted, best) if asked.is_in_words else ()
    words = Told(name=job.name, residuals=tuple(load_residuals()), notes=notes, commands=commands)
    wishes = {"objective": wanted.objective, "fix": wanted.fixed, "forbid": wanted.forbidden, "top": wanted.num_best}
    call = call_of("plan", **asked.said, **wishes, limit=wanted.num_refined)
    return Planning(outcome=found, job=job, by_place=by_place, told=words, call=call, history=tuple(history))


def best_plan(asked: Asked, wanted: PlanAsked, around: Around) -> tuple[Job, Choice | NothingFits]:
    """The job with the best plan; where none fits, with the one that needs least."""
    job, _, found = _found(asked, wanted, around, [])
    best = found.best if isinstance(found, Choice) else found.least
    return Job(workload=job.workload, cluster=job.cluster, plan=best.plan, name=job.name), found


def _found(
    asked: Asked, wanted: PlanAsked, around: Around, history: list[Mark]
) -> tuple[OpenJob, tuple[str, ...], Choice | NothingFits]:
    """The job, notes on it, and what was found; `history` takes how the search came to it."""
    check_objective(wanted.objective)
    job, notes = open_job_of(asked)
    with countable():
        question = question_of(job, wanted)
        with placed_in(asked.spec):
            return job, notes, choice(question, _searched(question, wanted, around, history))


def check_objective(name: str) -> None:
    entry_named(objectives, name, "--objective")


def question_of(job: OpenJob, wanted: PlanAsked) -> Question:
    over = (*map(fixed_by, wanted.fixed), *(one for words in wanted.forbidden for one in forbidden_by(words)))
    constraints = overruled(job.constraints, over)
    return Question(
        workload=job.workload,
        cluster=job.cluster,
        objective_name=wanted.objective,
        objective=objectives[wanted.objective],
        constraints=constraints,
        space=space_under(constraints, job.workload.training_graph(), job.cluster.num_devices),
        own=job.own,
    )


def _kept(watch: Watch, cluster_usd: float, history: list[Mark]) -> Watch:
    """A watch that also keeps what a search tells of itself; the cuts of stages come after all plans met."""

    def keep(num_done: int, num_all: int, tally: Tally, score: float, bound_s: float = 0.0, /) -> None:
        num_plans = tally.num_plans + (num_done if bound_s else 0)
        history.append(Mark(num_done=num_plans, best=score / cluster_usd, bound=bound_s))
        watch(num_done, num_all, tally, score, bound_s)

    return keep


def _searched(question: Question, wanted: PlanAsked, around: Around, history: list[Mark]) -> Planned:
    objective, cluster, is_even_only = question.objective, question.cluster, are_stages_even(question.constraints)
    usd = cluster_usd(cluster, objective)
    with around.planning(objective, usd) as watch:
        progress = _kept(watch, usd, history)
        if not isinstance(cluster, MixedCluster):
            return searched_plans(
                question.workload,
                cluster,
                question.space,
                objective,
                num_best=wanted.num_best,
                cluster_usd=usd,
                progress=progress,
                is_even_only=is_even_only,
                num_refined=wanted.num_refined,
            )
        if is_even_only:
            rule = "on a cluster of several parts stages hold as many layers as their chips are fast"
            raise InvalidInput(f"{rule}; leave uneven ones allowed", "stages")
        return planned_on_parts(
            question.workload,
            cluster,
            question.space,
            objective,
            num_best=wanted.num_best,
            cluster_usd=usd,
            progress=progress,
            num_refined=wanted.num_refined,
        )


def _runnable(found: Choice | NothingFits, job: OpenJob) -> tuple[tuple[Runnable, ...], ...]:
    """Who can run each plan of the ranking; what each would run is evaluated for the best."""
    if isinstance(found, NothingFits):
        return ()
    return tuple(
        runnable(job.workload, job.cluster, one.candidate.plan, is_costed=one.candidate.plan == found.best.plan)
        for one in found.ranking
    )


def title_of(job: OpenJob | Job) -> str:
    return f"{job.workload.model.name} on {devices_in_words(job.cluster)}"
