"""A distributed training step, recorded on one CPU: one process of each kind runs the script under a fake group.

Tensors are on meta and say that they are on a GPU (`torch_gpu`). Process groups have no other processes
(`torch_groups`). The recorder of one-device steps (`torch_dispatch`) sees every operator, and here also its stream,
what it waits for, and its call of a process group. A step lasts from the end of one optimizer step to the end of the
next.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import torch
import torch._dynamo  # which would look for CUDA if it were imported while one is presented
import torch.distributed as dist
import torch.distributed.pipelining
import torch.distributed.tensor.parallel
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.fsdp._fully_shard import _fsdp_collectives, _fsdp_param_group
from torch.nn.attention import flex_attention
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from dovetail.errors import InvalidInput
from dovetail.importers.torch_chances import settled_chances
from dovetail.importers.torch_collectives import (
    C10D,
    WAIT,
    WRAP,
    RecordedWork,
    called,
    exchanged,
    is_collective,
)
from dovetail.importers.torch_cuda import Autocast, cuda_functions
from dovetail.importers.torch_dispatch import DispatchRecorder, tensors_in
from dovetail.importers.torch_files import kept_files
from dovetail.importers.torch_gpu import GPU, GpuFunctions, Places, presented_gpu
from dovetail.importers.torch_groups import Job, Mailbox, Meshes, barrier_call, fake_groups
from dovetail.importers.torch_numbers import MAX_WHOLE, UNKNOWN_NUMBERS, learn
from dovetail.importers.torch_refused import refused_calls
from dovetail.importers.torch_run import quiet
from dovetail.importers.torch_step import fused_on_meta
from dovetail.importers.torch_streams import Streams
from dovetail.workload.dispatched import (
    BACKWARD,
    FORWARD,
    OPTIMIZER,
    CollectiveCall,
    DispatchedOp,
    DispatchedStep,
)

NCCL = "nccl:"
FLEX = "FlexAttention is taken as fused attention with a causal mask, whatever its block mask leaves out"
FLEX_WITHOUT_MASK = "FlexAttention is taken as fused attention"
COPY = "aten::copy_"
EVALUATION = "forward passes of the trained model in eval mode without gradients (evaluation) are left out of the step"
COMPILED = "torch.compile is left out: the step recorded is the eager one"
MAX_SENT = 1024  # whole numbers in a message that one rank sends another: votes and sizes, not tokens
MAX_WORKS = 4096  # calls under way that a script may still wait for
WRAPPERS = ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_orig_mod.")
# FSDP2's streams, by the attribute that holds them.
FSDP_STREAMS = {
    "all_gather_copy_in_stream": "fsdp copy-in",
    "all_gather_stream": "fsdp all-gather",
    "reduce_scatter_stream": "fsdp reduce-scatter",
    "all_reduce_stream": "fsdp all-reduce",
}


class StepEnded(BaseException):
    """The step that was to be recorded has ended; what the script would do after it is not run."""


def _chunk_cat(tensors: Any, dim: int, num_chunks: int, out: Any) -> None:
    torch._chunk_cat(tensors, dim, num_chunks, out=out)


def _split_with_sizes_copy(all_gather_output: Any, sizes: Any, dim: int = 0, *, out: Any) -> None:
    torch.split_with_sizes_copy(all_gather_output, sizes, dim=dim, out=out)


# Operators of FSDP2 and what they run on CUDA.
OPENED: dict[str, Callable[..., Any]] = {
    "fsdp::all_gather_copy_in": _fsdp_collectives.all_gather_copy_in_cuda,
    "fsdp::split_with_sizes_copy": _split_with_sizes_copy,
    "fsdp::chunk_cat": _chunk_cat,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """The memory that was there when a step began: live allocations by number, and how many there had been."""

    live: dict[int, int]
    num_allocations: int


class JobRecorder(DispatchRecorder):
    """Records the operators of one process of a job with their streams, waits and collectives."""

    def __init__(self, job: Job, streams: Streams, places: Places, meshes: Meshes, mailbox: Mailbox) -> None:
        super().__init__()
        self.mailbox = mailbox
        self.job, self.streams, self.places, self.meshes = job, streams, places, meshes
        self.is_recording = False
        self.in_optimizer = False
        self.is_evaluating = False
        self._num_unrecorded = 0
        self.has_gradients = False  # a backward pass has run since the step began
        self._works: dict[int, RecordedWork] = {}  # until they are waited for: C++ holds them without their Python part
        self._num_works = 0
        self._call: CollectiveCall | None = None
        self._call_stream = ""
        self._live: dict[int, int] = {}
        self._filling: dict[int, int] = {}  # by storage: the place of the collective that writes to it
        self._futures: dict[int, int] = {}  # the same, where no call will mark the wait
        self._batch: list[int] | None = None
        self._batch_before: dict[str, frozenset[int]] = {}
        self._forward_streams: dict[int, Any] = {}
        self.window: _Window | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(_is_wrapper(kind) for kind in types):
            return NotImplemented  # DTensor and others run operators on what they wrap, which come here
        with torch._C.DisableTorchFunction():
            word = func._schema.name
            if word in OPENED:
                with self:
                    return OPENED[word](*args, **(kwargs or {}))
            if word == WAIT:
                return self._wait_tensor(args[0])
            if word == WRAP:
                return AsyncCollectiveTensor(args[0])  # as on CUDA; what PyTorch has for meta is another tensor
            is_backward = torch._C._current_graph_task_id() != -1
            if is_backward or self.in_optimizer or torch.is_grad_enabled():
                self.train()
            if is_backward:
                self.phase, self.has_gradients = BACKWARD, True
            elif self.in_optimizer or (self.has_gradients and not self.module and not torch.is_grad_enabled()):
                self.phase = OPTIMIZER
            else:
                self.phase = FORWARD
            self._await_futures(args, kwargs)
            return super().__torch_dispatch__(func, types, args, kwargs)

    def is_on_device(self, tensor: torch.Tensor) -> bool:
        return bool(tensor.is_meta) and tensor.untyped_storage()._cdata not in self.places.elsewhere

    def _result(self, func: Any, schema: Any, args: Any, kwargs: Any, operands: list[torch.Tensor]) -> Any:
        if is_collective(schema.word):
            return self._collective(func, schema.word, args, kwargs, operands)
        made = super()._result(func, schema, args, kwargs, operands)
        if schema.word == COPY and args[0].is_meta and self.numbers.of(args[0]) is None:
            self._learn_copy(*args[:2])
        self._put(made, operands)
        return made

    def _put(self, made: Any, operands: list[torch.Tensor]) -> None:
        """Says of a new tensor where it is: as its factory was given, or else where its operands are."""
        place = self.places.made_at
        if not place:
            if not self.places.elsewhere:
                return
            known = [self.places.of(tensor) for tensor in operands if tensor.is_meta]
            if not known or GPU in known or len(known) < len(operands):
                return
            place = known[0]
        if place == GPU:
            return
        given = {tensor.untyped_storage()._cdata for tensor in operands}
        for tensor in tensors_in(made):
            if tensor.is_meta and tensor.untyped_storage()._cdata not in given:
                self.places.put(tensor, place)

    def _learn_copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """What a whole tensor is overwritten with is known where that is small and known, as what DDP sends about."""
        numbers = self.numbers.of(source)
        if numbers is not None and numbers.numel() <= MAX_WHOLE:
            learn(target, numbers.to(target.dtype, copy=True).expand(target.shape))

    # Collectives

    def _collective(self, func: Any, word: str, args: Any, kwargs: Any, operands: list[torch.Tensor]) -> Any:
        is_c10d = word.startswith(C10D)
        made = None if is_c10d else func(*args, **kwargs)
        call, is_async = called(func._schema, args, kwargs, made, self.meshes.label_of)
        self._exchange(call, args, made)
        outputs = tensors_in(made) if made is not None else tensors_in(args[0])
        if not any(map(self.is_on_device, (*operands, *outputs))):
            is_async = False
        elif self.is_recording:
            self._call = call
            self._call_stream = self._nccl_stream(call, is_async)
        if not is_c10d:
            for tensor in outputs:
                if self.is_recording:
                    self._filling[tensor.untyped_storage()._cdata] = len(self.ops)
            return made
        returns = func._schema.returns
        if not returns:
            return None
        work = self._work((len(self.ops),), tensors_in(args[0])) if is_async else self._work((), [])
        return (args[0], work.boxed()) if len(returns) > 1 else work.boxed()

    def _nccl_stream(self, call: CollectiveCall, is_async: bool) -> str:
        """The stream that a collective runs on, which from there on waits for the current one."""
        current = self.streams.current.label
        if not is_async:
            return str(current)
        stream = f"{NCCL}{call.group}"
        if self._batch is not None:
            before = self._batch_before.get(stream, frozenset())
            if self._batch:
                stream = f"{stream} {len(self._batch)}"
            self._batch.append(len(self.ops))
            self.streams.wait(stream, before)
        elif call.peer is not None:
            stream = f"{stream} {min(self.job.rank, call.peer)}-{max(self.job.rank, call.peer)}"
        self.streams.wait(stream, self.streams.ended(current))
        return stream

    def _work(self, places: tuple[int, ...], filled: list[torch.Tensor]) -> RecordedWork:
        """What code waits by for the collectives at `places`, which write to `filled`."""
        step, number = self.streams.num_steps, self._num_works
        self._num_works += 1
        is_recorded = self.is_recording and bool(places)
        storages = [tensor.untyped_storage()._cdata for tensor in filled]

        def waited() -> None:
            done = self._works.pop(number, None)
            if done is not None:
                done.release()
            if is_recorded and step == self.streams.num_steps:
                self.streams.wait(self.streams.current.label, places)
                for storage in storages:
                    self._futures.pop(storage, None)

        if is_recorded:
            self._futures |= dict.fromkeys(storages, places[-1])
        self._works[number] = work = RecordedWork(waited, filled)
        self._works.pop(number - MAX_WORKS, None)
        return work

    def _wait_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        place = self._filling.pop(tensor.untyped_storage()._cdata, None)
        if place is not None and self.is_recording:
            self.streams.wait(self.streams.current.label, (place,))
        return tensor

    def _await_futures(self, args: Any, kwargs: Any) -> None:
        """Lets an operator wait for a collective into its operands where C++ or a wrapper does, unseen."""
        if not (self._futures or self._filling) or not self.is_recording:
            return
        for tensor in tensors_in((args, kwargs or {})):
            storage = tensor.untyped_storage()._cdata
            place = self._futures.pop(storage, self._filling.pop(storage, None))
            if place is not None:
                self.streams.wait(self.streams.current.label, (place,))

    def _exchange(self, call: CollectiveCall, args: Any, made: Any) -> None:
        """Small known numbers stay known: other ranks are taken to have the same, or sent them when they were run."""
        if call.peer is not None:
            self._exchange_whole(call, args[0])
            return
        if made is not None:
            pairs = zip(tensors_in(made), tensors_in(args[0]), strict=False)
        elif call.kind in ("all-gather", "reduce-scatter", "all-to-all"):
            pairs = zip(tensors_in(args[0]), tensors_in(args[1]), strict=False)
        elif call.kind in ("all-reduce", "broadcast"):
            pairs = zip(tensors_in(args[0]), tensors_in(args[0]), strict=False)
        else:
            return
        for target, source in pairs:
            own = self.numbers.of(source)
            if own is None:
                continue
            found = exchanged(call, self.job.rank, own, target.shape)
            if found is None:
                continue
            if target.is_meta:
                learn(target, found)
            elif target is not source or call.kind != "broadcast":
                target.copy_(found)
            self.numbers.note("numbers that ranks exchange are taken to be the same on each of them")

    def _exchange_whole(self, call: CollectiveCall, tensors: Any) -> None:
        """Few whole numbers that one rank sends another, such as stages that vote, come as they were sent."""
        for tensor in tensors_in(tensors):
            if tensor.dtype.is_floating_point or tensor.dtype.is_complex or tensor.numel() > MAX_SENT:
                continue
            assert call.peer is not None
            if call.kind == "send":
                self.mailbox.send(self.job.rank, call.peer, self.numbers.of(tensor))
                continue
            found = self.mailbox.receive(call.peer, self.job.rank)
            if found is None:
                continue
            if tensor.is_meta:
                learn(tensor, found)
            else:
                tensor.copy_(found)

    def at_barrier(self, group: Any, is_async: bool) -> Any:
        """A barrier, whose tensor PyTorch would make for itself."""
        if self.is_recording:
            call = barrier_call(group, self.meshes.label_of(group))
            self._call, self._call_stream = call, self._nccl_stream(call, is_async)
            self._append(DispatchedOp(name="c10d.barrier.default", inputs=(), outputs=(), phase=self.phase))
        return self._work((len(self.ops) - 1,) if self.is_recording else (), []) if is_async else None

    def begin_batch(self) -> None:
        self._batch = []

    def end_batch(self, label: str) -> Any:
        places, self._batch = tuple(self._batch or ()), None
        if places:
            self._batch_before[f"{NCCL}{label}"] = frozenset(places)
        return self._work(places, [])

    def _order(self) -> tuple[str, tuple[int, ...], CollectiveCall | None]:
        call, self._call = self._call, None
        stream = self._call_stream if call is not None else self._current()
        return stream, self.streams.placed(stream), call

    def _current(self) -> str:
        """The current stream; of a gradient, the one that its operator ran on, as autograd has it."""
        node = torch._C._current_autograd_node() if self.phase == BACKWARD else None
        if node is None:
            if self.phase == FORWARD:
                self._forward_streams[torch._C._autograd._get_sequence_nr() - 1] = self.streams.current.label
            return str(self.streams.current.label)
        if self.streams.current is not self.streams.default:
            return str(self.streams.current.label)
        return str(self._forward_streams.get(node._sequence_nr(), self.streams.current.label))

    def _append(self, op: DispatchedOp) -> None:
        stream, waits, call = self._order()
        self.ops.append(replace(op, stream=stream, waits=waits, collective=call, module=self.module))
        self.module_calls.append(self.num_calls)
        self.num_calls = 0
        self.live.append(self.live_bytes)

    # Memory

    def _allocate(self, num_bytes: int) -> int:
        number = super()._allocate(num_bytes)
        self._live[number] = num_bytes
        return number

    def _free(self, number: int, num_bytes: int) -> None:
        super()._free(number, num_bytes)
        self._live.pop(number, None)

    # Steps

    @contextlib.contextmanager
    def unrecorded(self) -> Iterator[None]:
        """While it lasts, operators run and are no part of the step."""
        before, self.is_recording = self.is_recording, False
        self._num_unrecorded += 1
        try:
            yield
        finally:
            self.is_recording = before
            self._num_unrecorded -= 1

    def evaluate(self) -> None:
        """Leaves out what follows, until gradients are recorded again."""
        self.is_evaluating, self.is_recording = True, False
        self.numbers.note(EVALUATION)

    def train(self) -> None:
        """Ends an evaluation."""
        if self.is_evaluating and not self._num_unrecorded:
            self.is_evaluating, self.is_recording = False, True

    def begin(self) -> None:
        """Starts to record: what was before is memory alone."""
        self.ops, self.module_calls, self.live, self.allocations = [], [], [], []
        self.num_calls = 0
        self._filling.clear()
        self._futures.clear()
        self._batch_before.clear()
        self._forward_streams.clear()
        self.has_gradients = self.is_evaluating = False
        self.streams.begin()
        self.window = _Window(live=dict(self._live), num_allocations=self._num_allocations)
        self.is_recording = True

    def finished(self, parameters: list[torch.Tensor], notes: tuple[str, ...]) -> DispatchedStep:
        """The step since it began.

        Memory that was there and is freed in it, such as gradients of the step before, counts as taken at its start.
        """
        assert self.window is not None
        first = self.window.num_allocations
        carried = [-event for event in self.allocations if event < 0 and -event <= first]
        numbers = {number: place for place, number in enumerate(carried, 1)}
        events = [self.window.live[number] for number in carried]
        num = len(carried)
        made = first
        for event in self.allocations:
            if event >= 0:
                made += 1
                num += 1
                numbers[made] = num
                events.append(event)
            else:
                events.append(-numbers[-event])
        freed = set(carried)
        return DispatchedStep(
            ops=tuple(self.ops),
            module_calls=tuple(self.module_calls),
            live_bytes=tuple(self.live),
            state_bytes=sum(self.window.live.values()),
            state_allocations=tuple(size for number, size in self.window.live.items() if number not in freed),
            allocations=tuple(events),
            num_updated=len(parameters),
            num_parameters=sum(parameter.numel() for parameter in parameters),
            has_tf32=torch.backends.cuda.matmul.allow_tf32,
            notes=(*notes, *self.numbers.notes),
        )


def _is_wrapper(kind: Any) -> bool:
    return kind is not torch.Tensor and kind is not torch.nn.Parameter and hasattr(kind, "__tensor_flatten__")


class StepWatch:
    """Finds the step to record: from the end of one step of the optimizers to the end of the next.

    Where a script has several optimizers, the step ends with the one that was the last to end before.
    """

    def __init__(self, recorder: JobRecorder, step: int) -> None:
        self.recorder, self.step = recorder, step
        self.found: DispatchedStep | None = None
        self.is_first = False  # what was found is the first step, whose moments are new
        self._depth = 0
        self._num_steps: dict[int, int] = {}
        self._optimizers: dict[int, torch.optim.Optimizer] = {}
        self._last = 0
        self.is_unsteady = False  # something was done that later steps do not do
        self._modules: dict[int, str] = {}
        self._outer: list[tuple[int, str]] = []

    def before_step(self, _optimizer: Any, _args: Any, _kwargs: Any) -> None:
        self._depth += 1
        self.recorder.in_optimizer = True

    def after_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        self._depth -= 1
        if self._depth:
            return
        self.recorder.in_optimizer = False
        key = id(optimizer)
        self._optimizers[key] = optimizer
        self._num_steps[key] = num = self._num_steps.get(key, 0) + 1
        recorder = self.recorder
        if num == self.step and (key == self._last or self.step == 1):
            self._finish()
            if not self.is_unsteady:
                raise StepEnded
            self.is_unsteady = False
            self.step += 1
        if num == self.step - 1:
            if num == 1 and recorder.is_recording:
                self._finish()
                self.is_first = True
            self._last = key
            gc.enable()
            gc.collect()
            gc.disable()
            recorder.begin()

    def _finish(self) -> None:
        parameters = {
            id(one): one
            for optimizer in self._optimizers.values()
            for group in optimizer.param_groups
            for one in group["params"]
        }
        self.found = self.recorder.finished(list(parameters.values()), ())
        self.is_first = False

    def enter(self, module: torch.nn.Module, _inputs: Any) -> None:
        recorder = self.recorder
        if not recorder.is_recording and not self._num_steps and torch.is_grad_enabled() and recorder.live_bytes:
            gc.collect()
            gc.disable()
            recorder.begin()
        if torch.is_grad_enabled():
            recorder.train()  # also before what FSDP gathers for the module without gradients
        elif recorder.is_recording and not self._outer and self._is_evaluated(module):
            recorder.evaluate()
        if id(module) not in self._modules:
            for name, one in module.named_modules(remove_duplicate=False):
                for wrapper in WRAPPERS:
                    name = name.replace(wrapper, "")
                self._modules.setdefault(id(one), name)
        self._outer.append((id(module), recorder.module))
        recorder.module = self._modules[id(module)] or recorder.module
        recorder.num_calls += recorder.is_recording

    def _is_evaluated(self, module: torch.nn.Module) -> bool:
        """Whether a call of `module` is an evaluation; a teacher, which no optimizer trains, is part of the step."""
        if module.training or torch.is_grad_enabled():
            return False
        trained = {
            id(one)
            for optimizer in self._optimizers.values()
            for group in optimizer.param_groups
            for one in group["params"]
        }
        return any(id(one) in trained for one in module.parameters())

    def leave(self, module: torch.nn.Module, _inputs: Any, _outputs: Any) -> None:
        while self._outer:  # a module that raised, and was caught, has not left
            left, where = self._outer.pop()
            if left == id(module):
                self.recorder.module = where
                return

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """While it lasts, steps are looked for.

        DDP puts parameters into buckets again in its second step, in the order in which gradients came; the step after
        that is recorded, if there is one.
        """
        rebuild = dist.Reducer._rebuild_buckets

        def rebuilt(reducer: Any) -> bool:
            is_new = bool(rebuild(reducer))
            self.is_unsteady = self.is_unsteady or is_new
            return is_new

        handles = [
            register_optimizer_step_pre_hook(self.before_step),
            register_optimizer_step_post_hook(self.after_step),
            register_module_forward_pre_hook(self.enter),
            register_module_forward_hook(self.leave, always_call=True),
        ]
        try:
            with mock.patch.object(dist.Reducer, "_rebuild_buckets", rebuilt):
                yield
        finally:
            for handle in handles:
                handle.remove()
            gc.enable()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRank:
    """What one process did: its step, and the mesh that it built."""

    step: DispatchedStep
    mesh: tuple[tuple[str, int], ...]
    is_first: bool

    @property
    def peers(self) -> tuple[int, ...]:
        """The ranks that this one sends to or receives from, in order."""
        found = {op.collective.peer: None for op in self.step.ops if op.collective and op.collective.peer is not None}
        return tuple(found)


def recorded_rank(run: Callable[[], None], job: Job, mailbox: Mailbox, step: int = 2) -> RecordedRank:
    """The step of one process of `job`, whose code is `run`."""
    streams, places, meshes, autocast = Streams(), Places(), Meshes(), Autocast()
    recorder = JobRecorder(job, streams, places, meshes, mailbox)
    watch = StepWatch(recorder, step)
    functions = GpuFunctions(autocast, places, recorder)
    with (
        quiet(),
        settled_chances(),
        torch.compiler.set_stance("force_eager"),
        torch.enable_grad(),
        fused_on_meta(),
        presented_gpu(streams, places, num_devices=job.gpus_per_node, device_number=job.local_rank),
        fake_groups(job, mailbox, meshes, recorder.at_barrier),
        _batches(recorder),
        _resized_storages(recorder),
        _fsdp_streams(),
        _wrapped_on_meta(),
        _flex_attention(recorder),
        refused_calls(job),
        _compiled(recorder),
        kept_files(recorder.numbers.note, places, recorder.unrecorded),
        cuda_functions(autocast, functions),
        watch.watching(),
        recorder,
        contextlib.suppress(StepEnded),
    ):
        run()
    if watch.found is None:
        guessed = f"; {UNKNOWN_NUMBERS}, and a branch on one may skip the step" if recorder.numbers.has_guessed else ""
        raise InvalidInput(
            f"the script ended without a step of a torch.optim optimizer, so there is no step to predict{guessed}"
        )
    return RecordedRank(step=watch.found, mesh=meshes.widest(job.world_size), is_first=watch.is_first)


@contextlib.contextmanager
def _batches(recorder: JobRecorder) -> Iterator[None]:
    """Sends and receives between the two calls go as one NCCL group."""

    def start(_group: Any, _device: Any = None) -> None:
        recorder.begin_batch()

    def end(group: Any, _device: Any = None) -> Any:
        return recorder.end_batch(recorder.meshes.label_of(group))

    with (
        mock.patch.object(dist.ProcessGroup, "_start_coalescing", start),
        mock.patch.object(dist.ProcessGroup, "_end_coalescing", end),
    ):
        yield


@contextlib.contextmanager
def _resized_storages(recorder: JobRecorder) -> Iterator[None]:
    before = torch.UntypedStorage.resize_

    def resized(storage: Any, size: Any) -> Any:
        made = before(storage, size)
        recorder.resized(storage)
        return made

    with mock.patch.object(torch.UntypedStorage, "resize_", resized):
        yield


@contextlib.contextmanager
def _compiled(recorder: JobRecorder) -> Iterator[None]:
    """A script that compiles is recorded as eager, with a note."""
    before = torch.compile

    def made(*args: Any, **kwargs: Any) -> Any:
        recorder.numbers.note(COMPILED)
        return before(*args, **kwargs)

    with mock.patch.object(torch, "compile", made):
        yield


@contextlib.contextmanager
def _flex_attention(recorder: JobRecorder) -> Iterator[None]:
    """FlexAttention, which torch.compile makes a kernel of, as the fused attention of the same sizes."""

    def made(
        query: Any,
        key: Any,
        value: Any,
        score_mod: Any = None,
        block_mask: Any = None,
        scale: Any = None,
        enable_gqa: bool = False,
        return_lse: bool = False,
        kernel_options: Any = None,
        *,
        return_aux: Any = None,
    ) -> Any:
        del score_mod, kernel_options
        recorder.numbers.note(FLEX if block_mask is not None else FLEX_WITHOUT_MASK)
        found = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, is_causal=block_mask is not None, scale=scale, enable_gqa=enable_gqa
        )
        if return_aux is None and not return_lse:
            return found
        rows = torch.empty(query.shape[:-1], dtype=torch.float32, device=query.device)
        return (found, rows) if return_aux is None else (found, flex_attention.AuxOutput(lse=rows))

    with mock.patch.object(flex_attention, "flex_attention", made):
        yield


@contextlib.contextmanager
def _wrapped_on_meta() -> Iterator[None]:
    """Tensors that a collective is filling are wrapped on the device where they really are.

    Their class reads the device from the tensor, which says that it is on the GPU. PyTorch refuses such a wrapper of a
    gradient, as its storage is on meta.
    """
    before = AsyncCollectiveTensor.__new__

    def made(cls: Any, elem: torch.Tensor) -> Any:
        with torch._C.DisableTorchFunction():
            return before(cls, elem)

    with mock.patch.object(AsyncCollectiveTensor, "__new__", made):
        yield


@contextlib.contextmanager
def _fsdp_streams() -> Iterator[None]:
    """FSDP2's streams get names."""
    context = _fsdp_param_group.FSDPCommContext
    before = context.lazy_init

    def initialised(self: Any, device: Any) -> None:
        before(self, device)
        for name, label in FSDP_STREAMS.items():
            getattr(self, name).label = label

    with mock.patch.object(context, "lazy_init", initialised):
        yield
