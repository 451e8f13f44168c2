"""Below autograd: every operator that PyTorch dispatches on meta tensors, in order, and the memory that is live."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dovetail.errors import NotModelled
from dovetail.importers.torch_failures import too_many_operators, user_line
from dovetail.importers.torch_masks import Masks
from dovetail.importers.torch_numbers import Numbers
from dovetail.importers.torch_operands import CHECKED, check_operands
from dovetail.workload.dispatched import (
    BACKWARD,
    CAUSAL_MASK,
    COMPUTE_STREAM,
    FORWARD,
    Argument,
    CollectiveCall,
    DispatchedOp,
    TensorMeta,
)

DTYPES = {
    torch.bool: "bool", torch.uint8: "uint8", torch.int8: "int8", torch.int16: "int16", torch.int32: "int32",
    torch.int64: "int64", torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32", torch.float64: "fp64",
    torch.complex64: "complex64", torch.complex128: "complex128", torch.uint64: "int64",
    torch.float8_e4m3fn: "fp8", torch.float8_e5m2: "fp8",
}  # fmt: skip
BLOCK_BYTES = 512  # PyTorch's CUDA caching allocator rounds requests to this (kMinBlockSize)
MOST_OPERATORS = 250_000  # style: a count; five times those of a step of 126 layers, the deepest decoder released
ITEM = "aten::_local_scalar_dense"
# What autograd and the profiler see and no kernel or host time is spent on.
SILENT = frozenset({"aten::detach", "aten::lift_fresh", "aten::alias", "aten::is_same_size", "prim::device"})
UPDATES = "aten::_fused_"  # fused optimizers, which write in place and make nothing
_OURS = str(Path(__file__).parents[1])  # the package
_RECORDERS = str(Path(__file__).parent)  # of it, what stands between PyTorch and the code that is recorded


def rounded_bytes(num_bytes: int) -> int:
    """As PyTorch's caching allocator rounds a request."""
    return -(-num_bytes // BLOCK_BYTES) * BLOCK_BYTES


class _Schema:
    """What is to be known of an operator whenever it runs, looked up once."""

    def __init__(self, func: Any) -> None:
        schema = func._schema
        self.word: str = schema.name
        self.name = str(func)
        self.arguments = tuple(
            (argument.name, "Tensor" in str(argument.type), argument.default_value) for argument in schema.arguments
        )
        self.is_inplace = any(
            argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments
        )
        self.is_update = self.word.startswith(UPDATES) and self.word.endswith("_")


class DispatchRecorder(TorchDispatchMode):
    """Records each operator with its tensors' layout, and follows storages from when they are made to when they die.

    No tensor is kept alive by it. `phase` and `module` are set from outside while the step runs.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[DispatchedOp] = []
        self.module_calls: list[int] = []
        self.live: list[int] = []
        self.live_bytes = 0
        self.allocations: list[int] = []  # as in `DispatchedStep`
        self._num_allocations = 0
        self._within: tuple[int, ...] = ()
        self.phase = FORWARD
        self.module = ""
        self.num_calls = 0
        self.is_recording = True
        self.numbers = Numbers()
        self._masks = Masks(self.numbers)
        self._schemas: dict[Any, _Schema] = {}
        self._storages: dict[int, Any] = {}
        self._held: dict[int, tuple[int, int]] = {}  # by storage: the number of its allocation, and its bytes
        self._metas: dict[Any, TensorMeta] = {}
        self._places: dict[int, tuple[str, str]] = {}  # module and line by the sequence number of autograd's node

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        schema = self._schemas.get(func)
        if schema is None:
            schema = self._schemas[func] = _Schema(func)
        operands = tensors_in((args, kwargs))
        made = self._result(func, schema, args, kwargs, operands)
        self._masks.follow(func, schema.word, schema.is_inplace, args, kwargs, made)
        outputs = tensors_in(made)
        if not any(map(self.is_on_device, outputs)) and not any(map(self.is_on_device, operands)):
            return made  # on the host, and no part of the step
        for tensor in outputs:
            self.hold(tensor)
        within_bytes = self._run_within()
        if self.is_recording and schema.word not in SILENT:
            self._record(schema, args, kwargs, outputs, within_bytes)
        return made

    def is_on_device(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor would be on the GPU."""
        return bool(tensor.is_meta)

    def hold(self, tensor: torch.Tensor) -> None:
        """Counts the memory of a tensor until its last reference dies."""
        if not self.is_on_device(tensor):
            return
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._storages:
            return
        num_bytes = rounded_bytes(storage.nbytes())
        self._held[key] = self._allocate(num_bytes), num_bytes

        def dead(_reference: Any) -> None:
            self._storages.pop(key, None)
            self._free(*self._held.pop(key))

        self._storages[key] = weakref.ref(storage, dead)

    def resized(self, storage: torch.UntypedStorage) -> None:
        """Follows a storage that was given another size: its memory is freed, and new memory is taken."""
        key = storage._cdata
        if key not in self._held:
            return
        self._free(*self._held[key])
        num_bytes = rounded_bytes(storage.nbytes())
        self._held[key] = self._allocate(num_bytes), num_bytes

    def _allocate(self, num_bytes: int) -> int:
        self.live_bytes += num_bytes
        self._num_allocations += 1
        self.allocations.append(num_bytes)
        return self._num_allocations

    def _free(self, number: int, num_bytes: int) -> None:
        self.live_bytes -= num_bytes
        self.allocations.append(-number)

    def hold_within(self, *sizes: int) -> None:
        """Memory that a CUDA kernel takes beside its outputs, while its operator runs."""
        self._within = tuple(rounded_bytes(size) for size in sizes)

    def _run_within(self) -> int:
        numbers = [self._allocate(size) for size in self._within]
        for number, size in zip(numbers, self._within, strict=True):
            self._free(number, size)
        total, self._within = sum(self._within), ()
        return total

    def state_is_held(self) -> tuple[int, ...]:
        """The allocations so far, which were there when the step began; the list starts again."""
        state, self.allocations = tuple(self.allocations), []
        self._num_allocations = 0
        return state

    def _result(self, func: Any, schema: _Schema, args: Any, kwargs: Any, operands: list[torch.Tensor]) -> Any:
        if schema.is_update:
            return None if not func._schema.returns else args[0]
        if schema.word in CHECKED and self.phase == FORWARD:
            check_operands(schema.word, args, self.numbers.of, self.module)
        special = SPECIAL.get(schema.word)
        if special is not None and any(tensor.is_meta for tensor in operands):
            made = special(self, func, args, kwargs)
            if made is not NotImplemented:
                return made
        return self.numbers.run(func, schema.word, schema.is_inplace, args, kwargs)

    def _record(
        self, schema: _Schema, args: Any, kwargs: Any, outputs: list[torch.Tensor], within_bytes: int = 0
    ) -> None:
        inputs: list[TensorMeta | None] = []
        arguments: list[tuple[str, Argument]] = []
        for place, (name, is_tensor, default) in enumerate(schema.arguments):
            value = args[place] if place < len(args) else kwargs.get(name, default)
            if not is_tensor:
                arguments.append((name, _plain(value)))
            elif isinstance(value, list | tuple):
                inputs += [self._meta(one) if isinstance(one, torch.Tensor) else None for one in value]
            else:
                inputs.append(self._meta(value) if isinstance(value, torch.Tensor) else None)
                if name == "attn_bias" and self._masks.is_causal(value):
                    arguments.append((CAUSAL_MASK, True))
        module, line = self._place()
        if len(self.ops) >= MOST_OPERATORS:
            raise too_many_operators(schema.name, MOST_OPERATORS, module, user_line())
        stream, waits, collective = self._order()
        self.ops.append(
            DispatchedOp(
                name=schema.name,
                inputs=tuple(inputs),
                outputs=tuple([self._meta(tensor) for tensor in outputs]),
                arguments=tuple(arguments),
                phase=self.phase,
                module=module,
                line=line,
                stream=stream,
                waits=waits,
                collective=collective,
            )
        )
        self.module_calls.append(self.num_calls)
        self.num_calls = 0
        self.live.append(self.live_bytes + within_bytes)

    def _order(self) -> tuple[str, tuple[int, ...], CollectiveCall | None]:
        """The stream of the operator that runs, what it waits for on others, and its call of a process group."""
        return COMPUTE_STREAM, (), None

    def _place(self) -> tuple[str, str]:
        """The module and line of code: of a gradient, those of the operator that it is of."""
        node = torch._C._current_autograd_node()
        if self.phase == BACKWARD and not self.module:
            return self._places.get(node._sequence_nr(), ("", "")) if node is not None else ("", "")
        place = self.module, _line()
        if self.phase == FORWARD:
            # the node is numbered before its operator runs; those without a gradient that follow see its number too
            self._places.setdefault(torch._C._autograd._get_sequence_nr() - 1, place)
        return place

    def _meta(self, tensor: torch.Tensor) -> TensorMeta:
        key = (tensor.shape, tensor.stride(), tensor.dtype)
        found = self._metas.get(key)
        if found is None:
            if tensor.dtype not in DTYPES:
                raise NotModelled(f"dtype {tensor.dtype} is not modelled")
            found = self._metas[key] = TensorMeta(
                shape=tuple(tensor.shape), strides=tuple(tensor.stride()), dtype=DTYPES[tensor.dtype]
            )
        return found


def _line() -> str:
    """The innermost line of code that is neither PyTorch's nor ours."""
    frame: Any = sys._getframe(3)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_OURS) and not name.startswith(_RECORDERS):
            return ""  # the code that has the step recorded
        if not name.startswith(("<", _OURS)) and "/torch/" not in name:
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _plain(value: Any) -> Argument:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return tuple(_plain(one) for one in value)
    if isinstance(value, torch.dtype):
        return DTYPES.get(value, str(value))
    return str(value)


