"""A GPU that is not there, as scripts see it: `torch.cuda` answers, and tensors on meta say that they are on CUDA.

Parameters are on meta from the start, so that a model of any size can be built. Which tensors a script has put on the
GPU, which on the host and which on meta is kept by storage (`Places`).
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch.utils.checkpoint

from dovetail.importers.torch_cuda import AWAY, Autocast, CudaFunctions
from dovetail.importers.torch_numbers import MAX_WHOLE, learn
from dovetail.importers.torch_streams import Streams
from dovetail.units import GIBI, MEBI

HOST, META, GPU = "cpu", "meta", "cuda"
GPU_NAME = "NVIDIA H100 80GB HBM3"  # what scripts look up peak rates by
GPU_MEMORY_BYTES = int(80 * GIBI)
GPU_CAPABILITY = (9, 0)  # Hopper, whose attention backends `torch_cuda` has
NCCL_VERSION = (2, 27, 5)  # what the CUDA wheels of PyTorch 2.9 require (nvidia-nccl-cu12)
TO_HOST = "copies of parameters and other large tensors to the host, as for a checkpoint, are left out of the step"
_GET = torch.Tensor.device.__get__
# What code reads of a tensor's place: its device, or whether it is of that type.
_PLACES = {
    _GET: "",
    torch.Tensor.is_cuda.__get__: GPU,
    torch.Tensor.is_meta.__get__: META,
    torch.Tensor.is_cpu.__get__: HOST,
}
_SET_DATA = torch.Tensor.data.__set__
_FACTORIES = """empty empty_strided empty_permuted zeros ones full rand randn randint randperm arange linspace logspace
    eye tensor as_tensor scalar_tensor empty_like zeros_like ones_like full_like rand_like randn_like randint_like
    new_empty new_zeros new_ones new_full new_tensor asarray"""
FACTORIES = frozenset(_FACTORIES.split())


class Places:
    """Where the script believes a tensor on meta to be: on the GPU unless it was made elsewhere."""

    def __init__(self) -> None:
        self.elsewhere: dict[int, str] = {}  # by storage
        self._references: dict[int, Any] = {}
        self.made_at = ""  # where the factory that runs puts its tensor, if it says so

    def of(self, tensor: torch.Tensor) -> str:
        """GPU, HOST or META of a tensor on meta."""
        tensor = local_tensor(tensor)
        return self.elsewhere.get(tensor.untyped_storage()._cdata, GPU)

    def put(self, tensor: torch.Tensor, place: str) -> None:
        """Keeps the place of a tensor on meta that is not on the GPU, for as long as its storage lives."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if place == GPU or key in self.elsewhere:
            return
        self.elsewhere[key] = place
        self._references[key] = weakref.ref(storage, lambda _reference: self._died(key))

    def _died(self, storage: int) -> None:
        del self.elsewhere[storage], self._references[storage]


def local_tensor(tensor: Any) -> Any:
    """The plain tensor in a DTensor, or in one that a collective is still filling."""
    while True:
        inner = getattr(tensor, "_local_tensor", None)
        inner = getattr(tensor, "elem", None) if inner is None else inner
        if not isinstance(inner, torch.Tensor):
            return tensor
        tensor = inner


