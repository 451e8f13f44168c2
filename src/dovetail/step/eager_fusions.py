"""Operators of a recorded step that one kernel could run: norms, rotary, GELU, attention, loss and update.

Each function gives the step as it would then be, or none where there is nothing of the kind. The first operator of a
run becomes the kernel, and the others stand as views, which take the device no time. What falls away is found by
module and by line of code, as autograd hands gradients the place of the operator that they are of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from dovetail.workload.compiled import FUSED, FusedKernel
from dovetail.workload.dispatched import BACKWARD, FORWARD, OPTIMIZER, DispatchedOp, DispatchedStep, TensorMeta

FREE = "aten.alias.default"
PRODUCTS = ("aten.mm", "aten.addmm", "aten.linear", "aten.bmm", "aten.matmul", "aten.baddbmm")
NORM_PARTS = {"aten.pow", "aten.mean", "aten.rsqrt"}
GELU_PARTS = {"aten.pow", "aten.tanh", "aten.mul"}
ROTARY_PARTS = {
    "aten.mul", "aten.neg", "aten.cat", "aten.stack", "aten.add", "aten.sub", "aten.slice", "aten.slice_backward",
    "aten.select", "aten.select_backward", "aten.split", "aten.unbind",
}  # fmt: skip
ROTARY_REACH = 6  # operators before and after the turn of half of the columns: slices, two products, a sum
SOFTMAXES = ("aten._softmax", "aten._safe_softmax")
LEAST_KEYS = 64  # of a softmax over scores
LEAST_VOCAB = 1024  # columns below which a loss is small
LOSS_PARTS = {"aten._log_softmax", "aten._log_softmax_backward_data", "aten.nll_loss_forward", "aten.nll_loss_backward"}
LOGIT_PARTS = LOSS_PARTS | {"aten._to_copy", "aten.clone", "aten.slice_backward", "aten.constant_pad_nd"}


def packet_of(op: DispatchedOp) -> str:
    """Its name without the overload."""
    return op.name.rpartition(".")[0]


def with_ops(step: DispatchedStep, ops: list[DispatchedOp]) -> DispatchedStep | None:
    """None where nothing is another; memory is that of the step as it was recorded."""
    return None if tuple(ops) == step.ops else replace(step, ops=tuple(ops))


def freed(op: DispatchedOp) -> DispatchedOp:
    return replace(op, name=FREE, arguments=())


def _kernel(first: DispatchedOp, kernel: FusedKernel) -> DispatchedOp:
    return replace(first, name=FUSED, arguments=kernel.arguments)


def _runs(step: DispatchedStep, is_part: list[bool]) -> Iterator[range]:
    """Places of operators one behind another in one phase, all of which are parts."""
    start = None
    for place, op in enumerate(step.ops):
        goes_on = start is not None and is_part[place] and op.phase == step.ops[start].phase
        if start is not None and not goes_on:
            yield range(start, place)
            start = None
        if is_part[place] and start is None:
            start = place
    if start is not None:
        yield range(start, len(step.ops))


def _by_module(step: DispatchedStep, sign: str, parts: set[str]) -> set[str]:
    """Modules that run `sign` and all `parts` forward, and no product."""
    own: dict[str, set[str]] = {}
    for op in step.ops:
        if op.module and op.phase == FORWARD:
            own.setdefault(op.module, set()).add(packet_of(op))
    return {name for name, found in own.items() if sign in found and found >= parts and not found & set(PRODUCTS)}


def with_fused_norms(step: DispatchedStep) -> DispatchedStep | None:
    """Runs of operators in one module that square, average and invert a root: one kernel forward, one backward."""
    norms = _by_module(step, "aten.rsqrt", NORM_PARTS)
    return _fused_modules(step, norms, _fused_norm)


def with_fused_gelu(step: DispatchedStep) -> DispatchedStep | None:
    """A GELU that is written out with a cube and a tanh: PyTorch's own kernel, forward and backward."""
    return _fused_modules(step, _by_module(step, "aten.tanh", GELU_PARTS), _fused_gelu)


def _fused_modules(
    step: DispatchedStep, modules: set[str], fused: Callable[[list[DispatchedOp]], DispatchedOp]
) -> DispatchedStep | None:
    ops = list(step.ops)
    for module_run in _runs(step, [op.module in modules and op.phase != OPTIMIZER for op in step.ops]):
        for run in _split(step, module_run):
            own = [step.ops[place] for place in run]
            ops[run[0]] = fused(own)
            kept = {run[-1]} if _ends_in_a_sum(own) else set()
            for place in run[1:]:
                if place not in kept:
                    ops[place] = freed(ops[place])
    return with_ops(step, ops)


