"""torch.compile without a GPU: under `gpu_of_meta` Dynamo, AOT autograd and Inductor take meta tensors for CUDA's.

A fake tensor made of a meta tensor says in Python that it is on `cuda:0`, and its dispatch keys are CUDA's, so that
decompositions, partitioner and Triton's fusion rules are those of a GPU. To PyTorch's C++ it stays a meta tensor:
autograd asks there for device guards that a CPU build lacks. What C++ decides by the device is therefore decided here:
attention's backend, fused dropout, autocast, the memory format of convolutions, and whether products are padded (which
Inductor measures on the GPU). Everything is put back when the context ends.
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
import torch._functorch.config
import torch._inductor.compile_fx as compile_fx
import torch._inductor.scheduler
import torch._subclasses.fake_tensor as fake_tensor
from torch._inductor.fx_passes import joint_graph, pad_mm
from torch._inductor.runtime.hints import DeviceProperties
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from dovetail.importers.torch_cuda import FP32, FP32_OUT, LOWER, WIDEST, cuda_attention
from dovetail.importers.torch_dispatch import conv_memory_format
from dovetail.units import TERA

META, CUDA = torch.device("meta"), torch.device("cuda:0")
_DEVICE = torch.ops.prim.device.default
_AUTOCAST = "AutocastCUDA"
# Hopper (CUDA C++ Programming Guide, compute capability 9.0; SMs of an H100 SXM or H200): what Inductor's heuristics
# for splitting reductions and sizing blocks look at.
_PROPERTIES = DeviceProperties(
    type="cuda",
    index=0,
    multi_processor_count=132,
    cc=90,
    major=9,
    regs_per_multiprocessor=65536,
    max_threads_per_multi_processor=2048,
    max_threads_per_block=1024,
    warp_size=32,
)
_HOST_PROPERTIES = DeviceProperties(type="cpu", index=0, multi_processor_count=1, cc=0)
# Products of bf16 whose rows are not whole 16 bytes, as a share of the aligned rate: eager_ops.csv, heads of 50,257 and
# 50,258 columns against 50,304, means of forward, input and weight gradient.
_ODD_FRAC, _EVEN_FRAC = 0.18, 0.37
_PRODUCT_FLOP_PER_S, _COPY_BYTES_PER_S = 700 * TERA, 2 * TERA  # of the same rows: aligned heads; copies that shift rows
_PADDING_MARGIN = 1.1  # pad_mm.is_padded_faster: padding must win by this


@contextmanager
def gpu_of_meta() -> Iterator[None]:
    """PyTorch's compiler as it is on a machine with one Hopper GPU, over meta tensors."""
    with ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for patch in (*_devices(), *_properties(), *_graphs()):
            stack.enter_context(patch)
        stack.enter_context(_cuda_kernels())
        yield


def _instead(owner: Any, name: str, value: Any) -> Any:
    """`owner.name` is `value` while the context lasts, and is not there after it where it was not before."""
    return mock.patch.object(owner, name, value, create=True)