def tensors_in(values: Any) -> list[torch.Tensor]:
    if isinstance(values, torch.Tensor):
        return [values]
    if isinstance(values, dict):
        values = values.values()
    elif not isinstance(values, list | tuple):
        return []
    return [tensor for value in values for tensor in tensors_in(value)]


# Operators of which CUDA makes something else than PyTorch's meta kernels: by name, what they make.
Special = Callable[[DispatchRecorder, Any, Any, Any], Any]


def _item(recorder: DispatchRecorder, _func: Any, args: Any, _kwargs: Any) -> Any:
    numbers = recorder.numbers.of(args[0])
    if numbers is None:
        return recorder.numbers.guess(args[0]).item()
    return numbers.item()


def _native_dropout(_recorder: DispatchRecorder, _func: Any, args: Any, _kwargs: Any) -> Any:
    return torch.empty_like(args[0]), torch.empty_like(args[0], dtype=torch.bool)


def _convolution(_recorder: DispatchRecorder, func: Any, args: Any, kwargs: Any) -> Any:
    made = func(*args, **kwargs)
    return _laid_out(made, conv_memory_format(args[0], args[1]))


def _convolution_backward(_recorder: DispatchRecorder, _func: Any, args: Any, _kwargs: Any) -> Any:
    gradient, given, weight, bias_sizes = args[:4]
    form = conv_memory_format(given, weight)
    wanted = args[-1]
    return (
        torch.empty_like(given, memory_format=form) if wanted[0] else None,
        torch.empty_like(weight, memory_format=form) if wanted[1] else None,
        gradient.new_empty(bias_sizes) if wanted[2] else None,
    )


