"""One graph through Inductor: the kernels it launches, in order, and when each buffer is allocated, reused and freed.

Inductor's own lowering, scheduler and memory planning run for Triton's backend; kernels are not compiled.
What comes out is a list of events that a graph with meta tensors for numbers can run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import torch
import torch._inductor.compile_fx as compile_fx
from torch._inductor import config, ir
from torch._inductor.codegen import wrapper as lines
from torch._inductor.codegen.triton import TritonKernel, TritonScheduling
from torch._inductor.debug import DebugContext
from torch._inductor.dependencies import MemoryDep
from torch._inductor.graph import GraphLowering
from torch._inductor.utils import get_dtype_size, get_fused_kernel_name
from torch._inductor.virtualized import V

from dovetail.errors import NotModelled
from dovetail.importers.torch_dispatch import DTYPES
from dovetail.importers.torch_inductor_device import move_to_cuda
from dovetail.workload.compiled import FUSED, FusedKernel
from dovetail.workload.dispatched import Argument, DispatchedOp, TensorMeta

Sink = Callable[[DispatchedOp], None]
# Lines of a Triton kernel by `FusedKernel`'s counts of them; those that match nothing are plain, and `_FREE` are none.
_KINDS = {
    "num_random": re.compile(r"\brand\w*\("),
    "num_angles": re.compile(r"\b(sin|cos|tan)\("),
    "num_curves": re.compile(r"\b(tanh|erf\w*|pow|atan\w*|asin\w*|acos\w*|sinh|cosh)\("),
    "num_loads": re.compile(r"tl\.load\("),
    "num_special": re.compile(r"\b(exp\w*|log\w*|r?sqrt\w*|sigmoid|div_rn)\(| / "),
}
_FREE = re.compile(r"tl\.(full|broadcast_to|reshape)\(")
_WIDE_BYTES = 16  # of a thread's widest load
_LINE = re.compile(r"\s*(tmp\d+) = (.*)")
_SUM_OF_WORKSPACE = re.compile(
    r"(\w+) = (\w+)\[.*\]\.view\((\d+), (\d+)\)\.sum\(dim=0\)\.view\(.*\)(?:\.to\(torch\.(\w+)\))?"
)


@dataclass(frozen=True, slots=True)
class Allocate:
    """A buffer that is made."""

    name: str
    num_elements: int
    dtype: torch.dtype


@dataclass(frozen=True, slots=True)
class Alias:
    """A buffer in the storage of another."""

    name: str
    of: str


@dataclass(frozen=True, slots=True)
class Free:
    """A buffer that is let go of, by one of its names."""

    name: str


@dataclass(frozen=True, slots=True)
class Output:
    """A tensor that the graph gives back: in the storage of a buffer, or nothing."""

    name: str
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    offset: int = 0
    dtype: torch.dtype = torch.float32


Event = Allocate | Alias | Free | DispatchedOp


class CompiledGraph:
    """A graph that Inductor has planned; called with meta tensors it hands its kernels to `sink` and gives outputs."""

    def __init__(
        self,
        inputs: Sequence[str],
        events: Sequence[Event],
        outputs: Sequence[Output | None],
        *,
        is_backward: bool = False,
    ) -> None:
        self.inputs, self.events, self.outputs = tuple(inputs), tuple(events), tuple(outputs)
        self.is_backward, self.num_recorded = is_backward, 0
        self._boxed_call = True  # it takes its arguments as a list, and lets go of each with its last use
        self.sink: Sink | None = None
        self.recorder: Any = None

    def __call__(self, args: list[Any]) -> list[Any]:
        if self.recorder is not None:
            self.num_recorded += 1
            self.recorder.is_recording = False  # allocations are followed, and are no operators
        try:
            return self._run(args)
        finally:
            if self.recorder is not None:
                self.recorder.is_recording = True

    def _run(self, args: list[Any]) -> list[Any]:
        buffers: dict[str, Any] = dict(zip(self.inputs, args, strict=True))
        args.clear()
        for event in self.events:
            if isinstance(event, DispatchedOp):
                if self.sink is not None:
                    self.sink(event)
            elif isinstance(event, Allocate):
                buffers[event.name] = torch.empty(event.num_elements, dtype=event.dtype, device="meta")
            elif isinstance(event, Alias):
                if event.of in buffers:
                    buffers[event.name] = buffers[event.of]
            else:
                buffers.pop(event.name, None)
        return [None if one is None else _tensor(one, buffers[one.name]) for one in self.outputs]


def _tensor(output: Output, buffer: Any) -> Any:
    made = torch.empty(0, dtype=output.dtype, device="meta")
    return made.set_(buffer.untyped_storage(), output.offset, output.shape, output.strides)


def compiled_graph(graph: Any, inputs: Sequence[Any], *, is_backward: bool, is_inference: bool) -> CompiledGraph:
    """`graph`, as AOT autograd gives it, planned by Inductor."""
    move_to_cuda(graph)
    compile_fx.view_to_reshape(graph)
    with torch.no_grad():
        fake_mode = compile_fx.fake_tensor_prop(graph, inputs)
    compile_fx._recursive_record_original_output_strides(graph)
    with V.set_fake_mode(fake_mode):
        compile_fx._recursive_post_grad_passes(graph, is_inference=is_inference)
    kernels: dict[str, tuple[FusedKernel, tuple[str, str]]] = {}
    with ExitStack() as stack:
        stack.enter_context(V.set_fake_mode(fake_mode))
        stack.enter_context(compile_fx.maybe_disable_comprehensive_padding(inputs))
        stack.enter_context(config.patch({"graph_partition": False}))
        stack.enter_context(mock.patch.object(TritonKernel, "codegen_kernel", _no_text))
        stack.enter_context(mock.patch.object(TritonScheduling, "define_kernel", _definer(kernels)))
        lowering = GraphLowering(
            graph,
            example_inputs=inputs,
            shape_env=compile_fx.shape_env_from_inputs(inputs),
            is_inference=is_inference,
            is_backward=is_backward,
        )
        lowering.freeze_runtime_asserts()
        stack.enter_context(V.set_debug_handler(DebugContext()))
        stack.enter_context(V.set_graph_handler(lowering))
        stack.enter_context(V.set_extern_kernel_nodes([]))
        lowering.run(*inputs)
        lowering.init_wrapper_code()
        lowering._update_scheduler()
        lowering.wrapper_code.push_codegened_graph(lowering)
        lowering.scheduler.codegen()
        lowering.wrapper_code.run_wrapper_ir_passes(is_inference)
        return CompiledGraph(
            lowering.graph_input_names,
            _events(lowering, kernels),
            [_output(one) for one in lowering.graph_outputs],
            is_backward=is_backward,
        )


def _no_text(kernel: Any, _name: Any = None) -> str:
    kernel.inductor_meta, kernel.triton_meta = {}, {}
    return ""


def _definer(kernels: dict[str, tuple[FusedKernel, tuple[str, str]]]) -> Callable[..., str]:
    def define(_scheduling: Any, _text: str, schedule: Any, kernel: Any) -> str:
        fused = get_fused_kernel_name(schedule, "original_aten")
        kind = "poi" if not kernel.features.is_reduction() else "per" if kernel.persistent_reduction else "red"
        name = f"triton_{kind}_{fused}_{len(kernels)}"
        nodes = [node.node for node in kernel.features.scheduler_nodes() if node.node is not None]
        kernels[name] = _fused(name, kernel), next((place for place in map(_place, nodes) if any(place)), ("", ""))
        return name

    return define


def _fused(name: str, kernel: Any) -> FusedKernel:
    """What a kernel touches; reads of one buffer by several expressions meet in the cache."""
    features = kernel.features
    num_rows, num_cols = _int(features.numel), _int(features.reduction_numel)
    read: Counter[str] = Counter()
    written: Counter[str] = Counter()
    strided: Counter[str] = Counter()
    gathered: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    atomic_bytes, tables = 0, set()
    written_here = {buffer for node in features.scheduler_nodes() for buffer in node.get_buffer_names()}
    removed = kernel.removed_buffers | kernel.inplaced_to_remove | V.graph.removed_buffers
    for node in features.scheduler_nodes():
        elements = _elements(node.get_ranges())
        if node.is_reduction():
            data = node.node.data  # a reduction or a scan
            if getattr(data, "reduction_type", "") == "online_softmax_reduce":
                counts["num_online"] += elements
            elif str(getattr(data, "reduction_type", "")).startswith("welford"):
                counts["num_welford"] += elements
        atomic = node._get_atomic_add_buffers()
        for deps, counter in ((node.read_writes.reads, read), (node.read_writes.writes, written)):
            for dep in deps:
                if not isinstance(dep, MemoryDep) or dep.name in removed or V.graph.try_get_buffer(dep.name) is None:
                    continue
                if counter is read and dep.name in written_here:
                    continue  # it is still in registers
                num_bytes = _touched_bytes(dep, elements)
                counter[dep.name] += num_bytes
                if dep.is_indirect() and counter is read:
                    gathered[dep.name] += num_bytes
                elif not dep.stride1_for_last_dim():
                    strided[dep.name] += num_bytes
                if not _is_aligned(dep):
                    counts["num_unaligned"] += elements
                if counter is written and dep.name in atomic:
                    atomic_bytes += num_bytes
                    tables.add(dep.name)
    for line in (line for part in (kernel.body, kernel.loads, kernel.compute) for line in part.getvalue().splitlines()):
        if (found := _LINE.match(line)) and not _FREE.match(found.group(2)):
            shape = getattr(kernel.cse.varname_map.get(found.group(1)), "shape", None) or ()
            kind = next((kind for kind, known in _KINDS.items() if known.search(found.group(2))), "num_plain")
            counts[kind] += _block_elements(shape, num_rows, num_cols)
    return FusedKernel(
        kernel=name,
        num_rows=num_rows,
        num_cols=num_cols,
        read_bytes=_once(read),
        written_bytes=_once(written),
        strided_bytes=_once(strided),
        gathered_bytes=_once(gathered),
        atomic_bytes=atomic_bytes,
        atomic_table_bytes=sum(map(_buffer_bytes, tables)),
        **{kind: counts[kind] for kind in ("num_plain", "num_online", "num_welford", "num_unaligned", *_KINDS)},
        is_persistent=bool(getattr(kernel, "persistent_reduction", False)),
        is_accumulating=bool(kernel.args.workspace_args),
    )


def _block_elements(shape: Any, num_rows: int, num_cols: int) -> int:
    """Of how many elements a value of a block stands for one each: all, one for each row, or none for a constant."""
    names = [str(one) for one in shape]
    over_rows = num_rows if any(name.startswith(("X", "Y", "Z")) for name in names) else 0
    return over_rows * num_cols if num_cols > 1 and any(name.startswith("R") for name in names) else over_rows


def _touched_bytes(dep: Any, elements: int) -> int:
    num_elements = elements if dep.is_indirect() else _int(dep.get_numel())
    return int(num_elements * get_dtype_size(V.graph.get_dtype(dep.name)))


def _is_aligned(dep: Any) -> bool:
    """Whether whole 16 bytes can be moved at once: every stride but the last is a multiple of them."""
    if dep.is_indirect():
        return True
    wide = _WIDE_BYTES // get_dtype_size(V.graph.get_dtype(dep.name))
    for term in dep.index.args if dep.index.is_Add else (dep.index,):
        factor = term.as_coeff_Mul()[0]
        if term.free_symbols and term.is_Mul and factor.is_Integer and factor > wide and factor % wide:
            return False
    return True


def _once(counted: Counter[str]) -> int:
    """No buffer is moved more than whole."""
    return sum(min(num_bytes, _buffer_bytes(name)) for name, num_bytes in counted.items())


def _buffer_bytes(name: str) -> int:
    return int(_int(V.graph.get_numel(name)) * get_dtype_size(V.graph.get_dtype(name)))


def _elements(ranges: Any) -> int:
    total = 1
    for group in ranges:
        for one in group:
            total *= _int(one)
    return total


def _int(value: Any) -> int:
    try:
        return int(value)
    except TypeError:
        raise NotModelled(f"a size that depends on data cannot be compiled without it: {value}") from None


def _events(lowering: Any, kernels: dict[str, tuple[FusedKernel, tuple[str, str]]]) -> list[Event]:
    events: list[Event] = []
    parts: dict[str, dict[int, Any]] = {}  # outputs of an operator with several, by its name and their place
    for line in lowering.wrapper_code.lines:
        if isinstance(line, lines.AllocateLine):
            events.append(_allocate(line.node))
        elif isinstance(line, lines.ReuseLine):
            events += [Alias(line.reused_as.get_name(), line.node.get_name()), Free(line.node.get_name())]
            if line.node.get_name() in lowering.get_output_names() or not line.delete_old:
                events.pop()
        elif isinstance(line, lines.ReinterpretLine):
            events.append(Alias(line.reused_as.get_name(), line.node.get_name()))
        elif isinstance(line, lines.FreeIfNotReusedLine):
            if not line.is_reused:
                events.append(Free(line.node.get_name()))
        elif isinstance(line, lines.FreeLine):
            events.append(Free(line.node.get_name()))
        elif isinstance(line, lines.KernelCallLine):
            events.append(_fused_op(line, *kernels[line.kernel_name]))
        elif isinstance(line, lines.ExternKernelAllocLine):
            events += _allocating(line.node, parts)
        elif isinstance(line, lines.MultiOutputLine):
            place = line.indices[0][1] if line.indices else 0
            events.append(Alias(line.result_name, f"{line.arg_name}.{place}"))
        elif isinstance(getattr(line, "node", None), ir.ExternKernel):
            events.append(_extern(line.node))
        elif isinstance(line, str) and (found := _SUM_OF_WORKSPACE.match(line)):
            events += _summed(*found.groups())
    return _with_parts_freed(events, parts)


def _allocate(node: Any) -> Allocate:
    return Allocate(node.get_name(), _int(V.graph.get_allocation_storage_size(node)), node.get_dtype())


def _allocating(node: Any, parts: dict[str, dict[int, Any]]) -> list[Event]:
    """An operator that allocates what it gives."""
    name = node.get_name()
    outputs = [one for one in getattr(node, "outputs", ()) if isinstance(one, ir.MultiOutput)]
    if isinstance(node.layout, ir.MultiOutputLayout):
        parts[name] = {(one.indices[0][1] if one.indices else 0): one for one in outputs}
        made: list[Event] = [
            Allocate(f"{name}.{place}", _storage_elements(one.get_layout()), one.get_dtype())
            for place, one in parts[name].items()
        ]
        return [*made, _extern(node, list(parts[name].values()))]
    if isinstance(node.layout, ir.NoneLayout):
        return [_extern(node, [])]
    return [Allocate(name, _storage_elements(node.get_layout()), node.get_dtype()), _extern(node, [node])]


def _storage_elements(layout: Any) -> int:
    return _int(layout.storage_size())


def _with_parts_freed(events: list[Event], parts: dict[str, dict[int, Any]]) -> list[Event]:
    """The tuple of an operator's outputs holds all of them until it dies itself."""
    found: list[Event] = []
    for event in events:
        found.append(event)
        if isinstance(event, Free) and event.name in parts:
            found += [Free(f"{event.name}.{place}") for place in parts[event.name]]
    return found


