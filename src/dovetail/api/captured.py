"""A model as another tool has it, taken as it is: PyTorch modules, Hugging Face configurations, ONNX files."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from os import PathLike
from pathlib import Path

from dovetail.api.answer import Answer, plain_page
from dovetail.api.code_jobs import CodeJob, code_job
from dovetail.api.code_steps import CodeStep, code_step
from dovetail.api.requests.entries import CaptureRequest
from dovetail.errors import InvalidInput, NotModelled
from dovetail.files.captured import captured_model, write_captured
from dovetail.files.entry import described
from dovetail.files.python_values import as_chip, as_cluster, as_model
from dovetail.hardware.cluster import Cluster
from dovetail.importers.captures import CaptureJob, captured
from dovetail.importers.target_jobs import JobTarget, recorded_job
from dovetail.importers.target_steps import TrainedAs
from dovetail.report.captured import captured_record
from dovetail.report.captured_tables import captured_tables
from dovetail.report.eager_step import eager_cards, eager_sentence, eager_tables
from dovetail.report.labels import counted as in_number
from dovetail.report.page import Page, Section
from dovetail.report.pages.captured import captured_page
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.step.eager import HostPace
from dovetail.units import format_count, format_rate
from dovetail.workload.model import Model
from dovetail.workload.recorded.captured import Captured

CLUSTER = "dgx-h100"  # that a job runs on where none is named
NO_MODEL_FILE = "a job's parameters are recorded as its ranks hold them; capture its model alone for a model file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A model whose operators were not all recognised, though its step was recorded: its name, and why."""

    name: str
    why: str
    num_parameters: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Capture(Answer):
    """A recorded model, which calls take as `model`; `captured` is its analysis.

    `remarks` are on the capture itself, such as that it could not be kept; what was assumed of the model is in
    `model.notes`. With a chip, `steps` has the step that its code takes there; then a model that was not recognised
    is `Refused`, and there is a step of it alone. Of a job of many ranks `jobs` has the step, and there is no model.
    """

    found: Captured | Refused
    call: str
    steps: tuple[CodeStep, ...] = ()
    jobs: tuple[CodeJob, ...] = ()
    is_from_cache: bool = False
    remarks: tuple[str, ...] = ()
    model_file: str = ""

    @property
    def captured(self) -> Captured:
        """What was understood of the model; raises where its operators were not all recognised."""
        if isinstance(self.found, Refused):
            raise InvalidInput(self.found.why)
        return self.found

    @property
    def model(self) -> Model:
        """As every other call takes it."""
        return captured_model(self.captured)

    @property
    def name(self) -> str:
        return self.found.name

    @property
    def num_parameters(self) -> int:
        return self.found.num_parameters

    @property
    def fits(self) -> bool:
        return True

    @property
    def headline(self) -> str:
        for job in self.jobs:
            return f"{self.name}: {job.sentence}"
        for step in self.steps:
            return f"{self.name} on {step.chip}, {eager_sentence(step.record)}"
        found = self.record
        return (
            f"{found['name']}, {format_count(found['num_parameters'])} parameters in"
            f" {in_number(found['num_layers'], 'layer')}, {format_rate(found['training_flop'], 'FLOP')} a sample"
        )

    @property
    def tables(self) -> tuple[Table, ...]:
        for job in self.jobs:
            return job.tables
        steps = tuple(table for step in self.steps for table in eager_tables(step.record))
        if isinstance(self.found, Refused):
            return (*steps, _refused_table(self.found))
        return (*steps, *captured_tables(self.record))

    @property
    def _record(self) -> Record:
        steps = [step.record for step in self.steps]
        if isinstance(self.found, Refused):
            found = self.found
            refused = {"name": found.name, "num_parameters": found.num_parameters, "why_not": found.why, "steps": steps}
            return refused | ({"job": self.jobs[0].record} if self.jobs else {})
        record = captured_record(
            self.model, is_from_cache=self.is_from_cache, remarks=self.remarks, model_file=self.model_file
        )
        return record | ({"steps": steps} if steps else {})

    @property
    def page(self) -> Page:
        for job in self.jobs:
            return job.page
        cards = tuple(card for step in self.steps for card in eager_cards(step.record))
        if isinstance(self.found, Refused):
            return replace(plain_page(self.headline, self.tables), cards=cards)
        page = captured_page(self.record, f"{self.headline}.")
        tables = tuple(table for step in self.steps for table in eager_tables(step.record))
        sections = (Section(title="The step", tables=tables),) if tables else ()
        return replace(page, cards=(*cards, *page.cards), sections=(*sections, *page.sections))

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the model file, JSON that every command takes as a model."""
        write_captured(self.captured, path)


def _refused_table(found: Refused) -> Table:
    rows = (("parameters", f"{found.num_parameters:,}"), ("no model file", found.why))
    return Table(title=f"recorded {found.name}", rows=rows)


def dim_of(option: str, value: int) -> int:
    """A dim of a tensor by number; the first is that of samples."""
    if not 0 < value < 8:  # style: more dims than inputs have
        raise InvalidInput(f"{option} is a dim from 1 on, as dim 0 is the batch; got {described(value)}")
    return value


def found_capture(request: CaptureRequest, tell: Callable[[str], None] = lambda _: None) -> Capture:
    """What was asked for, as an answer."""
    if request.world_size:
        return _job_capture(request, tell)
    _check_no_job(request)
    inputs, is_named = request.example_inputs, isinstance(request.model, str | PathLike)
    capture_job = CaptureJob(
        model=request.model,
        example_inputs=None if isinstance(inputs, str) and not inputs else inputs,
        name=request.name,
        batch=request.batch,
        seq=request.seq,
        seq_dim=request.seq_dim or None,
        is_kept=request.cache,
    )
    shown = request.changed(model=request.model if is_named else type(request.model).__name__, example_inputs="")
    if request.chip == "":
        _check_chip(request)
        found = captured(capture_job, tell)
        return Capture(found=found.captured, call=shown.call, is_from_cache=found.is_from_cache, remarks=found.remarks)
    return _with_step(request, capture_job, shown.call, tell)


def _check_chip(request: CaptureRequest) -> None:
    """Raises where an option is of a step, and there is no chip for it."""
    told = {"--autocast": request.autocast, "--checkpoint": request.checkpoint, "--compile": request.compile}
    for flag in [flag for flag, value in told.items() if value]:
        raise InvalidInput(f"{flag} needs --chip, what the step runs on, such as --chip h200")


def _with_step(request: CaptureRequest, capture_job: CaptureJob, call: str, tell: Callable[[str], None]) -> Capture:
    """The capture, and the step of its code on a chip; the step alone where operators were not recognised."""
    chip = as_chip(request.chip)
    trained = TrainedAs(
        autocast=request.autocast,
        optimizer=request.optimizer,
        is_checkpointed=request.checkpoint,
        is_compiled=request.compile,
    )
    host = HostPace(slowdown=request.host_slowdown)
    sized = capture_job if capture_job.has_sizes else replace(capture_job, batch=0, seq=0)
    try:
        found = captured(sized, tell)
    except (InvalidInput, NotModelled) as error:
        step, num_parameters = code_step(capture_job, trained, chip, host, None, tell)
        refused = Refused(name=step.name, why=str(error), num_parameters=num_parameters)
        return Capture(found=refused, call=call, steps=(step,))
    step, _ = code_step(capture_job, trained, chip, host, found.captured, tell)
    return Capture(
        found=found.captured,
        call=call,
        is_from_cache=found.is_from_cache,
        remarks=found.remarks,
        steps=(step,),
    )


def _check_no_job(request: CaptureRequest) -> None:
    """Raises where something is said of a job, and not how many processes it has."""
    given = {
        "ARGS": request.arguments,
        "-m": request.module,
        "--cluster": request.cluster != "",
        "--ranks": request.ranks,
        "--unsharded": request.unsharded != "",
    }
    for flag in [flag for flag, value in given.items() if value]:
        raise InvalidInput(f"{flag} needs --world-size, how many processes a job has, such as --world-size 64")


def _job_capture(request: CaptureRequest, tell: Callable[[str], None]) -> Capture:
    """The step of a job, as its code takes it on a cluster."""
    told = {
        "--chip": request.chip != "",
        "--inputs": request.example_inputs is not None and request.example_inputs != "",
        "--batch": request.batch,
        "--seq": request.seq,
        "--seq-dim": request.seq_dim,
        "--autocast": request.autocast,
        "--checkpoint": request.checkpoint,
        "--compile": request.compile,
    }
    for flag in [flag for flag, value in told.items() if value]:
        raise InvalidInput("the script of a job sets this; leave it out with --world-size", flag)
    if not isinstance(request.model, str | PathLike):
        message = "a job is named, as every rank runs its code: train.py, file.py:function or package.module:function"
        raise InvalidInput(message, "--world-size")
    cluster = as_cluster(request.cluster or CLUSTER, request.world_size)
    if not isinstance(cluster, Cluster):
        raise NotModelled("code runs the same on all ranks; a job on several pools of devices is not modelled")
    models = (as_model(request.unsharded),) if request.unsharded != "" else ()
    target = JobTarget(
        name=os.fspath(request.model), is_module=request.module, arguments=tuple(map(str, request.arguments))
    )
    step = recorded_job(
        target, request.world_size, _ranks(request.ranks), gpus_per_node=_devices_per_node(cluster), tell=tell
    )
    tell("pricing the step")
    name = request.name or Path(target.name.rpartition(":")[2] or target.name).stem
    job = code_job(step, cluster, HostPace(slowdown=request.host_slowdown), models=models, name=name)
    num_parameters = sum(one.step.num_parameters for one in step.ranks)
    refused = Refused(name=name, why=NO_MODEL_FILE, num_parameters=num_parameters)
    return Capture(found=refused, call=request.call, jobs=(job,))


def _devices_per_node(cluster: Cluster) -> int:
    """As torchrun numbers local ranks."""
    return prod(one.num_devices for one in cluster.topology.dimensions if not one.is_network)


def _ranks(given: tuple[object, ...]) -> tuple[int, ...]:
    try:
        return tuple(int(str(one)) for one in given)
    except ValueError:
        shown = ",".join(map(str, given))
        raise InvalidInput(f"ranks are whole numbers with commas between; got {shown}", "--ranks") from None
