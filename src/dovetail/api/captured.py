"""A model as another tool has it, taken as it is: PyTorch modules, Hugging Face configurations, ONNX files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from typing import Any, SupportsIndex

from dovetail.api.answer import Answer, call_of
from dovetail.api.arguments import counted, in_python
from dovetail.capture.captures import CaptureAsked, captured
from dovetail.errors import InvalidInput
from dovetail.files.captured import captured_model, write_captured
from dovetail.files.entry import described
from dovetail.report.captured import captured_record
from dovetail.report.captured_tables import captured_tables
from dovetail.report.page import Page
from dovetail.report.pages.captured import captured_page
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.report.words import counted as in_number
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


@in_python
def capture(
    model: Any,
    example_inputs: Any = None,
    *,
    name: str = "",
    batch: SupportsIndex | None = None,
    seq: SupportsIndex | None = None,
    seq_dim: SupportsIndex | None = None,
    cache: bool = True,
) -> Capture:
    """Take a model as another tool has it: nothing is downloaded, no weight is held, no GPU is needed.

    `model` is a PyTorch module, a function that builds one, a configuration of Hugging Face, or a name as the command
    has it: package.module:factory, file.py:factory, a config.json or a model.onnx. `example_inputs` is what the module
    is called with: a tensor, a tuple or a mapping of them, or text such as "input_ids:int64[2,512]". Models of
    transformers know theirs, and take `batch` and `seq`. Positions are the second dim of integer inputs, or `seq_dim`.
    """
    asked = CaptureAsked(
        model=model,
        example_inputs=example_inputs,
        name=name,
        batch=counted("--batch", batch),
        seq=counted("--seq", seq),
        seq_dim=None if seq_dim is None else dim_of("--seq-dim", seq_dim.__index__()),
        is_kept=cache,
    )
    shown = model if isinstance(model, str | PathLike) else type(model).__name__
    said = {"model": shown, "name": name, "batch": batch, "seq": seq, "seq_dim": seq_dim}
    return found_capture(asked, call=call_of("capture", **said))


def dim_of(option: str, value: int) -> int:
    """A dim of a tensor by number; the first is that of samples."""
    if not 0 < value < 8:  # style: more dims than inputs have
        raise InvalidInput(f"{option} is a dim from 1 on, as dim 0 is the batch; got {described(value)}")
    return value


def found_capture(
    asked: CaptureAsked, call: str = "dovetail.capture()", tell: Callable[[str], None] = lambda _: None
) -> Capture:
    """What was asked for, as an answer."""
    found = captured(asked, tell)
    return Capture(captured=found.captured, call=call, is_from_cache=found.is_from_cache, remarks=found.remarks)
