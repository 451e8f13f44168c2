"""A training step as eager PyTorch runs it: kernels one behind another, each no sooner than the host launches it.

A kernel starts at the later of the end of the one before it and its launch. The host goes through operators, views and
modules at a pace of its own, and waits for the device where code reads a number. Memory is what the allocator holds,
operator by operator, and cuBLAS's workspaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.cost.eager.times import eager_times
from dovetail.cost.power import Load, sustained_clock_frac
from dovetail.errors import InvalidInput
from dovetail.hardware.chip import Chip
from dovetail.step.allocator import allocator_after
from dovetail.units import MEBI, MICRO
from dovetail.workload.dispatched import BACKWARD, FORWARD, OPTIMIZER, PHASES, DispatchedOp, DispatchedStep
from dovetail.workload.graph import BoolArray, FloatArray, IntArray

WORKSPACE_BYTES = 32 * MEBI  # cuBLAS's on Hopper, for each thread that multiplies (PyTorch, CUDABlas.cpp)
NUM_WORKSPACES = 2  # the forward pass's thread and autograd's
READS = frozenset({"aten._local_scalar_dense.default", "aten.nonzero.default", "aten.masked_select.default"})
TO_HOST = "cpu"
BY_LISTS = ("aten._foreach_", "aten._fused_")  # operators of an optimizer that take all tensors at once


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPace:
    """Seconds of the host for what PyTorch does before the device has work, in the forward and in the backward pass.

    Those of the machine that data/hf_steps was measured on: their ratios are a prototype's, fitted on its 22 eager
    steps, and one scale of all was fitted on them again. Another host takes `slowdown` times as long.
    """

    forward_kernel_s: float = 18.7 * MICRO  # an operator that launches a kernel, Python's part of it included
    forward_view_s: float = 6.6 * MICRO
    module_s: float = 33 * MICRO  # a call of a module
    backward_kernel_s: float = 24.2 * MICRO
    backward_view_s: float = 7.2 * MICRO
    more_kernels_s: float = 4.4 * MICRO  # each further kernel of one operator: a launch alone; estimate
    update_s: float = 550 * MICRO  # an optimizer's step
    parameter_s: float = 9.9 * MICRO  # and each tensor that it updates
    # a tensor saved under checkpointing, each time that a hook in Python packs or unpacks it: in the forward pass, when
    # it is recomputed, and for its gradient (1 row, vit-large: between its minimum of 101 ms and its median of 121)
    saved_tensor_s: float = 21 * MICRO
    compiled_kernel_s: float = 7 * MICRO  # a kernel of a compiled graph, by Inductor's wrapper and launcher; estimate
    # a parameter of a compiled module, before its first kernel: guards, autograd's inputs (six steps, 0 to 15 us)
    guard_s: float = 8 * MICRO
    slowdown: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.slowdown < float("inf"):
            raise InvalidInput(f"a host is a positive number of times as slow; got {self.slowdown:g}")

    def operator_s(self, op: DispatchedOp, num_launches: int, *, is_recomputed: bool = False) -> float:
        """Of one operator; one that is recomputed runs its Python again, at the forward pass's pace."""
        if op.phase == OPTIMIZER:
            # one by lists is part of `update_s` but for its launch; one tensor by tensor is called from Python without
            # autograd, as a view is, and launched
            call_s = 0.0 if op.name.startswith(BY_LISTS) or not op.name.startswith("aten.") else self.forward_view_s
            return self.slowdown * (num_launches > 0) * (call_s + self.more_kernels_s)
        if op.is_compiled:
            return self.slowdown * num_launches * self.compiled_kernel_s
        is_forward = op.phase == FORWARD or is_recomputed
        if not num_launches:
            return self.slowdown * (self.forward_view_s if is_forward else self.backward_view_s)
        first_s = self.forward_kernel_s if is_forward else self.backward_kernel_s
        return self.slowdown * (first_s + (num_launches - 1) * self.more_kernels_s)


# Kernels and steps of the first were fitted; of the others whole steps were compared, in fp32.
FITTED_CHIP = "h200-sxm"
COMPARED_CHIPS = ("h100-sxm", "a100-40gb-sxm", "a100-80gb-pcie", "v100-32gb-pcie", "l4")


