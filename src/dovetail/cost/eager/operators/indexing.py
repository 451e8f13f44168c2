"""Rows and elements by index: gathers, scatters, tables and their gradients, sorts."""

from __future__ import annotations

from math import ceil, log2, prod

from dovetail.cost.eager.launches import (
    Launched,
    VectorKernel,
    distinct_bytes,
    first,
    flag,
    item_bytes,
    launched,
    number,
    register,
    result,
    tensors,
)
from dovetail.cost.eager.operators.pointwise import copy_launch, fill_launch
from dovetail.cost.kernels import Access
from dovetail.cost.vector import SECTOR_BYTES
from dovetail.workload.dispatched import DispatchedOp, TensorMeta

# Fitted on eager_ops.csv (one H200): index_add (2 rows), index_put_acc (2 rows), index_select (2 rows).
# of scatter_add, and where its source is strided (2 kernels of profiles)
SCATTER_SRAM_BYTES, APART_SRAM_BYTES = 27.0, 60.0
ATOMIC_SRAM_BYTES = 46.0  # of the shared cache's traffic that an atomic addition takes
ADDED_SLOTS = 99.0  # an element that index_put adds up in sorted order
# Rows of more columns than a warp that meet in one index are added one behind another, and the longest run is the
# kernel: clocks of a row, by the mean run (32 experts' biases, 512 rows each, routed unevenly: 2 kernels of
# profiles, 2,357 us at 2,880 columns and 2,418 at 5,760).
RUN_CLOCKS, RUN_COLS = 9200.0, 32
SORTED_STEPS = 20.0  # sorting the indices of index_put: round trips of its kernels beside their launches
PICKED_SLOTS = 92.0  # an element picked one by one, its place found by division (iterator.py, strided)
LOOKUP_ROW_SLOTS = 20_000.0  # a row, which has a block of its own (rows of 16 elements, 4 kernels of profiled steps)
LOOKUP_SLOTS = 20.0  # an element of a row that is looked up in whole vectors
RADIX_DIGIT = 8  # of a pass of a radix sort (CUB)
BYTE = 8  # style: of a byte
SORT_SLOTS = 60.0  # ranking an element in a pass; estimate
SMALL_SORT_COLS = 4096  # rows up to here are sorted in one block (Sort.cu)


def looked_up(name: str, out: TensorMeta, index_bytes: float) -> VectorKernel:
    """Whole rows of a table: each read once for every use, and written."""
    moved = float(out.num_bytes)
    rows = out.num_elements / max(out.shape[-1] if out.shape else 1, 1)
    slots = max(LOOKUP_SLOTS * out.num_elements, LOOKUP_ROW_SLOTS * rows)
    return VectorKernel(name=name, read_bytes=moved + index_bytes, write_bytes=moved, slots=slots)


def _index_bytes(op: DispatchedOp) -> float:
    return sum(distinct_bytes(one) for one in tensors(op)[1:] if one.dtype in ("int64", "int32", "bool"))


@register("aten.embedding", "aten.index_select")
def embedding(op: DispatchedOp) -> Launched:
    return (looked_up("lookup", result(op), _index_bytes(op)),) if result(op).num_elements else ()


@register("aten.index", "aten._unsafe_index")
def index(op: DispatchedOp) -> Launched:
    """Rows by one index into the first dim are looked up in vectors; other patterns element by element."""
    out, source = result(op), first(op)
    indices = op.inputs[1:]
    if any(one is not None and one.dtype in ("bool", "uint8") for one in indices):
        masks = [one for one in indices if one is not None]
        counted = tuple(launch for mask in masks for launch in nonzero_launches(mask))
        return (*counted, *_picked(op)) if out.num_elements else counted
    if not out.num_elements:
        return ()
    used = [one for one in indices if one is not None]
    if len(used) == 1 and op.inputs[1] is not None and len(source.shape) > 1 and source.strides[-1] == 1:
        return (looked_up("lookup", out, _index_bytes(op)),)
    return _picked(op)


def _picked(op: DispatchedOp) -> Launched:
    out, source = result(op), first(op)
    size = item_bytes(source)
    is_run = len(out.shape) > 0 and out.shape[-1] > 1 and bool(source.shape) and out.shape[-1] == source.shape[-1]
    sectors = 0.0 if is_run else SECTOR_BYTES * out.num_elements
    return (
        VectorKernel(
            name="index", read_bytes=float(out.num_elements * size) + _index_bytes(op),
            write_bytes=float(out.num_bytes), slots=PICKED_SLOTS * out.num_elements, sram_bytes=sectors,
        ),
    )  # fmt: skip


@register("aten.gather")
def gather(op: DispatchedOp) -> Launched:
    """An index that is expanded along rows looks whole rows up."""
    out, index_tensor = result(op), tensors(op)[-1]
    if not out.num_elements:
        return ()
    is_row = len(index_tensor.shape) > 1 and index_tensor.strides[-1] == 0
    return (looked_up("lookup", out, distinct_bytes(index_tensor)),) if is_row else _picked(op)