def _summed(name: str, workspace: str, rows: str, cols: str, dtype: str | None) -> list[Event]:
    """A sum over blocks' partial results, which the wrapper leaves to eager PyTorch."""
    partial = TensorMeta(shape=(int(rows), int(cols)), strides=(int(cols), 1), dtype="fp32")
    total = TensorMeta(shape=(int(cols),), strides=(1,), dtype="fp32")
    del workspace
    options = (("dim", (0,)), ("keepdim", False), ("dtype", None))
    events: list[Event] = [
        Allocate(name, int(cols), torch.float32),
        _compiled("aten.sum.dim_IntList", (partial,), (total,), options),
    ]
    if dtype:
        kind = getattr(torch, dtype)
        cast = replace(total, dtype=DTYPES[kind])
        events += [
            Allocate(name, int(cols), kind),
            _compiled("aten._to_copy.default", (total,), (cast,)),
        ]
    return events


def _fused_op(line: Any, kernel: FusedKernel, place: tuple[str, str]) -> DispatchedOp:
    names = [one for one in line.call_args if isinstance(one, str) and V.graph.try_get_buffer(one) is not None]
    tensors = [_meta(V.graph.try_get_buffer(one)) for one in dict.fromkeys(names)]
    return _compiled(FUSED, tuple(tensors), (), kernel.arguments, place)


