"""Kernels that Inductor generates with Triton: streams, row reductions and reductions of many rows."""

from __future__ import annotations

from dovetail.cost.eager.launches import Launched, VectorKernel, register
from dovetail.cost.vector import SECTOR_BYTES
from dovetail.workload.compiled import FUSED, FusedKernel, fused_kernel
from dovetail.workload.dispatched import DispatchedOp

# Lane slots of one operation of an element. A special function fills eight, as in cost/kernels.py. The others are
# fitted on kernels of compiled steps of five models, profiled on one H200 (torch 2.11).
LOAD_SLOTS = 4  # its address, its mask and its cast: batch norms that read five tensors, 4 kernels
SPECIAL_SLOTS = 8
CURVE_SLOTS = 30  # tanh: GPT-2's activation, 2 kernels
ANGLE_SLOTS = 40  # fp32, whose range is reduced first: rotary embeddings, 5 kernels
RANDOM_SLOTS = 110  # Philox: dropout, 3 kernels
ONLINE_SLOTS = 22  # each of the two numbers of a softmax taken online: the loss, 3 kernels
WELFORD_SLOTS = 9  # each of the three numbers of a running variance: batch norms, 4 kernels
MERGE_SLOTS = (
    210_000  # a row: threads merge their running variances, ten times over: OPT's norm of 2,560 columns, 1 kernel
)
UNALIGNED_SLOTS = 15  # an element moved by itself: logits of 50,257 columns, 2 kernels
# Share of a stream's pace, fitted likewise.
OUTER_FRAC = 0.85  # neighbouring threads add up columns of their own: 10 kernels
ACCUMULATING_FRAC = 0.83  # a block takes rows one after another, and adds up columns beside them: 6 kernels
ATOMIC_BYTES = 4.0  # of a number that is added atomically: Inductor adds in fp32
LINE_BYTES = 128.0  # of the shared cache (CUDA C++ Programming Guide)
COLLISION_CYCLES = 35.0  # an addition into a line that waits for the one before it: T5's position bias, 2 kernels
REDUCTION_STEPS = 2.0  # round trips after the last element: warps hand in what they have; small sums of OPT, 3 kernels


def slots(kernel: FusedKernel) -> float:
    num_welford = 0 if kernel.is_persistent else kernel.num_welford  # rows in registers: the mean, then the variance
    return float(
        kernel.num_plain
        + LOAD_SLOTS * kernel.num_loads
        + SPECIAL_SLOTS * kernel.num_special
        + CURVE_SLOTS * kernel.num_curves
        + ANGLE_SLOTS * kernel.num_angles
        + RANDOM_SLOTS * kernel.num_random
        + ONLINE_SLOTS * kernel.num_online
        + WELFORD_SLOTS * num_welford
        + UNALIGNED_SLOTS * kernel.num_unaligned
        + MERGE_SLOTS * kernel.num_rows * (num_welford > 0 and not kernel.is_outer)
    )


@register(FUSED)
def fused(op: DispatchedOp) -> Launched:
    """One kernel, as long as its bytes, its lanes or its atomic additions, each of which takes a sector."""
    kernel = fused_kernel(op)
    num_atomic = kernel.atomic_bytes / ATOMIC_BYTES
    pace = OUTER_FRAC if kernel.is_outer else ACCUMULATING_FRAC if kernel.is_accumulating else 1.0
    return (
        VectorKernel(
            name=kernel.kernel,
            read_bytes=kernel.read_bytes / pace,
            write_bytes=kernel.written_bytes / pace,
            streams=2,
            slots=slots(kernel),
            sram_bytes=num_atomic * SECTOR_BYTES,
            num_blocks=1.0 if num_atomic else 0.0,
            block_cycles=COLLISION_CYCLES * num_atomic / max(kernel.atomic_table_bytes / LINE_BYTES, 1.0),
            steps=REDUCTION_STEPS if kernel.is_reduction else 0.0,
            rows=float(kernel.num_rows),
            cols=float(kernel.num_cols),
        ),
    )