def outside_evidence(chip: str) -> tuple[str, ...]:
    """What a step on `chip` rests on, where its kernels were not measured there; nothing on the chip that they were."""
    if chip == FITTED_CHIP:
        return ()
    if chip in COMPARED_CHIPS:
        return (f"kernels were fitted on {FITTED_CHIP}; of {chip} only steps in fp32 were compared",)
    return (
        f"outside the evidence: kernels were fitted on {FITTED_CHIP}, and follow from the bandwidth, caches, lanes and "
        f"clock of {chip}",
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EagerStep:
    """The seconds and bytes of one step; `operator_s` is the device's time by operator, `wait_s` where it had none.

    `phase_s` are those of the device from the first kernel of a phase to the first of the next.
    """

    step: DispatchedStep
    chip: str
    step_s: float
    phase_s: tuple[tuple[str, float], ...]
    operator_s: FloatArray
    launches: FloatArray
    wait_s: float
    clock_frac: float
    peak_bytes: float
    reserved_bytes: float

    @property
    def host_bound_frac(self) -> float:
        """Share of the step in which the device waits for the host."""
        return self.wait_s / self.step_s if self.step_s else 0.0


def eager_step(step: DispatchedStep, chip: Chip, host: HostPace | None = None) -> EagerStep:
    """`step` on one `chip`, at the clock that its power limit leaves over the whole step.

    The host takes `host.slowdown` times as long as the one that the chip was calibrated beside.
    """
    host = host or HostPace()
    host = replace(host, slowdown=host.slowdown * chip.calibration.host_slowdown)
    times = eager_times(step.ops, chip, has_tf32=step.has_tf32)
    launches = np.asarray(times.launches)
    host_s = operator_host_s(step, host, launches)
    reads = np.array([is_host_read(op) for op in step.ops], dtype=np.bool_)
    full = _timeline(times.stream_s, launches, host_s, reads, step.ops)
    load = Load(cost=replace(times.total(), host_s=full.step_s if full.wait_s > 0 else 0.0))
    clock_frac = float(sustained_clock_frac(load, chip))
    operator_s = times.stream_s + times.clocked_s * (1 / clock_frac - 1)
    memory = step_memory(step)
    found = _timeline(operator_s, launches, host_s, reads, step.ops)
    return EagerStep(
        step=step,
        chip=chip.name,
        step_s=found.step_s,
        phase_s=found.phase_s,
        operator_s=operator_s,
        launches=launches.astype(np.float64),
        wait_s=found.wait_s,
        clock_frac=clock_frac,
        peak_bytes=memory.peak_bytes,
        reserved_bytes=memory.reserved_bytes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMemory:
    """The most that PyTorch's allocator hands out at once (`max_memory_allocated`), and what it has reserved."""

    peak_bytes: float
    reserved_bytes: float


def step_memory(step: DispatchedStep) -> StepMemory:
    """Block by block where the recording has every allocation; else what is live at once, and no reserve beyond it."""
    workspaces = (int(WORKSPACE_BYTES),) * NUM_WORKSPACES
    if not step.allocations:
        live = max((*step.live_bytes, step.state_bytes)) + sum(workspaces)
        return StepMemory(peak_bytes=live, reserved_bytes=live)
    found = allocator_after((*step.state_allocations, *workspaces), step.allocations)
    return StepMemory(peak_bytes=found.peak_bytes, reserved_bytes=found.reserved_bytes)


def operator_host_s(step: DispatchedStep, host: HostPace, launches: IntArray) -> list[float]:
    """The host's seconds before each operator is launched."""
    found = []
    was_update = is_entered = False
    again = recomputed_from(step)
    kept = set(again.values())
    for place, (op, calls, count) in enumerate(zip(step.ops, step.module_calls, launches.tolist(), strict=True)):
        own_s = host.operator_s(op, int(count), is_recomputed=place in again) + calls * host.module_s * host.slowdown
        num_hooks = AGAIN_HOOKS if place in again else 1 if place in kept else 0
        own_s += host.slowdown * host.saved_tensor_s * num_hooks * _num_saved(op, int(count))
        is_update = op.phase == OPTIMIZER
        if is_update and not was_update:
            own_s += host.slowdown * (host.update_s + host.parameter_s * step.num_updated)
        if op.is_compiled and op.phase == FORWARD and not is_entered:
            own_s += host.slowdown * host.guard_s * step.num_updated
            is_entered = True
        was_update = is_update
        found.append(own_s)
    return found


AGAIN_HOOKS = 2  # a saved tensor is packed when it is recomputed, and unpacked for its gradient


def _num_saved(op: DispatchedOp, num_launches: int) -> int:
    """Tensors that autograd saves for an operator with a kernel: about what it reads; views save none."""
    return sum(1 for one in op.inputs if one is not None) if num_launches else 0


def recomputed_from(step: DispatchedStep) -> dict[int, int]:
    """Places of operators that the backward pass runs again, each with that of the forward pass that it repeats.

    Checkpointing calls modules again: from such a call on, operators are those of the forward pass, one by one, until
    the last tensor that was to be saved is there.
    """
    starts: dict[object, list[int]] = {}
    found: dict[int, int] = {}
    own = None
    for place, (op, calls) in enumerate(zip(step.ops, step.module_calls, strict=True)):
        if op.phase == FORWARD and calls:
            starts.setdefault(_signature(op), []).append(place)
        if op.phase != BACKWARD:
            continue
        is_next = own is not None and _signature(step.ops[own + 1]) == _signature(op)
        if own is not None and is_next:
            own += 1
        elif calls and starts.get(_signature(op)):
            places = starts[_signature(op)]
            own = places.pop() if len(places) > 1 else places[0]  # the last layer is the first to be recomputed
        else:
            own = None
        if own is not None:
            found[place] = own
    return found


def _signature(op: DispatchedOp) -> object:
    return op.name, op.module, op.inputs, op.arguments


def is_host_read(op: DispatchedOp) -> bool:
    """Whether the host waits for the device here, to read what it computed."""
    if op.name in READS:
        return True
    return op.name == "aten._to_copy.default" and dict(op.arguments).get("device") == TO_HOST


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timeline:
    step_s: float
    wait_s: float
    phase_s: tuple[tuple[str, float], ...]


def _timeline(
    operator_s: FloatArray, launches: IntArray, host_s: list[float], reads: BoolArray, ops: Sequence[DispatchedOp]
) -> _Timeline:
    host_at = device_at = wait_s = 0.0
    ends = dict.fromkeys(PHASES, 0.0)
    for busy_s, count, own_s, is_read, op in zip(
        operator_s.tolist(), launches.tolist(), host_s, reads.tolist(), ops, strict=True
    ):
        host_at += own_s
        if count:
            wait_s += max(host_at - device_at, 0.0)
            device_at = max(device_at, host_at) + busy_s
        if is_read:
            host_at = max(host_at, device_at)
        ends[op.phase] = device_at
    last, phases = 0.0, []
    for phase in PHASES:
        end = max(ends[phase], last)
        phases.append((phase, end - last))
        last = end
    return _Timeline(step_s=device_at, wait_s=wait_s, phase_s=tuple(phases))
