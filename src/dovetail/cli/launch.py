"""`dovetail launch`: from what was asked to what starts the run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dovetail.cli.asked import Asked, job_of, placed_in
from dovetail.cli.screen import show_json, write
from dovetail.errors import DovetailError, InvalidInput
from dovetail.files import Job
from dovetail.files.plan_text import plan_text
from dovetail.files.text import one_line
from dovetail.files.written import check_writable, write_file
from dovetail.hardware.mixed import devices_in_words
from dovetail.report.fallbacks import as_run
from dovetail.report.launch import launchers
from dovetail.report.launching import Launch, launch_record, launch_text
from dovetail.report.nearest import Cost, cost_record, costs, nearest
from dovetail.report.record import plan_record

PLAN_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchAsked:
    """The command's arguments beside those of `simulate`."""

    framework: str
    output: str = ""
    plan_file: str = ""
    is_forced: bool = False
    as_json: bool = False


def answer(asked: Asked, wanted: LaunchAsked) -> None:
    """Shows what starts the run, or writes it; the plan is written too where a file for it is named."""
    if not wanted.framework:
        raise InvalidInput(f"--framework is missing; known: {', '.join(launchers.names())}")
    launcher = launchers[wanted.framework]
    _check_files(wanted)
    job = job_of(asked)
    with placed_in(asked.spec):
        launch = nearest(launcher, job.workload, job.cluster, job.plan)
    costed = _costs(launch, job)
    differing = tuple(f"it runs another plan than the one given: {cost.words}" for cost in costed)
    launch = replace(launch, notes=(*launch.notes, *differing))
    if wanted.plan_file:
        write_file(Path(wanted.plan_file), plan_text(job.plan, _title(job)))
    if wanted.output:
        write_file(Path(wanted.output), launch_text(launch))
    if wanted.as_json:
        show_json(_record(launch, job, wanted) | {"costs": [cost_record(cost) for cost in costed]})
    elif wanted.output:
        told = (
            f"{one_line(wanted.output)}: {launch.comments[0]}",
            *differing,
            *(one.sentence for one in launch.missing),
        )
        write("".join(f"{line}\n" for line in told))
    else:
        write(launch_text(launch))


def _check_files(wanted: LaunchAsked) -> None:
    if wanted.output:
        check_writable(Path(wanted.output), is_forced=wanted.is_forced)
    check_plan_file(wanted.plan_file, is_forced=wanted.is_forced)


def check_plan_file(file: str, *, is_forced: bool) -> None:
    """Raises where a plan cannot be written to `file`; empty where none is to be."""
    if not file:
        return
    check_writable(Path(file), is_forced=is_forced)
    if Path(file).suffix.lower() not in PLAN_SUFFIXES:
        ends = " or ".join(PLAN_SUFFIXES)
        raise InvalidInput(f"a plan file ends in {ends}; got {one_line(Path(file).name)!r}", "--plan-file")


def _title(job: Job) -> str:
    return f"{job.workload.model.name} on {devices_in_words(job.cluster)}"


def _costs(launch: Launch, job: Job) -> tuple[Cost, ...]:
    """What the run costs beside the plan, where it is another plan and both are modelled."""
    try:
        return costs(launch, job.workload, job.cluster, job.plan)
    except DovetailError:  # launching does not ask whether a plan can be simulated
        return ()


def _record(launch: Launch, job: Job, wanted: LaunchAsked) -> dict[str, Any]:
    written = [file for file in (wanted.output, wanted.plan_file) if file]
    _, plan = as_run(job.workload, job.plan, launch.missing)
    return launch_record(launch) | {"plan_as_run": plan_record(plan), "written": written}
