"""Copies between the parameters of a module and the flat buffers of its collectives, as FSDP2 makes them.

Each is one kernel that moves whole vectors of 16 bytes where sizes allow it, at the pace of HBM (PyTorch,
ATen/native/cuda/TensorShape.cu: split_with_sizes_copy_out_contiguous_no_cast_kernel, chunk_cat_cuda_kernel).
"""

from __future__ import annotations

from dovetail.cost.eager.launches import Launched, VectorKernel, distinct_bytes, first, register, tensors
from dovetail.workload.dispatched import DispatchedOp

OUT_SUFFIX = ".out"  # an overload whose last tensors are what it writes


@register("aten.split_with_sizes_copy", "aten.unsafe_split_with_sizes_copy", "aten.split_copy")
def split_into_copies(op: DispatchedOp) -> Launched:
    """What was gathered goes to the parameters: every byte is read and written once."""
    moved = float(first(op).num_bytes)
    return (VectorKernel(name="split_with_sizes_copy", read_bytes=moved, write_bytes=moved, streams=1),)


@register("aten._chunk_cat")
def chunk_cat(op: DispatchedOp) -> Launched:
    """Gradients go to the flat buffer of a reduce-scatter, padded to whole ranks, and are cast where it is wider."""
    found = tensors(op)
    read = found[:-1] if op.name.endswith(OUT_SUFFIX) else found
    written = op.outputs[0] if op.outputs else found[-1]
    read_bytes = sum(distinct_bytes(one) for one in read)
    return (VectorKernel(name="chunk_cat", read_bytes=read_bytes, write_bytes=float(written.num_bytes), streams=1),)
