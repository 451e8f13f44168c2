"""Whole training steps on the device: the median of eight after four, with peak and reserved memory."""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from dovetail.errors import InvalidInput
from dovetail.importers.target_steps import TrainedAs
from dovetail.measuring.torch_gpu import Gpu
from dovetail.units import GIBI, KIBI, MILLI

NUM_WARM, NUM_TIMED, NUM_FORWARD = 4, 8, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStep:
    """A step as it ran: seconds of the median and the shortest, of the forward pass alone, and bytes."""

    name: str
    batch: int
    seq: int
    num_parameters: int
    attention: str
    step_s: float
    least_s: float
    forward_s: float
    peak_bytes: float
    reserved_bytes: float

    @property
    def cells(self) -> tuple[str, ...]:
        """As tables of steps have them, after the key."""
        times = (f"{one / MILLI:.3f}" for one in (self.step_s, self.least_s, self.forward_s))
        sizes = (f"{one / GIBI:.3f}" for one in (self.peak_bytes, self.reserved_bytes))
        return (str(self.num_parameters), self.attention, *times, *sizes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trained:
    """A module on the device, and the loss of one batch, by calling the module or its compiled form."""

    name: str
    module: Any
    loss: Callable[[Any], Any]
    batch: int
    seq: int


def measured_case(gpu: Gpu, config: Mapping[str, Any], name: str, *, batch: int, seq: int) -> MeasuredStep:
    """An eager step in bf16 of a Hugging Face configuration, TF32 allowed, as tables of steps have it."""
    from dovetail.importers.torch_built import transformers_library

    transformers, torch = transformers_library(), gpu.torch
    facts = dict(config)
    kind_of = getattr(transformers, facts.pop("architectures")[0])
    made = transformers.AutoConfig.for_model(facts.pop("model_type"), **facts)
    made._attn_implementation = "sdpa"
    with torch.device(gpu.device), _default_dtype(torch, torch.bfloat16):
        module = kind_of(made)
    module = module.to(gpu.device, torch.bfloat16).train()
    module.config.use_cache = False
    tokens = torch.randint(2, facts["vocab_size"], (batch, seq), device=gpu.device)
    trained = Trained(
        name=name,
        module=module,
        loss=lambda call: call(input_ids=tokens, labels=tokens).loss,
        batch=batch,
        seq=seq,
    )
    matmul = torch.backends.cuda.matmul
    before, matmul.allow_tf32 = matmul.allow_tf32, True
    try:
        return measured_step(gpu, trained, TrainedAs())
    finally:
        matmul.allow_tf32 = before


def measured_step(gpu: Gpu, trained: Trained, options: TrainedAs) -> MeasuredStep:
    """Steps of a module in training, timed; gradients are freed before each."""
    torch, module = gpu.torch, trained.module
    gpu.freed()
    if options.is_checkpointed:
        _checkpointed(module)
    optimizer = _optimizer(gpu, module, options.optimizer)
    call = torch.compile(module) if options.is_compiled else module
    dtype = gpu.dtype(options.autocast) if options.autocast else None

    def forward() -> Any:
        with torch.autocast(gpu.device, dtype) if dtype is not None else contextlib.nullcontext():
            return trained.loss(call)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        forward().backward()
        optimizer.step()

    for _ in range(NUM_WARM):
        step()
    gpu.wait()
    if not gpu.is_cpu:
        torch.cuda.reset_peak_memory_stats()
    times_s = [_passed_s(gpu, step) for _ in range(NUM_TIMED)]
    peak_bytes, reserved_bytes = _held_bytes(gpu)
    forward_s = median(_passed_s(gpu, forward) for _ in range(NUM_FORWARD))
    return MeasuredStep(
        name=trained.name,
        batch=trained.batch,
        seq=trained.seq,
        num_parameters=sum(one.numel() for one in module.parameters()),
        attention=str(getattr(getattr(module, "config", None), "_attn_implementation", "") or ""),
        step_s=median(times_s),
        least_s=min(times_s),
        forward_s=forward_s,
        peak_bytes=peak_bytes,
        reserved_bytes=reserved_bytes,
    )


def _passed_s(gpu: Gpu, call: Callable[[], Any]) -> float:
    """From an idle device to the end of all that was queued; by the device's own clock where it has one."""
    if gpu.is_cpu:
        begin_s = time.perf_counter()
        call()
        return time.perf_counter() - begin_s
    first, last = (gpu.torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    call()
    last.record()
    gpu.wait()
    return float(first.elapsed_time(last)) * MILLI


def _held_bytes(gpu: Gpu) -> tuple[float, float]:
    """The most that the allocator handed out, and has reserved; of the CPU, what the process held."""
    if gpu.is_cpu:
        held_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIBI  # style: Linux counts in KiB
        return held_bytes, held_bytes
    own_bytes = gpu.cold.numel() * gpu.cold.element_size() if gpu.cold is not None else 0  # what the timer holds
    cuda = gpu.torch.cuda
    return float(cuda.max_memory_allocated() - own_bytes), float(cuda.max_memory_reserved() - own_bytes)


def _optimizer(gpu: Gpu, module: Any, name: str) -> Any:
    """As a recording has it: fused where it can be, or else all tensors in one kernel."""
    kinds = {key.lower(): kind for key, kind in vars(gpu.torch.optim).items() if isinstance(kind, type)}
    trained = [one for one in module.parameters() if one.requires_grad]
    options: dict[str, Any] = {"fused": True} if name in ("adam", "adamw") else {"foreach": True}
    try:
        return kinds[name](trained, **options)
    except TypeError:  # neither fused nor foreach, as Adafactor and LBFGS
        return kinds[name](trained)


def _checkpointed(module: Any) -> None:
    enable = getattr(module, "gradient_checkpointing_enable", None)
    if enable is None:
        raise InvalidInput(f"{type(module).__name__} has no gradient_checkpointing_enable", "--checkpoint")
    enable(gradient_checkpointing_kwargs={"use_reentrant": False})


@contextlib.contextmanager
def _default_dtype(torch: Any, dtype: Any) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def trained_target(gpu: Gpu, target: str, *, batch: int, seq: int, options: TrainedAs) -> Trained:
    """A configuration of Hugging Face or a factory of PyTorch, on the device with its weights, and a batch for it."""
    from dovetail.importers.offline import offline

    with offline():
        return _trained(gpu, target, batch, seq, options)


def _trained(gpu: Gpu, target: str, batch: int, seq: int, options: TrainedAs) -> Trained:
    from dovetail.importers.targets import check_target, is_config, is_onnx
    from dovetail.importers.torch_copy import settle_configs
    from dovetail.importers.torch_examples import Examples, examples_of, has_examples
    from dovetail.importers.torch_inputs import read_inputs

    check_target(target)
    if is_onnx(target):
        raise InvalidInput("an ONNX file holds a graph and no code that trains; name a configuration or a factory")
    module, inputs = _of_config(gpu, target, options) if is_config(target) else _of_factory(gpu, target)
    settle_configs(module)
    module = (module.float() if options.autocast else module).to(gpu.device).train()
    if inputs is None and has_examples(module):
        example = examples_of(module, batch, seq)
    elif inputs is None:
        raise InvalidInput(
            f"the inputs of {type(module).__name__} are not given; return (module, inputs) from its factory"
        )
    else:
        example = Examples(inputs=inputs)
    read = read_inputs(module, example.inputs, None, known=example.known, fixed=example.fixed)
    batch, seq = batch or read.batch, seq or read.seq
    args, kwargs = _filled(gpu, module, read, batch, seq)
    return Trained(
        name=type(module).__name__,
        module=module,
        loss=lambda call: _total(gpu, call(*args, **kwargs)),
        batch=batch,
        seq=seq,
    )


def _of_config(gpu: Gpu, target: str, options: TrainedAs) -> tuple[Any, None]:
    """The model that a recording of the configuration has, built again with memory."""
    from pathlib import Path

    from dovetail.importers.captures import config_in
    from dovetail.importers.torch_built import built_from_config

    torch = gpu.torch
    on_meta = built_from_config(config_in(Path(target)), target).module
    dtype = torch.float32 if options.autocast else torch.bfloat16
    with torch.device(gpu.device), _default_dtype(torch, dtype):
        return type(on_meta)(on_meta.config).to(dtype), None


def _of_factory(gpu: Gpu, target: str) -> tuple[Any, Any]:
    from dovetail.importers.targets import blamed, factory_of

    factory = factory_of(target)
    with blamed(f"{target}"), gpu.torch.device(gpu.device):
        made = factory()
    module, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(module, gpu.torch.nn.Module):
        raise InvalidInput(f"a factory returns a torch.nn.Module, or one and its inputs; got {type(module).__name__}")
    return module, inputs


def _filled(gpu: Gpu, module: Any, read: Any, batch: int, seq: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inputs of a recording with numbers in them: random tokens and pixels, masks as the example has them."""
    from torch.utils._pytree import tree_map

    from dovetail.importers.torch_cases import FIRST_TOKEN

    torch = gpu.torch
    args, kwargs = read.at(batch=batch, seq=seq)
    config: Any = getattr(module, "config", None)
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    vocab = getattr(text, "vocab_size", None)
    most = vocab if isinstance(vocab, int) and vocab > FIRST_TOKEN else FIRST_TOKEN
    numbers = {id(leaf): one.to(gpu.device) for leaf, one in read.known_masks(args, kwargs)}
    tokens = {
        id(leaf)
        for name, leaf in read.names_of(args, kwargs)
        if name in ("input_ids", "labels", "decoder_input_ids") and leaf.dim() > 1
    }

    def real(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) in numbers:
            return numbers[id(leaf)]
        if leaf.is_floating_point():
            return torch.randn(leaf.shape, dtype=leaf.dtype, device=gpu.device)
        if leaf.dtype == torch.bool:
            return torch.ones(leaf.shape, dtype=leaf.dtype, device=gpu.device)
        least, below = (FIRST_TOKEN, most + (most == FIRST_TOKEN)) if id(leaf) in tokens else (0, 2)
        return torch.randint(least, below, leaf.shape, dtype=leaf.dtype, device=gpu.device)

    return tree_map(real, args), tree_map(real, kwargs)


def _total(gpu: Gpu, outputs: Any) -> Any:
    """The one number that training reduces: a loss, or cross-entropy over the last dim of the largest output."""
    from dovetail.importers.torch_gradients import start_of

    start = start_of(outputs)
    if len(start.tensors) == 1 and start.tensors[0].dim() == 0:
        return start.tensors[0]
    logits = max(start.tensors, key=lambda tensor: tensor.numel())
    labels = gpu.torch.zeros(logits.shape[:-1], dtype=gpu.torch.int64, device=gpu.device)
    return gpu.torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))
