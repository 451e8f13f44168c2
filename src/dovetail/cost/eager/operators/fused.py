"""Kernels that Inductor generates with Triton: streams, row reductions and reductions of many rows."""

from __future__ import annotations

from dovetail.cost.eager.launches import Launched, VectorKernel, register
from dovetail.workload.compiled import FUSED, fused_kernel
from dovetail.workload.dispatched import DispatchedOp


@register(FUSED)
def fused(op: DispatchedOp) -> Launched:
    kernel = fused_kernel(op)
    return (
        VectorKernel(
            name=kernel.kernel,
            read_bytes=float(kernel.read_bytes),
            write_bytes=float(kernel.written_bytes),
            streams=2,
            slots=float(kernel.num_slots),
            rows=float(kernel.num_rows),
            cols=float(kernel.num_cols),
        ),
    )
