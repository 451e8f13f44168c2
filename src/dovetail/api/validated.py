"""Predictions beside measurements: from the sets that were asked for to how far we are off."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dovetail.accuracy.appraisal import Appraisal
from dovetail.accuracy.coverage import judged_coverage
from dovetail.accuracy.logged_run import LoggedRun, prepared_run
from dovetail.accuracy.prepared import Prepared, TableContext
from dovetail.accuracy.profiled import Profiled
from dovetail.accuracy.validation import Validation as Compared
from dovetail.accuracy.validation import validation
from dovetail.api.answer import Answer
from dovetail.api.jobs import JobRequest
from dovetail.api.logged_jobs import compared_log, compared_profile, names_job
from dovetail.api.measured_sets import BESIDE, GEMM, QUICK, Found, check_any_row, look_up
from dovetail.api.profiled_answers import other_chip, profile_compared
from dovetail.api.recorded_steps import steps_recorder
from dovetail.api.requests.evidence import ValidateRequest
from dovetail.api.search_context import SearchContext
from dovetail.errors import InvalidInput
from dovetail.files.measurements import SHIPPED
from dovetail.files.profiles.profile import load_profile, names_trace
from dovetail.files.python_values import as_chip, as_cluster
from dovetail.files.residuals import load_residuals
from dovetail.files.text import quoted
from dovetail.files.training_logs.loading import names_training_log
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.heterogeneous import chips_of
from dovetail.hardware.measured import Profile
from dovetail.report.accuracy import accuracy_tables, accuracy_verdict, judged_once, validation_record
from dovetail.report.appraisal import appraisal_record, appraisal_sections, whole_tables
from dovetail.report.logged_run import (
    logged_run_record,
    logged_run_sections,
    logged_run_sentence,
    logged_run_tables,
    traced_steps_record,
    traced_steps_table,
)
from dovetail.report.page import Page, Section
from dovetail.report.pages.accuracy import accuracy_page
from dovetail.report.plain import Record
from dovetail.report.profiled import profiled_record, profiled_sections, profiled_sentence, profiled_tables
from dovetail.report.table import Table

NUM_WORST = 1  # shown of each set, unless more are asked for
Appraise = Callable[[SearchContext], Appraisal]


def _appraised(context: SearchContext) -> Appraisal:
    from dovetail.api.appraised import appraised  # every search and engine, which other comparisons do without

    return appraised(context)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Validation(Answer):
    """Errors of predictions, set by set.

    `earlier` are records of runs that were named as files; every one of `profiles` is a set too, and so is every one
    of `logs`, training runs beside the prediction of their jobs. `traces` have whole steps that no job was named for.
    With `all`, `appraisal` is one value with speeds and gaps, and all of it is told on one page.
    """

    outcome: Compared
    earlier: tuple[Record, ...]
    profiles: tuple[Profiled, ...]
    said: Record
    call: str
    appraisal: tuple[Appraisal, ...] = ()
    logs: tuple[LoggedRun, ...] = ()
    traces: tuple[Profile, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether every documented bar holds."""
        return bool(self.record["holds"])

    @property
    def headline(self) -> str:
        record = self.record
        if self.logs:
            return "; ".join(logged_run_sentence(one) for one in self.logs)
        if self.profiles:
            return "; ".join(profiled_sentence(one) for one in self.profiles)
        return f"{len(record['sets'])} sets of measurements; {accuracy_verdict(record, self._left_out)}"

    @property
    def tables(self) -> tuple[Table, ...]:
        for appraisal in self.appraisal:
            return whole_tables(self.record, appraisal)
        return (
            *(table for one in self.logs for table in logged_run_tables(one)),
            *(traced_steps_table(one) for one in self.traces),
            *(accuracy_tables(self.record) if self.record["sets"] or not self.traces else ()),
            *(table for one in self.profiles for table in profiled_tables(one)),
        )

    @property
    def _record(self) -> Record:
        record = validation_record(self.outcome)
        for earlier in self.earlier:
            record["sets"] = judged_once([*record["sets"], *earlier["sets"]])
            record["notes"] += earlier["notes"]
            record["coverage"] = [*record.get("coverage", ()), *earlier.get("coverage", ())]
            record["holds"] = record["holds"] and earlier["holds"]
        profiles = [profiled_record(one) for one in self.profiles]
        profiles += [one for earlier in self.earlier for one in earlier.get("profiles", ())]
        record |= {"profiles": profiles} if profiles else {}
        logs = [logged_run_record(one) for one in self.logs]
        logs += [one for earlier in self.earlier for one in earlier.get("logs", ())]
        record |= {"logs": logs} if logs else {}
        record |= {"traces": [traced_steps_record(one) for one in self.traces]} if self.traces else {}
        return record | {key: value for one in self.appraisal for key, value in appraisal_record(one).items()}

    @property
    def _left_out(self) -> tuple[str, ...]:
        """Sets that ship and are not compared where none is named."""
        return tuple(BESIDE) if self.said["targets"] == list(sets_of(ValidateRequest())) else ()

    @property
    def page(self) -> Page:
        page = accuracy_page(self.outcome, self.record, self._left_out)
        more = tuple(section for one in self.logs for section in logged_run_sections(one))
        more += tuple(
            Section(title=f"{one.source}: whole steps", tables=(traced_steps_table(one),)) for one in self.traces
        )
        more += tuple(section for one in self.profiles for section in profiled_sections(one))
        more += tuple(section for one in self.appraisal for section in appraisal_sections(one))
        return replace(page, sections=(*page.sections, *more))

    @property
    def inputs(self) -> Record:
        return self.said


