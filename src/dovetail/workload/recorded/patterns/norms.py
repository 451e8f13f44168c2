"""Norms that were written out: a root mean square, or a variance, and the product with its inverse."""

from __future__ import annotations

from dovetail.workload.recorded.flow import Flow, Node
from dovetail.workload.recorded.patterns.closed import closed_cone


def take_norms(flow: Flow) -> None:
    """x / sqrt(mean(x^2) + e), times a weight where there is one; with x less its mean it is a layer norm."""
    for node in flow.standing():
        inverse = _inverse(flow, node)
        if inverse is not None:
            _take(flow, inverse, node)


def _inverse(flow: Flow, node: Node) -> Node | None:
    """The node that gives 1 / root, if `node` is or begins it."""
    if node.word == "rsqrt" or (
        node.word == "pow" and node.attributes.get("exponent") == -0.5
    ):  # the power that is a root's inverse
        return node
    if node.word == "sqrt":
        reader = flow.only_reader(node.output)
        return reader if reader is not None and reader.word in ("reciprocal", "div") else None
    return None


def _take(flow: Flow, inverse: Node, root: Node) -> None:
    squared = _mean_of_squares(flow, root.inputs[0])
    if squared is None:
        return
    centred = flow.thin(squared)
    middle = flow.thin_maker(squared)
    x, word = centred, "rmsnorm"
    if middle is not None and middle.word == "sub" and _is_less_its_mean(flow, middle):
        x, word = flow.thin(middle.inputs[0]), "layernorm"
    out = inverse if inverse.word == "div" else _product_with(flow, inverse.output, centred)
    if out is None:
        return
    inputs = [x]
    for wanted in ("mul", "add"):
        reader = flow.only_thin_reader(out.output)
        if reader is None or reader.word != wanted:
            break
        weights = [weight for value in reader.inputs if (weight := flow.parameter_of(value)) is not None]
        if not weights:
            break
        inputs.append(weights[0])
        out = reader
    cone = closed_cone(flow, out, [x])
    if cone:
        flow.take(cone, Node(word=word, inputs=inputs, outputs=[out.output], where=out.where))


def _mean_of_squares(flow: Flow, value: int) -> int | None:
    """x of mean(x^2), a small number added or not."""
    node = flow.thin_maker(value)
    while node is not None and node.word in ("add", "binary", "unary") and len(node.inputs) == 1:
        node = flow.thin_maker(node.inputs[0])
    if node is None or node.word not in ("mean", "reduce"):
        return None
    power = flow.thin_maker(node.inputs[0])
    if power is None:
        return None
    is_square = power.word == "pow" and power.attributes.get("exponent") == 2  # a square
    is_square = is_square or (power.word == "mul" and len({flow.thin(value) for value in power.inputs}) == 1)
    return power.inputs[0] if is_square else None


def _is_less_its_mean(flow: Flow, node: Node) -> bool:
    if len(node.inputs) != 2:  # the mean, and what it is taken from
        return False
    mean = flow.thin_maker(node.inputs[1])
    return mean is not None and mean.word == "mean" and flow.thin(mean.inputs[0]) == flow.thin(node.inputs[0])


def _product_with(flow: Flow, inverse: int, x: int) -> Node | None:
    for reader in flow.readers[inverse]:
        if reader.word == "mul" and any(flow.thin(value) == x for value in reader.inputs):
            return reader
    return None
