"""One forward pass of a module on meta tensors, recorded; and on request the backward pass after it."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx.experimental._config
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from dovetail.errors import DovetailError
from dovetail.importers.torch_chances import settled_chances
from dovetail.importers.torch_failures import is_our_own, raised, under_autocast
from dovetail.importers.torch_gradients import Start, gradients_from, missed_parameters, start_of
from dovetail.importers.torch_inputs import Inputs
from dovetail.importers.torch_joined import rejoined
from dovetail.importers.torch_modes import FunctionListener, OperatorListener
from dovetail.importers.torch_tape import Tape
from dovetail.workload.recorded.record import Recording, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchRecording:
    """A recording, and what was seen beside it."""

    recording: Recording
    results: tuple[int, ...]
    notes: tuple[str, ...]
    forward_flop: int
    backward_flop: int  # 0 where no backward pass was run


def run(
    model: torch.nn.Module, inputs: Inputs, name: str, *, batch: int, seq: int, backward: bool = False
) -> TorchRecording:
    """What `model`, which is on meta, does with a batch of such a size."""
    tape = Tape()
    operators = OperatorListener(tape)
    args, kwargs = inputs.at(batch=batch, seq=seq)
    _name_all(tape, model, inputs, args, kwargs)
    for tensor, numbers in inputs.known_masks(args, kwargs):
        operators.known.learn(tensor, numbers)
    with (
        quiet() as caught,
        settled_chances() as drawn,
        torch.enable_grad(),
        _writes_through_masks(),
        _uncompiled(),
        _unscripted(model),
    ):
        outputs = _forward(model, args, kwargs, operators)
        _check_autocast(caught, name)
        tape.finish()
        forward_flop = operators.flop
        start = start_of(outputs)
        results = tuple(tape.number(tensor) for tensor in start.tensors if tape.has(tensor))
        notes = (start.note, *_notes(operators)) if backward else ()
        if backward:
            operators.is_muted = True
            with operators:
                _backward(start, name)
            notes += missed_parameters(model, tape, results)
    recording, results = rejoined(Recording(name=name, tensors=tuple(tape.tensors), steps=tuple(tape.steps)), results)
    return TorchRecording(
        recording=recording,
        results=results,
        notes=tuple(note for note in (*notes, *_drawn(drawn)) if note),
        forward_flop=forward_flop,
        backward_flop=operators.flop - forward_flop,
    )


def _uncompiled() -> contextlib.AbstractContextManager[object]:
    """Compiled functions inside of the module run as they were written."""
    if "torch._dynamo" not in sys.modules:  # which takes seconds to import, and without which nothing is compiled
        return contextlib.nullcontext()
    return torch.compiler.set_stance("force_eager")  # type: ignore[no-any-return]


@contextlib.contextmanager
def _unscripted(model: torch.nn.Module) -> Iterator[None]:
    """Functions that torch.jit.script compiled run as they were written: their operators cannot be seen otherwise."""
    places = {type(module).__module__ for module in model.modules()}
    scripted = [
        (vars(sys.modules[place]), name, function)
        for place in places
        if place in sys.modules
        for name, function in vars(sys.modules[place]).items()
        if isinstance(function, torch.jit.ScriptFunction) and hasattr(function, "_torchdynamo_inline")
    ]
    for names, name, function in scripted:
        names[name] = function._torchdynamo_inline
    try:
        yield
    finally:
        for names, name, function in scripted:
            names[name] = function


def _writes_through_masks() -> contextlib.AbstractContextManager[object]:
    """They count as writes of all elements. Code that asks how many there are is refused before that."""
    settings = torch.fx.experimental._config
    if not hasattr(settings, "meta_nonzero_assume_all_nonzero"):
        return contextlib.nullcontext()
    return settings.patch(meta_nonzero_assume_all_nonzero=True)  # type: ignore[no-any-return]


def _forward(model: torch.nn.Module, args: Any, kwargs: Any, operators: OperatorListener) -> Any:
    tape = operators.tape
    try:
        with module_paths(model, tape), torch.device("meta"), FunctionListener(operators), operators:
            return model(*args, **kwargs)
    except DovetailError:
        raise
    except Exception as error:
        if is_our_own(error.__traceback__):
            raise
        raise raised(error, tape.where or type(model).__name__) from error


def _backward(start: Start, name: str) -> None:
    try:
        gradients_from(start)
    except DovetailError:
        raise
    except Exception as error:
        raise raised(error, f"the backward pass of {name}") from error


def _check_autocast(caught: list[warnings.WarningMessage], name: str) -> None:
    """Where PyTorch finds no such device it switches autocast off with nothing but a warning."""
    for warning in caught:
        text = str(warning.message)
        if "isabling" in text and ("autocast" in text.casefold() or "device_type" in text):
            raise under_autocast(name, f" at {warning.filename}:{warning.lineno}")


def _drawn(drawn: list[str]) -> list[str]:
    return [
        f"the forward pass draws random numbers of {whose}: what it chose with one seed is recorded" for whose in drawn
    ]


def _notes(operators: OperatorListener) -> tuple[str, ...]:
    tape = operators.tape
    notes: tuple[str, ...] = ()
    if tape.in_place:
        listed = ", ".join(f"{name} ({count})" for name, count in sorted(tape.in_place.items()))
        notes += (f"operators in place count as if they made a new tensor: {listed}",)
    if tape.moves:
        notes += (f"moves between devices are left out: {', '.join(sorted(tape.moves))}",)
    if operators.known.num_chances:
        notes += (f"{operators.known.num_chances} random choices of the forward pass were made with the number 0.5",)
    if operators.known.num_checks:
        notes += ("all numbers are taken to be finite, as the module checks",)
    return notes


def _name_all(tape: Tape, model: torch.nn.Module, inputs: Inputs, args: Any, kwargs: Any) -> None:
    for name, parameter in model.named_parameters():
        tape.name_tensor(parameter, Source.PARAMETER if parameter.requires_grad else Source.FROZEN, name)
    for name, buffer in model.named_buffers():
        tape.name_tensor(buffer, Source.CONSTANT, name)
    for name, tensor in inputs.names_of(args, kwargs):
        tape.name_tensor(tensor, Source.INPUT, name)


@contextlib.contextmanager
def module_paths(model: torch.nn.Module, tape: Tape) -> Iterator[None]:
    """While it lasts, the tape knows in which module it is."""
    names = {id(module): name for name, module in reversed(list(model.named_modules(remove_duplicate=False)))}
    outer: list[tuple[int, str]] = []

    def enter(module: torch.nn.Module, _inputs: Any) -> None:
        outer.append((id(module), tape.where))
        tape.where = names.get(id(module), tape.where)

    def leave(module: torch.nn.Module, _inputs: Any, _outputs: Any) -> None:
        while outer:  # a module that raised, and was caught, has not left
            left, where = outer.pop()
            if left == id(module):
                tape.where = where
                return

    handles = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def quiet() -> Iterator[list[warnings.WarningMessage]]:
    """Nothing that PyTorch, transformers or the module say reaches the terminal; warnings are listed."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("always")
            yield caught
    finally:
        logging.disable(before)