@register("aten.take", "aten.take_along_dim")
def take(op: DispatchedOp) -> Launched:
    return _picked(op)


def nonzero_launches(mask: TensorMeta) -> Launched:
    """Counting, selecting and unravelling (CUB), with a copy of the count to the host between them."""
    size = float(mask.num_bytes)
    return (
        VectorKernel(name="count", read_bytes=size, streams=1),
        VectorKernel(name="count", streams=1),
        VectorKernel(name="copy to host"),
        VectorKernel(name="select", read_bytes=size, streams=1),
        VectorKernel(name="select", write_bytes=float(mask.num_elements * INDEX_BYTES)),
    )


INDEX_BYTES = 8  # int64


@register("aten.nonzero", "aten.nonzero_static", "aten.masked_select")
def nonzero(op: DispatchedOp) -> Launched:
    return nonzero_launches(first(op))


@register(
    "aten.bincount",
    "aten.histc",
    "aten.searchsorted",
    "aten.bucketize",
    "aten.isin",
    "aten.unique_dim",
    "aten._unique2",
)
def counted(op: DispatchedOp) -> Launched:
    source = first(op)
    steps = ceil(log2(max(source.num_elements, 2)))
    return (
        VectorKernel(name="extent", read_bytes=float(source.num_bytes), streams=1),
        VectorKernel(name="count", read_bytes=float(source.num_bytes), streams=1, steps=float(steps)),
    )


def atomics(name: str, added: TensorMeta, extra_bytes: float, each_bytes: float) -> VectorKernel:
    """Every element an atomic addition in the shared cache."""
    size = float(added.num_bytes)
    return VectorKernel(
        name=name, read_bytes=size + extra_bytes, write_bytes=size, sram_bytes=each_bytes * added.num_elements
    )


@register(
    "aten.index_add",
    "aten.index_add_",
    "aten.scatter_add",
    "aten.scatter_add_",
    "aten.scatter_reduce",
    "aten.index_reduce",
)
def added_by_index(op: DispatchedOp) -> Launched:
    """The source added into the tensor by atomics; out of place, that is copied first."""
    added = tensors(op)[-1]
    each = ATOMIC_SRAM_BYTES
    if "scatter" in op.name:
        is_apart = bool(added.strides) and added.strides[-1] > 1
        each = SCATTER_SRAM_BYTES + (APART_SRAM_BYTES if is_apart else 0.0)
    own = (atomics("index add", added, _index_bytes(op), each),) if added.num_elements else ()
    return own if "_." in op.name else (*copy_launch(result(op), first(op)), *own)


@register("aten.scatter", "aten.scatter_", "aten.index_copy", "aten.index_fill", "aten.put")
def scattered(op: DispatchedOp) -> Launched:
    found = tensors(op)
    index_tensor = found[1]
    size = item_bytes(found[0]) * float(index_tensor.num_elements)
    written = VectorKernel(
        name="scatter", read_bytes=size + index_tensor.num_bytes, write_bytes=size,
        slots=PICKED_SLOTS * index_tensor.num_elements, sram_bytes=SECTOR_BYTES * index_tensor.num_elements,
    )  # fmt: skip
    return (written,) if "_." in op.name else (*copy_launch(result(op), found[0]), written)


@register("aten.index_put", "aten._index_put_impl_", "aten._unsafe_index_put")
def index_put(op: DispatchedOp) -> Launched:
    """Overwriting picks places one by one; accumulating sorts the indices and adds up in that order.

    One number where a mask is true is a masked fill, as Python's own numbers stay on the host (PyTorch,
    TensorAdvancedIndexing.cpp, canDispatchToMaskedFill).
    """
    target, values = first(op), tensors(op)[-1]
    copied = () if "_." in op.name else copy_launch(result(op), target)
    indices = list(tensors(op)[1:-1])
    if len(indices) == 1 and indices[0].dtype == "bool" and not values.shape and not flag(op, "accumulate"):
        return (*copied, *_masked_fill(target, indices[0]))
    count = max((one.num_elements for one in indices), default=1)
    rest = prod(target.shape[sum(len(one.shape) if one.dtype == "bool" else 1 for one in indices) :])
    elements = max(float(count) * rest, float(values.num_elements))
    num_bytes = elements * item_bytes(target)
    if any(one.dtype == "bool" for one in indices):
        copied = (*copied, *(launch for one in indices if one.dtype == "bool" for launch in nonzero_launches(one)))
    if not flag(op, "accumulate"):
        put = VectorKernel(name="index put", read_bytes=num_bytes, write_bytes=num_bytes, slots=PICKED_SLOTS * elements)
        return (*copied, put)
    run = count / max(prod(target.shape[: len(indices)]), 1)
    is_run = rest > RUN_COLS and run > 1
    added = VectorKernel(
        name="index put add",
        read_bytes=2 * num_bytes,
        write_bytes=num_bytes,
        slots=ADDED_SLOTS * elements,
        num_blocks=1.0 if is_run else 0.0,
        block_wait_cycles=RUN_CLOCKS * run if is_run else 0.0,
    )
    return (*copied, *sort_launches(float(count)), added)


