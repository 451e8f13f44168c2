"""One whole training step of a PyTorch module, recorded on meta tensors as PyTorch would run it on a GPU."""

from __future__ import annotations

import contextlib
import gc
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from dovetail.errors import DovetailError, InvalidInput, NotModelled, did_you_mean
from dovetail.importers.torch_chances import settled_chances
from dovetail.importers.torch_cuda import Autocast, cuda_functions
from dovetail.importers.torch_dispatch import DispatchRecorder
from dovetail.importers.torch_failures import is_our_own, raised
from dovetail.importers.torch_gradients import start_of
from dovetail.importers.torch_run import quiet
from dovetail.workload.dispatched import BACKWARD, FORWARD, OPTIMIZER, DispatchedStep

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
OPTIMIZERS: dict[str, Any] = {
    name.lower(): kind
    for name, kind in vars(torch.optim).items()
    if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer) and kind is not torch.optim.Optimizer
}
IMPLEMENTATIONS: dict[str, dict[str, bool]] = {
    "fused": {"fused": True}, "foreach": {"foreach": True}, "for-loop": {"foreach": False},
}  # fmt: skip
Loss = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepJob:
    """How a module is trained: autocast's dtype (empty for none), its optimizer, and whether layers are recomputed.

    The optimizer is a class of torch.optim, such as adamw, with its implementation behind a colon: adamw:foreach.
    """

    autocast: str = ""
    optimizer: str = "adamw"
    is_checkpointed: bool = False

    def __post_init__(self) -> None:
        if self.autocast and self.autocast not in AUTOCAST:
            message = f"autocast takes {' or '.join(AUTOCAST)}; got {self.autocast!r}"
            raise InvalidInput(message, "--autocast")
        if self.optimizer_name not in OPTIMIZERS:
            hint = did_you_mean(self.optimizer_name, OPTIMIZERS)
            raise InvalidInput(f"torch.optim has no optimizer {self.optimizer_name!r}{hint}", "--optimizer")
        if self.implementation not in ("", *IMPLEMENTATIONS):
            hint = did_you_mean(self.implementation, IMPLEMENTATIONS)
            message = f"an optimizer runs {', '.join(IMPLEMENTATIONS)}; got {self.implementation!r}{hint}"
            raise InvalidInput(message, "--optimizer")

    @property
    def optimizer_name(self) -> str:
        return self.optimizer.partition(":")[0]

    @property
    def implementation(self) -> str:
        """A key of `IMPLEMENTATIONS`; empty where it is left open: fused of Adam, foreach of others that have it."""
        return self.optimizer.partition(":")[2]


def recorded_step(
    model: torch.nn.Module, args: Any, kwargs: Any, job: StepJob, loss: Loss | None = None
) -> DispatchedStep:
    """A step of `model`, which is on meta, from the gradients' being freed to the end of the optimizer's update."""
    recorder, autocast = DispatchRecorder(), Autocast()
    model.zero_grad(set_to_none=True)
    if job.is_checkpointed:
        _checkpoint(model)
    with (
        quiet(),
        settled_chances(),
        torch.enable_grad(),
        fused_on_meta(),
        cuda_functions(autocast),
        _module_paths(model, recorder),
    ):
        optimizer = _with_state(model, job)
        for tensor in _state(model, optimizer, args, kwargs):
            recorder.hold(tensor)
        state_bytes, state = recorder.live_bytes, recorder.state_is_held()
        gc.collect()
        gc.disable()  # what dies in a cycle would die at some other operator each time
        try:
            with recorder:
                notes = _run(model, args, kwargs, job, loss, recorder, autocast, optimizer)
        finally:
            gc.enable()
    return whole_step(model, optimizer, recorder, state_bytes, state, notes)


def whole_step(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    recorder: DispatchRecorder,
    state_bytes: int,
    state: tuple[int, ...],
    notes: tuple[str, ...],
) -> DispatchedStep:
    """What `recorder` holds of one step, with the model's and the optimizer's tensors that were there before it."""
    return DispatchedStep(
        ops=tuple(recorder.ops),
        module_calls=tuple(recorder.module_calls),
        live_bytes=tuple(recorder.live),
        state_bytes=state_bytes,
        state_allocations=state,
        allocations=tuple(recorder.allocations),
        num_updated=sum(len(group["params"]) for group in optimizer.param_groups),
        num_parameters=sum(parameter.numel() for parameter in model.parameters()),
        has_tf32=torch.backends.cuda.matmul.allow_tf32,
        notes=(*notes, *recorder.numbers.notes),
    )


