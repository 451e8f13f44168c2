"""From nodes to operators of ours: which one, over which extents, with how many parameters. Nothing is divided yet."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.errors import NotModelled
from dovetail.workload.recorded.captured import GATED
from dovetail.workload.recorded.drafted import Draft, Drafting, rows_and_columns, short_name, vector
from dovetail.workload.recorded.flow import Flow, Node
from dovetail.workload.recorded.products import (
    chosen_frac,
    draw_attention,
    draw_grouped_linear,
    draw_linear,
    draw_matmul,
)
from dovetail.workload.recorded.recurrences import draw_lstm
from dovetail.workload.recorded.sizes import ONE, Size, product
from dovetail.workload.recorded.windows import draw_average_pool, draw_convolution, draw_max_pool

_ASIDE_BYTES = {"int": 8, "bool": 1, "fp32": 4}  # of what has no gradient; other floats have 2
_FEW_OF_MANY = 4  # an operand that many times smaller than the other is a gate for each channel, not an equal


def drafted(flow: Flow) -> Drafting:
    """An operator for each node with a gradient, in order, and one for all that stands aside."""
    drafting = Drafting(flow)
    for node in flow.main():
        if all(flow.num_recorded(value) == 1 for value in (*node.inputs, *node.outputs)):
            continue  # single numbers: what losses add up to
        _check_filled(flow, node)
        draw = _DRAW.get(node.word)
        if draw is None:
            shapes = ", ".join(str(list(flow.tensors[value].shape)) for value in node.inputs)
            message = f"{node.op or node.word} of {shapes} in {node.where or flow.name} is not modelled with a gradient"
            raise NotModelled(f"{message}; write that part with operators that are, or leave it out of the model")
        before = len(drafting.drafts)
        draw(drafting, node)
        _own_the_rest(drafting, node, drafting.drafts[before:])
    drafting.drafts[:0] = _aside(drafting)
    return drafting


def _own_the_rest(drafting: Drafting, node: Node, drawn: list[Draft]) -> None:
    """A parameter that a node reads as others read activations belongs to it too: a table of positions in a norm."""
    flow = drafting.flow
    found = {flow.thin(value) for value in node.inputs}
    held = {parameter for draft in drawn for parameter, _ in draft.owns}
    for parameter, count in drafting.parameters(node.inputs):
        if drawn and parameter in found and parameter not in held:
            drawn[-1].owns = [*drawn[-1].owns, (parameter, count)]
            if drawn[-1].kind in ("vector", "attention"):
                drawn[-1].weight += count
            else:
                drawn[-1].bias += count


def _check_filled(flow: Flow, node: Node) -> None:
    """Refuses what computes nothing: a layer of width 0 is a slip in a configuration."""
    if not all(flow.num_recorded(value) for value in node.outputs):
        message = f"{node.op or node.word} in {node.where or flow.name} makes a tensor without elements"
        raise NotModelled(f"{message}; give every layer a width of at least 1")


def _aside(drafting: Drafting) -> list[Draft]:
    """What no gradient goes through, written once each: positions, masks, indices of experts, data made ready."""
    flow = drafting.flow
    totals: dict[tuple[int, int], Size] = {}
    for node in flow.nodes:
        if not flow.aside(node) or all(flow.num_recorded(value) == 1 for value in node.outputs):
            continue
        for value in node.outputs[:1]:
            size = flow.elements(value) * Size(_ASIDE_BYTES.get(flow.tensors[value].dtype, 2), per=8)
            key = size.num_batch, size.num_seq
            before = totals.get(key, Size(0, *key))
            count = before.count * size.per + size.count * before.per
            totals[key] = Size(count, *key, before.per * size.per) * ONE
    return [
        Draft(
            kind="vector",
            name=f"constants_{index}",
            operator="constant",
            reads=[],
            makes=drafting.new_value(),
            sizes=[ONE, size, ONE, ONE, ONE],
        )
        for index, (_, size) in enumerate(sorted(totals.items()))
        if size.count
    ]


def _cone(drafting: Drafting, node: Node) -> None:
    flow, operator = drafting.flow, str(node.attributes["operator"])
    touched = node.number("touched", node.output)
    frac = flow.num_recorded(node.output) / flow.num_recorded(touched)
    kind = "activation" if operator in GATED else "vector"
    vector(drafting, node, operator, touched, kind=kind, output_frac=frac, name=_cone_name(node, operator))


def _cone_name(node: Node, operator: str) -> str:
    return operator if operator in ("rope", *GATED) else short_name(node.where, operator)


def _two(drafting: Drafting, node: Node) -> None:
    """A sum or product of two tensors; with a parameter it is a bias or a scale for each channel."""
    flow = drafting.flow
    owned = drafting.parameters(node.inputs)
    is_sum = node.word in ("add", "sub")
    if owned:
        vector(drafting, node, "bias_add" if is_sum else "channel_scale", node.output, owns=owned)
        return
    sizes = [flow.num_recorded(value) for value in node.inputs if flow.is_trained(value)]
    whole = flow.num_recorded(node.output)
    if len(sizes) > 1 and is_sum and max(sizes) < whole:
        vector(drafting, node, "pairwise_add", node.output)
    elif len(sizes) < 2:  # one tensor and a number, or a constant
        vector(drafting, node, "scale", node.output)
    elif is_sum:
        vector(drafting, node, "add", node.output)
    else:
        is_gate = min(sizes) * _FEW_OF_MANY <= max(sizes)
        vector(drafting, node, "channel_scale" if is_gate else "mul", node.output)


def _norm(drafting: Drafting, node: Node) -> None:
    operator = {"groupnorm": "batchnorm"}.get(node.word, node.word)  # statistics over more than a row: a second sweep
    flow = drafting.flow
    sizes = None
    if operator in ("layernorm", "rmsnorm"):
        width = flow.sides[node.output][-1]
        sizes = (flow.elements(node.output).over(width), width)
    owned = drafting.parameters(node.inputs[1:])
    vector(drafting, node, operator, node.output, owns=owned, sizes=sizes, name=short_name(node.where, operator))


def _over_last(drafting: Drafting, node: Node) -> None:
    width = drafting.flow.sides[node.output][-1]
    rows = drafting.flow.elements(node.output).over(width)
    vector(drafting, node, "softmax", node.output, sizes=(rows, width))


def _plain(operator: str) -> Callable[[Drafting, Node], None]:
    """Drawn over the shape of its output."""

    def draw(drafting: Drafting, node: Node) -> None:
        owned = drafting.parameters(node.inputs)
        vector(drafting, node, operator, node.output, owns=owned, name=short_name(node.where, operator))

    return draw


def _reduced(operator: str) -> Callable[[Drafting, Node], None]:
    """Drawn over the shape of its input, beside which its output is small."""

    def draw(drafting: Drafting, node: Node) -> None:
        flow = drafting.flow
        came = max((value for value in node.inputs if flow.is_trained(value)), key=flow.num_recorded)
        frac = flow.num_recorded(node.output) / flow.num_recorded(came)
        vector(drafting, node, operator, came, output_frac=min(1.0, frac))

    return draw


def _over_input(operator: str) -> Callable[[Drafting, Node], None]:
    def draw(drafting: Drafting, node: Node) -> None:
        vector(drafting, node, operator, node.inputs[0])

    return draw


def _dropout(drafting: Drafting, node: Node) -> None:
    vector(drafting, node, "dropout", node.output)


def _embedding(drafting: Drafting, node: Node) -> None:
    flow = drafting.flow
    owned = drafting.parameters(node.inputs[:1])
    if not owned:
        vector(drafting, node, "permute", node.output)
        return
    width = flow.sides[node.output][-1]
    draft = vector(
        drafting,
        node,
        "embedding" if node.word == "embedding" else "embedding_bag",
        node.output,
        owns=owned,
        sizes=(flow.elements(node.output).over(width), width),
        name=short_name(node.where, "embedding"),
    )
    draft.sizes[3] = Size(flow.tensors[owned[0][0]].shape[0])
    draft.sizes[4] = Size(node.number("pool", 1))


def _loss(drafting: Drafting, node: Node) -> None:
    logits = node.number("logits", node.inputs[0])
    cols = drafting.flow.sides[logits][node.number("dim", -1)]
    rows = drafting.flow.elements(logits).over(cols)
    vector(drafting, node, "loss", logits, sizes=(rows, cols), kind="loss", name="loss")


def _router(drafting: Drafting, node: Node) -> None:
    sides = drafting.flow.sides[node.inputs[0]]
    owned = drafting.parameters(node.inputs[1:])
    vector(drafting, node, "router", node.inputs[0], sizes=(product(sides[:-1]), sides[-1]), owns=owned)


def _moved(operator: str) -> Callable[[Drafting, Node], None]:
    """Rows of one tensor in another order."""

    def draw(drafting: Drafting, node: Node) -> None:
        rows, cols = rows_and_columns(drafting.flow.sides[node.output])
        vector(drafting, node, operator, node.output, sizes=(rows * chosen_frac(node), cols))

    return draw


def _gather(drafting: Drafting, node: Node) -> None:
    """Elements of a tensor by an index; of a parameter it is a table that is looked up in."""
    owned = drafting.parameters(node.inputs)
    rows, cols = rows_and_columns(drafting.flow.sides[node.output])
    vector(drafting, node, "embedding" if owned else "permute", node.output, sizes=(rows, cols), owns=owned)


def _concat(drafting: Drafting, node: Node) -> None:
    owned = drafting.parameters(node.inputs)
    vector(drafting, node, "concat", node.output, owns=owned)


_DRAW: dict[str, Callable[[Drafting, Node], None]] = {
    "linear": draw_linear,
    "matmul": draw_matmul,
    "grouped_linear": draw_grouped_linear,
    "convolution": draw_convolution,
    "attention": draw_attention,
    "lstm": draw_lstm,
    "cone": _cone,
    **dict.fromkeys(("add", "sub", "mul", "div"), _two),
    **dict.fromkeys(("layernorm", "rmsnorm", "batchnorm", "groupnorm"), _norm),
    **dict.fromkeys(("softmax", "log_softmax"), _over_last),
    "dropout": _dropout,
    "embedding": _embedding,
    "embedding_bag": _embedding,
    "loss": _loss,
    "binary_cross_entropy": _over_input("binary_cross_entropy"),
    "mse": _reduced("reduction"),
    "router": _router,
    "permute": _moved("permute"),
    "unpermute": _moved("unpermute"),
    "gather": _gather,
    "scatter": _moved("permute"),
    "concat": _concat,
    "copy": _plain("copy"),
    "pad": _plain("copy"),
    "cast": _plain("cast"),
    "where": _plain("where"),
    "binary": _plain("mul"),
    **dict.fromkeys(("sum", "mean"), _reduced("strided_avgpool")),
    "reduce": _reduced("reduction"),
    "topk": _reduced("reduction"),
    "cumsum": _plain("elementwise"),
    "maxpool": draw_max_pool,
    "avgpool": draw_average_pool,
    **dict.fromkeys(
        ("pow", "neg", "exp", "log", "sqrt", "rsqrt", "reciprocal", "abs", "cos", "sin", "erf", "unary"),
        _plain("elementwise"),
    ),
    **{name: _plain(name) for name in ("tanh", "sigmoid", "relu", "gelu", "silu", "hardswish", "hardsigmoid")},
}