def check_request(request: ValidateRequest) -> None:
    """Raises where a set is named twice, or something is said beside `all`, which is of the sets as they are."""
    if twice := next((one for one in request.target if request.target.count(one) > 1), ""):
        raise InvalidInput(f"{quoted(twice)} is named twice, and would count twice; name it once")
    given = {
        "--profile": request.profile,
        "--chip": request.chip,
        "--dtype": request.dtype,
        "--cluster": request.cluster,
        **{option: value for option, value in _job_options(request).items() if value not in ("", 0)},
    }
    for option in (option for option, said in given.items() if request.all and said):
        rule = "--all shows what is promised, so chips and rows are those of the sets"
        raise InvalidInput(f"{rule}; leave out {option}, or --all", option)


def _job_options(request: ValidateRequest) -> dict[str, Any]:
    """What only training logs and traces are told, by option."""
    return {
        "--spec": request.spec,
        "--model": request.model,
        "--plan": request.plan,
        "--devices": request.devices,
        "--global-batch": request.global_batch,
        "--seq": request.seq,
        "--compute": request.compute,
    }


def sets_of(request: ValidateRequest) -> tuple[str, ...]:
    """The sets to compare with: those named, or with `all` every one, or those that are quick."""
    everything = (*SHIPPED, GEMM) if request.all else (*QUICK, GEMM)
    named: tuple[str, ...] = request.target
    return named or (() if request.profile else everything)


def has_published_runs(request: ValidateRequest) -> bool:
    return bool(set(sets_of(request)) & set(BESIDE))


def _check_used(request: ValidateRequest, found: Found) -> None:
    """Raises where an option says something of rows, and there are none of which it could be said."""
    nowhere = "no set that was named takes it: simulators, dies and results have their own"
    if request.chip != "" and not any(one.is_of_chip for one in found.sets):
        raise InvalidInput(f"{nowhere}; leave it out", "--chip")
    if request.cluster != "" and not any(one.is_of_cluster for one in found.sets):
        message = "it is for training logs and for tables and logs of collectives, and none was named; leave it out"
        raise InvalidInput(message, "--cluster")
    if request.dtype and not any(one.is_of_dtype for one in found.sets):
        raise InvalidInput(f"{nowhere}; leave it out", "--dtype")
    if request.worst != NUM_WORST and not found.sets:
        raise InvalidInput("results keep the worst rows that they were written with; leave it out", "--worst")


def _cluster_of(request: ValidateRequest) -> Cluster | None:
    if request.cluster == "":
        return None
    cluster = as_cluster(request.cluster)
    if not isinstance(cluster, Cluster):
        raise InvalidInput(
            "collectives are compared with a cluster of equal devices; name one of its pools", "--cluster"
        )
    return cluster


