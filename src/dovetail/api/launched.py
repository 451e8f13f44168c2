"""What starts a plan with a training framework: from what was asked to its script."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

from dovetail.api.answer import Answer
from dovetail.api.arguments import entry_named
from dovetail.api.jobs import JobRequest, job_of, placed_in
from dovetail.api.requests.jobs import LaunchRequest
from dovetail.errors import DovetailError, InvalidInput
from dovetail.files.job import Job
from dovetail.files.written import write_file
from dovetail.parallel.frameworks import framework_name
from dovetail.report.launchers.fallbacks import as_run
from dovetail.report.launchers.framework_bests import trained_changes
from dovetail.report.launchers.frameworks import launchers
from dovetail.report.launchers.launch import Launch, hosts, launch_record, launch_text, script
from dovetail.report.launchers.nearest import Cost, Launched, cost_record, costs, nearest
from dovetail.report.launchers.runnable_spaces import as_trained_by
from dovetail.report.launchers.wrappers import WrappedJob, wrappers
from dovetail.report.outcome import plan_record
from dovetail.report.page import Page
from dovetail.report.pages.inputs import plain_inputs
from dovetail.report.pages.launch import launch_page
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.units import format_bytes

OTHER_NAMES = {  # of frameworks, as people say them
    "nemo": "megatron-bridge, which trains for NeMo",
    **dict.fromkeys(("pytorch", "torch"), "torchtitan, or fsdp2 for a script of your own"),
    **dict.fromkeys(("hf", "huggingface", "accelerate", "transformers", "peft", "fsdp", "trl"), "fsdp2"),
    **dict.fromkeys(("jax", "xla", "pax"), "maxtext"),
}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class LaunchScript(Answer):
    """A launch script, and where it differs from the plan.

    `trained`: what the framework changes of the workload for its own plan, which it runs unchanged. `misfit`: a
    sentence where that does not fit in memory.
    """

    outcome: Launch
    job: Job
    costs: tuple[Cost, ...]
    call: str
    wrapper: str = ""
    trained: tuple[str, ...] = ()
    misfit: tuple[str, ...] = ()
    written: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        return True

    @property
    def text(self) -> str:
        """The script, TOML for torchtitan 0.2, or the job of a batch system around it."""
        if not self.wrapper:
            return launch_text(self.outcome)
        num_hosts, per_host = hosts(self.job.cluster)
        return wrappers[self.wrapper](
            WrappedJob(
                name=_job_name(self.job),
                script=script(self.outcome),
                num_hosts=num_hosts,
                devices_per_host=per_host,
                comments=self.outcome.comments[:1],
            )
        )

    @property
    def differing(self) -> tuple[str, ...]:
        """Sentences on where the run is another than the one given, and what that costs."""
        _, plan = as_run(self.job.workload, self.job.plan, self.outcome.missing)
        other = "trains otherwise than given" if plan == self.job.plan else "runs another plan than the one given"
        trained = (f"it trains with {', '.join(self.trained)}",) if self.trained else ()
        return (*trained, *(f"it {other}: {cost.words}" for cost in self.costs), *self.misfit)

    @property
    def headline(self) -> str:
        return self.outcome.comments[0]

    @property
    def tables(self) -> tuple[Table, ...]:
        notes = (*self.differing, *(one.sentence for one in self.outcome.missing))
        return (Table(title=self.headline, notes=(*notes, *self.text.splitlines())),)

    @property
    def _record(self) -> Record:
        _, plan = as_run(self.job.workload, self.job.plan, self.outcome.missing)
        found = launch_record(self.outcome) | {"plan_as_run": plan_record(plan), "written": list(self.written)}
        found |= {"wrapper": self.wrapper, "text": self.text, "trains": list(self.trained)}
        return found | {"costs": [cost_record(cost) for cost in self.costs]}

    @property
    def page(self) -> Page:
        return launch_page(self.outcome, self.differing)

    @property
    def inputs(self) -> Record:
        found: Record = plain_inputs(
            {"workload": self.job.workload, "cluster": self.job.cluster, "plan": self.job.plan}
        )
        return found

    def to_file(self, path: str | PathLike[str]) -> None:
        """Writes the script."""
        write_file(Path(path), self.text)

    def __str__(self) -> str:
        return self.text


def launched(request: LaunchRequest) -> LaunchScript:
    framework = launcher_name(request.framework)
    version = launchers[framework].version(request.framework_version)
    if request.wrapper:
        entry_named(wrappers, request.wrapper, "--wrapper")
    given = job_of(request.part(JobRequest))
    launcher = launchers[framework].at(version)
    with placed_in(request.spec):
        workload = as_trained_by(framework, launcher, given.workload, given.cluster, given.plan)
        job = replace(given, workload=workload)
        found = nearest(launcher, job.workload, job.cluster, job.plan)
    changed = _costs(found, job)
    answer = LaunchScript(
        outcome=found,
        job=job,
        costs=changed,
        misfit=() if changed else _misfit(found, job),
        call=request.call,
        wrapper=request.wrapper,
        trained=trained_changes(given.workload, workload),
    )
    return replace(answer, outcome=replace(found, notes=(*found.notes, *answer.differing)))


def _job_name(job: Job) -> str:
    """A name that Slurm and Kubernetes take: lower case, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", (job.name or job.workload.model.name).lower()).strip("-")[:40] or "train"


def launcher_name(said: str) -> str:
    """The framework that is called `said`, by its one name; raises where a plan cannot be written for it."""
    if not said:
        raise InvalidInput(f"--framework is missing; known: {', '.join(launchers.names())}")
    try:
        name = framework_name(said)
    except InvalidInput:
        name = said
    if name.lower() in OTHER_NAMES:
        raise InvalidInput(f"no framework is named {said!r}; here it is {OTHER_NAMES[name.lower()]}", "framework")
    launchers[name]  # raises, naming what is close
    return name


def _misfit(launch: Launch, job: Job) -> tuple[str, ...]:
    """A sentence where the plan, launched unchanged, does not fit in memory."""
    try:
        found = Launched(workload=job.workload, cluster=job.cluster, plan=job.plan, launch=launch).trial
    except DovetailError:
        return ()  # what is not modelled has no memory to compare
    if found.need_bytes <= found.limit_bytes:
        return ()
    limit = f"{format_bytes(found.limit_bytes)} usable"
    return (f"it does not fit: {format_bytes(found.need_bytes)} per device of {limit}",)


def _costs(launch: Launch, job: Job) -> tuple[Cost, ...]:
    """What the run costs beside the plan, where it is another plan and both are modelled."""
    try:
        return costs(launch, job.workload, job.cluster, job.plan)
    except DovetailError:  # launching does not ask whether a plan can be simulated
        return ()