def _split(step: DispatchedStep, run: range) -> Iterator[range]:
    """By module: two norms may follow each other."""
    start = run[0]
    for place in run:
        if step.ops[place].module != step.ops[start].module:
            yield range(start, place)
            start = place
    yield range(start, run[-1] + 1)


def _ends_in_a_sum(run: list[DispatchedOp]) -> bool:
    """Whether a backward run ends by adding its gradient to that of a residual, which no kernel takes away."""
    if len(run) < 2 or run[0].phase != BACKWARD or packet_of(run[-1]) != "aten.add":
        return False
    return packet_of(run[-2]) in ("aten.add", "aten._to_copy")


def _fused_norm(run: list[DispatchedOp]) -> DispatchedOp:
    """One norm over the last side of what the first reads, in the dtype of what comes in and goes out of the module."""
    first = run[0]
    narrow = _whole(run)
    arguments = (("normalized_shape", (narrow.shape[-1],)),)
    name = "aten._fused_rms_norm.default" if first.phase == FORWARD else "aten._fused_rms_norm_backward.default"
    inputs = (narrow,) if first.phase == FORWARD else (narrow, narrow)
    return replace(first, name=name, inputs=inputs, outputs=(narrow,), arguments=arguments)


def _fused_gelu(run: list[DispatchedOp]) -> DispatchedOp:
    first, whole = run[0], _whole(run)
    name = "aten.gelu.default" if first.phase == FORWARD else "aten.gelu_backward.default"
    inputs = (whole,) if first.phase == FORWARD else (whole, whole)
    return replace(first, name=name, inputs=inputs, outputs=(whole,), arguments=(("approximate", "tanh"),))


def _whole(run: list[DispatchedOp]) -> TensorMeta:
    """The largest tensor that the first of a run reads, as narrow as any of the run."""
    largest = max((one for one in run[0].inputs if one is not None), key=lambda one: one.num_elements)
    dtypes = {one.dtype for op in run for one in (*op.inputs, *op.outputs) if one is not None}
    return replace(largest, dtype=next((one for one in ("bf16", "fp16") if one in dtypes), largest.dtype))


def with_fused_rotary(step: DispatchedStep) -> DispatchedStep | None:
    """Rotary embeddings that turn half of the columns, multiply twice and add: one kernel, forward and backward."""
    lines = _rotary_lines(step)
    is_part = [
        (op.module, op.line) in lines and packet_of(op) in ROTARY_PARTS and op.phase != OPTIMIZER for op in step.ops
    ]
    ops = list(step.ops)
    for run in _runs(step, is_part):
        halves = [step.ops[place].outputs[0] for place in run if packet_of(step.ops[place]) == "aten.neg"]
        if not halves:
            continue
        num_elements = 2 * sum(half.num_elements for half in halves)
        num_bytes = 2 * sum(half.num_bytes for half in halves)
        # a row of sines and cosines is read for every head and stays in the cache: x, its partner, sine and cosine
        ops[run[0]] = _kernel(
            ops[run[0]],
            FusedKernel(
                kernel="rotary", num_rows=num_elements, num_cols=1, read_bytes=num_bytes, written_bytes=num_bytes,
                num_loads=4 * num_elements, num_plain=3 * num_elements,
            ),
        )  # fmt: skip
        for place in run[1:]:
            ops[place] = freed(ops[place])
    return with_ops(step, ops)