def _compiled(
    name: str,
    inputs: tuple[TensorMeta | None, ...],
    outputs: tuple[TensorMeta, ...],
    arguments: tuple[tuple[str, Argument], ...] = (),
    place: tuple[str, str] = ("", ""),
) -> DispatchedOp:
    module, line = place
    return DispatchedOp(
        name=name, inputs=inputs, outputs=outputs, arguments=arguments, module=module, line=line, is_compiled=True
    )


def _meta(node: Any) -> TensorMeta:
    dtype = node.get_dtype()
    if dtype not in DTYPES:
        raise NotModelled(f"dtype {dtype} is not modelled")
    return TensorMeta(
        shape=tuple(_int(one) for one in node.get_size()),
        strides=tuple(_int(one) for one in node.get_stride()),
        dtype=DTYPES[dtype],
    )


# Operators of extern_kernels by the names that ATen gives them.
_ATEN = {
    "mm": "aten.mm.default",
    "addmm": "aten.addmm.default",
    "bias_addmm": "aten.addmm.default",
    "bmm": "aten.bmm.default",
    "baddbmm": "aten.baddbmm.default",
    "convolution": "aten.convolution.default",
}


def _extern(node: Any, outputs: list[Any] | None = None) -> DispatchedOp:
    """A product, a convolution, attention, or whatever else Inductor leaves to ATen."""
    made = tuple(_meta(one) for one in ([node] if outputs is None else outputs) if _has_layout(one))
    overload = getattr(node, "op_overload", None)
    called = str(node.get_kernel_name() or "")
    name = _ATEN.get(called.removeprefix("extern_kernels."))
    inputs: tuple[TensorMeta | None, ...]
    if name is None and isinstance(overload, torch._ops.OpOverload) and hasattr(node, "unflatten_args"):
        args, kwargs = node.unflatten_args(node.inputs, node.constant_args)
        inputs, arguments = _by_schema(overload, args, {**kwargs, **node.kwargs})
        return _compiled(str(overload), inputs, made, arguments, _place(node))
    inputs = tuple(_meta(one) for one in node.inputs if isinstance(one, ir.IRNode) and _has_layout(one))
    if name == "aten.convolution.default" and len(inputs) == 2:
        inputs = (*inputs, None)
    arguments = tuple((key, _plain(value)) for key, value in (node.kwargs or {}).items())
    name = name or (str(overload) if overload is not None else called.removeprefix("torch.ops."))
    return _compiled(name or type(node).__name__, inputs, made, arguments, _place(node))


