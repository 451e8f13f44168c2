"""`dovetail plan`: from what was asked to the best plan on the screen."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from dovetail.cli.asked import Asked, open_job_of, placed_in
from dovetail.cli.launch import check_plan_file
from dovetail.cli.progress import search_progress
from dovetail.cli.screen import show_json, show_tables
from dovetail.errors import InvalidInput
from dovetail.files.job import OpenJob, countable
from dovetail.files.plan_text import plan_text
from dovetail.files.residuals import load_residuals
from dovetail.files.space import fixed_by, forbidden_by
from dovetail.files.written import write_file
from dovetail.hardware.mixed import MixedCluster, devices_in_words
from dovetail.report.planned import Told, of_best, planned_tables
from dovetail.report.planned_record import planned_record
from dovetail.report.runnable import Runnable, runnable, runners
from dovetail.search.constraints import are_stages_even, overruled, space_under
from dovetail.search.objectives import objectives
from dovetail.search.parts import planned_on_parts
from dovetail.search.planner import NUM_REFINED, Planned, planned
from dovetail.search.ranking import Choice, NothingFits, Question, choice, cluster_usd

PLAN_FILE = "plan.yaml"  # in the commands that are shown, where none was written


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAsked:
    """The command's arguments beside those of `simulate`."""

    objective: str = "time"
    num_best: int = 10
    num_refined: int = NUM_REFINED
    fixed: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    plan_file: str = ""
    is_forced: bool = False


def answer(asked: Asked, wanted: PlanAsked, *, as_json: bool) -> bool:
    """Shows the best plans, and says whether any fits."""
    check_plan_file(wanted.plan_file, is_forced=wanted.is_forced)
    _check_objective(wanted.objective)
    job, notes = open_job_of(asked)
    with countable():
        question = _question(job, wanted)
        with placed_in(asked.spec):
            found = choice(question, _searched(question, wanted))
    by_place = _runnable(found, job)
    written = _written(found, wanted, job)
    told = Told(
        name=job.name,
        residuals=tuple(load_residuals()),
        notes=notes,
        commands=_commands(asked, wanted, of_best(found, by_place) if isinstance(found, Choice) else ()),
    )
    if as_json:
        show_json(planned_record(found, by_place, told) | {"written": written})
    else:
        show_tables(planned_tables(found, by_place, told))
    return isinstance(found, Choice)


def _runnable(found: Choice | NothingFits, job: OpenJob) -> tuple[tuple[Runnable, ...], ...]:
    """Who can run each plan of the ranking; what each would run is evaluated for the best."""
    if isinstance(found, NothingFits):
        return ()
    return tuple(
        runnable(job.workload, job.cluster, one.candidate.plan, is_costed=one.candidate.plan == found.best.plan)
        for one in found.ranking
    )


def _check_objective(name: str) -> None:
    try:
        objectives[name]
    except InvalidInput as error:
        raise InvalidInput(error.message, "--objective") from None


def _written(found: Choice | NothingFits, wanted: PlanAsked, job: OpenJob) -> list[str]:
    """Writes the best plan where a file for it is named; the files written."""
    if not wanted.plan_file or isinstance(found, NothingFits):
        return []
    write_file(Path(wanted.plan_file), plan_text(found.best.plan, _title(job)))
    return [wanted.plan_file]


def _question(job: OpenJob, wanted: PlanAsked) -> Question:
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


def _searched(question: Question, wanted: PlanAsked) -> Planned:
    objective, cluster, is_even_only = question.objective, question.cluster, are_stages_even(question.constraints)
    usd = cluster_usd(cluster, objective)
    with search_progress(objective, usd) as progress:
        if not isinstance(cluster, MixedCluster):
            return planned(
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
            told = "on a cluster of several parts stages hold as many layers as their chips are fast"
            raise InvalidInput(f"{told}; leave uneven ones allowed", "stages")
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


def _title(job: OpenJob) -> str:
    return f"{job.workload.model.name} on {devices_in_words(job.cluster)}"


def _commands(asked: Asked, wanted: PlanAsked, best: tuple[Runnable, ...]) -> tuple[str, ...]:
    """What takes the plan on from here, after what writes it where that was not asked for."""
    words = " ".join(shlex.quote(word) for word in _words(asked))
    taking = f"{words} --plan {shlex.quote(wanted.plan_file or PLAN_FILE)}"
    launches = [f"dovetail launch {taking} --framework {name}" for name in runners(best)[:1]]
    written = () if wanted.plan_file else (f"dovetail plan {words}{_wishes(wanted)} --plan-file {PLAN_FILE}",)
    return (*written, f"dovetail simulate {taking}", *launches)


def _wishes(wanted: PlanAsked) -> str:
    """The options that decide which plan is best, as they were given."""
    said = [("--objective", wanted.objective)] if wanted.objective != "time" else []
    said += [("--limit", str(wanted.num_refined))] if wanted.num_refined != NUM_REFINED else []
    said += [("--fix", words) for words in wanted.fixed] + [("--forbid", words) for words in wanted.forbidden]
    return "".join(f" {option} {shlex.quote(value)}" for option, value in said)


def _words(asked: Asked) -> list[str]:
    """The arguments that say model and cluster, as they were given."""
    said = {"--model": asked.model, "--cluster": asked.cluster, "--devices": asked.devices}
    said |= {"--global-batch": asked.global_batch, "--seq": asked.seq, "--compute": asked.compute}
    options = [word for option, value in said.items() if value for word in (option, str(value))]
    return [*([asked.spec] if asked.spec else []), *options]
