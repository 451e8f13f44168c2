"""From what is to be captured to what it is: built where it must be, recorded and understood, or kept from before."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dovetail.errors import InvalidInput
from dovetail.files.capture_cache import keep_capture, kept_capture
from dovetail.files.entry import opened
from dovetail.files.model import FORMAT_KEY, HUGGING_FACE_KEYS
from dovetail.files.text import near_file, one_line, quoted
from dovetail.importers.content import config_key, file_key, recording_key
from dovetail.importers.offline import offline
from dovetail.importers.shapes import input_shapes
from dovetail.importers.targets import check_target, factory_of, is_config, is_onnx
from dovetail.workload.layers import Sample
from dovetail.workload.recorded.captured import Captured
from dovetail.workload.recorded.record import Recorded

if TYPE_CHECKING:
    from dovetail.importers.torch_examples import Examples

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureJob:
    """What to capture, and how; empty, 0 or None where not given."""

    model: Any
    example_inputs: Any = None
    name: str = ""
    batch: int = 0
    seq: int = 0
    seq_dim: int | None = None
    is_kept: bool = True  # in the cache, and taken from there

    @property
    def has_sizes(self) -> bool:
        """Whether batch and length say something of the capture: not where example inputs say both."""
        if self.example_inputs is not None:
            return False
        if isinstance(self.model, str | PathLike):
            return is_config(os.fspath(self.model)) or is_onnx(os.fspath(self.model))
        return config_of_value(self.model) is not None

    @property
    def words(self) -> str:
        """What the model is called where nothing else says it."""
        return one_line(os.fspath(self.model)) if isinstance(self.model, str | PathLike) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A captured model; whether it was kept from before, and what is worth knowing of the capture itself."""

    captured: Captured
    is_from_cache: bool
    remarks: tuple[str, ...] = ()


def captured(job: CaptureJob, tell: Tell = lambda _: None) -> Found:
    """The model of `job`; `tell` is called with what is being done."""
    with offline():
        return _found(job, tell)


def _found(job: CaptureJob, tell: Tell) -> Found:
    if isinstance(job.model, str | PathLike):
        target = os.fspath(job.model)
        check_target(target)
        if is_onnx(target):
            return _of_onnx(job, Path(target), tell)
        if is_config(target):
            return _of_config(job, config_in(Path(target)), target, tell)
    return _of_module(job, tell)


def _once(key: str, is_kept: bool, record: Callable[[], Captured]) -> Found:
    """What is kept under `key`, or else what `record` gives, which is kept then."""
    found = kept_capture(key) if is_kept and key else None
    if found is not None:
        return Found(captured=found, is_from_cache=True)
    recorded = record()
    remark = keep_capture(key, recorded) if is_kept and key else ""
    return Found(captured=recorded, is_from_cache=False, remarks=(remark,) if remark else ())


def _of_onnx(job: CaptureJob, file: Path, tell: Tell) -> Found:
    _refuse(job, "an ONNX file has its inputs", example_inputs="--inputs", seq_dim="--seq-dim")
    if not file.is_file():
        raise InvalidInput(f"there is no file {quoted(str(file))}{near_file(file)}")
    name = job.name or one_line(file.stem)
    key = file_key(_digests(file), batch=job.batch, seq=job.seq, name=name) if job.is_kept else ""

    def record() -> Captured:
        from dovetail.importers.onnx_model import recorded_onnx

        tell(f"reading {one_line(file.name)}")
        return _understood(recorded_onnx(file, batch=job.batch, seq=job.seq), name, (), tell)

    return _once(key, job.is_kept, record)


def _digests(file: Path) -> str:
    """Of the file, and of what is read from others beside it."""
    from dovetail.importers.onnx_beside import digest_beside

    return f"{_digest(file)}\0{digest_beside(file)}"