@dataclass(slots=True)
class _Runs:
    """Training logs and traces among the targets, each compared."""

    logs: list[LoggedRun] = field(default_factory=list)
    profiles: list[tuple[Profiled, Prepared]] = field(default_factory=list)
    traces: list[Profile] = field(default_factory=list)


def _take_log(target: str, job: JobRequest, found: Found, runs: _Runs) -> None:
    run = compared_log(target, job)
    runs.logs.append(run)
    found.sets += prepared_run(run)


def _take_trace(target: str, job: JobRequest, chip: Chip | None, found: Found, runs: _Runs) -> None:
    """A trace's whole steps beside the job, where one is named, and its operators where it says their shapes."""
    profile = load_profile(Path(target), needs_operators=False)
    if names_job(job):
        if not profile.steps:
            rule = "the trace marks no step, so there is none to compare the job with"
            raise InvalidInput(f"{rule}; call prof.step() after every step, or leave the job out", target)
        run = compared_profile(profile, job)
        runs.logs.append(run)
        found.sets += prepared_run(run)
        chip = chip if chip is not None else chips_of(run.cluster)[0]
    elif profile.steps:
        runs.traces.append(profile)
    try:
        compared = profile_compared(target, chip, profile)
    except InvalidInput as error:
        if not profile.steps:
            raise
        found.notes.append(f"operators of {profile.source} are not compared: {error.message}")
        return
    runs.profiles.append(compared)


def validated(request: ValidateRequest, context: SearchContext, appraise: Appraise = _appraised) -> Validation:
    """How far we are off; raises where nothing that was named can be compared."""
    check_request(request)
    sets = sets_of(request)
    if request.dtype and not sets:
        raise InvalidInput("a trace has the dtype of every operator; leave it out", "--dtype")
    chip = None if request.chip == "" else as_chip(request.chip)
    named = [target for target in sets if target not in SHIPPED]
    logs = {target for target in named if names_training_log(Path(target))}
    traces = {target for target in named if names_trace(Path(target))}
    job = request.part(JobRequest, profile="")
    options = [option for option, value in _job_options(request).items() if value not in ("", 0)]
    if options and not logs and not traces:
        raise InvalidInput("it is for a training log or a trace, and none was named; leave it out", options[0])
    cluster = _cluster_of(request) if {*sets} - logs - traces else None
    given = TableContext(chip=chip, dtype=request.dtype, cluster=cluster)
    found, runs = Found(), _Runs()
    for target in context.through("comparing predictions with measurements", sets):
        if target in logs:
            _take_log(target, job, found, runs)
            continue
        if target in traces:
            _take_trace(target, job, chip, found, runs)
            continue
        look_up(
            target,
            given,
            found,
            is_asked=bool(request.target),
            does_name_absent=request.all,
            recorder=lambda file: steps_recorder(file, os.fspath(request.cases), context, request.host_slowdown),
        )
    found.notes += [one.note for one in found.sets if one.note]
    compared_profiles = runs.profiles + [profile_compared(file, chip) for file in request.profile]
    found.sets += [one for _, one in compared_profiles]
    found.notes += [note for one, _ in compared_profiles for note in other_chip(one)]
    if request.target and not request.profile and not runs.traces:
        check_any_row(found)
    _check_used(request, found)
    with context.announced("scoring"):
        covered = judged_coverage(load_residuals()) if has_published_runs(request) else ()
        compared = validation(found.sets, tuple(found.notes), request.worst, covered)
    said = {"targets": [*sets, *request.profile], "chip": chip.name if chip else "", "dtype": request.dtype}
    said |= {"cluster": given.cluster.name} if given.cluster else {}
    said |= {option.lstrip("-"): str(_job_options(request)[option]) for option in options}
    return Validation(
        outcome=compared,
        earlier=tuple(found.records),
        profiles=tuple(one for one, _ in compared_profiles),
        said=said,
        call=request.call,
        appraisal=(appraise(context),) if request.all else (),
        logs=tuple(runs.logs),
        traces=tuple(runs.traces),
    )