def _run(
    model: torch.nn.Module,
    args: Any,
    kwargs: Any,
    job: StepJob,
    loss: Loss | None,
    recorder: DispatchRecorder,
    autocast: Autocast,
    optimizer: torch.optim.Optimizer,
) -> tuple[str, ...]:
    name = type(model).__name__
    recorder.phase = FORWARD
    with _blamed(recorder, name):
        before = autocast.enter(AUTOCAST[job.autocast] if job.autocast else None)
        try:
            outputs = model(*args, **kwargs)
            total, notes = _total(outputs, loss)
        finally:
            autocast.leave(before)
        del outputs
    recorder.module = ""
    recorder.phase = BACKWARD
    with _blamed(recorder, f"the backward pass of {name}"):
        total.backward()
    recorder.phase = OPTIMIZER
    with _blamed(recorder, f"the optimizer {job.optimizer}"):
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return notes


def _total(outputs: Any, loss: Loss | None) -> tuple[torch.Tensor, tuple[str, ...]]:
    """The one number that training reduces."""
    if loss is not None:
        return loss(outputs), ()
    start = start_of(outputs)
    if len(start.tensors) == 1 and start.tensors[0].dim() == 0:
        return start.tensors[0], (start.note,) if start.note else ()
    logits = max(start.tensors, key=lambda tensor: tensor.numel())
    labels = torch.empty(logits.shape[:-1], dtype=torch.int64, device="meta")
    rows = logits.reshape(-1, logits.shape[-1])
    note = "the module gives no loss; cross-entropy over the last dim of its largest output is taken"
    return torch.nn.functional.cross_entropy(rows, labels.reshape(-1)), (note,)


def _with_state(model: torch.nn.Module, job: StepJob) -> torch.optim.Optimizer:
    """The optimizer after a first step, when its moments are there."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trained:
        raise InvalidInput(f"{type(model).__name__} has no parameter that is trained, so there is no step to predict")
    kind = OPTIMIZERS[job.optimizer_name]
    implementation = job.implementation or ("fused" if job.optimizer_name in ("adam", "adamw") else "foreach")
    options = IMPLEMENTATIONS[implementation]
    if inspect.signature(kind.step).parameters["closure"].default is inspect.Parameter.empty:
        raise NotModelled(
            f"{kind.__name__} runs the model several times in a step, by a closure, which is not modelled",
            "--optimizer",
        )
    if not options.keys() <= inspect.signature(kind).parameters.keys():  # neither fused nor foreach, as Muon
        if job.implementation:
            message = f"torch.optim's {kind.__name__} has no {implementation} implementation; leave it out"
            raise InvalidInput(message, "--optimizer")
        options = {}
    recorder = DispatchRecorder()
    with _blamed(recorder, f"the optimizer {job.optimizer}"):
        optimizer = kind(trained, **options)
        for parameter in trained:
            parameter.grad = torch.empty_like(parameter)
        with recorder:  # fused updates have no kernel on meta
            optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return optimizer


def _state(model: torch.nn.Module, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> Iterator[torch.Tensor]:
    yield from model.parameters()
    yield from model.buffers()
    for state in optimizer.state.values():
        yield from (value for value in state.values() if isinstance(value, torch.Tensor))
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            yield value


def _checkpoint(model: torch.nn.Module) -> None:
    enable = getattr(model, "gradient_checkpointing_enable", None)
    if enable is None:
        message = (
            f"{type(model).__name__} has no gradient_checkpointing_enable; call torch.utils.checkpoint in its forward"
        )
        raise InvalidInput(message, "--checkpoint")
    enable(gradient_checkpointing_kwargs={"use_reentrant": False})


@contextlib.contextmanager
def fused_on_meta() -> Iterator[None]:
    """Optimizers take meta tensors as those of a GPU."""
    with (
        mock.patch("torch.optim.optimizer._get_fused_kernels_supported_devices", return_value=["meta", "cuda"]),
        mock.patch("torch.optim.optimizer._get_foreach_kernels_supported_devices", return_value=["meta", "cuda"]),
    ):
        yield


@contextlib.contextmanager
def _blamed(recorder: DispatchRecorder, name: str) -> Iterator[None]:
    try:
        yield
    except DovetailError:
        raise
    except Exception as error:
        if is_our_own(error.__traceback__):
            raise
        raise raised(error, recorder.module or name) from error


@contextlib.contextmanager
def _module_paths(model: torch.nn.Module, recorder: DispatchRecorder) -> Iterator[None]:
    """While it lasts, the recorder knows in which module it is, and how many were entered."""
    names = {id(module): name for name, module in reversed(list(model.named_modules(remove_duplicate=False)))}
    outer: list[tuple[int, str]] = []

    def enter(module: torch.nn.Module, _inputs: Any) -> None:
        outer.append((id(module), recorder.module))
        recorder.module = names.get(id(module), recorder.module)
        recorder.num_calls += 1

    def leave(module: torch.nn.Module, _inputs: Any, _outputs: Any) -> None:
        while outer:  # a module that raised, and was caught, has not left
            left, where = outer.pop()
            if left == id(module):
                recorder.module = where
                return

    handles = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave, always_call=True)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
