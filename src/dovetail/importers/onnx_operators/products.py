"""ONNX operators that multiply matrices: products, convolutions, recurrent layers."""

from __future__ import annotations

from dovetail.errors import InvalidInput, NotModelled
from dovetail.importers.onnx_steps import Call, Shape, Steps, Value, onnx_operators, onnx_shapes
from dovetail.workload.recorded.record import Source

NUM_GATES = 4  # of an LSTM: input, output, forget, cell


def product(left: Value, right: Value, made: Value, steps: Steps) -> None:
    """`left` by `right`: a linear layer where the second is a weight of two dims."""
    if right.source is Source.PARAMETER and len(right.shape) == 2 and len(left.shape) >= 2:
        steps.write("linear", [left, right], [made], turned=right.is_turned)
    else:
        steps.write("matmul", [left, right], [made])


@onnx_operators.register("MatMul")
def matmul(call: Call, steps: Steps) -> None:
    product(call[0], call[1], call.outputs[0], steps)


def turned(value: Value, steps: Steps) -> Value:
    """The last two dims swapped."""
    *outer, rows, columns = value.shape
    made = steps.made((*outer, columns, rows), value.elem_type)
    steps.write("view", [value], [made])
    return made


@onnx_operators.register("Gemm")
def gemm(call: Call, steps: Steps) -> None:
    left = turned(call[0], steps) if call.integer("transA", 0) else call[0]
    right, is_turned = call[1], bool(call.integer("transB", 0))
    if right.source is Source.PARAMETER:
        steps.write("linear", [left, right, *call.given[2:3]], call.outputs, turned=is_turned is not right.is_turned)
        return
    right = turned(right, steps) if is_turned else right
    made = steps.made(call.outputs[0].shape, call.outputs[0].elem_type) if call.has(2) else call.outputs[0]
    steps.write("matmul", [left, right], [made])
    if call.has(2):
        steps.write("add", [made, *(value for value in call.given[2:3] if not value.is_number)], call.outputs)


@onnx_shapes.register("com.microsoft.FusedMatMul")
def fused_matmul_shapes(call: Call) -> list[tuple[Shape, int]]:
    if min(len(call[0].shape), len(call[1].shape)) < 2:
        raise InvalidInput(f"{call.label} multiplies {list(call[0].shape)} by {list(call[1].shape)}: no matrices")
    (*left, m, k), (*right, rows, n) = call[0].shape, call[1].shape
    if call.integer("transA", 0):
        m, k = k, m
    if call.integer("transB", 0):
        rows, n = n, rows
    if k != rows:
        raise InvalidInput(f"{call.label} multiplies {list(call[0].shape)} by {list(call[1].shape)}, which do not fit")
    outer = left if len(left) >= len(right) else right
    return [((*outer, m, n), call[0].elem_type)]


@onnx_operators.register("com.microsoft.FusedMatMul")
def fused_matmul(call: Call, steps: Steps) -> None:
    left = turned(call[0], steps) if call.integer("transA", 0) else call[0]
    right = turned(call[1], steps) if call.integer("transB", 0) else call[1]
    product(left, right, call.outputs[0], steps)


@onnx_operators.register("Conv")
def conv(call: Call, steps: Steps) -> None:
    _convolution(call, steps, is_turned=False)


@onnx_operators.register("ConvTranspose")
def conv_transpose(call: Call, steps: Steps) -> None:
    _convolution(call, steps, is_turned=True)