def conv_memory_format(given: torch.Tensor, weight: torch.Tensor) -> torch.memory_format:
    """cuDNN's: channels last where the input or the weight is."""
    for dims, form in ((4, torch.channels_last), (5, torch.channels_last_3d)):
        if given.dim() == dims and any(
            one.is_contiguous(memory_format=form) and not one.is_contiguous() for one in (given, weight)
        ):
            return form
    return torch.contiguous_format


def _laid_out(made: torch.Tensor, form: torch.memory_format) -> torch.Tensor:
    return torch.empty_like(made, memory_format=form)


def _to_copy(recorder: DispatchRecorder, _func: Any, args: Any, kwargs: Any) -> Any:
    """To the host: numbers that are known, or else some."""
    device = kwargs.get("device")
    if device is None or torch.device(device).type != "cpu":
        return NotImplemented
    numbers = recorder.numbers.of(args[0])
    numbers = recorder.numbers.guess(args[0]) if numbers is None else numbers
    return numbers.to(kwargs.get("dtype") or numbers.dtype, copy=True)


def _copy(recorder: DispatchRecorder, func: Any, args: Any, kwargs: Any) -> Any:
    """Into a tensor on the host: numbers that are known, or else some."""
    target, source = args[:2]
    if target.is_meta or not source.is_meta:
        return NotImplemented
    numbers = recorder.numbers.of(source)
    return func(target, recorder.numbers.guess(source) if numbers is None else numbers, *args[2:], **kwargs)


def _nonzero(recorder: DispatchRecorder, _func: Any, args: Any, _kwargs: Any) -> Any:
    if recorder.numbers.of(args[0]) is not None:
        return NotImplemented
    shape = args[0].shape
    found = torch.empty((args[0].numel(), len(shape)), dtype=torch.int64, device="meta")
    recorder.numbers.note("a mask without known numbers is taken to be true everywhere")
    return found


