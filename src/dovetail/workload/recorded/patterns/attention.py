"""Attention that was written out: scores of queries and keys, softmax, and the values weighted by it."""

from __future__ import annotations

from dataclasses import dataclass, field

from dovetail.workload.recorded.flow import Flow, Node, is_thin
from dovetail.workload.recorded.patterns.masks import is_causal_mask, window_of

_ON_SCORES = ("mul", "div", "add", "sub", "where", "binary", "tanh", "concat")  # scales, masks, biases, caps, sinks
_ON_SHARES = ("dropout", "mul", "div", "where")


@dataclass(slots=True)
class _Scores:
    """What stands between the product of queries and keys and the softmax."""

    product: Node
    nodes: list[Node] = field(default_factory=list)
    masks: list[int] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)  # what is done to scores besides scales and masks, last first
    weights: list[int] = field(default_factory=list)  # parameters that scores are added or joined with


def take_attention(flow: Flow) -> None:
    for node in flow.standing():
        if node.word == "attention":
            _note_mask(flow, node, node.inputs[3:])
            del node.inputs[3:]
            _unscale(flow, node.inputs[0])
    for node in flow.standing():
        if node.word == "softmax" and not flow.aside(node):
            _take(flow, node)


def _note_mask(flow: Flow, node: Node, operands: list[int]) -> None:
    """A mask is part of the kernel; what is learnt and added to scores is an operator of its own where they are."""
    node.attributes["score_kinds"] = " ".join("add" for value in operands if flow.is_trained(value))
    if any(is_causal_mask(flow, value) for value in operands):
        node.attributes["is_causal"] = True
    node.attributes["window"] = window_of(flow, (value for value in operands if not flow.is_trained(value)))
    for value in operands:
        _unmask(flow, value)


def _unmask(flow: Flow, bias: int) -> None:
    """A learnt bias that is masked for this kernel alone is masked by it."""
    while (node := flow.thin_maker(bias)) is not None and node.word in ("where", "add", "sub", "mul"):
        trained = [value for value in node.inputs if flow.is_trained(value)]
        readers = [reader for reader in flow.readers[node.output] if reader.word != "attention"]
        if len(trained) != 1 or readers:
            return
        node.inputs = trained
        flow.look_through(node)
        bias = trained[0]


def _take(flow: Flow, softmax: Node) -> None:
    scores = _scores(flow, softmax)
    if scores is None:
        return
    taken = [softmax, *scores.nodes, scores.product]
    has_dropout, value = False, softmax.output
    while (reader := flow.only_reader(value)) is not None and (reader.word in _ON_SHARES or is_thin(reader)):
        has_dropout = has_dropout or reader.word == "dropout"
        taken.append(reader)
        value = reader.output
    if reader is None or reader.word != "matmul" or flow.root(reader.inputs[0]) != flow.root(value):
        return
    taken.append(reader)
    _unscale(flow, scores.product.inputs[0])
    made = Node(
        word="attention",
        inputs=[*scores.product.inputs[:2], reader.inputs[1], *scores.weights],
        outputs=[reader.output],
        where=reader.where,
        attributes={
            "is_causal": any(is_causal_mask(flow, mask) for mask in scores.masks),
            "window": window_of(flow, scores.masks),
            "dropout": 1.0 if has_dropout else 0.0,
            "score_kinds": " ".join(reversed(scores.kinds)),
            "is_turned": True,  # keys stand as [width, keys]
        },
    )
    flow.take(taken, made)


def _scores(flow: Flow, softmax: Node) -> _Scores | None:
    """The way back from the softmax to the product of queries and keys; None where it does not lead there."""
    value, after = softmax.inputs[0], softmax
    found = _Scores(product=softmax)
    while (node := flow.maker.get(flow.root(value))) is not None:
        # the largest score may be taken away first, for the softmax to stay in range
        largest = [r for r in flow.readers[node.output] if r.word == "reduce" and flow.only_reader(r.output) is after]
        if any(reader is not after and reader not in largest for reader in flow.readers[node.output]):
            return None
        found.nodes.extend(largest)
        after = node
        if node.word == "matmul":
            found.product = node
            return found if all(flow.is_activation(operand) for operand in node.inputs) else None
        if not (is_thin(node) or node.word in _ON_SCORES):
            return None
        trained = [operand for operand in node.inputs if flow.is_trained(operand)]
        if not trained:
            return None
        value = max(trained, key=flow.num_recorded)
        others = [operand for operand in trained if operand != value]
        found.nodes.append(node)
        found.masks.extend(operand for operand in node.inputs if not flow.is_trained(operand))
        found.weights.extend(weight for other in others if (weight := flow.parameter_of(other)) is not None)
        if node.word == "tanh":
            found.kinds.append("tanh")
        elif others and node.word in ("add", "binary"):
            found.kinds.append("add")
    return None


def _unscale(flow: Flow, queries: int) -> None:
    """Queries that only this product reads are scaled by its kernel."""
    node = flow.thin_maker(queries)
    if node is None or node.word not in ("mul", "div") or len(node.inputs) != 1:
        return
    if flow.only_thin_reader(node.output) is not None:
        flow.look_through(node)
