"""`dovetail launch`: from what was asked to what starts the run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dovetail.cli.asked import Asked, job_of, placed_in
from dovetail.cli.screen import show_json, write
from dovetail.errors import InvalidInput
from dovetail.files import Job
from dovetail.files.plan_text import plan_text
from dovetail.files.text import one_line
from dovetail.files.written import check_writable, write_file
from dovetail.report.launch import launchers
from dovetail.report.launching import Launch, launch_record, launch_text

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
        launch = launcher(job.workload, job.cluster, job.plan)
    if wanted.plan_file:
        write_file(Path(wanted.plan_file), plan_text(job.plan, _title(job)))
    if wanted.output:
        write_file(Path(wanted.output), launch_text(launch))
    if wanted.as_json:
        show_json(_record(launch, wanted))
    elif wanted.output:
        write("".join(f"{line}\n" for line in (f"{one_line(wanted.output)}: {launch.comments[0]}", *_told(launch))))
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
    return f"{job.workload.model.name} on {job.cluster.num_devices:,} {job.cluster.chip.name}"


def _told(launch: Launch) -> tuple[str, ...]:
    return tuple(one.sentence for one in launch.missing)


def _record(launch: Launch, wanted: LaunchAsked) -> dict[str, Any]:
    written = [file for file in (wanted.output, wanted.plan_file) if file]
    return launch_record(launch) | {"written": written}