def _convolution(call: Call, steps: Steps, *, is_turned: bool) -> None:
    num_sides, groups = len(call[0].shape) - 2, call.integer("group", 1)
    outer, inner, *_ = call.dims(1, num_sides + 2)
    channels = outer if is_turned else inner * groups
    if channels != call[0].shape[1] or groups < 1 or outer % groups:
        message = f"{list(call[0].shape)} by a weight of {list(call[1].shape)} in {groups} groups"
        raise InvalidInput(f"{call.label} cannot run {message}: the channels do not fit")
    pads = call.integers("pads") or (0,) * (2 * num_sides)
    if call.word("auto_pad", "NOTSET").startswith("SAME"):
        pads = tuple((size - 1) // 2 for size in call[1].shape[2:]) * 2
    steps.write(
        "convolution",
        call.given,
        call.outputs,
        stride=call.integers("strides") or (1,) * num_sides,
        padding=pads[:num_sides],
        groups=groups,
        turned=is_turned,
    )


@onnx_operators.register("LSTM")
def lstm(call: Call, steps: Steps) -> None:
    """One layer in one or both directions: weights as each direction has its own, biases after them."""
    if call.integer("layout", 0):
        raise NotModelled(f"{call.label} has layout 1, which no runtime runs; export it with layout 0")
    directions = 2 if call.word("direction", "forward") == "bidirectional" else 1
    width, hidden = call.dims(0, 3)[2], call.dims(2, 3)[2]
    gates = NUM_GATES * hidden
    wanted = [(directions, gates, width), (directions, gates, hidden), (directions, 2 * gates)]
    for place, shape in enumerate(wanted, start=1):
        if call.has(place) and call[place].shape != shape:
            raise InvalidInput(f"{call.label}: its input {place} must be {list(shape)}; got {list(call[place].shape)}")
    weights = [
        piece
        for direction in range(directions)
        for piece in (
            steps.part(call[1], f"{direction}", (gates, width)),
            steps.part(call[2], f"{direction}", (gates, hidden)),
        )
    ]
    if call.has(3):
        weights += [steps.part(call[3], f"{place}", (gates,)) for place in range(2 * directions)]
    made = [value for value in call.outputs if value.name]
    steps.write(
        "lstm", [call[0], *weights], made, hidden=hidden, layers=1, directions=directions, batch_first=False
    )  # fmt: skip


@onnx_operators.register("Einsum")
def einsum(call: Call, steps: Steps) -> None:
    """A product of two tensors along named dims: seen as matrices, multiplied, seen in the order of the output."""
    equation = call.word("equation", "").replace(" ", "")
    terms, _, out = equation.partition("->")
    labels = terms.split(",")
    if len(labels) != 2 or "..." in equation or not out or any(len(set(term)) < len(term) for term in labels):
        raise NotModelled(
            f"{call.label} with {equation!r} is not modelled, only products of two tensors with one letter a dim; "
            "write it as MatMul"
        )
    left, right = labels
    call.dims(0, len(left))
    call.dims(1, len(right))
    extents = dict(zip(left, call[0].shape, strict=True)) | dict(zip(right, call[1].shape, strict=True))
    if any(label not in out for label in set(left) ^ set(right)):
        raise NotModelled(f"{call.label} with {equation!r} sums one tensor alone, which is not modelled; use ReduceSum")
    outer = [label for label in left if label in right and label in out]
    inner = [label for label in left if label in right and label not in out]
    rows = [label for label in left if label not in right]
    columns = [label for label in right if label not in left]
    batch, (m, k, n) = (
        tuple(extents[label] for label in outer),
        (_joined(extents, part) for part in (rows, inner, columns)),
    )
    made = steps.made((*batch, m, n), call.outputs[0].elem_type)
    if outer:
        seen = [_seen(call[0], (*batch, m, k), steps), _seen(call[1], (*batch, k, n), steps)]
        steps.write("matmul", seen, [made])
    else:
        product(_seen(call[0], (m, k), steps), _as_weight(call[1], k, n, steps), made, steps)
    steps.write("view", [made], call.outputs)


def _joined(extents: dict[str, int], labels: list[str]) -> int:
    size = 1
    for label in labels:
        size *= extents[label]
    return size


def _seen(value: Value, shape: Shape, steps: Steps) -> Value:
    made = steps.made(shape, value.elem_type)
    steps.write("view", [value], [made])
    return made


def _as_weight(value: Value, k: int, n: int, steps: Steps) -> Value:
    return value if value.shape == (k, n) else _seen(value, (k, n), steps)