def _index(recorder: DispatchRecorder, func: Any, args: Any, kwargs: Any) -> Any:
    """An index of truth values picks as many elements as are true."""
    given, indices = args[0], args[1]
    if not any(one is not None and one.dtype in (torch.bool, torch.uint8) for one in indices):
        return NotImplemented
    opened: list[Any] = []
    for one in indices:
        if one is None or one.dtype not in (torch.bool, torch.uint8):
            opened.append(one)
            continue
        numbers = recorder.numbers.of(one)
        count = int(numbers.sum()) if numbers is not None else one.numel()
        opened += [torch.empty(count, dtype=torch.int64, device="meta") for _ in range(one.dim())]
    return func(given, opened, *args[2:], **kwargs)


def _index_put(recorder: DispatchRecorder, func: Any, args: Any, kwargs: Any) -> Any:
    recorder.numbers.follow_write(func, args, kwargs)
    return args[0]


def _cudnn_attention(_recorder: DispatchRecorder, func: Any, args: Any, kwargs: Any) -> Any:
    """PyTorch's meta kernel leaves out what is absent without nested tensors; autograd wants a tensor there."""
    made = func(*args, **kwargs)
    return tuple(args[0].new_empty(0) if one is None else one for one in made)


def _safe_softmax(recorder: DispatchRecorder, _func: Any, args: Any, _kwargs: Any) -> Any:
    """A softmax, which entries are minus infinity, and a choice between the two (ATen, `_safe_softmax`)."""
    made = torch.empty_like(args[0])
    recorder.hold_within(made.numel() * made.element_size(), made.numel())
    return made


def _fused_rms_norm(_recorder: DispatchRecorder, _func: Any, args: Any, _kwargs: Any) -> Any:
    """What it makes, and one number for each row (ATen, layer_norm_kernel.cu); on meta it would be taken apart."""
    given, shape = args[:2]
    rows = (*given.shape[: given.dim() - len(shape)], *(1 for _ in shape))
    return torch.empty_like(given), torch.empty(rows, dtype=torch.float32, device="meta")


def _fused_rms_norm_backward(_recorder: DispatchRecorder, _func: Any, args: Any, _kwargs: Any) -> Any:
    given, weight, wanted = args[1], args[4], args[5]
    return (
        torch.empty_like(given) if wanted[0] else None,
        torch.empty_like(weight) if wanted[1] else None,
    )


def _softmax(_recorder: DispatchRecorder, _func: Any, args: Any, _kwargs: Any) -> Any:
    given, _dim, is_to_float = args
    return torch.empty_like(given, dtype=torch.float32) if is_to_float else NotImplemented


def _softmax_backward(recorder: DispatchRecorder, func: Any, args: Any, _kwargs: Any) -> Any:
    gradient, output, _dim, dtype = args
    if not func._schema.name.startswith("aten::_log"):  # CUDA multiplies gradient and output first (SoftMax.cu)
        recorder.hold_within(gradient.numel() * max(gradient.element_size(), output.element_size()))
    return NotImplemented if gradient.dtype == dtype else torch.empty_like(gradient, dtype=dtype)


def _unscale(_recorder: DispatchRecorder, _func: Any, _args: Any, _kwargs: Any) -> None:
    """Gradients divided by the loss scale in place; none of them is taken to be infinite."""


def _update_scale(_recorder: DispatchRecorder, _func: Any, args: Any, _kwargs: Any) -> Any:
    return args[0]


SPECIAL: dict[str, Special] = {
    "aten::_amp_foreach_non_finite_check_and_unscale_": _unscale,
    "aten::_amp_update_scale_": _update_scale,
    ITEM: _item,
    "aten::native_dropout": _native_dropout,
    "aten::convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
    "aten::_to_copy": _to_copy,
    "aten::copy_": _copy,
    "aten::nonzero": _nonzero,
    "aten::_scaled_dot_product_cudnn_attention": _cudnn_attention,
    "aten::_safe_softmax": _safe_softmax,
    "aten::_fused_rms_norm": _fused_rms_norm,
    "aten::_fused_rms_norm_backward": _fused_rms_norm_backward,
    "aten::_softmax": _softmax,
    "aten::_log_softmax": _softmax,
    "aten::_softmax_backward_data": _softmax_backward,
    "aten::_log_softmax_backward_data": _softmax_backward,
    "aten::index": _index,
    "aten::_index_put_impl_": _index_put,
    "aten::index_put_": _index_put,
    "aten::index_put": lambda _recorder, _func, args, _kwargs: torch.empty_like(args[0]),
}
