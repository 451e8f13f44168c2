"""A training step of what is to be captured, at the batch and length that it is trained with."""

from __future__ import annotations

import os
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dovetail.errors import InvalidInput
from dovetail.importers.captures import CaptureJob, Tell, config_in, config_of_value, inputs_from_text
from dovetail.importers.offline import offline
from dovetail.importers.targets import check_target, factory_of, is_config, is_onnx

if TYPE_CHECKING:
    from dovetail.workload.dispatched import DispatchedStep


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedAs:
    """How a step is run: autocast's dtype (empty: none), its optimizer, recomputed layers, under torch.compile."""

    autocast: str = ""
    optimizer: str = "adamw"
    is_checkpointed: bool = False
    is_compiled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetStep:
    """A recorded step, and the sizes it was recorded with."""

    name: str
    step: DispatchedStep
    batch: int
    seq: int


def recorded_target(request: CaptureJob, trained: TrainedAs, tell: Tell = lambda _: None) -> TargetStep:
    """The step of `request`, as its code runs."""
    with offline():
        return _recorded(request, trained, tell)


def _recorded(request: CaptureJob, trained: TrainedAs, tell: Tell) -> TargetStep:
    from dovetail.importers.torch_library import torch_library

    torch = torch_library()
    module, inputs = _built(request, tell)
    from dovetail.importers.torch_copy import meta_copy, settle_configs, unwrapped
    from dovetail.importers.torch_examples import Examples, examples_of, has_examples
    from dovetail.importers.torch_inputs import read_inputs
    from dovetail.importers.torch_run import quiet
    from dovetail.importers.torch_step import StepJob, recorded_step

    job = StepJob(autocast=trained.autocast, optimizer=trained.optimizer, is_checkpointed=trained.is_checkpointed)
    if not isinstance(module, torch.nn.Module):
        raise InvalidInput(f"a PyTorch module is an instance of torch.nn.Module; got {type(module).__name__}")
    with quiet():
        module = meta_copy(unwrapped(module)).train()
        settle_configs(module)
    if job.autocast:
        module = module.float()  # weights stay in fp32 under autocast
    if isinstance(inputs, str):
        inputs = inputs_from_text(inputs)
    if inputs is None and has_examples(module):
        example = examples_of(module, request.batch, request.seq)
    else:
        example = Examples(inputs=inputs)
    if example.inputs is None:
        raise InvalidInput(f"the inputs of {type(module).__name__} are not given; pass --inputs")
    read = read_inputs(module, example.inputs, request.seq_dim, known=example.known, fixed=example.fixed)
    batch, seq = request.batch or read.batch, request.seq or read.seq
    args, kwargs = read.at(batch=batch, seq=seq)
    _give_numbers(module, read, args, kwargs)
    tell("recording the step")
    name = request.name or type(module).__name__
    if trained.is_compiled:
        from dovetail.importers.torch_compiled import compiled_step

        return TargetStep(name=name, step=compiled_step(module, args, kwargs, job, tell=tell), batch=batch, seq=seq)
    return TargetStep(name=name, step=recorded_step(module, args, kwargs, job), batch=batch, seq=seq)


def _built(request: CaptureJob, tell: Tell) -> tuple[Any, Any]:
    """The module and what it is called with, if its factory says so."""
    from dovetail.importers.torch_built import built, built_from_config, is_module

    model = request.model
    if isinstance(model, str | PathLike):
        target = os.fspath(model)
        check_target(target)
        if is_onnx(target):
            raise InvalidInput(
                "an ONNX file holds a graph and no code that runs; --chip is for PyTorch modules", "--chip"
            )
        if is_config(target):
            tell("building the model without weights")
            return built_from_config(config_in(Path(target)), target).module, request.example_inputs
        tell(f"importing {request.words}")
        model = factory_of(target)
    if (config := config_of_value(model)) is not None:
        return built_from_config(config, "").module, request.example_inputs
    if is_module(model):
        return model, request.example_inputs
    tell("building the model without weights")
    made = built(model, request.words or f"{getattr(model, '__name__', type(model).__name__)}()")
    return made.module, request.example_inputs if request.example_inputs is not None else made.inputs


def _give_numbers(module: Any, read: Any, args: Any, kwargs: Any) -> None:
    """Tokens are random, masks of ones: what code may ask for."""
    from dovetail.importers.torch_cases import FIRST_TOKEN, random_tokens
    from dovetail.importers.torch_numbers import learn

    for tensor, numbers in read.known_masks(args, kwargs):
        learn(tensor, numbers)
    config: Any = getattr(module, "config", None)
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    vocab = getattr(text, "vocab_size", None)
    if not isinstance(vocab, int) or vocab <= FIRST_TOKEN:
        return
    for name, tensor in read.names_of(args, kwargs):
        is_token = name in ("input_ids", "labels", "decoder_input_ids") and name not in read.known
        if is_token and not tensor.is_floating_point():
            learn(tensor, random_tokens(tuple(tensor.shape), vocab))