def _rotary_lines(step: DispatchedStep) -> set[tuple[str, str]]:
    """Modules and lines of code around a turn: a half negated, joined to the other half, two products and a sum."""
    found: set[tuple[str, str]] = set()
    for place, op in enumerate(step.ops):
        if op.phase != FORWARD or packet_of(op) not in ("aten.cat", "aten.stack") or not op.line:
            continue
        turned = op.outputs[0]
        near = range(max(place - ROTARY_REACH, 0), min(place + ROTARY_REACH // 2, len(step.ops)))
        own = [step.ops[index] for index in near if step.ops[index].module == op.module]
        negated = [one for one in own if packet_of(one) == "aten.neg" and one.outputs[0] in op.inputs]
        products = [one for one in own if packet_of(one) == "aten.mul" and _num_made(one) == turned.num_elements]
        sums = [one for one in own if packet_of(one) == "aten.add" and _num_made(one) == turned.num_elements]
        if negated and len(products) > 1 and sums:
            parts = [one for one in own if packet_of(one) in ROTARY_PARTS and _is_of(one, turned)]
            found |= {(one.module, one.line) for one in parts}
    return found


def _num_made(op: DispatchedOp) -> int:
    return op.outputs[0].num_elements if op.outputs else 0


def _is_of(op: DispatchedOp, turned: TensorMeta) -> bool:
    return _num_made(op) in (turned.num_elements, turned.num_elements // 2)


def with_fused_loss(step: DispatchedStep) -> DispatchedStep | None:
    """Cross-entropy in one kernel that reads logits twice and leaves their gradient in their place."""
    losses = [
        place
        for place, op in enumerate(step.ops)
        if packet_of(op) == "aten._log_softmax" and op.outputs[0].shape[-1] >= LEAST_VOCAB
    ]
    ops = list(step.ops)
    for place in losses:
        logits = step.ops[place].outputs[0]
        narrow = _logits_item_bytes(step, place, logits.num_elements)
        num_bytes = logits.num_elements * narrow
        columns = logits.shape[-1]
        ops[place] = _kernel(
            ops[place],
            FusedKernel(
                kernel="cross-entropy", num_rows=logits.num_elements // columns, num_cols=columns,
                read_bytes=2 * num_bytes, written_bytes=num_bytes, num_loads=2 * logits.num_elements,
                num_online=logits.num_elements, num_special=logits.num_elements, num_plain=2 * logits.num_elements,
            ),
        )  # fmt: skip
        for index, op in enumerate(step.ops):
            if index != place and packet_of(op) in LOGIT_PARTS and _touches(op, logits.num_elements):
                ops[index] = freed(op)
    return with_ops(step, ops)


def _touches(op: DispatchedOp, num_logits: int) -> bool:
    return any(one is not None and one.num_elements == num_logits for one in (*op.inputs, *op.outputs))


def _logits_item_bytes(step: DispatchedStep, place: int, num_logits: int) -> int:
    """Bytes of a logit as the product left it."""
    for op in reversed(step.ops[:place]):
        if packet_of(op) in PRODUCTS and _num_made(op) == num_logits:
            return op.outputs[0].num_bytes // num_logits
    return step.ops[place].outputs[0].num_bytes // num_logits


def with_fused_update(step: DispatchedStep) -> DispatchedStep | None:
    """Adam in one fused update in place of its operators list by list or tensor by tensor."""
    found: dict[str, list[TensorMeta]] = {"lerp": [], "addcmul": [], "sqrt": [], "addcdiv": []}
    seconds: list[TensorMeta] = []
    update = [place for place, op in enumerate(step.ops) if op.phase == OPTIMIZER]
    for place in update:
        op = step.ops[place]
        word = packet_of(op).removeprefix("aten.").removeprefix("_foreach_").removesuffix("_")
        if word not in found:
            if word in ("maximum", "reciprocal") or word.startswith("_fused"):
                return None
            continue
        tensors = [one for one in op.inputs if one is not None]
        length = len(tensors) // {"lerp": 2, "addcmul": 3, "sqrt": 1, "addcdiv": 3}[word]
        found[word] += tensors[:length]
        if word == "lerp":
            seconds += tensors[length : 2 * length]
    shapes = [sorted(one.shape for one in tensors) for tensors in found.values()]
    if not shapes[0] or any(one != shapes[0] for one in shapes):
        return None  # of another optimizer
    parameters = found["addcdiv"]
    first_moments = sorted(found["lerp"], key=lambda one: one.shape)
    ordered = sorted(parameters, key=lambda one: one.shape), sorted(seconds, key=lambda one: one.shape)
    inputs = (*ordered[0], *ordered[1], *first_moments, *sorted(found["addcmul"], key=lambda one: one.shape))
    ops = list(step.ops)
    for place in update:
        ops[place] = freed(ops[place])
    first = step.ops[update[0]]
    ops[update[0]] = replace(first, name="aten._fused_adamw_.default", inputs=inputs, outputs=(), arguments=())
    return with_ops(step, ops)


def with_fused_attention(step: DispatchedStep, *, is_math: bool = False) -> DispatchedStep | None:
    """Attention whose scores are written out between two products: one kernel that keeps them on chip.

    It looks at every score, as nothing says which of them a mask leaves out. With `is_math`, that which the math
    backend of scaled_dot_product_attention writes out as its mask needs a gradient; without, all other.
    """
    ops = list(step.ops)
    math = _math_places(step)
    for place, op in enumerate(step.ops):
        is_backward = packet_of(op) == "aten._softmax_backward_data"
        if packet_of(op) not in SOFTMAXES and not is_backward:
            continue
        scores = op.outputs[0]
        if len(scores.shape) < 3 or scores.shape[-1] < LEAST_KEYS or ((op.module, op.line) in math) != is_math:
            continue
        near = _products_of_scores(step, place, scores.num_elements, num_each=2 if is_backward else 1)
        if near is None:
            continue
        ops[near[0]] = _attention(step, near, is_backward=is_backward)
        for index in range(near[0] + 1, near[-1] + 1):
            ops[index] = freed(ops[index])
    return with_ops(step, ops)


def _math_places(step: DispatchedStep) -> set[tuple[str, str]]:
    """Modules and lines where the math backend runs (only it takes a safe softmax) and its mask has a gradient.

    Scores are in fp32 there; that a gradient of their size is cast, or summed over samples, shows that the mask in the
    dtype of the model, or with fewer samples, has one.
    """
    scores = {
        (op.module, op.line): op.outputs[0].num_elements for op in step.ops if packet_of(op) == "aten._safe_softmax"
    }
    return {
        (op.module, op.line)
        for op in step.ops
        if op.phase == BACKWARD
        and packet_of(op) in ("aten._to_copy", "aten.sum")
        and op.inputs
        and op.inputs[0] is not None
        and op.inputs[0].num_elements == scores.get((op.module, op.line))
    }


def _products_of_scores(step: DispatchedStep, place: int, num_scores: int, *, num_each: int) -> list[int] | None:
    """The products beside a softmax that make scores or read them, `num_each` on either side; none if they are not."""
    module, found = step.ops[place].module, []
    for way in (range(place - 1, -1, -1), range(place + 1, len(step.ops))):
        own: list[int] = []
        for index in way:
            op = step.ops[index]
            if packet_of(op) not in ("aten.bmm", "aten.baddbmm"):
                if packet_of(op) in PRODUCTS or op.phase != step.ops[place].phase:
                    break
                continue
            if op.module == module and _touches(op, num_scores):
                own.append(index)
            if len(own) == num_each:
                break
        if len(own) < num_each:
            return None
        found += own
    return sorted(found)


def _attention(step: DispatchedStep, near: list[int], *, is_backward: bool) -> DispatchedOp:
    """The kernel in place of the products at `near`: dV and dP, then dQ and dK, where it is backward."""
    within = step.ops[near[0] : near[-1] + 1]
    dtypes = {one.dtype for op in within for one in (*op.inputs, *op.outputs) if one is not None}
    dtype = next((one for one in ("bf16", "fp16") if one in dtypes), "fp32")
    first = step.ops[near[0]]
    if is_backward:
        [b, keys, value_width] = first.outputs[0].shape  # of the values' gradient
        [_, queries, key_width] = step.ops[near[2]].outputs[0].shape
        if {queries, keys} != set(step.ops[near[1]].outputs[0].shape[1:]):
            queries, key_width = step.ops[near[3]].outputs[0].shape[1:]
    else:
        [b, queries, keys] = first.outputs[0].shape
        tensors = [one for one in first.inputs if one is not None]
        key_width, value_width = tensors[-2].shape[-1], step.ops[near[1]].outputs[0].shape[-1]
    q, k, v = (
        _dense((1, b, length, width), dtype)
        for length, width in ((queries, key_width), (keys, key_width), (keys, value_width))
    )
    kind = "efficient" if dtype == "fp32" else "flash"
    name = f"aten._scaled_dot_product_{kind}_attention{'_backward' if is_backward else ''}.default"
    arguments = (("dropout_p", 0.0), ("is_causal", False))
    inputs = (q, q, k, v) if is_backward else (q, k, v)
    return replace(first, name=name, inputs=inputs, outputs=(q,), arguments=arguments)


def _dense(shape: tuple[int, ...], dtype: str) -> TensorMeta:
    strides, below = [], 1
    for size in reversed(shape):
        strides.append(below)
        below *= size
    return TensorMeta(shape=shape, strides=tuple(reversed(strides)), dtype=dtype)