def _by_schema(
    overload: Any, args: Any, kwargs: Any
) -> tuple[tuple[TensorMeta | None, ...], tuple[tuple[str, Argument], ...]]:
    inputs: list[TensorMeta | None] = []
    arguments: list[tuple[str, Argument]] = []
    for place, argument in enumerate(overload._schema.arguments):
        value = args[place] if place < len(args) else kwargs.get(argument.name, argument.default_value)
        if "Tensor" not in str(argument.type):
            arguments.append((argument.name, _plain(value)))
        elif isinstance(value, list | tuple):
            inputs += [_meta(one) if isinstance(one, ir.IRNode) else None for one in value]
        else:
            inputs.append(_meta(value) if isinstance(value, ir.IRNode) else None)
    return tuple(inputs), tuple(arguments)


def _has_layout(node: Any) -> bool:
    try:
        node.get_size(), node.get_stride(), node.get_dtype()
    except (NotImplementedError, AttributeError):
        return False
    return True


def _plain(value: Any) -> Argument:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return tuple(_plain(one) for one in value)
    if isinstance(value, torch.dtype):
        return DTYPES.get(value, str(value))
    try:
        return int(value)
    except TypeError:
        return str(value)


_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def _place(node: Any) -> tuple[str, str]:
    """The module and line of code that an operator comes from, where Dynamo has kept them."""
    for origin in node.get_origins():
        stack = origin.meta.get("nn_module_stack") or origin.meta.get("fwd_nn_module_stack")
        frames = _FRAME.findall(origin.stack_trace or "")
        if stack or frames:
            module = next(reversed(stack.values()))[0] if stack else ""
            return _module(module), ":".join(frames[-1]) if frames else ""
    return "", ""


def _module(path: Any) -> str:
    """A module's path as `named_modules` has it: Dynamo writes it as Python code from the compiled module on."""
    text = re.sub(r"^L\['\w+'\]\.?|_modules|\['|'\]|\"", lambda found: "." if found.group() == "['" else "", str(path))
    return ".".join(part for part in text.split(".") if part and part != "_orig_mod")


def _output(node: Any) -> Output | None:
    if isinstance(node, ir.NoneAsConstantBuffer):
        return None
    if not isinstance(node, ir.IRNode) or not _has_layout(node):
        raise NotModelled("a compiled graph that gives back a number has no step to predict")
    layout = node.get_layout()
    return Output(
        name=node.get_name(),
        shape=tuple(_int(one) for one in node.get_size()),
        strides=tuple(_int(one) for one in node.get_stride()),
        offset=_int(layout.offset),
        dtype=node.get_dtype(),
    )