def _devices() -> Iterator[Any]:
    """Fake and functional tensors: CUDA in Python and by their dispatch keys, meta to C++."""
    normalized, dispatched = FakeTensor._normalize_fake_device, FakeTensor.__torch_dispatch__

    def device_of(device: Any) -> torch.device:
        return CUDA if torch.device(device).type in ("meta", "cuda") else normalized(device)

    def cxx_device(args: Any) -> torch.device:
        device: torch.device = args[0].fake_device
        return META if device.type == "cuda" else device

    def fake_dispatch(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = types.MappingProxyType({})) -> Any:
        return cxx_device(args) if func is _DEVICE else dispatched.__func__(cls, func, types, args, kwargs)

    yield _instead(FakeTensor, "_normalize_fake_device", staticmethod(device_of))
    yield _instead(FakeTensor, "__torch_dispatch__", classmethod(fake_dispatch))
    yield mock.patch.dict(fake_tensor._DISPATCH_META_HANDLERS, {_DEVICE: cxx_device})
    yield _instead(FakeTensor, "is_cuda", property(lambda one: one.device.type == "cuda"))
    yield _instead(FakeTensor, "is_meta", property(lambda one: one.device.type == "meta"))
    begin = FakeTensorMode.__init__

    def taking_all(mode: Any, *args: Any, **kwargs: Any) -> None:
        begin(mode, *args, **kwargs)
        mode.allow_non_fake_inputs = True  # C++ makes an index that code writes out on the device that it knows: meta

    yield _instead(FakeTensorMode, "__init__", taking_all)
    make = torch.Tensor._make_wrapper_subclass

    def made(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if cls is FunctionalTensor and args[6].type == "meta":
            args = (*args[:6], CUDA, *args[7:10], True, *args[11:])  # its keys are CUDA's; its device is read
        return make(cls, *args, **kwargs)

    yield _instead(torch.Tensor, "_make_wrapper_subclass", staticmethod(made))
    yield _instead(FunctionalTensor, "device", property(lambda _one: CUDA))
    yield _instead(FunctionalTensor, "is_cuda", property(lambda _one: True))
    yield _instead(FunctionalTensor, "is_meta", property(lambda _one: False))
    for kind in (FunctionalTensor, FunctionalTensorMode):
        yield _instead(kind, "__torch_dispatch__", _meta_or(kind.__torch_dispatch__))


def _meta_or(dispatch: Any) -> Any:
    def answered(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return META if func is _DEVICE else dispatch(self, func, types, args, kwargs)

    return answered


def _properties() -> Iterator[Any]:
    """What the compiler asks of CUDA and Triton."""
    device = types.SimpleNamespace(
        name="NVIDIA H200",
        minor=0,
        gcnArchName="",  # AMD's
        total_memory=150_754_820_096,  # as PyTorch shows it on an H200
        L2_cache_size=62_914_560,  # likewise
        shared_memory_per_block_optin=232448,  # CUDA C++ Programming Guide, compute capability 9.0
        **_PROPERTIES._asdict(),
    )
    create = classmethod(lambda _cls, one: _PROPERTIES if one.type == "cuda" else _HOST_PROPERTIES)
    yield _instead(DeviceProperties, "create", create)
    yield _instead(torch.cuda, "get_device_properties", lambda *_args: device)
    yield _instead(torch.cuda, "get_device_capability", lambda *_args: (9, 0))
    yield _instead(torch.cuda, "current_device", lambda: 0)
    yield _instead(torch.cuda, "device_count", lambda: 1)
    yield _instead(torch.cuda, "is_bf16_supported", lambda *_args: True)
    yield _instead(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
    yield _instead(torch._inductor.scheduler, "has_triton", lambda: True)
    yield _instead(pad_mm, "has_triton", lambda: True)
    yield _instead(pad_mm, "_should_pad", _is_padding_faster)
    yield _instead(torch._functorch.config, "enable_autograd_cache", False)


def _graphs() -> Iterator[Any]:
    """Graphs that name meta as a device, and constants that are folded on the device."""
    passes, folded = compile_fx._recursive_joint_graph_passes, joint_graph.UniformValueConstantFolder._deduce_value

    def cleaned(graph: Any, *args: Any, **kwargs: Any) -> Any:
        move_to_cuda(graph)
        return passes(graph, *args, **kwargs)

    def on_host(folder: Any, node: Any) -> Any:
        with _OnHost():
            return folded(folder, node)

    yield _instead(compile_fx, "_recursive_joint_graph_passes", cleaned)
    yield _instead(joint_graph.UniformValueConstantFolder, "_deduce_value", on_host)
    yield _instead(torch._C, "_select_conv_backend", lambda *_args, **_kwargs: None)
    yield _instead(torch._C, "_conv_determine_backend_memory_format", lambda *args: conv_memory_format(*args[:2]))


def move_to_cuda(graph: Any) -> None:
    """Gradients that C++ writes down name the device as it knows it."""
    for node in list(graph.graph.nodes):
        if node.kwargs.get("device") == META:
            node.kwargs = {**node.kwargs, "device": CUDA}
        if node.target is torch.ops.prims.device_put.default and node.args[1] == META:
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
    graph.recompile()


class _OnHost(TorchDispatchMode):
    """Makes tensors on the host that were to be made on the GPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if kwargs.get("device") is not None:
            kwargs["device"] = torch.device("cpu")
        return func(*args, **kwargs)


def _is_padding_faster(match: Any, mat1: Any, mat2: Any, op: Any, input: Any = None) -> bool:
    """Whether a product of misaligned rows is faster with operands copied into aligned ones; Inductor times both."""
    del op, input
    rows, inner, cols = mat1.shape[-2], mat1.shape[-1], mat2.shape[-1]
    batch = mat1.shape[0] if mat1.dim() == 3 else 1
    aligned = pad_mm.get_alignment_size(mat1)
    if not aligned or not pad_mm.is_mm_compute_bound(rows, inner, cols, mat1.dtype):
        return False
    leading = [_leading(one) for one in (mat1, mat2)] + [cols]
    if all(one % aligned == 0 for one in leading):
        return False
    rate = _PRODUCT_FLOP_PER_S * (_ODD_FRAC if any(one % 2 for one in leading) else _EVEN_FRAC)
    flop = 2 * batch * rows * inner * cols
    item_bytes = mat1.element_size()
    copied_bytes = 0
    for name, one, dims in (("mat1", mat1, (rows, inner)), ("mat2", mat2, (inner, cols))):
        if any(dim % aligned for dim in dims) and not pad_mm.should_exclude_padding_time(match, name):
            copied_bytes += 2 * one.numel() * item_bytes
    if rows % aligned or cols % aligned:
        copied_bytes += 2 * batch * rows * cols * item_bytes
    return bool(flop / rate > _PADDING_MARGIN * (flop / _PRODUCT_FLOP_PER_S + copied_bytes / _COPY_BYTES_PER_S))


def _leading(matrix: Any) -> int:
    """Elements from one row to the next, or from one column to the next."""
    return int(max(matrix.stride()[-2:]))


@contextmanager
def _cuda_kernels() -> Iterator[None]:
    """Operators that C++ would take apart by the device: whole, and with the casts of CUDA's autocast."""
    aten = torch.ops.aten
    with torch.library._scoped_library("aten", "IMPL") as library:
        for key in ("AutogradCUDA", "CUDA"):
            library.impl("scaled_dot_product_attention", cuda_attention, key)
            library.impl("dropout", _dropout, key)
        for names, cast in ((LOWER, _lower), (FP32, _fp32), (FP32_OUT, _fp32_out), (WIDEST, _widest)):
            for name in sorted(names):
                packet = getattr(aten, name, None)
                for overload in packet.overloads() if packet is not None else ():
                    function = getattr(packet, overload)
                    if _has_autocast(function):
                        library.impl(function, _under_autocast(function, cast), _AUTOCAST)
        attention = aten.scaled_dot_product_attention.default
        library.impl(attention, _under_autocast(attention, _lower), _AUTOCAST)
        yield


def _has_autocast(function: Any) -> bool:
    name = function.name()
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return bool(torch._C._dispatch_has_kernel(name) and has_kernel(name, _AUTOCAST))


def _dropout(input: Any, p: float, train: bool) -> Any:
    if not train or not 0 < p < 1:
        return input * 0 if train and p == 1 else input
    return torch.ops.aten.native_dropout(input, p, True)[0]


def _under_autocast(function: Any, cast: Any) -> Any:
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(keys):
            args, kwargs = cast(function, args, kwargs)
            return function(*args, **kwargs)

    return run


def _lower(_function: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    return _cast(args, torch.get_autocast_dtype("cuda")), _cast(kwargs, torch.get_autocast_dtype("cuda"))


def _fp32(_function: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    return _cast(args, torch.float32), _cast(kwargs, torch.float32)


def _fp32_out(function: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    names = [argument.name for argument in function._schema.arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    if "dtype" in names and given.get("dtype") is None and _is_eligible(args[0]):
        given["dtype"] = torch.float32
        return (args[0],), {name: value for name, value in given.items() if name != names[0]}
    return args, kwargs


def _widest(_function: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    dtypes: set[torch.dtype] = set()
    torch.utils._pytree.tree_map(lambda one: dtypes.add(one.dtype) if _is_eligible(one) else None, (args, kwargs))
    return _fp32(_function, args, kwargs) if len(dtypes) > 1 else (args, kwargs)


def _is_eligible(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != torch.float64


def _cast(values: Any, dtype: torch.dtype) -> Any:
    return torch.utils._pytree.tree_map(lambda one: one.to(dtype) if _is_eligible(one) else one, values)