def _masked_fill(target: TensorMeta, mask: TensorMeta) -> Launched:
    """A mask of the first dims of `target`, the same for all that lies in the others."""
    strides = (*mask.strides, *(0,) * (len(target.shape) - len(mask.shape)))
    whole = TensorMeta(shape=target.shape, strides=strides, dtype=mask.dtype)
    filled = DispatchedOp(name="aten.masked_fill_.Scalar", inputs=(target, whole), outputs=(target,))
    return launched(filled)


def sort_launches(count: float) -> Launched:
    """Sorting so many indices: a radix sort's kernels, each over few bytes."""
    size = count * 2 * INDEX_BYTES
    one = VectorKernel(name="sort", read_bytes=size, write_bytes=size, steps=SORTED_STEPS / NUM_SORT_LAUNCHES)
    return (one,) * NUM_SORT_LAUNCHES


NUM_SORT_LAUNCHES = 7  # index arithmetic, arange, histogram, scan and digit passes of CUB's one-sweep sort


@register("aten.embedding_dense_backward", "aten.embedding_backward")
def embedding_backward(op: DispatchedOp) -> Launched:
    """A table of zeros, and rows added into it: sorted and summed by segment where there are many."""
    out, gradient = result(op), first(op)
    cols = float(out.shape[-1])
    rows = gradient.num_elements / cols
    moved = float(gradient.num_bytes)
    scatter = VectorKernel(
        name="embedding backward", read_bytes=moved + INDEX_BYTES * rows, write_bytes=moved, access=Access.SCATTER,
        rows=rows, cols=cols, element_bytes=float(item_bytes(gradient)), streams=1,
    )  # fmt: skip
    return (*fill_launch(out), scatter)


@register("aten.sort", "aten.argsort", "aten.msort")
def sort(op: DispatchedOp) -> Launched:
    """A radix sort of keys with their places; short rows in one block each."""
    source = first(op)
    if not source.num_elements:
        return ()
    keys, pairs = item_bytes(source), float(source.num_elements * (item_bytes(source) + INDEX_BYTES))
    cols = source.shape[-1] if source.shape else 1
    passes = ceil(keys * BYTE / RADIX_DIGIT)
    slots = SORT_SLOTS * source.num_elements
    if cols <= SMALL_SORT_COLS and source.num_elements > cols:
        return (VectorKernel(name="sort rows", read_bytes=pairs, write_bytes=pairs, slots=slots * log2(max(cols, 2))),)
    one = VectorKernel(name="sort pass", read_bytes=pairs, write_bytes=pairs, slots=slots, steps=SORT_PASS_STEPS)
    return (VectorKernel(name="sort start", write_bytes=pairs), *(one,) * passes)


SORT_PASS_STEPS = 4.0  # digits' counts handed from block to block; estimate


@register("aten.topk", "aten.kthvalue", "aten.mode")
def topk(op: DispatchedOp) -> Launched:
    """Radix selection, a pass a byte of the key, by a block a row; then a sort of what was found."""
    source = first(op)
    cols = source.shape[-1] if source.shape else 1
    rows = source.num_elements / max(cols, 1)
    passes = float(item_bytes(source) * BYTE // TOPK_DIGIT)
    clocks = passes * (cols / TOPK_THREADS + 1) * TOPK_CLOCKS
    gather_topk = VectorKernel(
        name="topk", read_bytes=float(source.num_bytes), write_bytes=sum(float(one.num_bytes) for one in op.outputs),
        num_blocks=rows, block_cycles=clocks / 4, block_wait_cycles=clocks,
    )  # fmt: skip
    return (gather_topk, VectorKernel(name="sort found", steps=2.0)) if number(op, "k", 1.0) > 1 else (gather_topk,)


TOPK_DIGIT, TOPK_THREADS = 2, 1024  # bits of a digit, threads of a block (TensorTopK.cu)
TOPK_CLOCKS = (
    110.0  # a sweep of a row for one digit: a memory round trip and a barrier (wait of the GPU family); estimate
)


@register("aten.randperm")
def randperm(op: DispatchedOp) -> Launched:
    """Random keys and a sort of them."""
    return sort_launches(float(result(op).num_elements))


@register("aten.multinomial")
def multinomial(op: DispatchedOp) -> Launched:
    source = first(op)
    return (VectorKernel(name="scan", read_bytes=float(source.num_bytes)), VectorKernel(name="sample", steps=4.0))


@register("aten.one_hot")
def one_hot(op: DispatchedOp) -> Launched:
    out = result(op)
    return (*fill_launch(out), VectorKernel(name="scatter", slots=PICKED_SLOTS * first(op).num_elements))


@register("aten._embedding_bag", "aten._embedding_bag_forward_only")
def embedding_bag(op: DispatchedOp) -> Launched:
    table, indices, out = first(op), tensors(op)[1], result(op)
    size = float(indices.num_elements * table.shape[-1] * item_bytes(table))
    return (
        VectorKernel(name="bag offsets"),
        VectorKernel(name="bag", read_bytes=size, write_bytes=float(out.num_bytes)),
    )
