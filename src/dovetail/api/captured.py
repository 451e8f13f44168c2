"""A model as another tool has it, taken as it is: PyTorch modules, Hugging Face configurations, ONNX files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from os import PathLike

from dovetail.api.answer import Answer, plain_page
from dovetail.api.code_steps import CodeStep, code_step
from dovetail.api.requests.entries import CaptureRequest
from dovetail.errors import InvalidInput, NotModelled
from dovetail.files.captured import captured_model, write_captured
from dovetail.files.entry import described
from dovetail.files.python_values import as_chip
from dovetail.importers.captures import CaptureJob, captured
from dovetail.importers.target_steps import TrainedAs
from dovetail.report.captured import captured_record
from dovetail.report.captured_tables import captured_tables
from dovetail.report.eager_step import eager_sentence, eager_tables
from dovetail.report.labels import counted as in_number
from dovetail.report.page import Page, Section
from dovetail.report.pages.captured import captured_page
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.step.eager import HostPace
from dovetail.units import format_count, format_rate
from dovetail.workload.model import Model
from dovetail.workload.recorded.captured import Captured


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A model whose operators were not all recognised, though its step was recorded: its name, and why."""

    name: str
    why: str
    num_parameters: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Capture(Answer):
    """A captured model: give it, or its `model`, wherever a model is taken; `captured` is what was understood of it.

    `remarks` are on the capture itself, such as that it could not be kept; what was assumed of the model is in
    `model.notes`. With a chip, `steps` has the step that its code takes there; then a model that was not recognised
    is `Refused`, and there is a step of it alone.
    """

    found: Captured | Refused
    call: str
    steps: tuple[CodeStep, ...] = ()
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
        for step in self.steps:
            return f"{self.name} on {step.chip}, {eager_sentence(step.record)}"
        found = self.record
        return (
            f"{found['name']}, {format_count(found['num_parameters'])} parameters in"
            f" {in_number(found['num_layers'], 'layer')}, {format_rate(found['training_flop'], 'FLOP')} a sample"
        )

    @property
    def tables(self) -> tuple[Table, ...]:
        steps = tuple(table for step in self.steps for table in eager_tables(step.record))
        if isinstance(self.found, Refused):
            return (*steps, _refused_table(self.found))
        return (*steps, *captured_tables(self.record))

    @property
    def _record(self) -> Record:
        steps = [step.record for step in self.steps]
        if isinstance(self.found, Refused):
            found = self.found
            return {"name": found.name, "num_parameters": found.num_parameters, "why_not": found.why, "steps": steps}
        record = captured_record(
            self.model, is_from_cache=self.is_from_cache, remarks=self.remarks, model_file=self.model_file
        )
        return record | ({"steps": steps} if steps else {})

    @property
    def page(self) -> Page:
        if isinstance(self.found, Refused):
            return plain_page(self.headline, self.tables)
        page = captured_page(self.record, f"{self.headline}.")
        tables = tuple(table for step in self.steps for table in eager_tables(step.record))
        sections = (Section(title="The step", tables=tables),) if tables else ()
        return replace(page, sections=(*sections, *page.sections))

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
    """Raises where something is said of a step, and no chip for it."""
    told = {"--autocast": request.autocast, "--checkpoint": request.checkpoint, "--compile": request.compile}
    for flag in [flag for flag, value in told.items() if value]:
        raise InvalidInput("this is said of a step; name the chip that it runs on: --chip h200", flag)


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
