"""One whole training step of a module under torch.compile, as Inductor would run it on a GPU, recorded without one.

The step runs twice on meta tensors. The first time Dynamo, AOT autograd and Inductor compile every graph; the second
time the graphs hand their kernels and allocations to the recorder, which sees what is left to eager PyTorch as in any
other step: what Dynamo breaks graphs for, a loss outside of the module, the optimizer.
"""

from __future__ import annotations

import contextlib
import gc
import operator
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from dovetail.importers.torch_chances import settled_chances
from dovetail.importers.torch_cuda import Autocast, CudaFunctions
from dovetail.importers.torch_dispatch import DispatchRecorder
from dovetail.importers.torch_run import quiet
from dovetail.importers.torch_step import (
    AUTOCAST,
    Loss,
    StepJob,
    _blamed,
    _checkpoint,
    _state,
    _total,
    _with_state,
    fused_on_meta,
    whole_step,
)
from dovetail.workload.dispatched import BACKWARD, FORWARD, OPTIMIZER, DispatchedOp, DispatchedStep

Tell = Callable[[str], None]
MAX_WARM_STEPS = 4  # as data/hf_steps measured: four steps before those that count


class CompiledRecorder(DispatchRecorder):
    """A recorder that lets torch.compile run below it, and sees what the compiled graphs run."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True


def compiled_step(
    model: torch.nn.Module,
    args: Any,
    kwargs: Any,
    job: StepJob,
    loss: Loss | None = None,
    tell: Tell = lambda _: None,
) -> DispatchedStep:
    """A step of `model`, which is on meta, under torch.compile with its default options."""
    with quiet():  # which importing Inductor is not
        from dovetail.importers.torch_inductor_device import gpu_of_meta

    recorder = CompiledRecorder()
    model.zero_grad(set_to_none=True)
    if job.is_checkpointed:
        _checkpoint(model)
    with quiet(), settled_chances(), torch.enable_grad(), fused_on_meta(), gpu_of_meta(), _fresh_dynamo():
        graphs = _Graphs(tell)
        compiled = torch.compile(model, backend=graphs.backend)
        for _ in range(MAX_WARM_STEPS):  # a first step may change what guards look at, as lazily set attributes
            num_compiled = len(graphs.compiled)
            with CompiledRecorder() as warm:
                _run(compiled, args, kwargs, job, loss, warm)
            model.zero_grad(set_to_none=True)
            if len(graphs.compiled) == num_compiled:
                break
        optimizer = _with_state(model, job)
        for tensor in _state(model, optimizer, args, kwargs):
            recorder.hold(tensor)
        state_bytes, state = recorder.live_bytes, recorder.state_is_held()
        graphs.send_to(recorder)
        gc.collect()
        gc.disable()  # what dies in a cycle would die at some other operator each time
        try:
            with recorder, torch._dynamo.config.patch(error_on_recompile=True):
                notes = _run(compiled, args, kwargs, job, loss, recorder, optimizer)
        finally:
            gc.enable()
    return whole_step(model, optimizer, recorder, state_bytes, state, (*notes, *graphs.notes))


def _run(
    model: Any,
    args: Any,
    kwargs: Any,
    job: StepJob,
    loss: Loss | None,
    seen: DispatchRecorder,
    optimizer: torch.optim.Optimizer | None = None,
) -> tuple[str, ...]:
    autocast = Autocast()
    dtype = AUTOCAST[job.autocast] if job.autocast else None
    seen.phase = FORWARD
    with _blamed(seen, "the compiled module"):
        with torch.autocast("cuda", dtype, enabled=dtype is not None):
            outputs = model(*args, **kwargs)
        before = autocast.enter(dtype)
        with CudaFunctions(autocast):
            total, notes = _total(outputs, loss)
        autocast.leave(before)
        del outputs
    seen.phase = BACKWARD
    with _blamed(seen, "the backward pass of the compiled module"):
        total.backward()
    seen.phase = OPTIMIZER
    if optimizer is not None:
        with _blamed(seen, f"the optimizer {job.optimizer}"):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    return notes


class _Graphs:
    """The graphs of one module: compiled as Dynamo finds them, and later sending what they run to a recorder."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell
        self.compiled: list[Any] = []
        self.num_captured = 0

    @property
    def notes(self) -> tuple[str, ...]:
        num_run = sum(graph.num_recorded for graph in self.compiled if not graph.is_backward)
        return (f"torch.compile breaks the module into {num_run} graphs",) if num_run > 1 else ()

    def backend(self, graph: Any, inputs: Any) -> Any:
        import torch._inductor.compile_fx as compile_fx

        self.num_captured += 1
        _fill_literals(graph)
        self.tell(f"compiling graph {self.num_captured} ({len(graph.graph.nodes)} operations)")
        return compile_fx.compile_fx(graph, inputs, inner_compile=self._planned)

    def _planned(self, graph: Any, inputs: Any, **options: Any) -> Any:
        from dovetail.importers.torch_inductor_graphs import compiled_graph

        is_backward = bool(options.get("is_backward", False))
        self.tell(f"planning kernels of the {BACKWARD if is_backward else FORWARD} pass")
        planned = compiled_graph(
            graph, inputs, is_backward=is_backward, is_inference=bool(options.get("is_inference", False))
        )
        self.compiled.append(planned)
        return planned

    def send_to(self, recorder: DispatchRecorder) -> None:
        def taken(op: DispatchedOp) -> None:
            recorder.ops.append(replace(op, phase=recorder.phase))
            recorder.module_calls.append(0)
            recorder.live.append(recorder.live_bytes)

        for graph in self.compiled:
            graph.sink, graph.recorder = taken, recorder


def _fill_literals(graph: Any) -> None:
    """Tensors that code writes out are copied from the host to the device; one is made there instead, of one number."""
    for node in list(graph.graph.nodes):
        if node.target is operator.getitem and isinstance(node.args[1], tuple):
            with graph.graph.inserting_before(node):
                node.args = (node.args[0], tuple(_index(graph, one) for one in node.args[1]))
        if node.target not in (torch.tensor, torch.as_tensor, torch.asarray) or node.all_input_nodes:
            continue
        numbers = torch.as_tensor(node.args[0])
        dtype, device = node.kwargs.get("dtype") or numbers.dtype, node.kwargs.get("device") or "cpu"
        number = numbers.flatten()[0].item() if numbers.numel() else 0
        with graph.graph.inserting_after(node):
            made = graph.graph.call_function(
                torch.full, (tuple(numbers.shape), number), {"dtype": dtype, "device": device}
            )
        made.meta = node.meta
        node.replace_all_uses_with(made)
        graph.graph.erase_node(node)
    graph.recompile()


def _index(graph: Any, one: Any) -> Any:
    """An index of a tensor; a list of whole numbers becomes a tensor of them."""
    if not isinstance(one, list) or not one or not all(isinstance(number, int) for number in one):
        return one
    return graph.graph.call_function(
        torch.full, ((len(one),), one[0]), {"dtype": torch.int64, "device": torch.device("cuda:0")}
    )


@contextlib.contextmanager
def _fresh_dynamo() -> Iterator[None]:
    """Nothing compiled before is reused, and nothing of ours stays."""
    import torch._dynamo

    torch._dynamo.reset()
    try:
        yield
    finally:
        torch._dynamo.reset()
