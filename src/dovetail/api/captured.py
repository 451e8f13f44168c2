"""A model as another tool has it, taken as it is: PyTorch modules, Hugging Face configurations, ONNX files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike

from dovetail.api.answer import Answer
from dovetail.api.requests.entries import CaptureRequest
from dovetail.errors import InvalidInput
from dovetail.files.captured import captured_model, write_captured
from dovetail.files.entry import described
from dovetail.importers.captures import CaptureJob, captured
from dovetail.report.captured import captured_record
from dovetail.report.captured_tables import captured_tables
from dovetail.report.labels import counted as in_number
from dovetail.report.page import Page
from dovetail.report.pages.captured import captured_page
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.units import format_count, format_rate
from dovetail.workload.model import Model
from dovetail.workload.recorded.captured import Captured


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Capture(Answer):
    """A captured model: give it, or its `model`, wherever a model is taken; `captured` is what was understood of it.

    `remarks` are on the capture itself, such as that it could not be kept; what was assumed of the model is in
    `model.notes`.
    """

    captured: Captured
    call: str
    is_from_cache: bool = False
    remarks: tuple[str, ...] = ()
    model_file: str = ""

    @property
    def model(self) -> Model:
        """As every other call takes it."""
        return captured_model(self.captured)

    @property
    def name(self) -> str:
        return self.captured.name

    @property
    def num_parameters(self) -> int:
        return self.captured.num_parameters

    @property
    def fits(self) -> bool:
        return True

    @property
    def headline(self) -> str:
        found = self.record
        return (
            f"{found['name']}, {format_count(found['num_parameters'])} parameters in"
            f" {in_number(found['num_layers'], 'layer')}, {format_rate(found['training_flop'], 'FLOP')} a sample"
        )

    @property
    def tables(self) -> tuple[Table, ...]:
        return captured_tables(self.record)

    @property
    def _record(self) -> Record:
        return captured_record(
            self.model, is_from_cache=self.is_from_cache, remarks=self.remarks, model_file=self.model_file
        )

    @property
    def page(self) -> Page:
        return captured_page(self.record, f"{self.headline}.")

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the model file, JSON that every command takes as a model."""
        write_captured(self.captured, path)


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
    found = captured(capture_job, tell)
    shown = request.changed(model=request.model if is_named else type(request.model).__name__, example_inputs="")
    return Capture(captured=found.captured, call=shown.call, is_from_cache=found.is_from_cache, remarks=found.remarks)
