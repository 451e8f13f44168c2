"""Kernels that Inductor generates with Triton: streams, row reductions and reductions of many rows."""

from __future__ import annotations

from dovetail.cost.eager.launches import Launched, VectorKernel, register
from dovetail.workload.compiled import FUSED, FusedKernel, fused_kernel
from dovetail.workload.dispatched import DispatchedOp

# Lane slots of one operation. A special function fills eight and a Philox number 54, as in cost/kernels.py; sine and
# cosine of fp32 reduce their range first, and a softmax taken online rescales its sum (fitted on kernels of qwen3-1.7b
# and mistral-7b-8l compiled, profiled on one H200: 5 and 2 kernels).
SPECIAL_SLOTS, RANDOM_SLOTS, ANGLE_SLOTS, ONLINE_SLOTS = 8, 54, 46, 22


def slots(kernel: FusedKernel) -> float:
    return float(
        kernel.num_plain
        + SPECIAL_SLOTS * kernel.num_special
        + RANDOM_SLOTS * kernel.num_random
        + ANGLE_SLOTS * kernel.num_angles
        + ONLINE_SLOTS * kernel.num_online
    )


@register(FUSED)
def fused(op: DispatchedOp) -> Launched:
    kernel = fused_kernel(op)
    return (
        VectorKernel(
            name=kernel.kernel,
            read_bytes=float(kernel.read_bytes),
            write_bytes=float(kernel.written_bytes),
            streams=2,
            slots=slots(kernel),
            rows=float(kernel.num_rows),
            cols=float(kernel.num_cols),
        ),
    )
