"""Operators that launch nothing: views, metadata, and memory that is set aside."""

from __future__ import annotations

from dovetail.cost.eager.launches import Launched, register
from dovetail.workload.dispatched import DispatchedOp

VIEWS = (
    "aten._reshape_alias", "aten._unsafe_view", "aten.alias", "aten.as_strided", "aten.detach", "aten.diagonal",
    "aten.expand", "aten.expand_as", "aten.flatten", "aten.lift_fresh", "aten.movedim", "aten.narrow", "aten.permute",
    "aten.real", "aten.imag", "aten.select.int", "aten.slice.Tensor", "aten.split", "aten.split_with_sizes",
    "aten.squeeze", "aten.t", "aten.transpose", "aten.unbind", "aten.unfold", "aten.unflatten", "aten.unsqueeze",
    "aten.view", "aten.view_as", "aten.view_as_complex", "aten.view_as_real", "aten.chunk", "aten.unsafe_chunk",
    "aten.unsafe_split", "aten._conj", "aten._neg_view", "aten.swapaxes", "aten.mT", "aten.numpy_T",
)  # fmt: skip
METADATA = (
    "aten.empty", "aten.empty_like", "aten.empty_strided", "aten.new_empty", "aten.new_empty_strided",
    "aten.is_same_size", "aten.set_", "aten.resize_", "aten.sym_size", "aten.sym_stride", "aten.sym_numel",
    "aten.size", "aten.stride", "aten._assert_async", "aten._assert_scalar", "aten._assert_tensor_metadata",
    "aten.is_pinned", "aten.record_stream", "aten.requires_grad_", "aten._has_compatible_shallow_copy_type",
    "prim.device", "aten.lift", "aten._version", "aten.is_nonzero", "aten._functional_assert_async",
    "aten._functional_sym_constrain_range", "profiler._record_function_enter_new", "profiler._record_function_exit",
    "aten.sym_constrain_range", "aten.sym_constrain_range_for_size",
)  # fmt: skip


@register(*VIEWS, *METADATA)
def nothing(_op: DispatchedOp) -> Launched:
    """No kernel: the result lies where an input does, or is not written yet."""
    return ()