def _digest(file: Path) -> str:
    try:
        with open(file, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        reason = one_line(str(error.strerror or error)).lower()
        raise InvalidInput(f"cannot read file {quoted(str(file))}: {reason}") from None


def config_in(file: Path) -> Mapping[str, Any]:
    entry = opened(file)
    if entry.has(FORMAT_KEY):
        raise entry.refused(f"this is a captured model already; plan with it: dovetail plan --model {file}")
    if not HUGGING_FACE_KEYS & entry.value.keys():
        raise entry.refused("this is no configuration of Hugging Face: it has neither model_type nor architectures")
    config: Mapping[str, Any] = entry.node.plain()
    return config


def _of_config(job: CaptureJob, config: Mapping[str, Any], where: str, tell: Tell) -> Found:
    name = job.name or _config_name(config, where)
    inputs = job.example_inputs
    options = {"batch": job.batch, "seq": job.seq, "seq_dim": job.seq_dim, "name": name, "inputs": inputs}
    key = config_key(config, **options) if inputs is None or isinstance(inputs, str) else ""

    def record() -> Captured:
        from dovetail.importers.torch_built import built_from_config

        tell("building the model without weights")
        module = built_from_config(config, where).module
        return _of_recording(replace(job, model=module, name=name, is_kept=False), module, inputs, tell).captured

    return _once(key, job.is_kept, record)


def _config_name(config: Mapping[str, Any], where: str) -> str:
    """As its file is called, or the folder of a config.json; without one, as its kind."""
    if not where:
        return f"{config.get('model_type', 'model')}"
    file = Path(where)
    return one_line(file.resolve().parent.name if file.stem == "config" else file.stem) or "model"


def _of_module(job: CaptureJob, tell: Tell) -> Found:
    """Of a module, of what builds one, or of a configuration in memory."""
    from dovetail.importers.torch_built import built, is_module
    from dovetail.importers.torch_library import torch_library

    model, inputs = job.model, job.example_inputs
    if job.words:
        torch_library()  # says what is missing before the user's code does
        tell(f"importing {job.words}")
        model = factory_of(job.words)
    if (config := config_of_value(model)) is not None:
        return _of_config(replace(job, model=model), config, "", tell)
    if not is_module(model):
        if not callable(model):
            message = "a PyTorch module, a factory of one, a configuration or a file is captured"
            raise InvalidInput(f"{message}; got {type(model).__name__}")
        words = job.words or f"{getattr(model, '__name__', type(model).__name__)}()"
        tell("building the model without weights")
        made = built(model, words)
        model, inputs = made.module, inputs if inputs is not None else made.inputs
    return _of_recording(job, model, inputs, tell)


def config_of_value(value: Any) -> Mapping[str, Any] | None:
    """What a configuration of transformers says; nothing where `value` is none."""
    if isinstance(getattr(value, "model_type", None), str) and callable(getattr(value, "to_dict", None)):
        return {"model_type": value.model_type, **value.to_dict()}
    return None


def _of_recording(job: CaptureJob, model: Any, inputs: Any, tell: Tell) -> Found:
    """Of a module that is there: what it does is seen by running it once, whatever its code depends on."""
    from dovetail.importers.torch_model import begun_module

    example = _inputs_of(job, model, inputs)
    notes = example.notes
    tell("recording")
    begun = begun_module(
        model, example.inputs, name=job.name, seq_dim=job.seq_dim, known=example.known, fixed=example.fixed
    )
    key = recording_key(begun.digest, name=job.name, notes=notes) if job.is_kept else ""

    def record() -> Captured:
        found = begun.finished()
        sizes = {"batch": found.batch, "seq": found.seq, "backward_flop": found.backward_flop}
        return _understood(found.recorded, job.name, (*notes, *found.notes), tell, **sizes)

    return _once(key, job.is_kept, record)


def _inputs_of(job: CaptureJob, model: Any, inputs: Any) -> Examples:
    """What the module is called with: as given, or made for a model that says what it reads; and what was assumed."""
    from dovetail.importers.torch_examples import Examples, examples_of, has_examples

    if isinstance(inputs, str):
        inputs = inputs_from_text(inputs)
    if inputs is None and has_examples(model):
        return examples_of(model, job.batch, job.seq)
    if inputs is None:
        message = f"the inputs of {type(model).__name__} are not given; return (module, inputs) from its factory"
        raise InvalidInput(f"{message}, or pass --inputs 'x:float32[2,512]'")
    if job.batch or job.seq:
        message = "example inputs set batch and length; leave --batch and --seq out"
        raise InvalidInput(message)
    return Examples(inputs=inputs)


def inputs_from_text(text: str) -> Any:
    from dovetail.importers.torch_built import tensors_of

    return tensors_of(input_shapes(text))


def _understood(recorded: Recorded, name: str, notes: tuple[str, ...], tell: Tell, **sizes: int) -> Captured:
    from dovetail.workload.recorded.understand import understood

    tell("understanding what was recorded")
    found = understood(recorded, notes=notes, **sizes)
    found = replace(found, name=name or found.name, notes=tuple(dict.fromkeys(found.notes)))
    found.forward(Sample(batch=1, seq=found.seq, dtype="bf16"))  # nothing is kept that no graph can be laid out of
    return found


def _refuse(job: CaptureJob, why: str, **options: str) -> None:
    """Raises where one of `options` was given that has no meaning here."""
    for field, option in options.items():
        if getattr(job, field) is not None:
            raise InvalidInput(why, option)
