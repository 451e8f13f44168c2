"""Fused and foreach updates: many tensors a kernel, in chunks."""

from __future__ import annotations

from dovetail.cost.eager.launches import Launched, VectorKernel, distinct_bytes, register, tensors
from dovetail.cost.kernels import Access
from dovetail.cost.vector import CHUNK_ELEMENTS
from dovetail.workload.dispatched import DispatchedOp, TensorMeta

MAX_BLOCKS = 320  # chunks of a launch (ATen/native/cuda/MultiTensorApply.cuh)
MAX_TENSORS = (110, 64, 48, 36, 30)  # tensors of a launch, by how many lists go side by side (the same file)
FUSED_LISTS = {
    "aten._fused_adamw_": 4, "aten._fused_adam_": 4, "aten._fused_sgd_": 3, "aten._fused_adagrad_": 3,
}  # fmt: skip
UPDATE_SLOTS = (
    172.0  # an element: casts, moments, a root and a division (58 profiled steps: 5.1 ps of bf16 on the H200)
)
READ_ONLY = 1  # lists of a fused update that are not written: the gradients


def chunked(name: str, lists: list[list[TensorMeta]], written: float, slots: float = 0.0) -> Launched:
    """Launches of at most so many tensors and chunks; each moves what its tensors have."""
    most_tensors = MAX_TENSORS[min(len(lists), len(MAX_TENSORS)) - 1]
    found: list[VectorKernel] = []
    elements = read_bytes = write_bytes = largest = 0.0
    count = blocks = 0
    for place, tensor in enumerate(lists[0]):
        size = float(sum(distinct_bytes(one[place]) for one in lists))
        each = size / max(tensor.num_elements, 1)
        left = float(tensor.num_elements)
        count += 1
        while left > 0:
            taken = min(left, (MAX_BLOCKS - blocks) * CHUNK_ELEMENTS)
            blocks += -int(-taken // CHUNK_ELEMENTS)
            elements, read_bytes = elements + taken, read_bytes + taken * each
            largest = max(largest, min(taken, CHUNK_ELEMENTS))
            write_bytes += taken * each * written
            left -= taken
            if blocks >= MAX_BLOCKS or count >= most_tensors:
                found.append(_launch(name, elements, largest, read_bytes, write_bytes, slots))
                elements = read_bytes = write_bytes = largest = 0.0
                count, blocks = (1 if left > 0 else 0), 0
    if elements:
        found.append(_launch(name, elements, largest, read_bytes, write_bytes, slots))
    return tuple(found)


def _launch(
    name: str, elements: float, largest: float, read_bytes: float, write_bytes: float, slots: float
) -> VectorKernel:
    return VectorKernel(
        name=name,
        read_bytes=read_bytes,
        write_bytes=write_bytes,
        access=Access.CHUNK,
        rows=1.0,
        cols=largest,  # of one chunk: how long the last block takes
        element_bytes=read_bytes / max(elements, 1.0),
        slots=slots * elements,
    )


@register(*FUSED_LISTS)
def fused_update(op: DispatchedOp) -> Launched:
    """Weights, gradients and moments side by side; step counters are there too, of no size."""
    found = [one for one in tensors(op) if one.num_elements > 1 or len(one.shape) > 0]
    lists = _lists(found, FUSED_LISTS[op.name.rpartition(".")[0]])
    return chunked("fused update", lists, (len(lists) - READ_ONLY) / len(lists), UPDATE_SLOTS)


def _lists(found: list[TensorMeta], most: int) -> list[list[TensorMeta]]:
    """Tensors in as many lists of equal shapes as there are, of `most`."""
    for count in range(most, 0, -1):
        length, rest = divmod(len(found), count)
        parts = [found[place * length : (place + 1) * length] for place in range(count)]
        if (
            not rest
            and length
            and all([one.shape for one in part] == [one.shape for one in parts[0]] for part in parts)
        ):
            return parts
    return [found]


FOREACH = (
    "add", "sub", "mul", "div", "sqrt", "rsqrt", "lerp", "addcmul", "addcdiv", "neg", "abs", "reciprocal", "pow",
    "exp", "log", "clamp_min", "clamp_max", "maximum", "minimum", "copy", "zero", "sign", "round", "sigmoid", "tanh",
    "norm", "max",
)  # fmt: skip


def _foreach(op: DispatchedOp) -> Launched:
    """Every list is read; one is written, in place or again; norms write a number a tensor."""
    found = [one for one in tensors(op) if one.num_elements]
    if not found:
        return ()
    lists = _lists(found, len(MAX_TENSORS))
    is_norm = "norm" in op.name or "max." in op.name
    launches = chunked("foreach", lists, 0.0 if is_norm else 1 / len(lists))
    return (*launches, VectorKernel(name="foreach finish")) if is_norm else launches


for _name in FOREACH:
    register(f"aten._foreach_{_name}")(_foreach)


@register("aten._amp_foreach_non_finite_check_and_unscale_", "aten._amp_update_scale_")
def unscale(op: DispatchedOp) -> Launched:
    found = [[one for one in tensors(op) if len(one.shape) > 0 and one.num_elements > 1]]
    return chunked("unscale", found, 1.0) if found[0] else (VectorKernel(name="scale"),)
