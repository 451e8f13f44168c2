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
from dovetail.workload.dispatched import FORWARD, OPTIMIZER, PHASES, DispatchedOp, DispatchedStep
from dovetail.workload.graph import FloatArray

WORKSPACE_BYTES = 32 * MEBI  # cuBLAS's on Hopper, for each thread that multiplies (PyTorch, CUDABlas.cpp)
NUM_WORKSPACES = 2  # the forward pass's thread and autograd's
READS = frozenset({"aten._local_scalar_dense.default", "aten.nonzero.default", "aten.masked_select.default"})
TO_HOST = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPace:
    """Seconds of the host for what PyTorch does before the device has work, in the forward and in the backward pass.

    Those of the machine that data/hf_steps was measured on (fitted on its 22 eager steps); another host takes
    `slowdown` times as long.
    """

    forward_kernel_s: float = 17 * MICRO  # an operator that launches a kernel, Python's part of it included
    forward_view_s: float = 6 * MICRO
    module_s: float = 30 * MICRO  # a call of a module
    backward_kernel_s: float = 22 * MICRO
    backward_view_s: float = 6.5 * MICRO
    more_kernels_s: float = 4 * MICRO  # each further kernel of one operator: a launch alone
    update_s: float = 500 * MICRO  # an optimizer's step
    parameter_s: float = 9 * MICRO  # and each tensor that it updates
    compiled_kernel_s: float = 7 * MICRO  # a kernel of a compiled graph, by Inductor's wrapper and launcher; estimate