class GpuFunctions(CudaFunctions):
    """Takes functions as PyTorch would on CUDA, and lets tensors on meta say that they are there."""

    def __init__(self, autocast: Autocast, places: Places, recorder: Any) -> None:
        super().__init__(autocast)
        self.places = places
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "__get__" and func in _PLACES:
            device = self.device_of(args[0])
            return device if func == _GET else device.type == _PLACES[func]
        if name == "__set__" and func == _SET_DATA:
            return _set_data(*args)
        if name in _OWN:
            made = _OWN[name](self, func, args, kwargs)
            if made is not NotImplemented:
                return made
        if name in FACTORIES and "device" in kwargs:
            return self._made(func, types, args, kwargs)
        return super().__torch_function__(func, types, args, kwargs)

    def device_of(self, tensor: Any) -> torch.device:
        """The device that the script believes the tensor to be on."""
        device: torch.device = _GET(tensor)
        if device.type != META:
            return device
        place = self.places.of(tensor)
        return torch.device("cuda", torch.cuda.current_device()) if place == GPU else torch.device(place)

    def _made(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """What a factory makes where its device says so."""
        device = kwargs["device"]
        kind = device.type if isinstance(device, torch.device) else str(device).partition(":")[0]
        before = self.places.made_at
        self.places.made_at = META if kind == META else GPU
        try:
            return super().__torch_function__(func, types, args, kwargs)
        finally:
            self.places.made_at = before

    def moved(self, func: Any, args: Any, kwargs: Any) -> Any:
        """`Tensor.to`, `.cuda` and `.cpu`, where they change the place of a tensor on meta."""
        tensor = args[0]
        name = func.__name__
        device: Any = None
        if name in AWAY:
            device, rest, kwargs = torch.device("cuda"), (), {}
        elif name == "cpu":
            device, rest, kwargs = torch.device("cpu"), (), {}
        else:
            rest = args[1:]
            device = kwargs.get("device")
            if (
                device is None
                and rest
                and isinstance(rest[0], str | torch.device | int)
                and not isinstance(rest[0], bool)
            ):
                device, rest = rest[0], rest[1:]
            elif device is None and rest and isinstance(rest[0], torch.Tensor):
                other = rest[0]
                device, rest = self.device_of(other), (other.dtype, *rest[1:])
            kwargs = {key: value for key, value in kwargs.items() if key != "device"}
            if device is None:
                return torch.Tensor.to(tensor, *rest, **kwargs)
        device = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
        place = GPU if device.type in AWAY else device.type
        if not tensor.is_meta:
            return torch.Tensor.to(tensor, META if place != HOST else HOST, *rest, **kwargs)
        now = self.places.of(tensor)
        if place == now:
            return torch.Tensor.to(tensor, *rest, **kwargs)
        if now == GPU and place == HOST and self.is_read(tensor):
            return torch.Tensor.to(tensor, HOST, *rest, **kwargs)
        dtype = next((one for one in (kwargs.get("dtype"), *rest) if isinstance(one, torch.dtype)), None)
        is_left_out = now == GPU and place == HOST
        if is_left_out:
            self.recorder.numbers.note(TO_HOST)
        with self._making(place), self.recorder.unrecorded() if is_left_out else contextlib.nullcontext():
            made = torch.empty_like(tensor, dtype=dtype)
        numbers = self.recorder.numbers.of(local_tensor(tensor))
        if numbers is not None:
            learn(local_tensor(made), numbers.to(dtype) if dtype is not None else numbers)
        return made

    def is_read(self, tensor: Any) -> bool:
        """Whether a copy to the host is one for its numbers, and not of a parameter or another large tensor."""
        is_plain = not isinstance(tensor, torch.nn.Parameter) and tensor is local_tensor(tensor)
        return is_plain and (tensor.numel() <= MAX_WHOLE or self.recorder.numbers.of(tensor) is not None)

    @contextlib.contextmanager
    def _making(self, place: str) -> Iterator[None]:
        before, self.places.made_at = self.places.made_at, place
        try:
            yield
        finally:
            self.places.made_at = before


def _set_data(tensor: Any, value: Any) -> None:
    """`tensor.data = value`, also where PyTorch would not let one on the host become one on meta."""
    if tensor.is_meta == value.is_meta:
        _SET_DATA(tensor, value)
        return
    requires_grad = tensor.requires_grad
    made = torch.Tensor._make_subclass(type(tensor), value.detach(), requires_grad)
    torch.utils.swap_tensors(tensor, made)


def _moved(mode: GpuFunctions, func: Any, args: Any, kwargs: Any) -> Any:
    return mode.moved(func, args, kwargs)


def _itself(_mode: GpuFunctions, _func: Any, args: Any, _kwargs: Any) -> Any:
    return args[0]


def _nothing(_mode: GpuFunctions, _func: Any, _args: Any, _kwargs: Any) -> None:
    return None


def _read(mode: GpuFunctions, func: Any, args: Any, kwargs: Any) -> Any:
    """`numpy` and `tolist` of a large tensor that was copied to the host without its numbers."""
    tensor = args[0]
    with torch._C.DisableTorchFunction():
        if not tensor.is_meta or mode.places.of(tensor) != HOST:
            return NotImplemented
    numbers = mode.recorder.numbers.of(tensor)
    return func(mode.recorder.numbers.guess(tensor) if numbers is None else numbers, *args[1:], **kwargs)


def _device_number(mode: GpuFunctions, _func: Any, args: Any, _kwargs: Any) -> int:
    device = mode.device_of(args[0])
    return -1 if device.type != GPU else int(device.index or 0)


def _from_data(_mode: GpuFunctions, func: Any, args: Any, kwargs: Any) -> Any:
    """A tensor of numbers that are written out: they are known, also on the GPU."""
    device = kwargs.get("device")
    if device is None or torch.device(device).type not in AWAY or isinstance(args[0], torch.Tensor):
        return NotImplemented
    made = func(*args, **(kwargs | {"device": "cpu", "requires_grad": False}))
    return made.to(META).requires_grad_(bool(kwargs.get("requires_grad", False)))


def _as_tensor(mode: GpuFunctions, func: Any, args: Any, kwargs: Any) -> Any:
    device = kwargs.get("device")
    if device is None or torch.device(device).type not in AWAY:
        return NotImplemented
    if isinstance(args[0], torch.Tensor):
        dtype = kwargs.get("dtype")
        return mode.moved(torch.Tensor.to, (args[0], device, *((dtype,) if dtype else ())), {})
    return func(*args, **(kwargs | {"device": "cpu"})).to(META)


# Methods that a GPU changes: where a tensor is, and memory that is not there.
_OWN: dict[str, Callable[..., Any]] = {
    "to": _moved,
    "tensor": _from_data,
    "as_tensor": _as_tensor,
    "asarray": _as_tensor,
    "cuda": _moved,
    "cpu": _moved,
    "pin_memory": _itself,
    "is_pinned": lambda *_args: False,
    "record_stream": _nothing,
    "numpy": _read,
    "tolist": _read,
    "get_device": _device_number,
}


# What functions of `torch.cuda` answer where nothing depends on it.
_CONSTANT: dict[Any, str] = {
    None: """synchronize empty_cache reset_peak_memory_stats reset_max_memory_allocated reset_accumulated_memory_stats
        manual_seed manual_seed_all seed seed_all set_rng_state set_rng_state_all init _lazy_init ipc_collect
        set_per_process_memory_fraction set_sync_debug_mode _record_memory_history _dump_snapshot""",
    "": "memory_summary list_gpu_processes",
    0: """memory_allocated max_memory_allocated memory_reserved max_memory_reserved initial_seed utilization
        get_sync_debug_mode""",
    True: "is_available is_initialized is_bf16_supported is_tf32_supported _is_compiled",
}


def _constant(value: Any) -> Callable[..., Any]:
    def answer(*_args: Any, **_kwargs: Any) -> Any:
        return value

    return answer


def _cuda_names(streams: Streams, num_devices: int, device_number: int) -> dict[str, Any]:
    """What stands for the functions and classes of `torch.cuda`."""
    state = SimpleNamespace(device=device_number)
    properties = SimpleNamespace(
        name=GPU_NAME,
        total_memory=GPU_MEMORY_BYTES,
        major=GPU_CAPABILITY[0],
        minor=GPU_CAPABILITY[1],
        multi_processor_count=132,
        warp_size=32,
        gcnArchName="",
        L2_cache_size=int(50 * MEBI),
        uuid="",
    )  # fmt: skip  style: NVIDIA H100 SXM datasheet

    def set_device(device: Any) -> None:
        index = torch.device(device).index if not isinstance(device, int) else device
        state.device = state.device if index is None else index

    class OnDevice:
        """`torch.cuda.device`, a class, as code names it in annotations and in isinstance."""

        def __init__(self, device: Any) -> None:
            self.idx, self.prev_idx = device, -1

        def __enter__(self) -> None:
            self.prev_idx = state.device
            set_device(self.idx)

        def __exit__(self, *_error: Any) -> None:
            state.device = self.prev_idx

    class OnStream:
        """`torch.cuda.StreamContext`, a class for the same reason."""

        def __init__(self, stream: Any) -> None:
            self.stream = stream

        def __enter__(self) -> None:
            if self.stream is not None:
                self.stream.__enter__()

        def __exit__(self, *error: Any) -> None:
            if self.stream is not None:
                self.stream.__exit__(*error)

    def set_stream(stream: Any) -> None:
        streams.current = stream

    def rng_state(*_args: Any) -> torch.Tensor:
        return torch.zeros(16, dtype=torch.uint8)  # style: seed and offset, 8 bytes each, as CUDA's generator gives

    names: dict[str, Any] = {}
    for value, listed in _CONSTANT.items():
        names |= {name: _constant(value) for name in listed.split()}  # each its own, as torch._dynamo tells them apart
    names |= {
        "device_count": lambda: num_devices,
        "current_device": lambda: state.device,
        "set_device": set_device,
        "device": OnDevice,
        "get_device_name": lambda *_args: GPU_NAME,
        "get_device_capability": lambda *_args: GPU_CAPABILITY,
        "get_device_properties": lambda *_args: properties,
        "get_arch_list": lambda: ["sm_90"],
        "mem_get_info": lambda *_args: (GPU_MEMORY_BYTES, GPU_MEMORY_BYTES),
        "memory_stats": lambda *_args: _Zeros(),
        "Stream": streams.stream_kind,
        "Event": streams.event_kind,
        "stream": OnStream,
        "StreamContext": OnStream,
        "set_stream": set_stream,
        "current_stream": lambda *_args: streams.current,
        "default_stream": lambda *_args: streams.default,
        "get_rng_state": rng_state,
        "get_rng_state_all": lambda: [rng_state()],
        "memory_snapshot": lambda *_args, **_kwargs: [],
        "is_current_stream_capturing": lambda: False,
        "can_device_access_peer": lambda *_args: True,
        "_get_device_index": lambda *_args, **_kwargs: state.device,
    }
    return names


class HostGenerator(torch.Generator):
    """A generator for any device, on the host."""

    def __new__(cls, device: Any = "cpu") -> HostGenerator:
        del device
        made: HostGenerator = super().__new__(cls)
        return made


class _Zeros(dict[str, int]):
    """Memory statistics of a device that nothing runs on."""

    def __missing__(self, _name: str) -> int:
        return 0


@contextlib.contextmanager
def presented_gpu(streams: Streams, places: Places, *, num_devices: int, device_number: int) -> Iterator[None]:
    """While it lasts, `torch.cuda` and `torch.accelerator` answer for a GPU, and parameters are made on meta."""
    names = _cuda_names(streams, num_devices, device_number)
    cuda = torch.device("cuda")
    accelerator = {
        "current_accelerator": lambda *_args, **_kwargs: cuda,
        "is_available": _constant(True),
        "device_count": lambda: num_devices,
        "current_stream": lambda *_args: streams.current,
        "set_stream": lambda stream: names["set_stream"](stream),
        "synchronize": _constant(None),
        "current_device_index": lambda: names["current_device"](),
        "set_device_index": lambda device: names["set_device"](device),
        "empty_cache": _constant(None),
        "memory_allocated": _constant(0),
        "max_memory_allocated": _constant(0),
        "memory_stats": lambda *_args: _Zeros(),
        "reset_peak_memory_stats": _constant(None),
    }
    patched: list[Any] = [mock.patch.object(torch.cuda, name, made, create=True) for name, made in names.items()]
    patched += [
        mock.patch.object(torch.accelerator, name, made)
        for name, made in accelerator.items()
        if hasattr(torch.accelerator, name)
    ]
    for name in ("range_push", "range_pop", "mark"):
        patched.append(mock.patch.object(torch.cuda.nvtx, name, _constant(None)))
    patched += [
        mock.patch.object(torch.cuda.memory, name, made)
        for name, made in names.items()
        if name in vars(torch.cuda.memory) and not isinstance(made, type) and not name.startswith("_get")
    ]
    patched.append(mock.patch.object(torch.cuda.nccl, "version", _constant(NCCL_VERSION)))
    patched += [
        mock.patch.object(torch._C, "_get_accelerator", _constant(cuda)),
        mock.patch.object(torch, "Generator", HostGenerator),
        mock.patch.object(torch, "Event", streams.event_kind),
        mock.patch.object(torch, "Stream", streams.stream_kind),
        mock.patch.object(torch.backends.cuda, "is_built", _constant(True)),
        mock.patch.object(torch.nn.Parameter, "__new__", _parameter_on_meta(places)),
        mock.patch.object(torch.nn.Module, "register_buffer", _buffer_on_meta(places)),
        mock.patch.dict(torch.utils.checkpoint._allowed_determinism_checks_to_fns, {"default": _shape_and_dtype}),
        mock.patch("torch.utils._foreach_utils._get_foreach_kernels_supported_devices", return_value=[GPU, META]),
        mock.patch("torch.utils._foreach_utils._get_fused_kernels_supported_devices", return_value=[GPU, META]),
        mock.patch.object(torch.nn.init, "_no_grad_trunc_normal_", _drawn_once),
        mock.patch.object(torch.utils.data.DataLoader, "__init__", _loader_in_process()),
    ]
    with contextlib.ExitStack() as stack:
        for one in patched:
            stack.enter_context(one)
        yield


def _shape_and_dtype(tensor: torch.Tensor) -> dict[str, Any]:
    """What a checkpoint compares of a recomputed tensor; its device looks another inside of a function."""
    return {"shape": tensor.shape, "dtype": tensor.dtype}


def _drawn_once(tensor: Any, mean: float, std: float, _least: float, _most: float, generator: Any = None) -> Any:
    """A truncated normal draw, without drawing again what lies outside: that is not known."""
    with torch.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def held_on_host(value: torch.Tensor, places: Places) -> torch.Tensor:
    """A tensor on meta that stands for one on the host."""
    with torch._C.DisableTorchFunction():
        made = torch.empty_like(value, device="meta")
        places.put(made, HOST)
    return made


def _is_on_host(value: Any) -> bool:
    with torch._C.DisableTorchFunction():
        return type(value) in (torch.Tensor, torch.nn.Parameter) and value.device.type == "cpu"


def _parameter_on_meta(places: Places) -> Any:
    before = torch.nn.Parameter.__new__

    def made(kind: Any, data: Any = None, requires_grad: bool = True, **more: Any) -> Any:
        data = torch.empty(0) if data is None else data
        if _is_on_host(data):
            data = held_on_host(data.detach(), places)
        return before(kind, data, requires_grad, **more)

    return staticmethod(made)


def _buffer_on_meta(places: Places) -> Any:
    before = torch.nn.Module.register_buffer

    def registered(module: Any, name: str, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if _is_on_host(tensor):
            made = held_on_host(tensor, places)
            learn(made, tensor)
            tensor = made
        return before(module, name, tensor, *args, **kwargs)

    return registered


def _loader_in_process() -> Any:
    """Data is loaded by the process that records; numbers do not leave it."""
    before = torch.utils.data.DataLoader.__init__

    def made(loader: Any, *args: Any, **kwargs: Any) -> None:
        for name in ("num_workers", "pin_memory", "persistent_workers", "prefetch_factor", "timeout"):
            kwargs.pop(name, None)
        before(loader, *args[:5], **kwargs)

    return made
